"""What to say about a setting that cannot be used: its place, its key, its value, what is allowed, the nearest key."""

import re
from collections.abc import Iterable

import msgspec

from ikigai.config.key_table import (
    KEYS,
    PROFILED,
    USUAL_VARIABLES,
    KeyPath,
    Setting,
    dotted,
    paths,
    pattern,
    variables,
)
from ikigai.config.terminal import THEMES
from ikigai.core.errors import ConfigError, nearest


def bad_value(setting: Setting) -> ConfigError:
    # People put the key itself where the name of its variable belongs.
    value = "what stands there" if setting.path[-1] == "api_key_env" else shown(setting.value) + _culprit(setting)
    where = f"{setting.place}: {dotted(setting.path)}" if setting.kind == "configuration" else setting.place
    remedy = f"Allowed: {KEYS[pattern(setting.path)].allowed}."
    if setting.place in USUAL_VARIABLES.values():
        remedy += f" If {setting.place} is meant for another program, set {variables(setting.path)[0]}: it goes first."
    return ConfigError(f"{where} cannot be {value}.", remedy)


def _culprit(setting: Setting) -> str:
    """The first thing in an array that is wrong there; empty where an array is wrong, or is not what it is."""
    expected = KEYS[pattern(setting.path)]
    if not (isinstance(setting.value, list) and isinstance(expected.default, tuple)):
        return ""
    for item in setting.value:
        try:
            msgspec.convert([item], expected.type)
        except msgspec.ValidationError:
            return f" with {shown(item)}"
    return ""


def bad_name(setting: Setting, allowed: str) -> ConfigError:
    return ConfigError(f"{setting.place}: the table [{dotted(setting.path[:2])}] has no usable name.", allowed)


def no_theme(setting: Setting, own: Iterable[str]) -> ConfigError:
    where = f"{setting.place}: {dotted(setting.path)}" if setting.kind == "configuration" else setting.place
    near = nearest(setting.value, [*THEMES, *own])
    how = f'Did you mean "{near[0]}"?' if near else f"Write a table [themes.{setting.value}] in the configuration."
    return ConfigError(f"{where}: there is no theme {setting.value!r}.", how)


def unknown_key(setting: Setting) -> ConfigError:
    name = dotted(setting.path)
    plain = re.sub("[_-]", "", setting.path[-1].lower())
    if any(word in plain for word in ("apikey", "secret", "password")):
        return ConfigError(
            f"{setting.place}: {name} has no place in a file.",
            "Run `ikigai login`, or set a variable such as OPENAI_API_KEY; api_key_env names one of your own.",
        )
    if setting.path[0] == "themes":
        keys = [each[-1] for each in KEYS if each[0] == "themes"]
        near = nearest(setting.path[-1], keys) if len(setting.path) == 3 else []
        how = f"Did you mean {near[0]}?" if near else f"A table [themes.NAME] has the keys {', '.join(keys)}."
        return ConfigError(f"{setting.place}: there is no key {name}.", how)
    if setting.path[0] == "profiles" and (len(setting.path) < 3 or setting.path[2] in ("context", "tools")):
        where = f"in [{dotted(setting.path[:2])}] itself" if setting.path[2:] else "in a table [profiles.NAME]"
        return ConfigError(f"{setting.place}: there is no key {name}.", f"The keys of a profile stand {where}.")
    near = _nearest(setting.path)
    if not near:
        return ConfigError(f"{setting.place}: there is no key {name}.", "config.example.toml shows them all.")
    place = " (above the first [table])" if "." in name and "." not in near else ""
    return ConfigError(f"{setting.place}: there is no key {name}.", f"Did you mean {near}{place}?")


def _nearest(path: KeyPath) -> str:
    """The same key in another table, or a key of the table that stands there as a value, or one written alike."""
    name = dotted(path)
    own = {table: path[1:2] if path[0] == table and len(path) == 3 else () for table in ("providers", "models")}
    known = {dotted(other): other for other in paths(own["providers"], own["models"])}
    if path[0] == "profiles" and len(path) == 3:
        profiled = [("profiles", path[1], key) for key in (*PROFILED, "inherits", "level", "tools_off")]
        known = {dotted(other): other for other in profiled} | known
    tables = {other[0] for other in known.values() if len(other) > 1}
    alike = nearest(path[-1], [other[-1] for other in known.values()])
    near = (
        *(key for key, other in known.items() if other[-1] == path[-1] or key.startswith(f"{name}.")),
        *nearest(name, [*known, *tables]),
        *(key for key, other in known.items() if other[-1] in alike),
    )
    return next(iter(near), "")


def masked(text: str) -> str:
    """A database or web address with *** for its password; other text as it is."""
    text = re.sub(r"(://[^:/@\s]*:)\S*@", r"\1***@", text)
    secret = r"(\w*(?:password|secret|scram_\w+_key)\s*=\s*)"
    return re.sub(secret + r"('(?:[^'\\]|\\.)*'?|(?:\\.|\S)+)", r"\1***", text, flags=re.IGNORECASE)


def shown(value: object) -> str:
    """A value as people write it, without passwords, in at most 80 characters."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = repr(masked(value))
        case dict():
            text = "a table"
        case list():
            text = "an array"
        case _:
            text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
