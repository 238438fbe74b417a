"""Settings, a record for each table: [context], [database], [providers], [models], [tools], [profiles.NAME], [terminal]
and [themes.NAME]. `config.key_table` makes each field a key; config.example.toml explains its purpose.
"""

import msgspec

from ikigai.config.value_types import (
    Api,
    Approval,
    Arguments,
    AutoRecall,
    Base,
    Body,
    CacheLifetime,
    CallSeconds,
    CloudName,
    ColorText,
    Condensing,
    Counter,
    Dollars,
    Dsn,
    Durability,
    Editing,
    Environment,
    File,
    Headers,
    Hosts,
    Level,
    Levels,
    ModelName,
    Notice,
    Percent,
    PriceNumber,
    ProfileName,
    Redact,
    Results,
    Rules,
    Sandbox,
    SchemaName,
    SecretPlace,
    ServerUrl,
    Sets,
    Share,
    Sight,
    Size,
    SkillNames,
    StartupSeconds,
    StatusPartName,
    StatusParts,
    Switch,
    Text,
    ThemeName,
    Thoughts,
    Tokens,
    ToolPatterns,
    Url,
    Variable,
    Variables,
    Wrap,
)
from ikigai.core.events.record import Record
from ikigai.core.tools.approval_mode import ApprovalMode


class MaskedRecord(Record, frozen=True):
    """A record that may hold an address with a password: its repr, which ends up in logs, shows no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class ContextSettings(Record, frozen=True):
    """[context]"""

    sliding_context_tokens: Tokens = 100_000
    token_counter: Counter = "bytes"
    prune_fraction: Share = 0.25
    keep_first_turn: Switch = False
    max_history_tokens: Tokens = 0
    max_tool_result_tokens: Size = 8000
    tool_result_truncation: StatusPartName = "head"
    tool_result_keep_first: Results = 2
    tool_result_keep_last: Results = 5
    condense: Condensing = "off"
    condense_at_percent: Percent = 75
    condense_to_percent: Percent = 40
    condense_model: ModelName = ""
    condense_prompt_file: File = ""
    summarise_on_clear: Switch = False
    auto_recall: AutoRecall = "suggest"
    cache_ttl: CacheLifetime = "auto"
    default_system_prompt: Switch = True
    skills_tokens: Tokens = 2000
    skills_off: SkillNames = ()


class DatabaseSettings(MaskedRecord, frozen=True):
    """[database]"""

    url: Dsn = ""
    schema: SchemaName = "ikigai"
    durability: Durability = "local"
    replica_url: Dsn = ""

    @property
    def replica_dsn(self) -> str | None:
        """The DSN of the replica, None without one."""
        return {"": None, "embedded": None, "libpq": ""}.get(self.replica_url, self.replica_url)

    @property
    def dsn(self) -> str | None:
        """The DSN to connect with: None is ikigai's own server, "" leaves it to libpq's variables."""
        return {"": None, "embedded": None, "libpq": ""}.get(self.url, self.url)


class LocalSettings(Record, frozen=True):
    """[providers.local]: the model that runs inside ikigai."""

    model_file: File = ""
    context: Size = 8192


class ProviderSettings(MaskedRecord, frozen=True):
    """[providers.NAME]: a vendor, or any server with the API of one of them."""

    base_url: Url = ""
    api: Api = ""
    api_key_env: Variable = ""
    region: CloudName = ""
    project: CloudName = ""
    context: Tokens = 0
    headers: Headers = msgspec.field(default_factory=dict)


class ModelSettings(MaskedRecord, frozen=True):
    """[models."provider/name"]: goes before the table of its provider."""

    context: Tokens = 0
    max_output: Tokens = 0
    levels: Levels = ()
    images: Sight = "auto"
    tools: Sight = "auto"
    vendor_search: Sight = "auto"
    input_price: PriceNumber = -1.0
    output_price: PriceNumber = -1.0
    cached_price: PriceNumber = -1.0
    written_price: PriceNumber = -1.0
    body: Body = msgspec.field(default_factory=dict)


class ToolSettings(Record, frozen=True):
    """[tools]: the rights of models on this machine."""

    enabled: Switch = True
    approval: Approval = ApprovalMode.ASK
    allow: Rules = ()
    env: Variables = ()
    redact: Redact = "patterns"
    sandbox: Sandbox = "off"
    sandbox_network: Switch = False
    private_hosts: Hosts = ()
    vendor_search: Switch = False


class McpServerSettings(MaskedRecord, frozen=True):
    """[mcp_servers.NAME]: an MCP server: a command that speaks over its standard input and output, or an address."""

    command: Text = ""
    args: Arguments = ()
    env: Environment = msgspec.field(default_factory=dict)
    url: ServerUrl = ""
    headers: Headers = msgspec.field(default_factory=dict)
    client_id: Text = ""
    client_secret: SecretPlace = ""
    client_key: File = ""
    issuer: Url = ""
    scopes: Text = ""
    enabled: Switch = True
    approved_tools: ToolPatterns = ()
    startup_seconds: StartupSeconds = 30
    call_seconds: CallSeconds = 600


class LimitSettings(Record, frozen=True):
    """[limits]: spending caps, checked before a request is sent."""

    turn_usd: Dollars = 0.0
    turn_tokens: Tokens = 0
    run_usd: Dollars = 0.0
    run_tokens: Tokens = 0
    day_usd: Dollars = 0.0
    day_tokens: Tokens = 0
    agent_usd: Dollars = 0.0
    agent_tokens: Tokens = 0


class ProfileSettings(Record, frozen=True):
    """[profiles.NAME]: its own keys; PROFILE_KEYS has its other keys."""

    inherits: ProfileName = ""
    level: Level = ""
    tools_off: Sets = ()


class TerminalSettings(Record, frozen=True):
    """[terminal]"""

    color: ColorText = "auto"
    theme: ThemeName = "auto"
    status: StatusParts = ("agent", "background", "model", "context", "out", "cost", "database")
    screen_reader: Switch = False
    thinking: Thoughts = "fold"
    wrap: Wrap = "words"
    title: Switch = True
    notify: Notice = "auto"
    editing: Editing = "emacs"
    find_servers: Switch = True
    update_notice: Switch = False


class ThemeSettings(Record, frozen=True):
    """[themes.NAME]: its further keys are ELEMENTS."""

    base: Base = "dark"


THEME_NAMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Built-in themes, and the word for the theme that fits the terminal's background."""
ELEMENTS = ("user", "dim", "warning", "error", "added", "removed")
"""The elements that a theme gives a look; "" leaves the look to the base. The other elements follow these or the base:
people change a theme for the contrast of text, and to tell red from green.
"""
