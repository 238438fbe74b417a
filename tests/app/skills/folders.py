"""Write folders of skills."""

from pathlib import Path

import pytest


def write_skill(place: Path, name: str, head: str = "", body: str = "Do it.\n", description: str = "") -> Path:
    """Write a skill into a place and return its folder; `head` are further lines of its front matter."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    description = description or f"What {name} is for."
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{head}---\n\n{body}")
    return folder


def use_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let `home` be the user's, and return the folder of skills that several programs share."""
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home / ".agents/skills"
