"""Table of keys, and the frozen Config that holds their values.

A field of Config, and of the records of `config.records`, is a key, its default the key's. Its type (of
`config.value_types`) checks the value, with a `title` that names the allowed values. Names of variables, errors,
`ikigai config` and the test of config.example.toml all come from here. That file says what each key is for.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec

from ikigai.config.records import (
    ELEMENTS,
    ContextSettings,
    DatabaseSettings,
    LimitSettings,
    LocalSettings,
    MaskedRecord,
    McpServerSettings,
    ModelSettings,
    ProfileSettings,
    ProviderSettings,
    TerminalSettings,
    ThemeSettings,
    ToolSettings,
)
from ikigai.config.value_types import (
    SIZES,
    KeyNames,
    ModelName,
    ModelNames,
    ProfileName,
    Start,
    StyleText,
    Text,
    alternatives,
)
from ikigai.core.commands.arguments import parse_size
from ikigai.core.commands.key_actions import KEY_ACTIONS
from ikigai.core.events.events import Value
from ikigai.core.events.record import Record
from ikigai.core.vendors import VENDORS

KeyPath: TypeAlias = tuple[str, ...]
"""A key with its tables, outermost first: ("context", "sliding_context_tokens")."""

TOOLS_OFF_KEY: KeyPath = ("tools", "off")
"""The sets of tools that a project switches off; a key of its own, for it has no other meaning elsewhere."""
Kind: TypeAlias = Literal["default", "configuration", "project", "profile", "environment", "flag"]


class Setting(MaskedRecord, frozen=True):
    """One value that a user set.

    `place` is "FILE:LINE", a variable's name or a flag. `table_place` is the "FILE:LINE" of its table's header.
    """

    path: KeyPath
    value: Any
    kind: Kind
    place: str = ""
    table_place: str = ""

    @property
    def origin(self) -> str:
        return f"{self.kind} {self.place}".strip()

    def with_size(self) -> "Setting":
        """Return the setting with a number of tokens as a number, where it is a text with a unit."""
        spec = KEY_SPECS.get(path_pattern(self.path))
        if not (spec and isinstance(self.value, str) and spec.type in SIZES):
            return self
        size = parse_size(self.value)
        return self if size is None else msgspec.structs.replace(self, value=size)


class Config(MaskedRecord, frozen=True):
    """Every setting of this run.

    `keys` tells the place of the API key of each provider that has one ("environment VARIABLE" or "login"), Anthropic,
    OpenAI and Google first. The keys themselves are nowhere in here. `key_changes` are the keys of actions that [keys]
    changes, by the names of `core.commands.key_actions`. `notices` are for the user at start, as are
    `unknown_variables`, which look like ikigai's. `file` is the user's own configuration file. `settings` are those
    that a user set.
    """

    model: ModelName = ""
    favorite_models: ModelNames = ()
    fallback: ModelNames = ()
    system_prompt: Text = ""
    profile: ProfileName = ""
    start_with: Start = "last"
    context: ContextSettings = ContextSettings()
    database: DatabaseSettings = DatabaseSettings()
    terminal: TerminalSettings = TerminalSettings()
    tools: ToolSettings = ToolSettings()
    limits: LimitSettings = LimitSettings()
    local: LocalSettings = LocalSettings()
    providers: dict[str, ProviderSettings] = msgspec.field(default_factory=dict)
    models: dict[str, ModelSettings] = msgspec.field(default_factory=dict)
    mcp_servers: dict[str, McpServerSettings] = msgspec.field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    themes: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    keys: dict[str, str] = msgspec.field(default_factory=dict)
    key_changes: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    notices: tuple[str, ...] = ()
    unknown_variables: tuple[str, ...] = ()
    file: str = ""
    settings: dict[KeyPath, Setting] = msgspec.field(default_factory=dict)

    def origin(self, path: KeyPath) -> str:
        """Return the origin of the key: "default", "configuration FILE:LINE", "project FILE:LINE", "environment
        VARIABLE", …
        """
        return self.settings[path].origin if path in self.settings else "default"

    def kind(self, path: KeyPath) -> Kind:
        return self.settings[path].kind if path in self.settings else "default"


RECORD_OF_TABLE: dict[KeyPath, type[Record]] = {
    (): Config,
    ("context",): ContextSettings,
    ("database",): DatabaseSettings,
    ("terminal",): TerminalSettings,
    ("tools",): ToolSettings,
    ("limits",): LimitSettings,
    ("providers", "local"): LocalSettings,
    ("providers", "*"): ProviderSettings,
    ("models", "*"): ModelSettings,
    ("mcp_servers", "*"): McpServerSettings,
    ("profiles", "*"): ProfileSettings,
    ("themes", "*"): ThemeSettings,
}


class KeySpec(Record, frozen=True):
    """One line of the table, from its field."""

    type: Any
    default: Value | tuple[str, ...] | dict[str, Any]
    allowed: str


def _keys() -> Iterator[tuple[KeyPath, KeySpec]]:
    for table, record in RECORD_OF_TABLE.items():
        for field in msgspec.structs.fields(record):
            is_choice = get_origin(field.type) is Literal
            if is_choice or get_origin(field.type) is Annotated:
                default = {} if field.default is msgspec.NODEFAULT else field.default
                allowed = alternatives(get_args(field.type)) if is_choice else get_args(field.type)[1].title
                yield (*table, field.name), KeySpec(field.type, default, allowed)
    for element in ELEMENTS:
        yield ("themes", "*", element), KeySpec(StyleText, "", get_args(StyleText)[1].title)
    for action in KEY_ACTIONS:
        yield ("keys", action.name), KeySpec(KeyNames, action.keys, get_args(KeyNames)[1].title)


KEY_SPECS: dict[KeyPath, KeySpec] = dict(_keys())

PROFILE_KEYS: dict[str, KeyPath] = {
    **{path[-1]: path for path in KEY_SPECS if path[0] == "context"},
    **{"model": ("model",), "fallback": ("fallback",), "system_prompt": ("system_prompt",)},
    **{"approval": ("tools", "approval"), "tools": ("tools", "enabled")},
    **{"vendor_search": ("tools", "vendor_search")},
}
"""The keys that a profile sets for its agents, by their names in [profiles.NAME]."""

DATABASE_URL: KeyPath = ("database", "url")
DATABASE_SCHEMA: KeyPath = ("database", "schema")
REPLICA_URL: KeyPath = ("database", "replica_url")
NAMED_TABLES = ("providers", "models", "mcp_servers", "themes")
"""Tables of tables whose names users choose."""
VARIABLE_PREFIX = "IKIGAI_"
USUAL_VARIABLES: dict[KeyPath, str] = {
    ("providers", name, "base_url"): vendor.address_variable for name, vendor in VENDORS.items()
}


def path_pattern(path: KeyPath) -> KeyPath:
    """Return the path as in the table, with a * for the name of a provider or model; for a profile's key, the path of
    the key it sets.
    """
    if path[0] == "profiles" and len(path) > 1:
        return (
            PROFILE_KEYS.get(path[2], ("profiles", "*", *path[2:])) if len(path) == 3 else ("profiles", "*", *path[2:])
        )
    if len(path) > 1 and path[0] in NAMED_TABLES and path[:2] != ("providers", "local"):
        return (path[0], "*", *path[2:])
    return path


def all_paths(providers: Iterable[str], models: Iterable[str]) -> Iterator[KeyPath]:
    """Yield every key in the order of the table, keys of [providers.NAME] and [models.NAME] by name; none of profiles,
    MCP servers and themes.
    """
    names: dict[str, list[str]] = {table: [] for table in (*NAMED_TABLES, "profiles")}
    names |= {"providers": sorted({*VENDORS, *providers}), "models": list(models)}
    for path in KEY_SPECS:
        if "*" in path:
            yield from ((path[0], name, path[2]) for name in names[path[0]])
        else:
            yield path


def variables_of(path: KeyPath) -> tuple[str, ...]:
    """Return the environment variables that set a key, the first that is set wins; none for models, whose names have a
    /, and for MCP servers.
    """
    if path[0] in ("models", "mcp_servers"):
        return ()
    words = path[1:] if path[0] == "context" else path
    own = "_".join(("IKIGAI", *words)).upper().replace("-", "_")
    return (own, USUAL_VARIABLES[path]) if path in USUAL_VARIABLES else (own,)


def dotted_path(path: KeyPath) -> str:
    """Return the path as TOML writes it."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _quoted(part) for part in path)


def _quoted(part: str) -> str:
    import json

    return json.dumps(part)
