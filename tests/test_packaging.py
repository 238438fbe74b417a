"""The wheel and the sdist: their files, their metadata, and a program installed from them."""

import ast
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
    """The dependencies come from the running Python, so that none is fetched."""
    venv.create(tmp_path / "venv", symlinks=True)
    bin = tmp_path / "venv" / "bin"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(bin / "python"), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    ikigai = bin / "ikigai"
    assert run(ikigai, "--version", cwd=tmp_path) == f"ikigai {__version__}\n"
    assert run(ikigai, "config", "init", cwd=tmp_path)
    assert "[context]" in (tmp_path / ".config" / "ikigai" / "config.toml").read_text()
    assert run(bin / "python", "-c", "import ikigai; print(ikigai.__file__)", cwd=tmp_path).startswith(str(site))
    assert "hello" in run(ikigai, "-m", "scripted/echo", "-p", "hello", cwd=tmp_path)


IMPORT_ALL = """
import importlib, pkgutil
import ikigai
failed = {}
for module in pkgutil.walk_packages(ikigai.__path__, "ikigai."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        failed[module.name] = error.name
print(failed)
"""
"""Prints the modules that cannot be imported, each with the name of the one that lacks."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_wheel_and_sdist_install_with_the_dependencies_of_an_index(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Without extras everything is importable but what runs in the processes of the extras."""
    bin = tmp_path / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    for archive, flags in ((wheel, []), (sdist, ["--force-reinstall", "--no-deps"])):
        run(bin / "python", "-m", "pip", "install", "-q", *flags, str(archive), cwd=tmp_path)
        assert run(bin / "python", "-m", "pip", "check", cwd=tmp_path) == "No broken requirements found.\n"
        assert run(bin / "ikigai", "--version", cwd=tmp_path) == f"ikigai {__version__}\n"
        missing = ast.literal_eval(run(bin / "python", "-c", IMPORT_ALL, cwd=tmp_path))
        assert {*missing.values()} <= {"mcp", "mcp_types", "xllamacpp"}, missing
        print(f"{archive.name} lacks {missing}")
        help = run(bin / "ikigai", "--help", cwd=tmp_path)
        assert "exit codes:" in help
        assert run(bin / "ikigai", "-m", "scripted/echo", "-p", "hello", cwd=tmp_path) == "hello\n"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program in a home of its own; return what it prints."""
    taken = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    environ = {**taken, "PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout
