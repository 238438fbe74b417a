"""The table of keys, and the frozen Config that holds their values.

A field of the records below is a key, its default the key's. Its type (of `config.allowed`) is what is allowed, with a
`title` that says so in words; the `description` behind it is its help. Names of variables, errors, `ikigai config` and
the test of config.example.toml all come from here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from ikigai.config.allowed import (
    Agents,
    Api,
    Approval,
    Base,
    Colour,
    Condensing,
    Counter,
    Dsn,
    Editing,
    File,
    Hosts,
    Level,
    Levels,
    Links,
    Look,
    ModelName,
    Notice,
    Part,
    Percent,
    Price,
    ProfileName,
    Results,
    Rules,
    Sandbox,
    Seconds,
    Sets,
    Share,
    Sight,
    Size,
    Start,
    StatusParts,
    Switch,
    Text,
    ThemeName,
    Thoughts,
    Tokens,
    Url,
    Variable,
)
from ikigai.core.events import Value
from ikigai.core.record import Record

KeyPath: TypeAlias = tuple[str, ...]
"""A key with its tables, outermost first: ("context", "sliding_context_tokens")."""


def _help(text: str) -> Meta:
    return Meta(description=text)


class Discreet(Record, frozen=True):
    """A record that may hold an address with a password: its repr, which ends up in logs, shows no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Context(Record, frozen=True):
    """[context]"""

    sliding_context_tokens: Annotated[
        Tokens, _help("The most that a request takes; beyond it the oldest turns slide out. 0 switches sliding off.")
    ] = 100_000
    token_counter: Annotated[
        Counter,
        _help(
            'How turns are measured: in "bytes" (four are a token), as the "provider" counts them, or by bytes '
            '"calibrated" with what the provider counted so far.'
        ),
    ] = "bytes"
    prune_fraction: Annotated[
        Share,
        _help(
            "The step, as a share of that budget, in which turns leave: 0.25 lets a quarter leave at once and then "
            "none for long, so that providers' caches go on serving what stays. 0 lets no turn leave that still fits."
        ),
    ] = 0.0
    keep_first_turn: Annotated[
        Switch, _help("Whether the first turn since the last /clear stays, whatever leaves behind it.")
    ] = False
    max_history_tokens: Annotated[
        Tokens, _help("The most that turns which have ended take, to keep room for the work of the next; 0 for no cap.")
    ] = 0
    max_tool_result_tokens: Annotated[
        Size, _help("The most that a model is sent of one tool result; the log keeps all of it.")
    ] = 8000
    tool_result_truncation: Annotated[
        Part, _help('What stays of a longer one: its "head", its "tail", or half of each with "both".')
    ] = "head"
    tool_result_keep_first: Annotated[
        Results, _help("How many tool results of a turn, counted from its first, are never masked.")
    ] = 2
    tool_result_keep_last: Annotated[
        Results, _help("How many of its newest are not masked yet. With both 0 nothing is masked.")
    ] = 5
    condense: Annotated[
        Condensing,
        _help(
            'Whether a model writes a summary of the oldest turns before they leave: with "auto" by itself, in the '
            'background; with "manual" it is said when there is reason to. /condense works always.'
        ),
    ] = "off"
    condense_at_percent: Annotated[
        Percent, _help("How full the budget, or the model's context if that is smaller, is when that begins.")
    ] = 75
    condense_to_percent: Annotated[
        Percent, _help("How full it is to be afterwards. The newest two turns stay as they are, whatever they take.")
    ] = 40
    condense_model: Annotated[ModelName, _help('The model that writes summaries; "" is the agent\'s own.')] = ""
    condense_prompt_file: Annotated[
        File, _help('What that model is told first, in a file of text; "" is ikigai\'s own prompt.')
    ] = ""
    summarise_on_clear: Annotated[
        Switch, _help("Whether what /clear takes out of the context is summarised, to be read by /summary.")
    ] = False


class Database(Discreet, frozen=True):
    """[database]"""

    url: Annotated[
        Dsn,
        _help(
            'A PostgreSQL address; "embedded" is ikigai\'s own server, "libpq" leaves it to PGHOST, PGSERVICE and the '
            'like. "" takes "libpq" if such a variable is set, else "embedded".'
        ),
    ] = ""

    @property
    def dsn(self) -> str | None:
        """What to connect to: None is ikigai's own server, "" what libpq's variables say."""
        return {"": None, "embedded": None, "libpq": ""}.get(self.url, self.url)


class Local(Record, frozen=True):
    """[providers.local]: the model that runs inside ikigai."""

    model_file: Annotated[File, _help('Weights in a GGUF file; "" takes those that `ikigai setup` fetched.')] = ""
    context: Annotated[Size, _help("Tokens of context to reserve memory for.")] = 8192


class Server(Discreet, frozen=True):
    """[providers.NAME]: a vendor, or any server that speaks the way one of them does."""

    base_url: Annotated[Url, _help('Where it answers; "" is the vendor\'s own address.')] = ""
    api: Annotated[
        Api,
        _help(
            'How it is spoken to: by OpenAI\'s "chat" (Chat Completions) or "responses", as "anthropic" or as '
            '"google"; "" goes by its name, or by its address: OpenAI\'s own is responses, any other chat.'
        ),
    ] = ""
    api_key_env: Annotated[
        Variable, _help('The variable that holds its key; "" for the usual one of a vendor, else for none.')
    ] = ""
    context: Annotated[Tokens, _help("Tokens of context of its models; 0 for what is known by name.")] = 0
    max_output: Annotated[Tokens, _help("The longest reply in tokens; 0 for what is known by name.")] = 0
    first_seconds: Annotated[
        Seconds, _help("How long the first piece of a reply, or the next while a model thinks, may take; 0 for 300.")
    ] = 0
    idle_seconds: Annotated[Seconds, _help("How long any other piece may take; 0 for 90.")] = 0


class Model(Record, frozen=True):
    """[models."provider/name"]: goes before what its provider's table says."""

    context: Annotated[Tokens, _help("Tokens of context of this model; 0 for what else is known.")] = 0
    max_output: Annotated[Tokens, _help("Its longest reply in tokens; 0 for what else is known.")] = 0
    levels: Annotated[
        Levels, _help('The thinking levels it has, ["off"] if it does not think; [] for what else is known.')
    ] = ()
    images: Annotated[Sight, _help('Whether it sees images; "auto" for what else is known.')] = "auto"
    input_price: Annotated[Price, _help("Dollars for a million tokens that go in; -1 for what else is known.")] = -1.0
    output_price: Annotated[Price, _help("Dollars for a million tokens that come out; -1 as above.")] = -1.0
    cached_price: Annotated[Price, _help("Dollars for a million tokens read from its cache; -1 as above.")] = -1.0
    written_price: Annotated[Price, _help("Dollars for a million tokens written to its cache; -1 as above.")] = -1.0


class Tools(Record, frozen=True):
    """[tools]: what models may do on this machine."""

    enabled: Annotated[Switch, _help("Whether models are offered tools at all.")] = True
    approval: Annotated[
        Approval,
        _help(
            'What runs without a question: with "ask" reading in the working directory, with "edits" also changing '
            'files there, with "auto" also commands of the allow-list; "read-only" refuses all but reading.'
        ),
    ] = "ask"
    allow: Annotated[
        Rules,
        _help(
            'Commands that "auto" runs beside ikigai\'s own list of programs that only look: "npm test" is exactly '
            'these words, "make *" these and operands in the working directory. What they run is trusted as a whole.'
        ),
    ] = ()
    sandbox: Annotated[
        Sandbox,
        _help(
            'With "bwrap" commands can write to the working directory alone, and see nothing of ikigai\'s own files; '
            "where bubblewrap does not work the program ends."
        ),
    ] = "off"
    sandbox_network: Annotated[Switch, _help("Whether commands in the sandbox reach the network.")] = False
    private_hosts: Annotated[
        Hosts, _help("Hosts off the public internet that web_fetch may reach; none else are reached.")
    ] = ()


class Delegating(Record, frozen=True):
    """[agents]: how many agents of its own a model may have."""

    depth: Annotated[
        Agents,
        _help("How deep agents stand that tools make; 0: none are made, 1: they make none themselves."),
    ] = 2
    at_once: Annotated[Agents, _help("How many of them are at work at once.")] = 8
    per_tree: Annotated[Agents, _help("How many of them one agent and those below it make in all.")] = 50


class Terminal(Record, frozen=True):
    """[terminal]"""

    color: Annotated[
        Colour,
        _help(
            '"never" leaves bold, dim and reverse, and no colours. NO_COLOR and FORCE_COLOR go before this key, '
            "IKIGAI_TERMINAL_COLOR before both."
        ),
    ] = "auto"
    theme: Annotated[
        ThemeName,
        _help(
            "How things look, on a light or a dark background, or as a table [themes.NAME] says. "
            '"auto" asks the terminal for its background; where it does not answer, colours are the sixteen it defines.'
        ),
    ] = "auto"
    status: Annotated[
        StatusParts,
        _help(
            'The parts of the status line in their order: "agent" is its name and approval mode, "background" what '
            'other agents are about, "out" what has left the context. With [] there is none but for what you must know.'
        ),
    ] = ("agent", "background", "model", "context", "out", "cost", "database")
    screen_reader: Annotated[
        Switch,
        _help(
            "Whether everything is printed once, in words instead of signs: no spinner, no status line (/status says "
            "what it would), nothing redrawn but the line you type. --screen-reader does the same."
        ),
    ] = False
    thinking: Annotated[
        Thoughts,
        _help('What a model thinks: "fold" it to a row that Ctrl+O opens, show it in "full", or "hide" it.'),
    ] = "fold"
    title: Annotated[
        Switch,
        _help("Whether the terminal's title says which agent is there and what it does; the old comes back."),
    ] = True
    notify: Annotated[
        Notice,
        _help(
            "How you are called while the terminal is not in front, and says so: by its own notification in the way of "
            '"osc9" (iTerm2, kitty, WezTerm) or "osc777" (foot, rxvt), by its "bell", or not at all with "off".'
        ),
    ] = "auto"
    notify_after: Annotated[
        Seconds,
        _help("How long a turn has to take until you are called at its end; 0: never. Questions call in any case."),
    ] = 10
    links: Annotated[
        Links,
        _help(
            'Whether links in answers can be clicked, their targets unseen where the words are honest; "auto" does it '
            "in terminals known to understand them."
        ),
    ] = "auto"
    prompt_marks: Annotated[
        Switch, _help("Whether your messages are marked for terminals that jump from prompt to prompt (OSC 133).")
    ] = True
    suggestions: Annotated[
        Switch,
        _help("Whether the newest message that begins as you type is suggested behind the cursor; Right takes it."),
    ] = True
    editing: Annotated[
        Editing, _help('The keys that edit the input: those of "emacs", or of "vi", where Esc leaves insert mode.')
    ] = "emacs"


class Profile(Record, frozen=True):
    """[profiles.NAME]: what it has of its own; its other keys are those of PROFILED."""

    inherits: Annotated[ProfileName, _help('The profile that this one changes; "" for none.')] = ""
    level: Annotated[
        Level, _help('How much the model thinks; "" leaves that to the model, or to what the profile inherits.')
    ] = ""
    tools_off: Annotated[Sets, _help("Sets of tools (`/tools` names them) that models are not offered.")] = ()


class ThemeOf(Record, frozen=True):
    """[themes.NAME]: beside these its keys are ELEMENTS."""

    base: Annotated[Base, _help("The theme that this one changes.")] = "dark"


THEMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Themes there are without a table, and the word for that of the terminal's background."""
ELEMENTS = {
    "user": "What you said.",
    "prompt": "The signs of what you said and of the input.",
    "assistant": "The sign of a model's words.",
    "call": "The sign of a tool call.",
    "dim": "What stands back: results, notes, the status line, what is out of the context.",
    "warning": "Warnings and questions.",
    "error": "What failed.",
    "bold": "What is set off in lists.",
    "found": "What was searched for.",
    "selected": "What is chosen in a menu, and the first row of the browser.",
    "thought": "What a model thought.",
    "added": "Lines that an edit added.",
    "removed": "Lines that it removed.",
    "hunk": "Where in the file they stand.",
    "heading": "Headings, which are bold or italic besides.",
    "link": "The text of links.",
    "quote": "Quotes.",
    "border": "Lines of tables, and between paragraphs.",
    "code": "Code within a sentence.",
    "code_keyword": "Keywords.",
    "code_name": "Names that a language brings, decorators, attributes.",
    "code_definition": "The names of functions and classes where they are defined.",
    "code_string": "Strings.",
    "code_number": "Numbers.",
    "code_comment": "Comments.",
}
"""What a theme gives a look, and what that is; "" leaves it to the base."""


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

    model: Annotated[ModelName, _help('The model, provider/name or provider/name:level; "" chooses by itself.')] = ""
    system_prompt: Annotated[Text, _help("What every model is told first.")] = ""
    profile: Annotated[
        ProfileName, _help('The profile, of those below, of agents that have not chosen one; "" for none.')
    ] = ""
    start_with: Annotated[
        Start, _help('Which agent to go on with: the "last", the last in this "directory", or a "new" one.')
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
