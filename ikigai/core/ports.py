"""Protocols that the agent loop needs, implemented by packages that do not know one another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.reply import Delta, RetryScheduled
from ikigai.core.request.reply_draft import Draft
from ikigai.core.views.questions import Question, QuestionAnswer

if TYPE_CHECKING:
    from ikigai.core.events.events import ApprovalDecided, Choices, Event, MailSent, MailTaken, StoredEvent
    from ikigai.core.state.inputs import Quote
    from ikigai.core.state.loading import Loading, Reading
    from ikigai.core.state.memory import Memory
    from ikigai.core.views.context_rule import ContextRule
    from ikigai.core.views.live_state import LiveState
    from ikigai.core.views.transcript import TranscriptBlock

_T = TypeVar("_T")


class StartDecision(Record, frozen=True):
    """The decision about a call: `refusal` is told to the model instead of running it, `decision` is the event of the
    approval.
    """

    refusal: str = ""
    decision: "ApprovalDecided | None" = None


Ask: TypeAlias = Callable[[Question], Awaitable[QuestionAnswer]]
"""A function that asks the user; where no user can be asked, it answers with the default."""


class Tools(Protocol):
    """The tools of a model."""

    async def start(self, call: ToolCall, turn: int, settings: "LiveSettings", ask: Ask) -> StartDecision:
        """Decide about the call, once those before it in the turn `turn` let it. Ask the user where needed."""
        ...

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolResult:
        """Run one call to its end; `progress` takes its output as it comes. Never raise but for cancellation, which
        ends the tool.
        """
        ...

    def extra_events(self, call_id: str) -> "tuple[MailSent | MailTaken, ...]":
        """Return the events of the finished call besides its result: they are to be stored with it."""
        ...


class Appended(Record, frozen=True):
    """The rows as the database returned them and, if it was asked for, the memory loaded behind them."""

    rows: "tuple[StoredEvent, ...]"
    memory: "Memory | None" = None


class Log(Protocol):
    """The log of one agent, with the write lock: no other process appends to it while this is open."""

    async def append(
        self,
        events: "Sequence[Event]",
        reload: "Loading | None" = None,
        ids: Sequence[str] = (),
    ) -> Appended:
        """Store the events in one transaction, under these ids where they have some. With `reload`, load memory anew in
        it.

        Raise Unavailable when the database cannot be reached or is full: then nothing is stored, or everything is and a
        second call with the very same tuple returns the stored rows. Raise AgentLocked when the write lock was lost.
        """
        ...

    async def load(self, asking: "Reading[_T]") -> "_T":
        """Answer the questions that loading, or another reading, asks of the log."""
        ...

    async def save_draft(self, draft: Draft) -> None:
        """Save the draft of a streaming reply; the append that stores the reply or ends the turn deletes it."""
        ...

    async def draft(self) -> Draft | None: ...


class CommandOutputStore(Protocol):
    """Output of the user's commands that the log does not have, stored where it outlives the program."""

    def save(self, quote: "Quote") -> "Quote":
        """Store the quote, and return it with its id. Where it cannot be stored, tell the user and return it without an
        id.
        """
        ...

    async def pending(self) -> "list[Quote]":
        """Return the quotes of earlier runs that the log does not have, in their order. Raise Unavailable."""
        ...

    def delete(self, quote: "Quote") -> None:
        """Delete the quote: the log has it."""
        ...


class LiveSettings(Protocol):
    """The settings of an agent, which may change while a call waits for its approval."""

    @property
    def values(self) -> "Choices": ...

    def changed(self) -> Awaitable[object]:
        """Return what waits for the next change from now on."""
        ...


class View(Protocol):
    """An observer of an agent: the terminal, print mode, a test. Nothing here waits."""

    def show(self, block: "TranscriptBlock") -> None:
        """Show a stored event, as people read it."""
        ...

    def rule(self, rule: "ContextRule") -> None:
        """Move the context rule: the context begins elsewhere now."""
        ...

    def show_delta(self, asked_by: int, event: Delta | RetryScheduled) -> None:
        """Show more of the reply to the event `asked_by`."""
        ...

    def progress(self, call_id: str, text: str) -> None:
        """Show more output of a running tool."""
        ...

    def draft_saved(self, asked_by: int, characters: int) -> None:
        """Take note that the first `characters` of that reply's words are in the database: finished blocks of them may
        stay.
        """
        ...

    def stored(self, event: "StoredEvent") -> None:
        """Take note of an event as it is in the log, before it is shown."""
        ...

    def changed(self, memory: "Memory") -> None:
        """Take over this memory: status line, running calls."""
        ...

    def notice(self, text: str) -> None:
        """Show a sentence for the user that is not an event: a refusal, a warning, the state of the database."""
        ...

    def note(self, text: str) -> None:
        """Show a sentence for the user that is neither event nor warning."""
        ...

    def database_unreachable(self, is_unreachable: bool) -> None:
        """Take note that the database cannot be reached or takes nothing, or that it is back."""
        ...

    async def ask(self, question: Question) -> QuestionAnswer:
        """Ask the user, and wait for the answer; cancellation takes the question back."""
        ...

    def restore_input(self, text: str) -> None:
        """Put a message that was not taken into the input line again; empty for a command, which does not go there."""
        ...

    def queued(self, texts: tuple[str, ...]) -> None:
        """Take over the messages that wait for the end of the turn."""
        ...


class AttachedView(View, Protocol):
    """A View that draws the live state of an agent which another view writes. Its calls come when that has changed."""

    def attach(self, live: "LiveState") -> None:
        """Draw this state from now on; nothing of it is drawn yet, but perhaps the beginning of its reply."""
        ...
