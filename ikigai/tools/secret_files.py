"""Recognize files by patterns of their names: those that may hold keys or passwords need approval to be read.

The patterns are read from TOML in groups, each with the program that uses the files and its documentation.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from ikigai.core.events.record import Record

SECRET_NAMES = Path(__file__).parent / "secret_names.toml"
_COPY = r"(?:~|\#|\.(?:bak|backup|old|orig|save|sw[a-p]|tmp))?"
"""Endings that editors and people give to a copy of a file."""


class NameGroup(Record, frozen=True, forbid_unknown_fields=True):
    """Names that a program gives to its files; the head of each TOML file describes the fields."""

    program: str
    source: str
    names: tuple[str, ...]
    but_not: tuple[str, ...] = ()


def read_groups(file: Path) -> tuple[NameGroup, ...]:
    """Return the groups of a TOML file of this package."""
    import tomllib

    return msgspec.convert(tomllib.loads(file.read_text("utf-8"))["group"], tuple[NameGroup, ...])


def compile_group(group: NameGroup, *, copies: bool = False) -> str:
    """Return a regular expression for the names of the group, in lower case; with `copies` also for copies of files."""
    files = "|".join(_translate(name) for name in group.names if not name.endswith("/"))
    folders = "|".join(_translate(name[:-1]) for name in group.names if name.endswith("/"))
    unless = "|".join(map(_translate, group.but_not))
    before, after = (r"[.\#]?", _COPY) if copies else ("", "")
    found = [f"{f'(?!(?:{unless})$)' if unless else ''}{before}(?:{files}){after}$"] if files else []
    return "|".join((*found, *([f"(?:{folders})(?:/|$)"] if folders else [])))


def _translate(name: str) -> str:
    signs = {r"\*": "[^/]*", r"\?": "[^/]", r"\{": "(?:", ",": "|", r"\}": ")"}
    return re.sub(r"\\[*?{}]|,", lambda sign: signs[sign[0]], re.escape(name))


def find_in_path(*expressions: str) -> re.Pattern[str]:
    """Return the pattern whose `search` finds any of the expressions at the beginning of a part of a path."""
    return re.compile(f"(?:^|/)(?:{'|'.join(expressions)})")


def is_below(folder: str, path: str) -> bool:
    """Return True if `path` is `folder` or lies below it; both absolute and normalized, links unresolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def relative_path(root: str, path: str) -> str:
    """Return `path` as seen from `root`, or whole when it lies elsewhere.

    So the files of a project in ~/.config/x do not count as configuration.
    """
    return path[len(root.rstrip("/")) + 1 :] if is_below(root, path) else path


def is_secret(root: str, path: str) -> bool:
    """Return True if the name of a file, or of a folder above it, looks like one that holds keys or passwords."""
    return _secret_names().search(relative_path(root, path).casefold()) is not None


@cache
def _secret_names() -> re.Pattern[str]:
    return find_in_path(*(compile_group(group, copies=True) for group in read_groups(SECRET_NAMES)))
