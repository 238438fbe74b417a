"""Show single settings, and write them to the user's configuration file with its comments kept.

    find_key        the path of a key as typed
    describe_key    a key with its value, origin, help and what is allowed
    read_help       the help of every key
    list_settings   the settings that are set, and the names of the others by table
    list_table      the settings of one table
    set_value       one value in the file, or none
    set_table       one table in the file
    validate        a file checked as at start
    replace_file    all of the file, unless it has changed meanwhile

Nothing in here shows a password or writes one.
"""

import contextlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from ikigai.config import (
    build,
    check_setting,
    describe,
    diagnostics,
    mask_passwords,
    read_text_value,
    toml_file,
    with_profile,
)
from ikigai.config.key_table import KEY_SPECS, Config, KeyPath, Setting, all_paths, dotted_path, path_pattern
from ikigai.config.layers import split_layers
from ikigai.config.value_types import Sets, ToolSet
from ikigai.core.errors import ConfigError
from ikigai.core.events.record import Record
from ikigai.system import paths
from ikigai.system.file_replacement import write_file

UNSET_WORD = "default"
"""The value that takes a key out of the file, as it resets what commands set."""
_PART = r'[A-Za-z0-9_*-]+|"[^"\n]*"'


class KeyDescription(Record, frozen=True):
    """One key: its value and default as a file has them, without passwords."""

    key: str
    value: str
    origin: str
    default: str
    allowed: str
    help: str

    @property
    def line(self) -> str:
        return f"{self.key} = {self.value}"

    @property
    def text(self) -> str:
        default = "" if self.value == self.default else f"Default: {self.default}\n"
        unset = f"\n/config {self.key} {UNSET_WORD} removes it from the file." * self.origin.startswith("configuration")
        return f"{self.line}  ({self.origin})\n{self.help}\n{default}Allowed: {self.allowed}.{unset}"


def find_key(config: Config, text: str) -> KeyPath:
    """Return the path of a key as typed: with its tables, or alone if only one table has it. Raise ConfigError."""
    short = text[:200]
    if not re.fullmatch(rf"(?:{_PART})(?:\.(?:{_PART}))*", short) or short != text:
        raise ConfigError(f"{diagnostics.format_value(text)} is not a key.", "`/config` lists them all.")
    path = _split_path(text)
    known = [each for each in all_paths(config.providers, config.models) if each[-1:] == path]
    if path_pattern(path) not in KEY_SPECS and len(known) == 1:
        return known[0]
    if path_pattern(path) not in KEY_SPECS or "*" in path:
        raise diagnostics.unknown_key(Setting(path, None, "flag", "configuration"))
    return path


def _split_path(text: str) -> KeyPath:
    return tuple(part.strip('"') for part in re.findall(_PART, text))


def pending_value(config: Config, path: KeyPath) -> str:
    """Return the value in the file that is not in force yet, or is overruled, or ""."""
    with contextlib.suppress(ConfigError):
        file = Path(config.file)
        written = validate(file, toml_file.read_bytes(file, must_exist=False)).settings.get(path)
        if written and written.value != (config.settings[path].value if path in config.settings else None):
            return _shown(written.value)
    return ""


def describe_key(config: Config, path: KeyPath, profile: str | None = None) -> KeyDescription:
    """Return the key as it is in force under `profile`, by default the configured one."""
    spec = KEY_SPECS[path_pattern(path)]
    config = with_profile(config, config.profile if profile is None else profile)
    value = config.settings[path].value if path in config.settings else spec.default
    about = read_help()[path_pattern(path)]
    return KeyDescription(
        dotted_path(path), _shown(value), config.origin(path), _shown(spec.default), spec.allowed, about
    )


@cache
def read_help() -> dict[KeyPath, str]:
    """Return the help of every key, by its pattern: the comment above it in config.example.toml."""
    found, table, comment = dict[KeyPath, str](), tuple[str, ...](), list[str]()
    for line in paths.shipped_path("config.example.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            comment.append(line.removeprefix("# "))
            continue
        if header := re.fullmatch(r"#\[(.+)\]", line):
            table = _split_path(header[1])
        elif key := re.match(r"#(\w+) = ", line):
            found[path_pattern((*table, key[1]))] = " ".join(comment)
        comment.clear()
    return found


def _shown(value: Any) -> str:
    return json.dumps(mask_passwords(value) if isinstance(value, str) else value, ensure_ascii=False)


def list_settings(config: Config, profile: str | None = None) -> str:
    """Return as text the file, the keys that are set with their values, and the names of the others by table."""
    rows = describe(config, profile)
    lines = [f"File: {config.file}", "", "Set:"]
    lines += [f"  {key} = {value}  ({origin})" for key, value, origin in rows if origin != "default"] or ["  nothing"]
    tables: dict[str, list[str]] = {}
    for key, _, origin in rows:
        if origin == "default":
            name, _, leaf = key.rpartition(".")
            tables.setdefault(name, []).append(leaf)
    lines += ["", "Left at their defaults:"]
    lines += [f"[{name}]  " * bool(name) + ", ".join(leaves) for name, leaves in tables.items()]
    return "\n".join([*lines, "", "/config TABLE or KEY shows more; /config KEY VALUE sets it, `default` unsets it."])


def list_table(config: Config, table: str, profile: str | None = None) -> str:
    """Return the keys of a table with their values, and the origin of those that are set; "" if there is no such
    table.
    """
    rows = [row for row in describe(config, profile) if row[0].rpartition(".")[0] == table]
    lines = (
        f"  {key.rpartition('.')[2]} = {value}" + f"  ({origin})" * (origin != "default") for key, value, origin in rows
    )
    return "\n".join((f"[{table}]", *lines)) if table and rows else ""


def allowed_values(path: KeyPath) -> list[str]:
    """Return the values to complete: quoted ones among the allowed values, sets of tools, or true and false; and the
    word that unsets the key.
    """
    spec = KEY_SPECS[path_pattern(path)]
    if isinstance(spec.default, bool):
        return ["true", "false", UNSET_WORD]
    if spec.type == Sets:
        return [*get_args(ToolSet), UNSET_WORD]
    is_choice = isinstance(spec.default, str) and "for example" not in spec.allowed and "host=" not in spec.allowed
    return list(dict.fromkeys((*(re.findall(r'"([^"\s]+)"', spec.allowed) if is_choice else ()), UNSET_WORD)))


def parse_value(path: KeyPath, text: str) -> Any:
    """Return the value that `text` means for the key: as in a file, or as in a variable. Raise ConfigError."""
    import tomllib

    value = read_text_value(text, KEY_SPECS[path_pattern(path)].default)
    if text[:1] in ("[", '"', "'", "-"):
        with contextlib.suppress(ValueError, RecursionError):
            value = tomllib.loads(f"value = {text}")["value"]
    if mask_passwords(str(value)) != str(value):
        raise ConfigError(
            f"This command does not write a {dotted_path(path)} with a password.",
            "`ikigai config edit` opens the file; or use IKIGAI_DATABASE_URL or ~/.pgpass.",
        )
    if path[0] != "keys":
        value = check_setting(Setting(path, value, "flag", dotted_path(path))).value
    return value


def validate(file: Path, content: bytes) -> Config:
    """Return the configuration that this content alone makes. Raise ConfigError for all that is wrong in it."""
    config = build(toml_file.parse(file, content), file, {}, {})
    split_layers(config)
    return config


def set_value(file: Path, path: KeyPath, text: str, check: Callable[[Config], None] = lambda config: None) -> Config:
    """Write the value of the key to the file, or remove it for UNSET_WORD; return the configuration that the file makes
    alone.

    A link is followed, and the file keeps its mode. Raise ConfigError, and change nothing, for a value that is not
    allowed, for one that `check` refuses, and for a file that is wrong, read-only or changed meanwhile.
    """
    unsets = text == UNSET_WORD
    value = None if unsets else parse_value(path, text)

    def edit(document: Any, new_table: Callable[[bool], Any]) -> None:
        table = document
        *tables, key = path
        for name in tables:
            if name not in table:
                if unsets:
                    return
                table[name] = new_table(len(path) > 2 and table is document)
            table = table[name]
        if not unsets:
            table[key] = value
        elif key in table:
            del table[key]

    config, before, after = _edited(file, edit)
    if not unsets and path not in config.settings:  # [keys] says so without an error
        raise ConfigError(next(each for each in config.notices if dotted_path(path) in each), "Nothing was changed.")
    check(config)
    if after != before:
        replace_file(file, before, after)
    return config


def describe_written(written: Config, path: KeyPath, file: Path | str) -> str:
    """Return the sentence about a key after `set_value`."""
    found = describe_key(written, path)
    is_there = written.kind(path) == "configuration"
    return f"{found.line} is in {file}." if is_there else f"{found.key} is not set in {file}. Default: {found.default}."


def set_table(file: Path, path: KeyPath, values: Mapping[str, Any] | None) -> Config:
    """Write a table of the file anew, or remove it where `values` is None; otherwise as `set_value`."""

    def edit(document: Any, new_table: Callable[[bool], Any]) -> None:
        first, name = path
        if values is None:
            del document[first][name]
            if not document[first]:
                del document[first]
            return
        if first not in document:
            document[first] = new_table(True)
        table = new_table(False)
        for key, value in values.items():
            table[key] = value
        document[first][name] = table

    config, before, after = _edited(file, edit)
    replace_file(file, before, after)
    return config


def _edited(file: Path, edit: Callable[[Any, Callable[[bool], Any]], None]) -> tuple[Config, bytes, bytes]:
    """Return the configuration that the edited file makes, its content before, and after. Raise ConfigError."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = toml_file.read_bytes(file, must_exist=False)
    toml_file.parse(file, before)  # its errors name the line
    try:
        document = tomlkit.parse(before.decode("utf-8-sig"))
        edit(document, lambda super_table: tomlkit.table(is_super_table=super_table))
        after = document.as_string().encode()
    except (TOMLKitError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}.", "Edit it: ikigai config edit") from None
    try:
        return validate(file, after), before, after
    except ConfigError:
        validate(file, before)  # if it was wrong already, the error names a line that the user finds
        raise


def replace_file(file: Path, before: bytes, after: bytes) -> None:
    """Write `after` to the file whole or not at all. Raise ConfigError if its content is not `before` any more."""
    target = file.resolve()

    def check() -> None:
        if toml_file.read_bytes(file, must_exist=False) != before:
            raise ConfigError(f"{file} was changed by another program meanwhile.", "Nothing was written. Try again.")

    try:
        if target.exists() and not target.stat().st_mode & 0o200:
            raise ConfigError(f"{file} is read-only.", f"Run: chmod u+w {shlex.quote(str(target))}")
        if not target.parent.exists():
            paths.make_private(target.parent)
        write_file(file, after, check, keeps_mode=True)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}.", "Check its permissions, those of its folder, and the disk."
        ) from None
