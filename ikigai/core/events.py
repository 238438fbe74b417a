"""Facts: everything that is stored, and nothing that is not.

A fact is a noun or a past participle. Its class names the row's `kind`, its `content` field (if it has one) the row's
`content`, the other fields the row's `data`; the table that says so is in `codec`. `ToolCall` and `ToolResult` are
facts and blocks at once.
"""

from enum import StrEnum
from typing import TypeAlias

from ikigai.core.messages import Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.record import Record

Value: TypeAlias = str | int | float | bool | None
"""What a setting can be. None as the agent's own choice takes the choice back."""

Choices: TypeAlias = dict[str, Value]
"""Settings by name (`model`, `level`, `budget`, `system` …); treated as immutable."""


class UserMessage(Record, frozen=True):
    """What the user said; `alone` asks for no reply.

    `planning` ("forget" or "remember") makes its turn the talk that plans a filter; `text` is the criteria then.
    `sender` is the name of the agent whose words these are, "" where they are the user's own; `attended` says that they
    are work which it gave within a turn that the user asked for.
    """

    text: str
    images: tuple[Image, ...] = ()
    planning: str = ""
    alone: bool = False
    sender: str = ""
    attended: bool = False


class AssistantMessage(Record, frozen=True):
    """What a model said and thought in one reply; its tool calls are facts of their own, right behind it."""

    blocks: tuple[Text | Thinking, ...] = ()
    stop: StopReason = StopReason.END
    model: str = ""
    interrupted: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))


class ToolStarted(Record, frozen=True):
    """A tool is about to run: from here on its outcome may be unknown."""

    call_id: str


class Totals(Record, frozen=True):
    """How much live memory there is up to a place, since the last clear of the lineage; `bytes` as encoded then."""

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


class TurnEnded(Record, frozen=True):
    """The agent is idle again. `first` is the id of the turn's first event, `size` its bytes as encoded then.

    `before` totals what lies before this turn, `before_previous` what lies before the turn preceding it. `tokens` is
    what a counter better than bytes said of the turn, and `counted` which one and for which model (`Run.counted`).
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
    """Memory starts empty from here; `own` are the agent's own choices, so that replay never looks behind it."""

    own: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)


class Marked(Record, frozen=True):
    label: str


class Rewound(Record, frozen=True):
    """Memory goes back: what lies after the event `to` and before this one is out of it. `label` is the mark's."""

    to: int
    label: str = ""


class ApprovalDecided(Record, frozen=True):
    """Whether a tool call may run; `by` says who or what decided, `reason` what the user or the policy said."""

    call_id: str
    allowed: bool
    by: str = ""
    reason: str = ""


class FilterPlanned(Record, frozen=True):
    """What a planning talk came to, as the user confirmed it; the filter follows the end of its turn.

    `ranges` are whole turns, first event and turn_end; `ids` single events; `messages` is how many both come to,
    `tokens` what they take.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    ids: tuple[int, ...] = ()
    messages: int = 0
    tokens: int = 0


class Filtered(Record, frozen=True):
    """Parts of memory are taken out of it; `mode` is "forget" or "remember" (then what is named is all the rest).

    `ranges` are whole turns, first event and turn_end; `ids` single events, closed over pairs; `messages` is how many
    both come to. `planning` is the first event of the talk that led to it, which ends right before this event and
    leaves memory with it; 0 for none. `before` and `after` are tokens of the request as it stood and stands.
    """

    mode: str
    criteria: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    ids: tuple[int, ...] = ()
    planning: int = 0
    messages: int = 0
    before: int = 0
    after: int = 0


class Summarised(Record, frozen=True):
    """What lies at or before the event `upto` leaves memory, and this text stands for it; the newest one stands.

    `covers` are the whole turns that the text was made from, first event and turn_end, `of` the earlier summaries that
    went into it. It stands for `turns` turns in all: those, what the earlier ones stood for, and `unseen` that nobody
    looked at. `before` and `after` are tokens of the request as it stood and stands, `cost` is in US dollars, None
    where it is not known; `focus` is what the user wanted kept in mind, `automatic` says that nobody asked for it.

    With `closed`, the id of a clear, it tells what that clear ended: it is kept to be read, and memory stays as it is.
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
    """The clear, rewind, filter, summary or undo `of` this agent is out of force; `what` is its kind."""

    of: int
    what: str = ""


class SettingsChanged(Record, frozen=True):
    """Settings in force from here on, changed ones only; `origins` says of each who wanted it.

    The origin "agent" means the agent's own choice (a command): it survives when flags and variables are gone.
    """

    values: Choices
    origins: dict[str, str]


class Forked(Record, frozen=True):
    """A child's first event: its parent's name then, and the last event of the parent's lineage that it shares."""

    parent: str
    at: int | None


class AgentKilled(Record, frozen=True):
    """The agent is out of use until it is revived. `along` names the ancestor it died with, "" for none; `by` the agent
    whose model wanted it, "" for the user.
    """

    along: str = ""
    by: str = ""


class AgentRevived(Record, frozen=True):
    """A killed agent is in use again."""


class MailSent(Record, frozen=True):
    """A message to the agent of the id `to`, which was called `name` then: stored with the sender, it exists.

    `ending` says that the text is what came of a turn that another agent began, and how that ended (`Ending`), "" else.
    With `by_user` the user wrote it. `wants_reply` says that it gives work to an agent below, which owes an answer;
    `attended` that this work, or what this tells the end of, belongs to what the user asked for.
    """

    to: str
    text: str
    name: str = ""
    ending: str = ""
    by_user: bool = False
    wants_reply: bool = False
    attended: bool = False


class MailTaken(Record, frozen=True):
    """The message in the event `of`, from the agent called `sender`, has come: no other event says so of the same.

    `of` is 0 where that is told of another log. `reply_to` is the id of the agent to which the turn owes an answer for
    it, "" for none; `attended` says that it gives work that belongs to what the user asked for.
    """

    of: int = 0
    sender: str = ""
    reply_to: str = ""
    attended: bool = False


class CommandRan(Record, frozen=True):
    """A command the user gave that changed nothing in memory, and what it answered."""

    line: str
    output: str = ""


class UsageReported(Record, frozen=True):
    """What one request took: one row for each that was sent, also those that failed and were tried again.

    Tokens are the provider's own count; `seconds` end with the reply. `attempt` counts from 1, `failure` says how it
    ended ("" is well). `cost` is in US dollars by the prices named in `priced_by`, None where there is no price.
    `purpose` is what it was for: "" a turn, else a side call ("summary", "matching", "title" …). `size` is what was
    sent, in bytes as measured then (`memory.plain_size`), and `out` how many turns were left out of it; both 0 for side
    calls.
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


class Unknown(Record, frozen=True):
    """A kind this program does not know: kept, shown as plain text, not sent, never fatal."""

    kind: str
    text: str = ""


Event: TypeAlias = (
    UserMessage
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
    | Summarised
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

CHANGES_THE_PAST: tuple[type, ...] = (Rewound, Filtered, Summarised, Undone, SettingsChanged)
"""Facts after which memory is loaded again: turns may leave it, or come back into reach of it."""


class StoredEvent(Record, frozen=True):
    """A fact as the log holds it. `id` ascends along a lineage, `seq` counts 1, 2, 3 … within the agent.

    `at` is when it was stored, in seconds since 1970, by the database's clock.
    """

    id: int
    agent: str
    seq: int
    at: float
    event: Event
