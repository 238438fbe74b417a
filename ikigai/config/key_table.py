"""The table of keys, and the frozen Config that holds their values.

A field of Config, and of the records of `config.records` and `config.terminal`, is a key, its default the key's. Its
type (of `config.value_types`) is what is allowed, with a `title` that says so in words; the `description` behind it is
its help. Names of variables, errors, `ikigai config` and the test of config.example.toml all come from here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from ikigai.config.records import Context, Database, Delegating, Discreet, Local, Model, Profile, Server, Tools
from ikigai.config.terminal import ELEMENTS, Terminal, ThemeOf
from ikigai.config.value_types import Look, ModelName, ProfileName, Start, Text, means
from ikigai.core.events import Value
from ikigai.core.record import Record

KeyPath: TypeAlias = tuple[str, ...]
"""A key with its tables, outermost first: ("context", "sliding_context_tokens")."""
Kind: TypeAlias = Literal["default", "configuration", "project", "profile", "environment", "flag"]


class Setting(Discreet, frozen=True):
    """One value somebody set. `place` is "FILE:LINE", a variable's name or a flag."""

    path: KeyPath
    value: Any
    kind: Kind
    place: str = ""

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.place}".strip()


class Config(Discreet, frozen=True):
    """Every setting of this run.

    `keys` says for each provider that has an API key where that is ("environment VARIABLE" or "login"), Anthropic,
    OpenAI and Google first; the keys themselves are nowhere in here. `settings` are those that somebody set.
    """

    model: Annotated[ModelName, means('The model, provider/name or provider/name:level; "" chooses by itself.')] = ""
    system_prompt: Annotated[Text, means("What every model is told first.")] = ""
    profile: Annotated[
        ProfileName, means('The profile, of those below, of agents that have not chosen one; "" for none.')
    ] = ""
    start_with: Annotated[
        Start, means('Which agent to go on with: the "last", the last in this "directory", or a "new" one.')
    ] = "last"
    context: Context = Context()
    database: Database = Database()
    terminal: Terminal = Terminal()
    tools: Tools = Tools()
    agents: Delegating = Delegating()
    local: Local = Local()
    providers: dict[str, Server] = msgspec.field(default_factory=dict)
    models: dict[str, Model] = msgspec.field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    themes: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    keys: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[KeyPath, Setting] = msgspec.field(default_factory=dict)

    def origin(self, path: KeyPath) -> str:
        """Who set the key: "default", "configuration FILE:LINE", "project FILE:LINE", "environment VARIABLE", …"""
        return self.settings[path].origin if path in self.settings else "default"

    def kind(self, path: KeyPath) -> Kind:
        return self.settings[path].kind if path in self.settings else "default"


TABLES: dict[KeyPath, type[Record]] = {
    (): Config,
    ("context",): Context,
    ("database",): Database,
    ("terminal",): Terminal,
    ("tools",): Tools,
    ("agents",): Delegating,
    ("providers", "local"): Local,
    ("providers", "*"): Server,
    ("models", "*"): Model,
    ("profiles", "*"): Profile,
    ("themes", "*"): ThemeOf,
}


class Key(Record, frozen=True):
    """One line of the table, as its field says it."""

    type: Any
    default: Value | tuple[str, ...]
    allowed: str
    help: str


def _keys() -> Iterator[tuple[KeyPath, Key]]:
    for table, record in TABLES.items():
        for field in msgspec.structs.fields(record):
            if metas := getattr(field.type, "__metadata__", ()):
                yield (*table, field.name), Key(field.type, field.default, metas[0].title, metas[-1].description)
    for element, about in ELEMENTS.items():  # they come last in the table
        yield ("themes", "*", element), Key(Look, "", get_args(Look)[1].title, about)


KEYS: dict[KeyPath, Key] = dict(_keys())

PROFILED: dict[str, KeyPath] = {
    **{path[-1]: path for path in KEYS if path[0] == "context"},
    **{"model": ("model",), "system_prompt": ("system_prompt",)},
    **{"approval": ("tools", "approval"), "tools": ("tools", "enabled")},
}
"""The keys that a profile sets for its agents, by their names in [profiles.NAME]."""

DATABASE_URL: KeyPath = ("database", "url")
USUAL_VARIABLES: dict[KeyPath, str] = {
    DATABASE_URL: "DATABASE_URL",
    ("providers", "anthropic", "base_url"): "ANTHROPIC_BASE_URL",
    ("providers", "openai", "base_url"): "OPENAI_BASE_URL",
    ("providers", "google", "base_url"): "GOOGLE_GEMINI_BASE_URL",
}
VENDORS = ("anthropic", "openai", "google")
"""Providers that are there without a table, in the order in which they are tried when nobody chose a model."""


def pattern(path: KeyPath) -> KeyPath:
    """The path as the table has it: a * for the name of a provider or model, and what a profile's key stands for."""
    if path[0] == "profiles" and len(path) > 1:
        return PROFILED.get(path[2], ("profiles", "*", *path[2:])) if len(path) == 3 else ("profiles", "*", *path[2:])
    if len(path) > 1 and path[0] in ("providers", "models", "themes") and path[:2] != ("providers", "local"):
        return (path[0], "*", *path[2:])
    return path


def paths(providers: Iterable[str], models: Iterable[str]) -> Iterator[KeyPath]:
    """Every key in the order of the table, those of [providers.NAME] and [models.NAME] by name; none of profiles and
    themes."""
    names = {"providers": sorted({*VENDORS, *providers}), "models": list(models), "profiles": [], "themes": []}
    for path in KEYS:
        if "*" in path:
            yield from ((path[0], name, path[2]) for name in names[path[0]])
        else:
            yield path


def variables(path: KeyPath) -> tuple[str, ...]:
    """The environment variables that set a key, the first that is there wins; none for models, whose names have a /."""
    if path[0] == "models":
        return ()
    words = path[1:] if path[0] == "context" else path
    own = "_".join(("IKIGAI", *words)).upper().replace("-", "_")
    return (own, USUAL_VARIABLES[path]) if path in USUAL_VARIABLES else (own,)


def dotted(path: KeyPath) -> str:
    """The path as TOML writes it."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _quoted(part) for part in path)


def _quoted(part: str) -> str:
    import json

    return json.dumps(part)
