"""Configuration: one frozen Config out of defaults ← file ← environment ← flags, each value with its origin.

    load       the Config of this run
    layers     what of it an agent's own choices yield to, and what yields to them
    under      the Config as it is for the agents of a profile
    profiled   what of layers is another for them
    describe   every key, its value and where that came from
    masked     an address without its password

`tightened` (of `config.project`) adds the settings of a trusted project. Nothing else is read from the working
directory. API keys stay where they are: only where that is, is kept here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ikigai.config import diagnostics as mistakes
from ikigai.config import profiles, toml_file
from ikigai.config.diagnostics import masked
from ikigai.config.key_table import (
    DATABASE_URL,
    KEYS,
    TABLES,
    VENDORS,
    Config,
    KeyPath,
    Setting,
    dotted,
    paths,
    pattern,
    variables,
)
from ikigai.config.project import OFF
from ikigai.config.records import Server
from ikigai.config.terminal import THEMES
from ikigai.config.value_types import is_look
from ikigai.core.commands.arguments import model_choice
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import Choices
from ikigai.core.record import Record
from ikigai.core.state.project_limits import ALL

__all__ = ["Config", "Layers", "describe", "layers", "load", "masked", "profiled", "under"]

KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
LIBPQ_VARIABLES = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE")
"""Those that say which server; PGUSER or PGPASSWORD alone do not."""

APPROVAL: KeyPath = ("tools", "approval")
FLAGS: dict[KeyPath, str] = {
    ("model",): "--model",
    ("system_prompt",): "--system-prompt",
    ("profile",): "--profile",
    DATABASE_URL: "--db",
    APPROVAL: "--yolo",
    ("tools", "enabled"): "--no-tools",
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
    """The configuration of this run.

    `flags` are the command line's values by key ("model", "system_prompt", "database.url"); None is not given. `logins`
    are the providers whose keys `ikigai login` has stored. Raises ConfigError that names place, key, value and what is
    allowed.
    """
    settings = {setting.path: _checked(setting) for setting in _from_file(file, must_exist)}
    providers = {path[1] for path in settings if pattern(path)[:2] == ("providers", "*")}
    for setting in chain(_from_environment(environ, providers), _from_flags(flags)):
        settings[setting.path] = _checked(setting)
    settings[DATABASE_URL] = _database(settings.get(DATABASE_URL), environ)
    config = _built(settings)
    profiles.check(config)
    if config.terminal.theme not in (*THEMES, *config.themes):
        raise mistakes.no_theme(settings["terminal", "theme"], config.themes)
    return msgspec.structs.replace(config, keys=_keys(config.providers, environ, logins))


def _from_file(file: Path, must_exist: bool) -> Iterator[Setting]:
    for path, value, line in toml_file.read(file, must_exist):
        if value == {} and (
            pattern(path) in TABLES or path in (("providers",), ("models",), ("profiles",), ("themes",))
        ):
            if path[0] not in ("profiles", "themes") or len(path) < 2:
                continue
            key, value = ("inherits", "") if path[0] == "profiles" else ("base", "dark")
            path = (*path, key)  # it is there, and sets nothing
        yield Setting(path, value, "configuration", f"{file}:{line}")


def _from_environment(environ: Mapping[str, str], providers: Iterable[str]) -> Iterator[Setting]:
    """What variables set. An empty one is as good as unset where text is wanted; where anything else is, it is none."""
    for path in paths(providers, ()):
        default = KEYS[pattern(path)].default
        for variable in variables(path):
            text = environ.get(variable)
            if text or (not isinstance(default, str) and text is not None):
                yield Setting(path, _read(text, default), "environment", variable)
                break


def _read(text: str, default: Any) -> Any:
    """The variable's text as a value like the key's default; as it is where it is none, to be refused."""
    match default:
        case bool():
            return {"true": True, "false": False}.get(text, text)
        case int() if re.fullmatch("[0-9]{1,18}", text):
            return int(text)
        case tuple():
            return [part for part in map(str.strip, text.split(",")) if part]
        case float() if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,18})?", text):
            return float(text)
        case _:
            return text


def _from_flags(flags: Mapping[str, Any]) -> Iterator[Setting]:
    for name, value in flags.items():
        if value is not None:
            path = tuple(name.split("."))
            yield Setting(path, value, "flag", FLAGS[path])


def _checked(setting: Setting) -> Setting:
    place = pattern(setting.path)
    if place not in KEYS:
        raise mistakes.unknown_key(setting)
    if place[:2] == ("providers", "*") and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", setting.path[1]):
        raise mistakes.bad_name(setting, "Use small letters, digits, - and _.")
    if setting.path[0] == "profiles" and not re.fullmatch(
        rf"(?!{profiles.NONE}$)[A-Za-z0-9][\w-]*", setting.path[1], re.A
    ):
        raise mistakes.bad_name(setting, f"Use letters, digits, - and _; {profiles.NONE} is the word for none.")
    if setting.path[0] == "themes" and (
        setting.path[1] in THEMES or not re.fullmatch(r"[A-Za-z0-9][\w-]*", setting.path[1], re.A)
    ):
        raise mistakes.bad_name(setting, f"Use letters, digits, - and _, and another name than {', '.join(THEMES)}.")
    if profiles.is_left(setting):
        return setting
    if place[:2] == ("models", "*") and not _is_model(setting.path[1]):
        raise mistakes.bad_name(setting, 'Write [models."provider/name"].')
    try:
        msgspec.convert(setting.value, KEYS[place].type)
        if place[-1] == "base_url":
            _ = urlsplit(setting.value).port
        if place[0] == "themes" and place[-1] != "base" and not is_look(setting.value):
            raise ValueError
    except (msgspec.ValidationError, ValueError):  # the latter for a port, and undecodable bytes of a variable
        raise mistakes.bad_value(setting) from None
    return setting


def _is_model(name: str) -> bool:
    try:
        return model_choice(name) == {"model": name}
    except Refused:
        return False


def _database(given: Setting | None, environ: Mapping[str, str]) -> Setting:
    """The database in a word: where nobody names one, libpq's variables decide, and without them it is our own."""
    if given and given.value:
        return given
    if variable := _first_set(LIBPQ_VARIABLES, environ):
        return Setting(DATABASE_URL, "libpq", "environment", variable)
    return Setting(DATABASE_URL, "embedded", "default")


def _built(settings: dict[KeyPath, Setting]) -> Config:
    values: dict[str, Any] = {}
    for setting in settings.values():
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
    return msgspec.structs.replace(config, settings=settings)


def _at_home(name: str, api: str) -> bool:
    """Whether a provider without an address is found at a vendor's own: that of its name, else that of its `api`.

    A vendor's key goes to no other vendor.
    """
    homes = {"anthropic": ("", "anthropic"), "openai": ("", "chat", "responses"), "google": ("", "google")}
    return api in homes.get(name, ("anthropic", "google"))


def _keys(servers: dict[str, Server], environ: Mapping[str, str], logins: Iterable[str]) -> dict[str, str]:
    own = {name: (server.api_key_env,) for name, server in servers.items() if server.api_key_env}
    found = {provider: _first_set(names, environ) for provider, names in {**KEY_VARIABLES, **own}.items()}
    places = {provider: f"environment {variable}" for provider, variable in found.items() if variable}
    places |= {provider: "login" for provider in logins if provider not in places}
    return {name: places[name] for name in sorted(places, key=lambda name: (_rank(name), name))}


def _rank(provider: str) -> int:
    return VENDORS.index(provider) if provider in VENDORS else len(VENDORS)


def _first_set(names: Iterable[str], environ: Mapping[str, str]) -> str:
    return next((name for name in names if environ.get(name, "").strip()), "")


class Layers(Record, frozen=True):
    """Settings as memory's Run takes them, and their origins: model ("" is none), level, budget in tokens, system."""

    below: Choices
    above: Choices
    origins: dict[str, str]


def layers(config: Config) -> Layers:
    """Flags and environment go above an agent's own choices, the file and the defaults below them."""
    model = model_choice(config.model) if config.model else {}
    values: Choices = {
        "model": "",
        "level": "",
        **model,
        "budget": config.context.sliding_context_tokens,
        "system": config.system_prompt,
    }
    if config.tools.approval == "yolo" and config.kind(APPROVAL) != "flag":
        where = config.origin(APPROVAL)
        raise ConfigError(f"{where}: tools.approval cannot be yolo.", "Start with --yolo, for one run.")
    if config.tools.approval != "ask" or config.kind(APPROVAL) != "default":
        values["approval"] = config.tools.approval
    if config.profile:
        values["profile"] = "" if config.profile == profiles.NONE else config.profile
    sources: dict[str, KeyPath] = {
        **dict.fromkeys(model, ("model",)),  # a level only where one is named: an agent may choose it otherwise
        "budget": ("context", "sliding_context_tokens"),
        "system": ("system_prompt",),
        **({"approval": APPROVAL} if "approval" in values else {}),
        **({"profile": ("profile",)} if "profile" in values else {}),
    }
    above = {key: values[key] for key, path in sources.items() if config.kind(path) in ("environment", "flag")}
    return Layers(
        below={key: value for key, value in values.items() if key not in above},
        above=above,
        origins={key: config.origin(path) for key, path in sources.items()},
    )


def under(config: Config, name: str) -> Config:
    """The configuration as it is for the agents of this profile; without a name, or of one that is not there, as is."""
    if name not in config.profiles:
        return config
    return msgspec.structs.replace(_built(profiles.over(config, name)), keys=config.keys)


def profiled(config: Config, name: str) -> Choices:
    """What agents of this profile have instead of `Layers.below`: what the profile, or one it inherits from, sets."""
    said, there = profiles.keys(config, name), under(config, name)
    layered = layers(there)
    origin = Setting((), None, "profile", name).origin
    found = {key: value for key, value in layered.below.items() if layered.origins.get(key) == origin}
    if "model" in found:  # it has no level of another model
        found = {"level": "", **found}
    if "level" in said and said["level"].value:
        found["level"] = said["level"].value
    if "tools" in said or "tools_off" in said:
        off = said["tools_off"].value if "tools_off" in said else ()
        found["tools_off"] = ",".join(off) if there.tools.enabled else ALL
    return found


def tools_enabled(config: Config) -> bool:
    """Whether any agent of this run is offered tools, be it by its profile."""
    return any(under(config, name).tools.enabled for name in ("", *config.profiles))


def describe(config: Config, profile: str | None = None) -> list[tuple[str, str, str]]:
    """Every key with its value, as a file would say it but without passwords, and its origin; then what profiles and
    themes set, and the API keys set. With the `profile` in force, the configured one where none is given.
    """
    import json

    rows: list[tuple[str, str, str]] = []
    config = under(config, config.profile if profile is None else profile)
    for path in paths(config.providers, config.models):
        value = config.settings[path].value if path in config.settings else KEYS[pattern(path)].default
        shown = masked(value) if isinstance(value, str) else value
        rows.append((dotted(path), json.dumps(shown, ensure_ascii=False), config.origin(path)))
    for path, setting in config.settings.items():
        if path[0] in ("profiles", "themes"):
            rows.append((dotted(path), json.dumps(setting.value, ensure_ascii=False), setting.origin))
    if OFF in config.settings:  # a project's alone
        rows.append((dotted(OFF), json.dumps(config.settings[OFF].value), config.origin(OFF)))
    for provider, place in config.keys.items():
        rows.append((f"API key of {provider}", "set", place))
    return rows
