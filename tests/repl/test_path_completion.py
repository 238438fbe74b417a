"""Paths that are completed while they are typed."""

import os
from pathlib import Path

from ikigai.repl.input.path_completion import complete_paths


def test_completions_of_paths(tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    for name in ("a.md", ".hidden", "sub dir/b.md", "sub dir/c\nd"):
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe")

    def found(typed: str) -> list[str]:
        return sorted(complete_paths(typed, tmp_path))

    assert found("") == ["a.md", "sub dir/"] and found("su") == found("")
    assert found(".") == [".hidden", "a.md", "sub dir/"]
    assert found("sub dir/") == ["sub dir/b.md"]
    assert found(f"{tmp_path}/sub dir/b") == [f"{tmp_path}/sub dir/b.md"]
    assert found("nowhere/") == found("a.md/") == found("~nobody-at-all/") == found("\0/") == []
