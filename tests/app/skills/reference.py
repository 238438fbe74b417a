"""Write the verdicts of the reference validator into `tests/golden/skills.toml`, and judge one skill by it."""

import re
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from skills_ref.validator import validate

from tests import GOLDEN

FILE = GOLDEN / "skills.toml"


class GoldenSkill(NamedTuple):
    what: str
    folder: str
    valid: bool
    text: str

    def write(self, into: Path) -> Path:
        folder = into / self.folder
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(self.text.encode())
        return folder


def golden_skills() -> list[GoldenSkill]:
    return [GoldenSkill(**each) for each in tomllib.loads(FILE.read_text())["skill"]]


def is_valid(folder: Path) -> bool:
    """Return True if the reference validator finds no error; it ends with an exception on what YAML cannot hold."""
    try:
        return not validate(folder)
    except (AttributeError, UnicodeDecodeError):
        return False


if __name__ == "__main__":
    skills = iter(golden_skills())

    def verdict(found: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as into:
            return f"valid = {str(is_valid(next(skills).write(Path(into)))).lower()}"

    FILE.write_text(re.sub(r"(?m)^valid = \w+$", verdict, FILE.read_text()))
