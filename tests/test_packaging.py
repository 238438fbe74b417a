"""The wheel and the sdist: their files, their metadata, and a program installed from them."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from ikigai import __version__
from ikigai.system.install_command import DISTRIBUTION
from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the unpacked sdist, as packagers build it."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


def build(source: Path, target: str, folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder],
        cwd=source,
        capture_output=True,
        check=True,
    )
    (built,) = folder.iterdir()
    return built


def test_sdist_holds_what_the_tests_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "CHANGELOG.md",
        "config.example.toml",
        ".ci/run",
    } <= names
    assert {"ikigai/py.typed", "tests/conftest.py", "docs/development/glossary.md"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith((".venv", ".git/"))]


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "ikigai").rglob("*") if file.is_file()}
    migrations = {f"ikigai/_data/migrations/{file.name}" for file in (ROOT / "migrations").glob("*.sql")}
    expected = {name for name in files if "__pycache__" not in name} | migrations | {"ikigai/_data/config.example.toml"}
    manual = f"{DISTRIBUTION.replace('-', '_')}-{__version__}.data/data/share/man/man1/ikigai.1"
    assert {name for name in names if ".dist-info/" not in name} == expected | {manual}


def test_metadata_say_all_that_an_index_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata: Message = Parser().parsestr(archive.read(file).decode())
    assert metadata["Name"] == DISTRIBUTION == PROJECT["name"] and metadata["Version"] == __version__
    assert all(metadata[name] for name in ("Summary", "Author", "License-Expression", "Keywords", "Requires-Python"))
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert set(metadata.get_all("Provides-Extra", [])) == {*PROJECT["optional-dependencies"]}


def test_installed_program_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are those of the running Python, so that none is fetched."""
    venv.create(tmp_path / "venv", symlinks=True)
    bin = tmp_path / "venv" / "bin"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(bin / "python"), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [bin / "ikigai", *arguments], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("--version") == f"ikigai {__version__}\n"
    assert run("config", "init") and "[context]" in (tmp_path / ".config" / "ikigai" / "config.toml").read_text()
    where = [bin / "python", "-c", "import ikigai; print(ikigai.__file__)"]
    assert subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.startswith(str(site))
    assert "hello" in run("-m", "scripted/echo", "-p", "hello")
