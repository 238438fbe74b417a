"""This module defines the settings of agents, a record for each table: [context], [database], [providers], [models],
[tools], [agents] and [profiles.NAME]. `config.key_table` makes each field a key.
"""

from typing import Annotated

import msgspec

from ikigai.config.value_types import (
    Agents,
    Api,
    Approval,
    Arguments,
    AutoRecall,
    Body,
    Bytes,
    CacheLifetime,
    CallSeconds,
    CloudName,
    Condensing,
    Counter,
    Dollars,
    Dsn,
    Durability,
    Environment,
    File,
    Headers,
    Hosts,
    Level,
    Levels,
    McpApproval,
    McpGrant,
    ModelName,
    Percent,
    PriceNumber,
    ProfileName,
    Redact,
    Results,
    Rules,
    Sandbox,
    SchemaName,
    Seconds,
    SecretPlace,
    ServerUrl,
    Sets,
    Share,
    Sight,
    Size,
    StartupSeconds,
    StatusPartName,
    Switch,
    Text,
    Tokens,
    ToolPatterns,
    Url,
    Variable,
    Variables,
    help_meta,
)
from ikigai.core.approval_mode import ApprovalMode
from ikigai.core.record import Record


class MaskedRecord(Record, frozen=True):
    """A record that may hold an address with a password: its repr, which ends up in logs, shows no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class ContextSettings(Record, frozen=True):
    """[context]"""

    sliding_context_tokens: Annotated[
        Tokens,
        help_meta("The largest size of a request; above it the oldest turns leave the window. 0 turns the window off."),
    ] = 100_000
    token_counter: Annotated[
        Counter,
        help_meta(
            'How turns are measured: in "bytes" (four to a token), as the "provider" counts them, '
            'or by bytes "calibrated" with the provider\'s counts so far.'
        ),
    ] = "bytes"
    prune_fraction: Annotated[
        Share,
        help_meta(
            "The step, as a share of that budget, in which turns leave: with 0.25 a quarter "
            "leaves at once and then none for long, so that providers can use their caches. With "
            "0 no turn leaves that still fits."
        ),
    ] = 0.25
    keep_first_turn: Annotated[
        Switch, help_meta("Keep the first turn after the last /clear in the window, even when later turns leave.")
    ] = False
    max_history_tokens: Annotated[
        Tokens,
        help_meta("The largest size of the ended turns, to keep room for the next one; 0 for no limit."),
    ] = 0
    max_tool_result_tokens: Annotated[
        Size,
        help_meta("The largest size of one tool result in a request; the log keeps more ([tools] max_stored_result)."),
    ] = 8000
    tool_result_truncation: Annotated[
        StatusPartName,
        help_meta('The part of a longer result that is sent: its "head", its "tail", or half of each with "both".'),
    ] = "head"
    tool_result_keep_first: Annotated[
        Results, help_meta("The number of tool results, from the start of a turn, that are never masked.")
    ] = 2
    tool_result_keep_last: Annotated[
        Results, help_meta("The number of its newest results that are not masked yet. If both are 0 nothing is masked.")
    ] = 5
    condense: Annotated[
        Condensing,
        help_meta(
            'Have a model summarise the oldest turns before they leave: "auto" does it in the '
            'background, "manual" only suggests it. /condense always works.'
        ),
    ] = "off"
    condense_at_percent: Annotated[
        Percent,
        help_meta("Condensing starts when the budget, or the model's context if that is smaller, is this full."),
    ] = 75
    condense_to_percent: Annotated[
        Percent,
        help_meta("How full it should be afterwards. The newest two turns are always kept."),
    ] = 40
    condense_model: Annotated[ModelName, help_meta('The model that writes summaries; "" uses the agent\'s own.')] = ""
    condense_prompt_file: Annotated[
        File, help_meta('A text file with the prompt for that model; "" uses ikigai\'s own prompt.')
    ] = ""
    summarise_on_clear: Annotated[
        Switch, help_meta("Summarise the turns that /clear removes from the context; /summary shows the result.")
    ] = False
    auto_recall: Annotated[
        AutoRecall,
        help_meta(
            'Turns that left the window and match what you type: "suggest" names them while you pause and Tab adds '
            'excerpts, "on" sends excerpts along, which /undo takes out of the context.'
        ),
    ] = "suggest"
    auto_recall_tokens: Annotated[Size, help_meta("The largest size of the excerpts for one message.")] = 800
    cache_ttl: Annotated[
        CacheLifetime,
        help_meta(
            "How long Anthropic keeps what a request wrote to its cache: five minutes, or an hour at a higher price. "
            '"auto" chooses by the pauses of the conversation.'
        ),
    ] = "auto"
    default_system_prompt: Annotated[
        Switch,
        help_meta(
            "Give models without a system prompt of yours a default one: working directory, "
            "operating system, date, the use of the tools, and that text in files and web pages "
            "is data."
        ),
    ] = True


class DatabaseSettings(MaskedRecord, frozen=True):
    """[database]"""

    url: Annotated[
        Dsn,
        help_meta(
            'A PostgreSQL address; "embedded" or "" is ikigai\'s own server, "libpq" uses PGHOST, '
            'PGSERVICE and so on, "env:DATABASE_URL" reads the address from that variable.'
        ),
    ] = ""
    schema: Annotated[
        SchemaName,
        help_meta(
            "The schema of the tables; it is created if needed. Two schemas of one database are two separate histories."
        ),
    ] = "ikigai"
    durability: Annotated[
        Durability,
        help_meta(
            'With "replicated" nothing is shown before a synchronous standby has it, too, and a server without one is '
            'refused; "local" leaves it to the server.'
        ),
    ] = "local"
    user_name: Annotated[
        Text,
        help_meta(
            "Your name among those who share one login of the database: agents belong to it. By default it is the name "
            "of your account on this machine."
        ),
    ] = ""
    replica_url: Annotated[
        Dsn,
        help_meta(
            "The address of a read replica, which serves search, recall, the history browser and exports as far as it "
            'has caught up; "" for none.'
        ),
    ] = ""

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

    model_file: Annotated[
        File, help_meta('A GGUF file with the weights; "" uses those that `ikigai setup` installed.')
    ] = ""
    context: Annotated[Size, help_meta("The context in tokens to reserve memory for.")] = 8192


class ProviderSettings(MaskedRecord, frozen=True):
    """[providers.NAME]: a vendor, or any server with the API of one of them."""

    base_url: Annotated[Url, help_meta('The base URL; "" is the vendor\'s own address.')] = ""
    api: Annotated[
        Api,
        help_meta(
            'The API: OpenAI\'s "chat" (Chat Completions) or "responses", "anthropic" or "google"; or '
            'the cloud: "azure", "bedrock" or "vertex"; '
            '"" chooses by the provider\'s name or address: "responses" for OpenAI\'s own, "chat" '
            "for others."
        ),
    ] = ""
    api_key_env: Annotated[
        Variable,
        help_meta(
            'The environment variable with its key; "" for the vendor\'s usual one, or none for other providers.'
        ),
    ] = ""
    region: Annotated[
        CloudName,
        help_meta('The region of Amazon Bedrock or Google Vertex AI; "" for that of the environment, or of its tools.'),
    ] = ""
    project: Annotated[
        CloudName, help_meta('The project of Google Vertex AI; "" for that of the environment, or of the credentials.')
    ] = ""
    context: Annotated[Tokens, help_meta("The context of its models in tokens; 0 uses the known value.")] = 0
    max_output: Annotated[Tokens, help_meta("The longest reply in tokens; 0 uses the known value.")] = 0
    first_seconds: Annotated[
        Seconds,
        help_meta(
            "Time limit in seconds for the first piece of a reply, and for the next one "
            "while a model thinks; 0 for 300."
        ),
    ] = 0
    idle_seconds: Annotated[Seconds, help_meta("Time limit in seconds for each other piece; 0 for 90.")] = 0
    headers: Annotated[
        Headers,
        help_meta('Extra headers of every request; "env:NAME" reads the value from that variable.'),
    ] = msgspec.field(default_factory=dict)


class ModelSettings(MaskedRecord, frozen=True):
    """[models."provider/name"]: goes before the table of its provider."""

    context: Annotated[Tokens, help_meta("The context of this model in tokens; 0 uses the known value.")] = 0
    max_output: Annotated[Tokens, help_meta("Its longest reply in tokens; 0 uses the known value.")] = 0
    levels: Annotated[
        Levels, help_meta('Its thinking levels, ["off"] if it does not think; [] uses the known ones.')
    ] = ()
    images: Annotated[Sight, help_meta('Image support; "auto" uses what is known.')] = "auto"
    tools: Annotated[Sight, help_meta('Support of tools; "auto" uses what is known.')] = "auto"
    vendor_search: Annotated[
        Sight, help_meta('A web search of its vendor; "auto" uses what is known of the address.')
    ] = "auto"
    input_price: Annotated[
        PriceNumber, help_meta("US dollars for a million input tokens; -1 uses the known price.")
    ] = -1.0
    output_price: Annotated[PriceNumber, help_meta("US dollars for a million output tokens; -1 as above.")] = -1.0
    cached_price: Annotated[
        PriceNumber, help_meta("US dollars for a million tokens read from its cache; -1 as above.")
    ] = -1.0
    written_price: Annotated[
        PriceNumber, help_meta("US dollars for a million tokens written to its cache; -1 as above.")
    ] = -1.0
    body: Annotated[
        Body,
        help_meta(
            "Further fields of every request to it, for example service_tier or temperature; "
            '"env:NAME" takes the value of that variable.'
        ),
    ] = msgspec.field(default_factory=dict)


class ToolSettings(Record, frozen=True):
    """[tools]: the rights of models on this machine."""

    enabled: Annotated[Switch, help_meta("Offer tools to models.")] = True
    approval: Annotated[
        Approval,
        help_meta(
            "What runs without a question. "
            + "; ".join(f'"{mode}": {mode.meaning}' for mode in ApprovalMode.AUTO.up_to())
            + "."
        ),
    ] = ApprovalMode.ASK
    allow: Annotated[
        Rules,
        help_meta(
            'Commands that "auto" allows in addition to ikigai\'s own list of read-only programs: '
            '"npm test" allows exactly these words, "make *" these and operands in the working '
            "directory. Everything that they run is trusted."
        ),
    ] = ()
    env: Annotated[
        Variables,
        help_meta(
            "Environment variables that commands and external tools get in addition to ikigai's "
            'own list (PATH, HOME, LANG, VIRTUAL_ENV, GOPATH …). "AWS_*" matches all names that '
            "begin so, except those that look like a secret by name or value (an address with a "
            "password or a token): these need their exact name."
        ),
    ] = ()
    redact: Annotated[
        Redact,
        help_meta(
            "Secrets to replace by [redacted: NAME] before they are stored or sent to a model: "
            'with "own" ikigai\'s own keys and database passwords of 12 characters or more, in '
            'tool results, output of commands, replies and imports; with "patterns" also well-'
            "known token formats in tool results and output of commands. What you type is never "
            "changed."
        ),
    ] = "patterns"
    sandbox: Annotated[
        Sandbox,
        help_meta(
            'With "bwrap" commands can write only in the working directory, and cannot see '
            "ikigai's own files; if bubblewrap does not work, ikigai exits with an error."
        ),
    ] = "off"
    sandbox_network: Annotated[Switch, help_meta("Give commands in the sandbox access to the network.")] = False
    private_hosts: Annotated[
        Hosts, help_meta("Hosts outside the public internet that web_fetch may reach; no others are reached.")
    ] = ()
    vendor_search: Annotated[
        Switch,
        help_meta(
            "Let models search the web by their vendors' own search, without a question for each search. Anthropic, "
            "OpenAI and Google charge for it (`/cost` counts it), and so do Azure and Vertex AI."
        ),
    ] = False
    mcp_tools_tokens: Annotated[
        Tokens,
        help_meta(
            "The largest size of the definitions of MCP servers' tools in a request; above it models find them with "
            "mcp_search. 0 is 2 % of the budget."
        ),
    ] = 0
    max_stored_result: Annotated[
        Bytes,
        help_meta(
            "The largest size of one tool result in the log; of a longer one the beginning and "
            "the end are kept, with the number of omitted bytes between them."
        ),
    ] = 16_777_216


class McpServerSettings(MaskedRecord, frozen=True):
    """[mcp_servers.NAME]: an MCP server: a command that speaks over its standard input and output, or an address."""

    command: Annotated[Text, help_meta("The program that runs the server; not together with url.")] = ""
    args: Annotated[Arguments, help_meta("Its arguments.")] = ()
    env: Annotated[
        Environment,
        help_meta(
            'Its environment variables, with those that commands get; "env:NAME" takes the value of that variable.'
        ),
    ] = msgspec.field(default_factory=dict)
    directory: Annotated[File, help_meta('Its working directory; "" is yours.')] = ""
    url: Annotated[ServerUrl, help_meta("The address of a server over HTTP; not together with command.")] = ""
    headers: Annotated[
        Headers, help_meta('Headers of every request to it; "env:NAME" takes the value of that variable.')
    ] = msgspec.field(default_factory=dict)
    grant: Annotated[
        McpGrant,
        help_meta('Its login by OAuth: "authorization_code" by you in a browser, "client_credentials" without a user.'),
    ] = "authorization_code"
    client_id: Annotated[
        Text,
        help_meta(
            'The client id for its login, or the https address of a client metadata document; "" registers a client.'
        ),
    ] = ""
    client_secret: Annotated[
        SecretPlace, help_meta('The secret that goes with client_id, as "env:NAME"; "" for none.')
    ] = ""
    client_key: Annotated[
        File, help_meta('The file with the private key (PEM) of client_id, in place of a secret; "" for none.')
    ] = ""
    issuer: Annotated[Url, help_meta("The authorization server of client_credentials; they are sent to no other.")] = ""
    scopes: Annotated[Text, help_meta('The scopes for its login, with blanks between; "" are those it asks for.')] = ""
    enabled: Annotated[Switch, help_meta("Start it, and offer its tools.")] = True
    approval: Annotated[McpApproval, help_meta('"ask" before its tools run, or "always" let them run.')] = "ask"
    approved_tools: Annotated[ToolPatterns, help_meta("Its tools that run without a question.")] = ()
    startup_seconds: Annotated[StartupSeconds, help_meta("Time limit in seconds for its start.")] = 30
    call_seconds: Annotated[CallSeconds, help_meta("Time limit in seconds for a call.")] = 600


class SubagentSettings(Record, frozen=True):
    """[agents]: the number of subagents that a model may have."""

    depth: Annotated[
        Agents,
        help_meta("The largest depth of agents that tools create; 0: none are created, 1: they cannot create others."),
    ] = 2
    at_once: Annotated[Agents, help_meta("The largest number of them that run at once.")] = 8
    per_tree: Annotated[
        Agents, help_meta("The largest number of them that one agent and those below it create in all.")
    ] = 50


class LimitSettings(Record, frozen=True):
    """[limits]: spending caps, checked before a request is sent."""

    turn_usd: Annotated[
        Dollars, help_meta("The most that one turn may cost in US dollars, subagents included; 0 for no cap.")
    ] = 0.0
    turn_tokens: Annotated[
        Tokens,
        help_meta(
            "The most tokens, input and output, of one turn: for models without a known price. "
            "A request counts in both units."
        ),
    ] = 0
    run_usd: Annotated[Dollars, help_meta("The most that one run of ikigai may cost in US dollars (--max-usd).")] = 0.0
    run_tokens: Annotated[Tokens, help_meta("The most tokens of one run of ikigai; 0 for no cap.")] = 0
    day_usd: Annotated[
        Dollars, help_meta("The most that all agents may cost in one day of your time zone, in US dollars.")
    ] = 0.0
    day_tokens: Annotated[Tokens, help_meta("The most tokens of all agents in one day; 0 for no cap.")] = 0
    agent_usd: Annotated[
        Dollars, help_meta("The most that one agent with its subagents may ever cost, in US dollars.")
    ] = 0.0
    agent_tokens: Annotated[Tokens, help_meta("The most tokens of one agent with its subagents; 0 for no cap.")] = 0


class ProfileSettings(Record, frozen=True):
    """[profiles.NAME]: its own keys; its other keys are those of PROFILE_KEYS."""

    inherits: Annotated[ProfileName, help_meta('The profile that this one inherits from; "" for none.')] = ""
    level: Annotated[Level, help_meta('The thinking level; "" uses the model\'s default, or the inherited value.')] = ""
    tools_off: Annotated[Sets, help_meta("Tool sets (`/tools` lists them) that models are not offered.")] = ()
