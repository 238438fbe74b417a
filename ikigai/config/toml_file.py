"""Read a TOML file as settings with their line numbers, and describe its errors plainly."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ikigai.core.errors import ConfigError

MAX_CONFIG_BYTES = 1_000_000
MAX_KEY_DEPTH = 3
"""The deepest place of a key, [table.name] key; a deeper value is given as it is."""

_REMEDY = "Make it a readable TOML file, or name another with --config FILE."
_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LINE = rf"[ \t]*(\[*)[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*[=\]]"
_COMMENT_OR_STRING = r'''(?s)#[^\n]*|"""(?:[^\\]|\\.)*?"{3,5}|\'{3}.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\''''
"""Pattern texts; both are compiled where there is a file."""


class TomlEntry(NamedTuple):
    """One value of the file: its path of names, and the lines of its key and of its table, counted from 1."""

    path: tuple[str, ...]
    value: object
    line: int
    table_line: int


def read(file: Path, must_exist: bool) -> list[TomlEntry]:
    """Return the entries of `file`, in its order. Raise ConfigError when it cannot be read or is not TOML.

    A missing file has no entries, unless it `must_exist`.
    """
    return parse(file, read_bytes(file, must_exist))


def parse(file: Path, content: bytes) -> list[TomlEntry]:
    """Return the entries of `content`, in its order. Raise ConfigError, which names `file`, when it is not TOML."""
    text = _text(file, content)
    if not text:
        return []
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, text, str(error)) from None
    except (RecursionError, ValueError):
        what = f"{file} is nested too deeply or holds too long a number."
        raise ConfigError(what, "Use only the keys of config.example.toml.") from None
    places = _places(text)
    entries = _values(document)
    return [TomlEntry(path, value, _line(path, places), _line(path[:-1][:2], places)) for path, value in entries]


def read_bytes(file: Path, must_exist: bool) -> bytes:
    """Return the content of `file`, as `read` reads it."""
    try:
        if file.is_fifo() and not must_exist:
            raise ConfigError(f"{file} is a pipe, not a file.", _REMEDY)
        with file.open("rb") as opened:
            return opened.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        if file.is_symlink():
            raise ConfigError(f"{file} is a link to a file that does not exist.", _REMEDY) from None
        if must_exist:
            raise ConfigError(f"{file} does not exist.", "Check the name of the file.") from None
        return b""
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", _REMEDY) from None


def _text(file: Path, content: bytes) -> str:
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{file} is larger than 1 MB, so it is not a configuration.", _REMEDY)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line} is not UTF-8 text.", "Save the file as UTF-8.") from None


def _not_toml(file: Path, text: str, message: str) -> ConfigError:
    """Return the error for a message of tomllib. Most end with "(at line 3, column 7)" or "(at end of document)"."""
    reason, _, place = message.partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", place)
    line = found[1] if found else text.rstrip("\n").count("\n") + 1 if place else None
    where = f"{file}:{line}" if line else str(file)
    column = f" (column {found[2]})" if found else ""
    return ConfigError(f"{where} is not valid TOML: {_plain_reason(reason)}{column}.", "Correct that line.")


def _values(table: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        path = (*above, name)
        if isinstance(value, dict) and value and len(path) < MAX_KEY_DEPTH:
            yield from _values(value, path)
        else:
            yield path, value


def _places(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of every key and table header of a valid document; keys of inline tables are not listed."""
    places: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(re.sub(_COMMENT_OR_STRING, _blank, text).split("\n"), 1):
        if found := re.match(_LINE, line):
            names = tuple(_plain(part) for part in re.findall(_PART, found[2]))
            if found[1]:
                table, names = names, ()
            places.setdefault((*table, *names)[:MAX_KEY_DEPTH], number)
    return places


def _blank(found: re.Match[str]) -> str:
    """Return the match without comments and strings of several lines: their text may look like a key."""
    return "\n" * found[0].count("\n") if found[0].startswith("#") or "\n" in found[0] else found[0]


def _plain(part: str) -> str:
    import tomllib

    return tomllib.loads(f"name = {part}")["name"] if part[0] in "\"'" else part


def _line(path: tuple[str, ...], places: dict[tuple[str, ...], int]) -> int:
    while path and path not in places:
        path = path[:-1]
    return places.get(path, 1)


def _plain_reason(reason: str) -> str:
    """Return a message of tomllib in words for people who do not know TOML's terms."""
    return next((words for pattern, words in _REASONS if re.match(pattern, reason)), reason)


_REASONS = (
    (r"Cannot declare \(?'", "this table is in the file already"),
    ("Cannot overwrite a value|Duplicate inline", "this key is in the file already"),
    ("Cannot mutate", "this adds to a table that is complete"),
    ("Invalid value", "the value is missing, or it is text without quotes"),
    ("Unterminated string", "the quote at the end of a text is missing"),
    (
        "Illegal character|Found invalid character",
        "a character that cannot stand here; text in quotes is on one line",
    ),
    (r"Unescaped '\\'", "a \\ in double quotes begins an escape; write \\\\, or use single quotes"),
    ("Unclosed array", "the ] at the end of a list is missing"),
    ("Unclosed inline table", "the } at the end of a table is missing"),
    ("Expected '='", "the = after a key is missing"),
    ("Expected '\\]", "the ] at the end of a table's name is missing"),
    ("Expected newline", "something follows the value that does not belong to it"),
    ("Invalid statement|Invalid initial character", "this is not KEY = VALUE, [TABLE] or a # comment"),
)
"""Beginnings of tomllib's messages, each with what they mean."""
