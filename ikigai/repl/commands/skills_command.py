"""Carry out /skills on NAME and /skills off NAME."""

from __future__ import annotations

import json
from collections.abc import Collection

from ikigai.config.settings_file import UNSET_WORD
from ikigai.core.commands.arguments import quoted
from ikigai.core.errors import Rejected, WrongArgument, closest_names
from ikigai.core.text.sanitize import clean_line


def switch(argument: str, known: Collection[str], off: Collection[str]) -> tuple[str, str]:
    """Return the list of skills to write under `skills_off` of the configuration, and a sentence. Raise Rejected."""
    word, _, name = argument.partition(" ")
    name = name.strip()
    if word not in ("on", "off") or not name:
        raise WrongArgument(f"/skills does not take {quoted(clean_line(argument))}.")
    if name not in known and name not in off:
        near = closest_names(name, known) or list(known)[:5]
        raise Rejected(f"There is no skill {quoted(clean_line(name))}.", f"There are: {', '.join(near) or 'none'}.")
    left = sorted({*off} - {name} if word == "on" else {*off, name})
    return json.dumps(left, ensure_ascii=False) if left else UNSET_WORD, f"The skill {clean_line(name)} is {word}."
