"""Check a skill's folder as the reference validator of Agent Skills does, and tell what loads only in some programs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ikigai.app.skills.front_matter import read_leniently, read_strictly
from ikigai.config.project.skill_files import MAX_SKILL_BYTES, SKILL_FILE

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification."""
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
"""Characters of the fields."""
ADVISED_LINES = 500


class SkillVerdict(NamedTuple):
    """Sentences about a skill. It is valid without `errors`; `warnings` do not count."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def check_skill(folder: Path) -> SkillVerdict:
    """Return the verdict on the skill in a folder."""
    file = next((each for name in (SKILL_FILE, "skill.md") if (each := folder / name).exists()), None)
    if file is None:
        return SkillVerdict((f"There is no {SKILL_FILE} in {folder}.",))
    if not file.is_file():
        return SkillVerdict((f"{file.name} is not a regular file.",))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        return SkillVerdict((f"{file.name} cannot be read: {why}.",))
    try:
        errors = tuple(find_errors(read_strictly(text), folder.name))
    except ValueError as error:
        errors = (f"{file.name} cannot be used: {error}.",)
    return SkillVerdict(errors, tuple(_find_warnings(text, file.name)))


def find_errors(fields: dict[str, Any], folder: str) -> Iterator[str]:
    """Yield what is wrong with the fields of the skill in a folder of this name."""
    if unknown := unknown_fields(fields):
        yield f"Unknown fields: {', '.join(unknown)}. The specification has {', '.join(FIELDS)}."
    for field in ("name", "description"):
        if not isinstance(value := fields.get(field), str) or not value.strip():
            yield f"The field {field} {'must be text that is not empty' if field in fields else 'is missing'}."
        elif field == "name":
            yield from _find_name_errors(unicodedata.normalize("NFKC", value.strip()), folder)
        elif len(value) > MAX_DESCRIPTION:
            yield f"The description has {len(value):,} characters; {MAX_DESCRIPTION:,} are allowed."
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "The field compatibility must be text."
    elif len(compatibility) > MAX_COMPATIBILITY:
        yield f"The field compatibility has {len(compatibility):,} characters; {MAX_COMPATIBILITY} are allowed."


def unknown_fields(fields: dict[str, Any]) -> list[str]:
    """Return the fields that the specification does not have, by name."""
    return sorted(fields.keys() - set(FIELDS))


def _find_name_errors(name: str, folder: str) -> Iterator[str]:
    if len(name) > MAX_NAME:
        yield f"The name has {len(name):,} characters; {MAX_NAME} are allowed."
    if name != name.lower():
        yield f"The name {name!r} must be in lower case."
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield f"The name {name!r} must not begin or end with a hyphen, or have two in a row."
    if not all(character.isalnum() or character == "-" for character in name):
        yield f"The name {name!r} may have only letters, digits and hyphens."
    if name != unicodedata.normalize("NFKC", folder):
        yield f"The name {name!r} must be that of its folder, {folder!r}."


def _find_warnings(text: str, file: str) -> Iterator[str]:
    if file != SKILL_FILE:
        yield f"Most programs find only a file named {SKILL_FILE}, in capitals."
    if (size := len(text.encode())) > MAX_SKILL_BYTES:
        yield f"It has {size:,} bytes. ikigai loads no skill of more than {MAX_SKILL_BYTES:,}."
    try:
        fields, body = read_leniently(text)
    except ValueError as error:
        yield f"ikigai does not load it: {error}."
        return
    if (lines := body.count("\n") + 1) > ADVISED_LINES:
        yield f"It has {lines:,} lines; up to {ADVISED_LINES} are advised. Move details into files beside it."
    if fields.get("allowed-tools"):
        yield "The field allowed-tools approves nothing in ikigai: each call is asked about as any other."
