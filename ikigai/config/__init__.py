"""Build one frozen Config out of defaults ← file ← environment ← flags, each value with its origin.

    load               the Config of this run
    with_profile       the Config for the agents of a profile
    with_setting       the Config with another value of a key
    describe           every key, its value and its origin
    mask_passwords     an address without its password
    unused_address     a variable that names another program's database

`layers` divides the settings of agents into those above and below their own choices. `project_settings` adds the
settings of a trusted project; nothing else is read from the working directory. API keys stay where they are: only their
places are kept here.
"""

# Imports inside functions: a start without a file, logins or settings reads none.
#   tomllib, tomlkit, json, msgspec    a file, a setting that is a list or an object, and a change of the file
#   hmac                               the key of the seals (it loads OpenSSL)
#   redaction, key_changes, profiles   errors in a value, keys that the user has bound anew, and profiles

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from ikigai.config import api_key_sources, diagnostics, toml_file
from ikigai.config.diagnostics import mask_passwords
from ikigai.config.key_table import (
    DATABASE_SCHEMA,
    DATABASE_URL,
    KEY_SPECS,
    RECORD_OF_TABLE,
    REPLICA_URL,
    TOOLS_OFF_KEY,
    VARIABLE_PREFIX,
    Config,
    KeyPath,
    Kind,
    Setting,
    all_paths,
    dotted_path,
    path_pattern,
    variables_of,
)
from ikigai.config.records import THEME_NAMES
from ikigai.config.value_types import SWITCH_WORDS, is_look
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import ConfigError, Rejected
from ikigai.core.vendors import CLOUDS, PRESETS, VENDORS

__all__ = [
    "Config",
    "build",
    "check_setting",
    "describe",
    "load",
    "mask_passwords",
    "read_text_value",
    "unused_address",
    "with_profile",
    "with_setting",
    "with_settings",
]

ADDRESS_VARIABLES = {
    "DATABASE_URL": "env:DATABASE_URL",
    **dict.fromkeys(("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"), "libpq"),
}
"""Variables that name the database of another program, each with the `url` that makes ikigai use it as well."""

TABLES_OF_TABLES: frozenset[KeyPath] = frozenset(
    {("providers",), ("models",), ("mcp_servers",), ("profiles",), ("themes",)}
)

FLAGS: dict[KeyPath, str] = {
    ("model",): "--model",
    ("system_prompt",): "--system-prompt",
    ("profile",): "--profile",
    DATABASE_URL: "--db",
    DATABASE_SCHEMA: "--schema",
    ("tools", "approval"): "--yolo",
    ("tools", "enabled"): "--no-tools",
    ("limits", "run_usd"): "--max-usd",
    ("terminal", "screen_reader"): "--screen-reader",
}


def load(
    file: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    must_exist: bool = False,
    logins: Iterable[str] = (),
) -> Config:
    """Return the configuration of this run.

    `flags` are the command line's values by key ("model", "system_prompt", "database.url"); None is not given. `logins`
    are the providers whose keys `ikigai login` has stored. Raise ConfigError that names place, key, value and the
    allowed values.
    """
    return build(toml_file.read(file, must_exist), file, environ, flags, logins=logins)


def build(
    entries: Iterable[toml_file.TomlEntry],
    file: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    logins: Iterable[str] = (),
) -> Config:
    """Return the configuration with the `entries` of `file`; otherwise as `load`."""
    settings: dict[KeyPath, Setting] = {}
    key_settings: dict[KeyPath, Setting] = {}
    entries = [*entries]
    providers = {each.path[1] for each in entries if path_pattern(each.path)[:2] == ("providers", "*")}
    errors: list[ConfigError] = []
    for setting in _from_file(entries, file):
        _add(setting, settings, key_settings, errors)
    for setting in chain(_from_environment(environ, providers), _from_flags(flags)):
        _add(setting, settings, key_settings, errors)
    if errors:
        raise diagnostics.all_of(errors)
    url = settings[DATABASE_URL] = _database(settings.get(DATABASE_URL), environ)
    if (schema := _schema_of(url)) and _rank(settings.get(DATABASE_SCHEMA)) < _rank(url):
        settings[DATABASE_SCHEMA] = check_setting(schema)
    if replica := settings.get(REPLICA_URL):
        settings[REPLICA_URL] = _address(replica, environ)
    notices: tuple[str, ...] = ()
    if key_settings:
        from ikigai.config import key_changes

        usable, notices = key_changes.resolve(key_settings.values())
        settings |= usable
    config = msgspec.structs.replace(_built(settings), notices=notices, file=str(file))
    if any(name.startswith(VARIABLE_PREFIX) for name in environ):
        unknown = tuple(diagnostics.unknown_variables(environ, providers))
        config = msgspec.structs.replace(config, unknown_variables=unknown)
    if config.profiles or ("profile",) in settings:
        from ikigai.config import profiles

        profiles.check(config)
    if config.terminal.theme not in (*THEME_NAMES, *config.themes):
        raise diagnostics.no_theme(settings["terminal", "theme"], config.themes)
    return msgspec.structs.replace(config, keys=api_key_sources.find_sources(config.providers, environ, logins))


def _add(
    setting: Setting,
    settings: dict[KeyPath, Setting],
    key_settings: dict[KeyPath, Setting],
    errors: list[ConfigError],
) -> None:
    """Add a setting to its kind. Those of [keys] are checked together, and no wrong one of them stops the program."""
    if setting.path[0] == "keys":
        key_settings[setting.path] = setting
        return
    try:
        settings[setting.path] = check_setting(setting)
    except ConfigError as error:
        errors.append(error)


def _from_file(entries: Iterable[toml_file.TomlEntry], file: Path) -> Iterator[Setting]:
    for path, value, line, table_line in entries:
        if value == {} and (path_pattern(path) in RECORD_OF_TABLE or path in TABLES_OF_TABLES):
            if path[0] not in ("profiles", "themes") or len(path) < 2:
                continue
            key, value = ("inherits", "") if path[0] == "profiles" else ("base", "dark")
            path = (*path, key)  # it is there, and sets nothing
        yield Setting(path, value, "configuration", f"{file}:{line}", f"{file}:{table_line}")


def _from_environment(environ: Mapping[str, str], providers: Iterable[str]) -> Iterator[Setting]:
    """Yield the settings of variables. An empty variable counts as unset for text, and as a wrong value for all
    else.
    """
    for path in all_paths(providers, ()):
        default = KEY_SPECS[path_pattern(path)].default
        for variable in variables_of(path):
            text = environ.get(variable)
            if text or (not isinstance(default, str) and text is not None):
                yield Setting(path, read_text_value(text, default), "environment", variable)
                break


def read_text_value(text: str, default: Any) -> Any:
    """Return the variable's text as a value like the key's default; an unreadable text as it is, to be refused."""
    match default:
        case bool():
            return SWITCH_WORDS.get(text.lower(), text)
        case int() if re.fullmatch("[0-9]{1,18}", text):
            return int(text)
        case tuple() if text.startswith("["):
            return _read_list(text)
        case tuple():
            return [part for part in map(str.strip, text.split(",")) if part]
        case dict():
            try:
                return msgspec.json.decode(text)
            except msgspec.DecodeError:
                return text
        case float() if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,18})?", text):
            return float(text)
        case _:
            return text


def _read_list(text: str) -> Any:
    """Return a list as a file has it; the text itself if it is not one."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _from_flags(flags: Mapping[str, Any]) -> Iterator[Setting]:
    for name, value in flags.items():
        if value is not None:
            path = tuple(name.split("."))
            yield Setting(path, value, "flag", FLAGS[path])


def check_setting(setting: Setting) -> Setting:
    """Return the setting, a size with a unit as a number. Raise ConfigError for an unknown key and for a value that is
    not allowed.
    """
    place = path_pattern(setting.path)
    if place not in KEY_SPECS:
        raise diagnostics.unknown_key(setting)
    if place[:2] == ("providers", "*") and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", setting.path[1]):
        raise diagnostics.bad_name(setting, "Use small letters, digits, - and _.")
    if setting.path[0] == "profiles":
        from ikigai.config import profiles

        if not re.fullmatch(rf"(?!{profiles.NO_PROFILE}$)[A-Za-z0-9][\w-]*", setting.path[1], re.A):
            allowed = f"Use letters, digits, - and _; {profiles.NO_PROFILE} means no profile."
            raise diagnostics.bad_name(setting, allowed)
        if profiles.is_left(setting):
            return setting
    if setting.path[0] == "themes" and (
        setting.path[1] in THEME_NAMES or not re.fullmatch(r"[A-Za-z0-9][\w-]*", setting.path[1], re.A)
    ):
        raise diagnostics.bad_name(
            setting, f"Use letters, digits, - and _, and another name than {', '.join(THEME_NAMES)}."
        )
    if place[:2] == ("mcp_servers", "*") and not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,31}", setting.path[1]):
        raise diagnostics.bad_name(setting, "Begin with a letter, and use at most 32 letters, digits and -.")
    if place[:2] == ("models", "*") and not _is_model(setting.path[1]):
        raise diagnostics.bad_name(setting, 'Write [models."provider/name"].')
    setting = setting.with_size()
    try:
        msgspec.convert(setting.value, KEY_SPECS[place].type)
        if place[-1] in ("headers", "body", "env", "args", "url") and setting.value:
            from ikigai.config.extra_fields import CHECKS

            if check := CHECKS.get(place):
                check(setting.value)
        if place[-1] == "base_url":
            _ = urlsplit(setting.value).port
        if place[0] == "themes" and place[-1] != "base" and not is_look(setting.value):
            raise ValueError
    except (msgspec.ValidationError, ValueError):  # the latter for a port, and undecodable bytes of a variable
        raise diagnostics.bad_value(setting) from None
    return setting


def _is_model(name: str) -> bool:
    try:
        return parse_model(name) == {"model": name}
    except Rejected:
        return False


def _database(setting: Setting | None, environ: Mapping[str, str]) -> Setting:
    """Return the database setting, with the address itself where it names a variable; the default is our own."""
    if not setting or not setting.value:
        return Setting(DATABASE_URL, "embedded", "default")
    return _address(setting, environ)


def _schema_of(url: Setting) -> Setting | None:
    """Return the schema that the address itself names, as psql takes it: `?options=-csearch_path%3DNAME`."""
    found = re.search(r"""search_path(?:=|%3D)["'\\]*([\w-]+)""", str(url.value).replace("%22", ""), re.IGNORECASE)
    return msgspec.structs.replace(url, path=DATABASE_SCHEMA, value=found[1]) if found else None


def _rank(setting: Setting | None) -> int:
    return get_args(Kind).index(setting.kind) if setting else 0


def _address(setting: Setting, environ: Mapping[str, str]) -> Setting:
    """Return the setting with the address itself where it names a variable."""
    if not setting.value.startswith("env:"):
        return setting
    variable = setting.value.removeprefix("env:")
    if not (address := environ.get(variable)):
        raise ConfigError(
            f"{setting.place}: {dotted_path(setting.path)} reads the address from {variable}, which is not set.",
            f'Set {variable}, or write the address itself; "embedded" is ikigai\'s own server.',
        )
    return check_setting(Setting(setting.path, address, setting.kind, f"{setting.place} ({variable})"))


def unused_address(config: Config, environ: Mapping[str, str]) -> str:
    """Return a sentence about a variable that names a database, where the default database is used; "" for none."""
    variable = "" if config.kind(DATABASE_URL) != "default" else api_key_sources.first_set(ADDRESS_VARIABLES, environ)
    how = f'url = "{ADDRESS_VARIABLES[variable]}" under [database] uses it' if variable else ""
    return f"{variable} is set, but not used: {how}." if variable else ""


def _built(settings: dict[KeyPath, Setting]) -> Config:
    values: dict[str, Any] = {}
    chosen = {path: setting.value for path, setting in settings.items() if path[0] == "keys"}
    key_changes = {path[1]: keys for path, keys in chosen.items() if keys != KEY_SPECS[path].default}
    for setting in settings.values():
        if setting.path[0] == "keys":
            continue
        *tables, key = setting.path[1:] if setting.path[:2] == ("providers", "local") else setting.path
        table = values
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = setting.value
    config = msgspec.convert(values, Config)
    for name, server in config.providers.items():
        if not server.base_url and not _at_home(name, server.api):
            place = next(setting.place for path, setting in settings.items() if path[:2] == ("providers", name))
            raise ConfigError(
                f"{place}: the provider {name} has no base_url.", 'Add one: base_url = "http://localhost:11434/v1".'
            )
    return msgspec.structs.replace(config, settings=settings, key_changes=key_changes)


def _at_home(name: str, api: str) -> bool:
    """Return True if a provider without an address has a vendor's own: by its name, else by its `api`.

    A vendor's key goes to no other vendor.
    """
    if name in CLOUDS:
        return api in ("", name) or (name == "azure" and api in ("chat", "responses"))
    if name in PRESETS:
        return api in ("", "chat")
    return api in ("", *VENDORS[name].apis) if name in VENDORS else api in VENDORS or api in CLOUDS


def with_profile(config: Config, name: str) -> Config:
    """Return the configuration for the agents of this profile; `config` itself for no name or an unknown one."""
    if name not in config.profiles:
        return config
    from ikigai.config import profiles

    return with_settings(config, profiles.settings_with_profile(config, name))


def with_setting(config: Config, path: KeyPath, setting: Setting | None) -> Config:
    """Return the configuration with this setting of a key in force, or with its default."""
    others = {each: value for each, value in config.settings.items() if each != path}
    return with_settings(config, others | ({path: setting} if setting else {}))


def with_settings(config: Config, settings: dict[KeyPath, Setting]) -> Config:
    """Return the configuration with these settings alone, and all of this run's that no setting holds."""
    return msgspec.structs.replace(_built(settings), keys=config.keys, notices=config.notices, file=config.file)


def describe(config: Config, profile: str | None = None) -> list[tuple[str, str, str]]:
    """Return every key with its value, as in a file but without passwords, and its origin. Then come the settings of
    profiles and themes, and the API keys set. The `profile` is in force, by default the configured one.
    """
    import json

    rows: list[tuple[str, str, str]] = []
    config = with_profile(config, config.profile if profile is None else profile)
    for path in all_paths(config.providers, config.models):
        value = config.settings[path].value if path in config.settings else KEY_SPECS[path_pattern(path)].default
        shown = mask_passwords(value) if isinstance(value, str) else value
        rows.append((dotted_path(path), json.dumps(shown, ensure_ascii=False), config.origin(path)))
    for path, setting in config.settings.items():
        if path[0] in ("mcp_servers", "profiles", "themes"):
            rows.append((dotted_path(path), json.dumps(setting.value, ensure_ascii=False), setting.origin))
    if TOOLS_OFF_KEY in config.settings:  # a project's alone
        rows.append(
            (dotted_path(TOOLS_OFF_KEY), json.dumps(config.settings[TOOLS_OFF_KEY].value), config.origin(TOOLS_OFF_KEY))
        )
    for provider, place in config.keys.items():
        rows.append((f"API key of {provider}", "set", place))
    return rows
