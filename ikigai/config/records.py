"""What agents work with, a record for each table: [context], [database], [providers], [models], [tools], [agents] and
[profiles.NAME]. How a field is a key, `config.key_table` says.
"""

from typing import Annotated

from ikigai.config.value_types import (
    Agents,
    Api,
    Approval,
    Bytes,
    Condensing,
    Counter,
    Dsn,
    File,
    Hosts,
    Level,
    Levels,
    ModelName,
    Part,
    Percent,
    Price,
    ProfileName,
    Redact,
    Results,
    Rules,
    Sandbox,
    Seconds,
    Sets,
    Share,
    Sight,
    Size,
    Switch,
    Tokens,
    Url,
    Variable,
    Variables,
    means,
)
from ikigai.core.record import Record


class Discreet(Record, frozen=True):
    """A record that may hold an address with a password: its repr, which ends up in logs, shows no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Context(Record, frozen=True):
    """[context]"""

    sliding_context_tokens: Annotated[
        Tokens, means("The most that a request takes; beyond it the oldest turns slide out. 0 switches sliding off.")
    ] = 100_000
    token_counter: Annotated[
        Counter,
        means(
            'How turns are measured: in "bytes" (four are a token), as the "provider" counts them, or by bytes '
            '"calibrated" with what the provider counted so far.'
        ),
    ] = "bytes"
    prune_fraction: Annotated[
        Share,
        means(
            "The step, as a share of that budget, in which turns leave: 0.25 lets a quarter leave at once and then "
            "none for long, so that providers' caches go on serving what stays. 0 lets no turn leave that still fits."
        ),
    ] = 0.0
    keep_first_turn: Annotated[
        Switch, means("Whether the first turn since the last /clear stays, whatever leaves behind it.")
    ] = False
    max_history_tokens: Annotated[
        Tokens, means("The most that turns which have ended take, to keep room for the work of the next; 0 for no cap.")
    ] = 0
    max_tool_result_tokens: Annotated[
        Size, means("The most that a model is sent of one tool result; the log keeps more ([tools] max_stored_result).")
    ] = 8000
    tool_result_truncation: Annotated[
        Part, means('What stays of a longer one: its "head", its "tail", or half of each with "both".')
    ] = "head"
    tool_result_keep_first: Annotated[
        Results, means("How many tool results of a turn, counted from its first, are never masked.")
    ] = 2
    tool_result_keep_last: Annotated[
        Results, means("How many of its newest are not masked yet. With both 0 nothing is masked.")
    ] = 5
    condense: Annotated[
        Condensing,
        means(
            'Whether a model writes a summary of the oldest turns before they leave: with "auto" by itself, in the '
            'background; with "manual" it is said when there is reason to. /condense works always.'
        ),
    ] = "off"
    condense_at_percent: Annotated[
        Percent, means("How full the budget, or the model's context if that is smaller, is when that begins.")
    ] = 75
    condense_to_percent: Annotated[
        Percent, means("How full it is to be afterwards. The newest two turns stay as they are, whatever they take.")
    ] = 40
    condense_model: Annotated[ModelName, means('The model that writes summaries; "" is the agent\'s own.')] = ""
    condense_prompt_file: Annotated[
        File, means('What that model is told first, in a file of text; "" is ikigai\'s own prompt.')
    ] = ""
    summarise_on_clear: Annotated[
        Switch, means("Whether what /clear takes out of the context is summarised, to be read by /summary.")
    ] = False


class Database(Discreet, frozen=True):
    """[database]"""

    url: Annotated[
        Dsn,
        means(
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

    model_file: Annotated[File, means('Weights in a GGUF file; "" takes those that `ikigai setup` fetched.')] = ""
    context: Annotated[Size, means("Tokens of context to reserve memory for.")] = 8192


class Server(Discreet, frozen=True):
    """[providers.NAME]: a vendor, or any server that speaks the way one of them does."""

    base_url: Annotated[Url, means('Where it answers; "" is the vendor\'s own address.')] = ""
    api: Annotated[
        Api,
        means(
            'How it is spoken to: by OpenAI\'s "chat" (Chat Completions) or "responses", as "anthropic" or as '
            '"google"; "" goes by its name, or by its address: OpenAI\'s own is responses, any other chat.'
        ),
    ] = ""
    api_key_env: Annotated[
        Variable, means('The variable that holds its key; "" for the usual one of a vendor, else for none.')
    ] = ""
    context: Annotated[Tokens, means("Tokens of context of its models; 0 for what is known by name.")] = 0
    max_output: Annotated[Tokens, means("The longest reply in tokens; 0 for what is known by name.")] = 0
    first_seconds: Annotated[
        Seconds, means("How long the first piece of a reply, or the next while a model thinks, may take; 0 for 300.")
    ] = 0
    idle_seconds: Annotated[Seconds, means("How long any other piece may take; 0 for 90.")] = 0


class Model(Record, frozen=True):
    """[models."provider/name"]: goes before what its provider's table says."""

    context: Annotated[Tokens, means("Tokens of context of this model; 0 for what else is known.")] = 0
    max_output: Annotated[Tokens, means("Its longest reply in tokens; 0 for what else is known.")] = 0
    levels: Annotated[
        Levels, means('The thinking levels it has, ["off"] if it does not think; [] for what else is known.')
    ] = ()
    images: Annotated[Sight, means('Whether it sees images; "auto" for what else is known.')] = "auto"
    input_price: Annotated[Price, means("Dollars for a million tokens that go in; -1 for what else is known.")] = -1.0
    output_price: Annotated[Price, means("Dollars for a million tokens that come out; -1 as above.")] = -1.0
    cached_price: Annotated[Price, means("Dollars for a million tokens read from its cache; -1 as above.")] = -1.0
    written_price: Annotated[Price, means("Dollars for a million tokens written to its cache; -1 as above.")] = -1.0


class Tools(Record, frozen=True):
    """[tools]: what models may do on this machine."""

    enabled: Annotated[Switch, means("Whether models are offered tools at all.")] = True
    approval: Annotated[
        Approval,
        means(
            'What runs without a question: with "ask" reading in the working directory, with "edits" also changing '
            'files there, with "auto" also commands of the allow-list; "read-only" refuses all but reading.'
        ),
    ] = "ask"
    allow: Annotated[
        Rules,
        means(
            'Commands that "auto" runs beside ikigai\'s own list of programs that only look: "npm test" is exactly '
            'these words, "make *" these and operands in the working directory. What they run is trusted as a whole.'
        ),
    ] = ()
    env: Annotated[
        Variables,
        means(
            "Variables of your environment that commands and external tools get besides ikigai's own list (PATH, HOME, "
            'LANG, VIRTUAL_ENV, GOPATH …). "AWS_*" stands for all names that begin so, without what looks like a '
            "secret by its name or its value (an address with a password or a token): that passes only by its exact "
            "name."
        ),
    ] = ()
    redact: Annotated[
        Redact,
        means(
            'Which secrets are replaced by [redacted: NAME] before they are stored or sent to a model: with "own" '
            "ikigai's own keys and database passwords of 12 characters or more, in tool results, output of commands, "
            'replies and imports; with "patterns" also well-known formats of tokens in tool results and output of '
            "commands. What you type is never changed."
        ),
    ] = "patterns"
    sandbox: Annotated[
        Sandbox,
        means(
            'With "bwrap" commands can write to the working directory alone, and see nothing of ikigai\'s own files; '
            "where bubblewrap does not work the program ends."
        ),
    ] = "off"
    sandbox_network: Annotated[Switch, means("Whether commands in the sandbox reach the network.")] = False
    private_hosts: Annotated[
        Hosts, means("Hosts off the public internet that web_fetch may reach; none else are reached.")
    ] = ()
    max_stored_result: Annotated[
        Bytes,
        means(
            "The most that the log keeps of one tool result; of a longer one its beginning and its end, and how many "
            "bytes were left out between them."
        ),
    ] = 16_777_216


class Delegating(Record, frozen=True):
    """[agents]: how many agents of its own a model may have."""

    depth: Annotated[
        Agents,
        means("How deep agents stand that tools make; 0: none are made, 1: they make none themselves."),
    ] = 2
    at_once: Annotated[Agents, means("How many of them are at work at once.")] = 8
    per_tree: Annotated[Agents, means("How many of them one agent and those below it make in all.")] = 50


class Profile(Record, frozen=True):
    """[profiles.NAME]: what it has of its own; its other keys are those of PROFILED."""

    inherits: Annotated[ProfileName, means('The profile that this one changes; "" for none.')] = ""
    level: Annotated[
        Level, means('How much the model thinks; "" leaves that to the model, or to what the profile inherits.')
    ] = ""
    tools_off: Annotated[Sets, means("Sets of tools (`/tools` names them) that models are not offered.")] = ()
