"""What can happen to an agent, and what can be under way for it: the nouns of `machine`."""

from typing import TypeAlias, TypeGuard, get_args

from ikigai.core.agents.mail import Mail
from ikigai.core.events import ApprovalDecided, Choices, FilterPlanned, MailSent, MailTaken, Summarised, UsageReported
from ikigai.core.messages import Image, ReplyBlock, StopReason, ToolCall, ToolResult
from ikigai.core.record import Record
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.memory import Beginning


class Wanted(Record, frozen=True):
    """The events from `first` to `last`, both included; or, with `back`, that many of the newest turns."""

    first: int = 0
    last: int = 0
    back: int = 0


class CallModel(Record, frozen=True):
    """Ask the model; `asked_by` is the id of the newest event it has not answered."""

    asked_by: int


class StartTool(Record, frozen=True):
    """See whether the call may run; `asked_by` is the id of its tool_call."""

    asked_by: int
    call: ToolCall


class RunTool(Record, frozen=True):
    """Run the call, whose start is stored."""

    asked_by: int
    call: ToolCall


class Note(Record, frozen=True):
    """End the turn that asks for no reply; `asked_by` is the id of its message."""

    asked_by: int


Job: TypeAlias = CallModel | StartTool | RunTool | Note
"""What should be under way. Equal jobs are the same job: it is neither started twice nor cancelled."""


class Opened(Record, frozen=True):
    """The program has taken the pen of this agent; `draft` is what a dead one left of a streaming reply."""

    draft: Draft | None = None


class Submitted(Record, frozen=True):
    """A message; `sender` is the name of the agent that wants it, "" for the user; `attended` as in `UserMessage`."""

    text: str
    images: tuple[Image, ...] = ()
    sender: str = ""
    attended: bool = False


class Steered(Record, frozen=True):
    """A message that is meant for the turn under way: it goes in behind the results that turn waits for."""

    text: str
    images: tuple[Image, ...] = ()


class Mailed(Record, frozen=True):
    """Messages of other agents have come to an agent that does nothing: together they begin a turn. One of the user's
    comes alone.
    """

    mails: tuple[Mail, ...]


class Heard(Record, frozen=True):
    """There may be mail: the loop looks when the turn has ended."""


class Send(Record, frozen=True):
    """The user sends a message to another agent, beside whatever this one does."""

    mail: MailSent


class Interrupted(Record, frozen=True):
    """The user stopped the turn; `said` is what the reply had come to, `usage` what the request took."""

    said: tuple[ReplyBlock, ...] = ()
    usage: UsageReported | None = None


class Replied(Record, frozen=True):
    """The reply is whole; `counted` is the provider's count of the turn in tokens, where it was asked for one."""

    to: CallModel
    blocks: tuple[ReplyBlock, ...]
    stop: StopReason
    usage: UsageReported
    counted: int = 0


class Failed(Record, frozen=True):
    """No whole reply comes; `usage` is None when nothing was sent."""

    to: CallModel
    reason: str
    blocks: tuple[ReplyBlock, ...]
    usage: UsageReported | None = None


class Exceeded(Record, frozen=True):
    """The provider says that the request is larger than the model's context; nothing was said yet."""

    to: CallModel
    reason: str
    usage: UsageReported | None = None


class Used(Record, frozen=True):
    """A request was sent that no reply comes of: an attempt that failed and is made again, or a side call."""

    usage: UsageReported


class Approved(Record, frozen=True):
    """The call may run, as `decision` says; None where nobody had to decide."""

    to: StartTool
    decision: ApprovalDecided | None = None


class Denied(Record, frozen=True):
    """The call does not run; `result` tells the model why."""

    to: StartTool
    result: ToolResult
    decision: ApprovalDecided | None = None


Also: TypeAlias = FilterPlanned | MailSent | MailTaken
"""What a call can come to besides its result."""


class ToolDone(Record, frozen=True):
    """`also` are facts that the call came to, stored with its result."""

    of: RunTool
    result: ToolResult
    also: tuple[Also, ...] = ()


class Noted(Record, frozen=True):
    to: Note


class Clear(Record, frozen=True):
    pass


class SetMark(Record, frozen=True):
    """An empty label asks for a number."""

    label: str = ""


class RewindTo(Record, frozen=True):
    """Back to the newest mark (with that label); an empty label means any."""

    label: str = ""


class RewindAt(Record, frozen=True):
    """Back to the end of a turn, the event `to`: somebody has looked that it is in memory."""

    to: int


class Forget(Record, frozen=True):
    """Forget what is named by ids; the loop looks what that is and asks, and makes a Filter of it."""

    wanted: tuple[Wanted, ...]
    criteria: str = ""


class Filter(Record, frozen=True):
    """Forget these turns and events, as somebody has found them in memory and the user has confirmed."""

    ranges: tuple[tuple[int, int], ...]
    ids: tuple[int, ...]
    messages: int
    criteria: str = ""


class Plan(Record, frozen=True):
    """Talk with the model about what to "forget" or to "remember", by criteria in words."""

    mode: str
    criteria: str


class Condense(Record, frozen=True):
    """Have the oldest turns summarised, with `focus` in mind; the loop looks what is to be, and has it made."""

    focus: str = ""


class Condensed(Record, frozen=True):
    """A summary was made, while memory began like this; None for that of a cleared epoch."""

    summary: Summarised
    begins: Beginning | None = None


class Quote(Record, frozen=True):
    """Bring a text into the conversation, without asking for a reply.

    With `ran` it tells what a command of the user's has done: it is stored however the turn under way ends.
    """

    text: str
    ran: bool = False


class Ran(Record, frozen=True):
    """A command that changed nothing in memory was answered."""

    line: str
    output: str = ""


class Undo(Record, frozen=True):
    """Take back the newest clear, rewind, filter or summary; or the event `id`, which may be an undo, too."""

    id: int = 0


class Retry(Record, frozen=True):
    """Go back to before the newest turn and send its message again."""


class Edit(Record, frozen=True):
    """Go back to before the newest turn; the loop gives its message back to the input line."""


class Change(Record, frozen=True):
    """The agent's own choice of settings; None takes a choice back."""

    values: Choices


class Instructed(Record, frozen=True):
    """The project's instructions are these now (`core/instructions.py`), "" for none: the run has them from here on."""

    value: str


Command: TypeAlias = (
    Clear | SetMark | RewindTo | RewindAt | Forget | Filter | Plan | Condense | Quote | Undo | Retry | Edit | Change
)


Happened: TypeAlias = (
    Mailed
    | Heard
    | Send
    | Interrupted
    | Ran
    | Replied
    | Failed
    | Exceeded
    | Used
    | Approved
    | Denied
    | ToolDone
    | Noted
)


Input: TypeAlias = Opened | Submitted | Steered | Instructed | Condensed | Happened | Command


NEEDS_IDLE = (Submitted, Mailed, Instructed, Condensed, *get_args(Command))


def is_command(happened: Input) -> TypeGuard[Command]:
    return isinstance(happened, get_args(Command))
