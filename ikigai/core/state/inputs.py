"""Inputs of an agent, from which `decisions` makes events, and the jobs of an agent."""

from typing import TYPE_CHECKING, TypeAlias, TypeGuard, get_args

from ikigai.core.events.events import (
    ApprovalDecided,
    Choices,
    FilterPlanned,
    MailSent,
    MailTaken,
    Summarized,
    TurnsRecalled,
    UsageReported,
)
from ikigai.core.events.messages import Document, Image, ReplyBlock, StopReason, ToolCall, ToolResult, ToolSpec
from ikigai.core.events.record import Record

if TYPE_CHECKING:
    from ikigai.core.agents.mail import Mail
    from ikigai.core.request.reply_draft import Draft
    from ikigai.core.state.memory import MemoryStart


class EventRange(Record, frozen=True):
    """The events from `first` to `last`, both included; or, with `newest_turns`, as many of the newest turns."""

    first: int = 0
    last: int = 0
    newest_turns: int = 0


class CallModel(Record, frozen=True):
    """Ask the model; `asked_by` is the id of the newest event that it has not answered."""

    asked_by: int


class StartTool(Record, frozen=True):
    """Check if the call may run; `asked_by` is the id of its tool_call."""

    asked_by: int
    call: ToolCall


class RunTool(Record, frozen=True):
    """Run the call. Its start is stored already."""

    asked_by: int
    call: ToolCall


class CloseNote(Record, frozen=True):
    """End the turn that asks for no reply; `asked_by` is the id of its message."""

    asked_by: int


Job: TypeAlias = CallModel | StartTool | RunTool | CloseNote
"""Work that should be under way. Equal jobs are one job: it is neither started twice nor cancelled."""


class Opened(Record, frozen=True):
    """The process acquired the write lock of this agent; `draft` is the part of a reply that a killed process left."""

    draft: "Draft | None" = None


class Submitted(Record, frozen=True):
    """A message; `sender` is the name of the agent that sent it, "" for the user; `attended` as in `UserMessage`.

    The loop fills in the turns `recalled` for it, if that is switched on.
    """

    text: str
    images: tuple[Image, ...] = ()
    sender: str = ""
    attended: bool = False
    documents: tuple[Document, ...] = ()
    recalled: TurnsRecalled | None = None


class Steered(Record, frozen=True):
    """A message for the turn under way: it follows the results that the turn waits for."""

    text: str
    images: tuple[Image, ...] = ()
    documents: tuple[Document, ...] = ()


class MailDelivered(Record, frozen=True):
    """Messages of other agents came to an idle agent: together they begin a turn. One by the user comes alone."""

    mails: "tuple[Mail, ...]"


class MailArrived(Record, frozen=True):
    """There may be mail: the loop checks when the turn has ended."""


class Send(Record, frozen=True):
    """The user sends a message to another agent, whatever this one is doing."""

    mail: MailSent


class Interrupted(Record, frozen=True):
    """The user stopped the turn; `blocks` is the reply so far, `usage` the usage of the request."""

    blocks: tuple[ReplyBlock, ...] = ()
    usage: UsageReported | None = None


class Replied(Record, frozen=True):
    """The reply is complete; `counted` is the provider's count of the turn in tokens, 0 if it was not asked."""

    job: CallModel
    blocks: tuple[ReplyBlock, ...]
    stop: StopReason
    usage: UsageReported
    counted: int = 0


class Failed(Record, frozen=True):
    """No complete reply comes; `usage` is None if nothing was sent.

    `outage` says that the model is down, and nothing of a reply came: another one may answer. "" otherwise.
    """

    job: CallModel
    reason: str
    blocks: tuple[ReplyBlock, ...]
    usage: UsageReported | None = None
    outage: str = ""


class ContextOverflowed(Record, frozen=True):
    """The provider refused the request as larger than the model's context; no part of a reply came."""

    job: CallModel
    reason: str
    usage: UsageReported | None = None


class ToolsRefused(Record, frozen=True):
    """The provider refused the tools of the request, `reason` in its words; no part of a reply came."""

    job: CallModel
    reason: str
    usage: UsageReported | None = None


class UsageRecorded(Record, frozen=True):
    """A request without a reply was sent: an attempt that failed and is repeated, or a one-shot call."""

    usage: UsageReported


class Approved(Record, frozen=True):
    """The call may run, as `decision` says; None if no decision was needed."""

    job: StartTool
    decision: ApprovalDecided | None = None


class Denied(Record, frozen=True):
    """The call does not run; `result` tells the model why."""

    job: StartTool
    result: ToolResult
    decision: ApprovalDecided | None = None


AdditionalEvent: TypeAlias = FilterPlanned | MailSent | MailTaken
"""Events that a call can produce besides its result."""


class ToolDone(Record, frozen=True):
    """The call has run; `events` are further events that it produced, stored with its result."""

    job: RunTool
    result: ToolResult
    events: tuple[AdditionalEvent, ...] = ()


class NoteClosed(Record, frozen=True):
    """The turn that asks for no reply can end."""

    job: CloseNote


class Clear(Record, frozen=True):
    """Begin memory anew: all events before it leave."""


class SetMark(Record, frozen=True):
    """Set a mark; an empty label means the next number."""

    label: str = ""


class RewindTo(Record, frozen=True):
    """Go back to the newest mark with this label; an empty label means any."""

    label: str = ""


class RewindAt(Record, frozen=True):
    """Go back to the end of a turn, the event `to`. The loop has checked that it is in memory."""

    to: int


class Forget(Record, frozen=True):
    """Forget the events with these ids. A front end looks them up, asks the user, and makes a Filter of it."""

    selected: tuple[EventRange, ...]
    criteria: str = ""


class Filter(Record, frozen=True):
    """Forget these turns and events, which the user confirmed. They were found while memory began like `start`."""

    ranges: tuple[tuple[int, int], ...]
    ids: tuple[int, ...]
    messages: int
    criteria: str = ""
    start: "MemoryStart | None" = None

    @property
    def last(self) -> int:
        """The id of the last event that is forgotten."""
        return max((*(last for _, last in self.ranges), *self.ids), default=0)


class Plan(Record, frozen=True):
    """Plan with the model what to "forget" or to "remember" (`mode`), by criteria in words."""

    mode: str
    criteria: str


class Condense(Record, frozen=True):
    """Summarize the oldest turns, with `focus` in mind. The loop chooses them and has the summary made."""

    focus: str = ""


class Condensed(Record, frozen=True):
    """A summary was made while memory began like `start`; None for the summary of a cleared epoch."""

    summary: Summarized
    start: "MemoryStart | None" = None


class Quote(Record, frozen=True):
    """Add a text to the conversation without asking for a reply.

    With `is_command_output` it reports a shell command of the user: it is stored however the turn under way ends. `id`
    is the `event_id` that it is stored under, if it is saved outside of the log until then.
    """

    text: str
    is_command_output: bool = False
    id: str = ""


class CommandFinished(Record, frozen=True):
    """A command finished that changed nothing in memory."""

    line: str
    output: str = ""


class Undo(Record, frozen=True):
    """Undo the newest clear, rewind, filter or summary; or the event `id`, which may itself be an undo."""

    id: int = 0


class Redo(Record, frozen=True):
    """Undo the newest undo, but for those that took back an undo themselves."""


class Retry(Record, frozen=True):
    """Go back to before the newest turn and send its message again; `recalled` as in `Submitted`."""

    recalled: TurnsRecalled | None = None


class Edit(Record, frozen=True):
    """Go back to before the turn that holds the event `id`, the newest for 0; the loop returns its message to the input
    line.
    """

    id: int = 0


class Change(Record, frozen=True):
    """Change the agent's own choices of settings; None takes a choice back."""

    values: Choices


class InstructionsChanged(Record, frozen=True):
    """The project's instructions changed to `value`, "" for none. The run has these from here on."""

    value: str


class DefaultSystemChanged(Record, frozen=True):
    """The default system prompt of the turn that begins is `value`; "" for none."""

    value: str


class McpToolsChanged(Record, frozen=True):
    """The tools of MCP servers that the turn which begins is offered are `value`, a `core.tools.mcp_tools.McpOffer` as
    text.
    """

    value: str


class SkillsChanged(Record, frozen=True):
    """The list of skills that the turn which begins is offered is `value` (`core.tools.skill_offer`)."""

    value: str


class Offered(Record, frozen=True):
    """The tools of the run changed; the loop loads memory anew under them."""

    tools: tuple[ToolSpec, ...]


Command: TypeAlias = (
    Clear
    | SetMark
    | RewindTo
    | RewindAt
    | Forget
    | Filter
    | Plan
    | Condense
    | Quote
    | Undo
    | Redo
    | Retry
    | Edit
    | Change
)

Outcome: TypeAlias = (
    MailDelivered
    | MailArrived
    | Offered
    | Send
    | Interrupted
    | CommandFinished
    | Replied
    | Failed
    | ContextOverflowed
    | ToolsRefused
    | UsageRecorded
    | Approved
    | Denied
    | ToolDone
    | NoteClosed
)

Input: TypeAlias = (
    Opened
    | Submitted
    | Steered
    | InstructionsChanged
    | DefaultSystemChanged
    | McpToolsChanged
    | SkillsChanged
    | Condensed
    | Outcome
    | Command
)

NEEDS_IDLE = (
    Submitted,
    MailDelivered,
    InstructionsChanged,
    DefaultSystemChanged,
    McpToolsChanged,
    SkillsChanged,
    Condensed,
    *get_args(Command),
)


def is_command(incoming: Input) -> TypeGuard[Command]:
    return isinstance(incoming, get_args(Command))


def acts_at_once(incoming: Input) -> TypeGuard[Change]:
    """Return True for a command that also holds for an open turn: a change of the approval mode."""
    return isinstance(incoming, Change) and incoming.values.keys() == {"approval"}
