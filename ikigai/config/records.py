"""This module defines the settings of agents, a record for each table: [context], [database], [providers], [models],
[tools], [agents] and [profiles.NAME]. `config.key_table` makes each field a key.
"""

from typing import Annotated

import msgspec

from ikigai.config.value_types import (
    Agents,
    Api,
    Approval,
    Body,
    Bytes,
    Condensing,
    Counter,
    Dsn,
    File,
    Headers,
    Hosts,
    Level,
    Levels,
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
    Sets,
    Share,
    Sight,
    Size,
    StatusPartName,
    Switch,
    Tokens,
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
        help_meta("The most that a request takes; beyond it the oldest turns slide out. 0 switches sliding off."),
    ] = 100_000
    token_counter: Annotated[
        Counter,
        help_meta(
            'How turns are measured: in "bytes" (four are a token), as the "provider" counts them, or by bytes '
            '"calibrated" with what the provider counted so far.'
        ),
    ] = "bytes"
    prune_fraction: Annotated[
        Share,
        help_meta(
            "The step, as a share of that budget, in which turns leave: 0.25 lets a quarter leave at once and then "
            "none for long, so that providers' caches go on serving what stays. 0 lets no turn leave that still fits."
        ),
    ] = 0.0
    keep_first_turn: Annotated[
        Switch, help_meta("Whether the first turn since the last /clear stays, whatever leaves behind it.")
    ] = False
    max_history_tokens: Annotated[
        Tokens,
        help_meta("The most that turns which have ended take, to keep room for the work of the next; 0 for no cap."),
    ] = 0
    max_tool_result_tokens: Annotated[
        Size,
        help_meta("The most that a model is sent of one tool result; the log keeps more ([tools] max_stored_result)."),
    ] = 8000
    tool_result_truncation: Annotated[
        StatusPartName, help_meta('What stays of a longer one: its "head", its "tail", or half of each with "both".')
    ] = "head"
    tool_result_keep_first: Annotated[
        Results, help_meta("How many tool results of a turn, counted from its first, are never masked.")
    ] = 2
    tool_result_keep_last: Annotated[
        Results, help_meta("How many of its newest are not masked yet. With both 0 nothing is masked.")
    ] = 5
    condense: Annotated[
        Condensing,
        help_meta(
            'Whether a model writes a summary of the oldest turns before they leave: with "auto" by itself, in the '
            'background; with "manual" it is said when there is reason to. /condense works always.'
        ),
    ] = "off"
    condense_at_percent: Annotated[
        Percent, help_meta("How full the budget, or the model's context if that is smaller, is when that begins.")
    ] = 75
    condense_to_percent: Annotated[
        Percent,
        help_meta("How full it is to be afterwards. The newest two turns stay as they are, whatever they take."),
    ] = 40
    condense_model: Annotated[ModelName, help_meta('The model that writes summaries; "" is the agent\'s own.')] = ""
    condense_prompt_file: Annotated[
        File, help_meta('What that model is told first, in a file of text; "" is ikigai\'s own prompt.')
    ] = ""
    summarise_on_clear: Annotated[
        Switch, help_meta("Whether what /clear takes out of the context is summarised, to be read by /summary.")
    ] = False
    default_system_prompt: Annotated[
        Switch,
        help_meta(
            "Whether a model without a system prompt of yours is told the working directory, the operating system, the "
            "date, what its tools are for, and that text in files and web pages is data."
        ),
    ] = True


class DatabaseSettings(MaskedRecord, frozen=True):
    """[database]"""

    url: Annotated[
        Dsn,
        help_meta(
            'A PostgreSQL address; "embedded" or "" is ikigai\'s own server, "libpq" leaves it to PGHOST, PGSERVICE '
            'and the like, "env:DATABASE_URL" takes the address from that variable.'
        ),
    ] = ""
    schema: Annotated[
        SchemaName,
        help_meta(
            "The schema with the tables; it is made if it does not exist. Two schemas of one database are two separate "
            "histories."
        ),
    ] = "ikigai"

    @property
    def dsn(self) -> str | None:
        """The DSN to connect with: None is ikigai's own server, "" leaves it to libpq's variables."""
        return {"": None, "embedded": None, "libpq": ""}.get(self.url, self.url)


class LocalSettings(Record, frozen=True):
    """[providers.local]: the model that runs inside ikigai."""

    model_file: Annotated[File, help_meta('Weights in a GGUF file; "" takes those that `ikigai setup` fetched.')] = ""
    context: Annotated[Size, help_meta("Tokens of context to reserve memory for.")] = 8192


class ProviderSettings(MaskedRecord, frozen=True):
    """[providers.NAME]: a vendor, or any server with the API of one of them."""

    base_url: Annotated[Url, help_meta('Where it answers; "" is the vendor\'s own address.')] = ""
    api: Annotated[
        Api,
        help_meta(
            'How it is spoken to: by OpenAI\'s "chat" (Chat Completions) or "responses", as "anthropic" or as '
            '"google"; "" goes by its name, or by its address: OpenAI\'s own is responses, any other chat.'
        ),
    ] = ""
    api_key_env: Annotated[
        Variable, help_meta('The variable that holds its key; "" for the usual one of a vendor, else for none.')
    ] = ""
    context: Annotated[Tokens, help_meta("Tokens of context of its models; 0 for what is known by name.")] = 0
    max_output: Annotated[Tokens, help_meta("The longest reply in tokens; 0 for what is known by name.")] = 0
    first_seconds: Annotated[
        Seconds,
        help_meta("How long the first piece of a reply, or the next while a model thinks, may take; 0 for 300."),
    ] = 0
    idle_seconds: Annotated[Seconds, help_meta("How long any other piece may take; 0 for 90.")] = 0
    headers: Annotated[
        Headers,
        help_meta('Headers that every request to it has besides its own; "env:NAME" takes the value of that variable.'),
    ] = msgspec.field(default_factory=dict)


class ModelSettings(MaskedRecord, frozen=True):
    """[models."provider/name"]: goes before the table of its provider."""

    context: Annotated[Tokens, help_meta("Tokens of context of this model; 0 for what else is known.")] = 0
    max_output: Annotated[Tokens, help_meta("Its longest reply in tokens; 0 for what else is known.")] = 0
    levels: Annotated[
        Levels, help_meta('The thinking levels it has, ["off"] if it does not think; [] for what else is known.')
    ] = ()
    images: Annotated[Sight, help_meta('Whether it sees images; "auto" for what else is known.')] = "auto"
    input_price: Annotated[
        PriceNumber, help_meta("Dollars for a million tokens that go in; -1 for what else is known.")
    ] = -1.0
    output_price: Annotated[PriceNumber, help_meta("Dollars for a million tokens that come out; -1 as above.")] = -1.0
    cached_price: Annotated[
        PriceNumber, help_meta("Dollars for a million tokens read from its cache; -1 as above.")
    ] = -1.0
    written_price: Annotated[
        PriceNumber, help_meta("Dollars for a million tokens written to its cache; -1 as above.")
    ] = -1.0
    body: Annotated[
        Body,
        help_meta(
            "Fields that every request to it has besides ikigai's own, for example service_tier or temperature; "
            '"env:NAME" takes the value of that variable.'
        ),
    ] = msgspec.field(default_factory=dict)


class ToolSettings(Record, frozen=True):
    """[tools]: the rights of models on this machine."""

    enabled: Annotated[Switch, help_meta("Whether models are offered tools at all.")] = True
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
            'Commands that "auto" runs beside ikigai\'s own list of programs that only look: "npm test" is exactly '
            'these words, "make *" these and operands in the working directory. What they run is trusted as a whole.'
        ),
    ] = ()
    env: Annotated[
        Variables,
        help_meta(
            "Variables of your environment that commands and external tools get besides ikigai's own list (PATH, HOME, "
            'LANG, VIRTUAL_ENV, GOPATH …). "AWS_*" stands for all names that begin so, without what looks like a '
            "secret by its name or its value (an address with a password or a token): that passes only by its exact "
            "name."
        ),
    ] = ()
    redact: Annotated[
        Redact,
        help_meta(
            'Which secrets are replaced by [redacted: NAME] before they are stored or sent to a model: with "own" '
            "ikigai's own keys and database passwords of 12 characters or more, in tool results, output of commands, "
            'replies and imports; with "patterns" also well-known formats of tokens in tool results and output of '
            "commands. What you type is never changed."
        ),
    ] = "patterns"
    sandbox: Annotated[
        Sandbox,
        help_meta(
            'With "bwrap" commands can write to the working directory alone, and see nothing of ikigai\'s own files; '
            "where bubblewrap does not work the program ends."
        ),
    ] = "off"
    sandbox_network: Annotated[Switch, help_meta("Whether commands in the sandbox reach the network.")] = False
    private_hosts: Annotated[
        Hosts, help_meta("Hosts off the public internet that web_fetch may reach; none else are reached.")
    ] = ()
    max_stored_result: Annotated[
        Bytes,
        help_meta(
            "The most that the log keeps of one tool result; of a longer one its beginning and its end, and how many "
            "bytes were left out between them."
        ),
    ] = 16_777_216


class SubagentSettings(Record, frozen=True):
    """[agents]: the number of subagents that a model may have."""

    depth: Annotated[
        Agents,
        help_meta("How deep agents stand that tools make; 0: none are made, 1: they make none themselves."),
    ] = 2
    at_once: Annotated[Agents, help_meta("How many of them are at work at once.")] = 8
    per_tree: Annotated[Agents, help_meta("How many of them one agent and those below it make in all.")] = 50


class ProfileSettings(Record, frozen=True):
    """[profiles.NAME]: its own keys; its other keys are those of PROFILE_KEYS."""

    inherits: Annotated[ProfileName, help_meta('The profile that this one changes; "" for none.')] = ""
    level: Annotated[
        Level, help_meta('How much the model thinks; "" leaves that to the model, or to what the profile inherits.')
    ] = ""
    tools_off: Annotated[Sets, help_meta("Sets of tools (`/tools` names them) that models are not offered.")] = ()
