"""The command that hints name starts this very program."""

import sys
from pathlib import Path

import pytest

from ikigai.system.own_command import own_command


@pytest.mark.parametrize(
    ("started", "path", "command"),
    [
        ("env/bin/ikigai", "other", "env/bin/ikigai"),
        ("env/bin/ikigai", "env/bin", "ikigai"),
        ("env/bin/ikigai", "links", "ikigai"),
        ("env/bin/ikigai", "foreign", "env/bin/ikigai"),
        ("env/ikigai/__main__.py", "other", "ikigai"),
    ],
)
def test_command_starts_this_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str, path: str, command: str
) -> None:
    for program in ("env/bin/ikigai", "foreign/ikigai", "env/ikigai/__main__.py"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).touch(mode=0o755)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "ikigai").symlink_to(tmp_path / "env/bin/ikigai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / path))
    monkeypatch.setattr(sys, "argv", [started, "-p"])
    assert own_command() == command
