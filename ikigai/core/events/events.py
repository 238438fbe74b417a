"""Events: everything that is stored, and nothing else.

An event is a noun or a past participle. Its class names the row's `kind`, its `content` field (if it has one) the row's
`content`, the other fields the row's `data`. The table for this is in `codec`. `ToolCall` and `ToolResult` are events
and blocks at once.
"""

from enum import StrEnum
from typing import TypeAlias

from ikigai.core.events.messages import (
    Citation,
    Document,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from ikigai.core.events.record import Record

Value: TypeAlias = str | int | float | bool | None
"""The value of a setting. None as the agent's own choice removes the choice."""

Choices: TypeAlias = dict[str, Value]
"""Settings by name (`model`, `level`, `budget`, `system` …); treated as immutable."""

FALLBACK_KEY = "fallback"
"""The name of the setting that counts the models of `RunConfig.fallback` that the open turn has come to."""


class UserMessage(Record, frozen=True):
    """A message of the user; `alone` asks for no reply.

    `planning` ("forget" or "remember") makes its turn the talk that plans a filter; `text` is the criteria then.
    `sender` is the name of the agent that wrote the words, "" for the user. `attended` says that this agent gave the
    work within a turn that the user asked for. `documents` are the texts that the message mentions with an @, as they
    were then. With a `sender` it has a `seal`, as in `SettingsChanged`.
    """

    text: str
    images: tuple[Image, ...] = ()
    planning: str = ""
    alone: bool = False
    sender: str = ""
    attended: bool = False
    documents: tuple[Document, ...] = ()
    seal: str = ""


class TurnsRecalled(Record, frozen=True):
    """Excerpts of turns out of the context that match the user's message before it; the model is sent `text`.

    `ids` are the events that the excerpts are of.
    """

    text: str
    ids: tuple[int, ...] = ()


class AssistantMessage(Record, frozen=True):
    """The words and thoughts of a model in one reply; its tool calls are events of their own, right behind it."""

    blocks: tuple[Text | Thinking, ...] = ()
    stop: StopReason = StopReason.END
    model: str = ""
    interrupted: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def sources(self) -> tuple[Citation, ...]:
        """The pages that the words rely on, each address once."""
        pages: dict[str, Citation] = {}
        for block in self.blocks:
            if isinstance(block, Text):
                for citation in block.citations:
                    pages.setdefault(citation.url, citation)
        return tuple(pages.values())


class ToolStarted(Record, frozen=True):
    """A tool is about to run: from here on its outcome may be unknown."""

    call_id: str


class Totals(Record, frozen=True):
    """The amount of live memory up to a place, since the last clear of the lineage; `bytes` as encoded then."""

    turns: int = 0
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.turns + other.turns, self.messages + other.messages, self.bytes + other.bytes)

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(self.turns - other.turns, self.messages - other.messages, self.bytes - other.bytes)


class Ending(StrEnum):
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


CUT_OFF = "cut off: ikigai was killed here"
"""The reason of a turn that its program did not end, and the next one did."""


class TurnEnded(Record, frozen=True):
    """The end of a turn: the agent is idle again. `reason` says why it failed or was interrupted, or what the reply of
    a completed one lacks. `first` is the id of the turn's first event, `size` its bytes as encoded then.

    `before` totals everything before this turn, `before_previous` everything before the turn preceding it. `tokens` is
    the size of the turn by a counter better than bytes. `counted` says by which counter and for which model
    (`RunConfig.counter_of`).
    """

    ending: Ending
    reason: str = ""
    first: int = 0
    size: int = 0
    before: Totals = Totals()
    before_previous: Totals = Totals()
    tokens: int = 0
    counted: str = ""


class Cleared(Record, frozen=True):
    """Memory starts empty from here. `own` are the agent's own choices, so that replay never looks behind this
    event. `overridden` are the settings of flags and variables that a choice of this run replaced. `seal` is as in
    `SettingsChanged`.
    """

    own: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    overridden: tuple[str, ...] = ()
    seal: str = ""


class Marked(Record, frozen=True):
    label: str


class Rewound(Record, frozen=True):
    """Memory goes back: the events after `to` and before this one are out of it. `label` is the mark's."""

    to: int
    label: str = ""


class ApprovalDecided(Record, frozen=True):
    """The decision about a tool call; `by` is the decider, `reason` the words of the user or the policy."""

    call_id: str
    allowed: bool
    by: str = ""
    reason: str = ""


class FilterPlanned(Record, frozen=True):
    """The result of a planning talk, as the user confirmed it; the filter follows the end of its turn.

    `ranges` are whole turns, first event and turn_end; `ids` are single events. `messages` is the number of messages in
    both, `tokens` their size.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    ids: tuple[int, ...] = ()
    messages: int = 0
    tokens: int = 0


class Filtered(Record, frozen=True):
    """Parts of memory are taken out of it; `mode` is "forget" or "remember" (then these are all the rest).

    `ranges` are whole turns, first event and turn_end; `ids` are single events, closed over pairs. `messages` is the
    number of messages in both. `planning` is the first event of the talk that led to it, 0 for none. That talk ends
    right before this event and leaves memory with it. `before` and `after` are tokens of the request as it stood and
    stands.
    """

    mode: str
    criteria: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    ids: tuple[int, ...] = ()
    planning: int = 0
    messages: int = 0
    before: int = 0
    after: int = 0


class Summarized(Record, frozen=True):
    """Everything at or before the event `upto` leaves memory, and this text stands for it; the newest one stands.

    `covers` are the whole turns that the text was made from, first event and turn_end; `of` are the earlier summaries
    that went into it. It replaces `turns` turns in all: its own, those that earlier summaries replaced, and `unseen`
    ones that no model read. `before` and `after` are tokens of the request as it stood and stands. `cost` is in US
    dollars, None if unknown. `focus` is the user's wish for the summary, `automatic` says that nobody asked for it.

    With `closed`, the id of a clear, it summarizes the part that the clear ended: it is stored for reading, and memory
    stays as it is.
    """

    text: str
    upto: int = 0
    covers: tuple[tuple[int, int], ...] = ()
    of: tuple[int, ...] = ()
    turns: int = 0
    unseen: int = 0
    focus: str = ""
    automatic: bool = False
    model: str = ""
    cost: float | None = None
    before: int = 0
    after: int = 0
    closed: int = 0


class Undone(Record, frozen=True):
    """The clear, rewind, filter, summary, undo or redo `of` this agent is out of force, or its recalled excerpts are
    out of the context; `what` is its kind. An undo of an undo is a redo. `command` is the one that an undo takes back,
    or a redo brings back, without its slash; older programs did not store it.
    """

    of: int
    what: str = ""
    command: str = ""


AGENT_ORIGIN = "agent"
"""The origin of an agent's own choices."""


class SettingsChanged(Record, frozen=True):
    """Settings in force from here on, changed ones only; `origins` is the origin of each.

    The origin "agent" means the agent's own choice (a command): it survives when flags and variables are gone. The
    choice of a profile takes back the agent's own choices of the other settings that the event names. `seal` shows
    which program has chosen this (`core.state.grants`).
    """

    values: Choices
    origins: dict[str, str]
    seal: str = ""


class Forked(Record, frozen=True):
    """A child's first event: its parent's name then, the last event of the parent's lineage that it shares, and the
    parent's id. `seal` shows which program made the fork (`core.state.grants`).
    """

    parent: str
    at: int | None
    parent_id: str = ""
    seal: str = ""


class AgentKilled(Record, frozen=True):
    """The agent is out of use until it is revived. `along` names the ancestor that it was killed with, "" for none.
    `by` is the agent whose model killed it, "" for the user.
    """

    along: str = ""
    by: str = ""


class AgentRevived(Record, frozen=True):
    """A killed agent is in use again."""


class MailSent(Record, frozen=True):
    """A message to the agent of the id `to`, called `name` then; it is sent once it is stored with the sender.

    `ending` says how the turn ended (`Ending`) whose result the text is, if another agent began that turn, "" else.
    With `by_user` the user wrote it. `wants_reply` says that it gives work to an agent below, which owes an answer.
    `attended` says that this work, or the reported one, belongs to a request of the user. `answers` counts the messages
    before it, one after another, that only answered the one before within open turns. `seal` is as in
    `SettingsChanged`.
    """

    to: str
    text: str
    name: str = ""
    ending: str = ""
    by_user: bool = False
    wants_reply: bool = False
    attended: bool = False
    answers: int = 0
    seal: str = ""


class MailTaken(Record, frozen=True):
    """The message in the event `of`, from the agent called `sender`, has arrived; each arrives once.

    `of` is 0 where that event is in another log. `reply_to` is the id of the agent to which the turn owes an answer for
    it, "" for none. `attended` says that it gives work that belongs to a request of the user. `seal` is as in
    `SettingsChanged`.
    """

    of: int = 0
    sender: str = ""
    reply_to: str = ""
    attended: bool = False
    seal: str = ""


class CommandRan(Record, frozen=True):
    """A command of the user that changed nothing in memory, and its output."""

    line: str
    output: str = ""


class MostSpent(Record, frozen=True):
    """The most that a request can have cost, in US dollars (None: no known price) and in tokens."""

    usd: float | None = None
    tokens: int = 0


class PromptPrefix(Record, frozen=True):
    """The beginning of a request as a provider's cache tells it from others.

    `tools`, `system` and `history` are digests: of the tools, of the system prompt, and of what was taken out of memory
    within the window. `base` is the id of the clear or summary that memory begins behind, `start` the id of the
    window's first event, `cut` counts the results that left the open turn or are masked in it. The cache keeps it for
    `ttl` seconds at least after it was used.
    """

    tools: str = ""
    system: str = ""
    level: str = ""
    base: int = 0
    start: int = 0
    cut: int = 0
    history: str = ""
    ttl: int = 0


class CacheMiss(Record, frozen=True):
    """The cause why a cache served `tokens` less than it could have (`cache_diagnosis.MissCause`)."""

    cause: str
    tokens: int


class UsageReported(Record, frozen=True):
    """The usage of one request: one row for each that was sent, also for those that failed and were tried again.

    Tokens are the provider's own count; `seconds` end with the reply. `attempt` counts from 1. `failure` is the reason
    of a failure, "" for success. `cost` is in US dollars by the prices, or by the provider, named in `priced_by`, None
    where there is no price. `purpose` is "" for a turn, else the purpose of a side call ("summary", "matching", "title"
    …). `size` is the size of the request in bytes as measured then (`memory.plain_size`), and `out` the number of turns
    left out of it; both are 0 for side calls. With `is_minimum` the request can have cost more than `cost`: its reply
    was cut off before the provider had counted it. `most` is what caps count for it, where `cost` is not certain.
    `prefix` is what the cache of the next request depends on, `miss` why this one read less than it could have.
    """

    model: str
    usage: Usage = Usage()
    seconds: float = 0.0
    first_token_seconds: float | None = None
    request_id: str = ""
    attempt: int = 1
    failure: str = ""
    cost: float | None = None
    priced_by: str = ""
    purpose: str = ""
    size: int = 0
    out: int = 0
    is_minimum: bool = False
    most: MostSpent | None = None
    prefix: PromptPrefix | None = None
    miss: CacheMiss | None = None


class Unknown(Record, frozen=True):
    """A kind this program does not know: kept, shown as plain text, not sent, never fatal."""

    kind: str
    text: str = ""


Event: TypeAlias = (
    UserMessage
    | TurnsRecalled
    | AssistantMessage
    | ToolCall
    | ToolResult
    | ToolStarted
    | TurnEnded
    | Cleared
    | Marked
    | Rewound
    | ApprovalDecided
    | FilterPlanned
    | Filtered
    | Summarized
    | Undone
    | SettingsChanged
    | Forked
    | AgentKilled
    | AgentRevived
    | MailSent
    | MailTaken
    | CommandRan
    | UsageReported
    | Unknown
)

CHANGES_THE_PAST: tuple[type, ...] = (Rewound, Filtered, Summarized, Undone, SettingsChanged)
"""Events after which memory is loaded again: turns may leave it, or come back into reach of it."""


class StoredEvent(Record, frozen=True):
    """An event as the log holds it. `id` ascends along a lineage, `seq` counts 1, 2, 3 … within the agent.

    `at` is the time of storing, in seconds since 1970, by the database's clock.
    """

    id: int
    agent: str
    seq: int
    at: float
    event: Event
