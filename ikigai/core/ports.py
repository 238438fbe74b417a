"""What the loop needs of the world: the protocols that the edges fulfil without knowing one another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.questions import Answered, Question
from ikigai.core.record import Record
from ikigai.core.request.reply import Delta, Waiting
from ikigai.core.request.reply_draft import Draft

if TYPE_CHECKING:
    from ikigai.core.events import ApprovalDecided, Choices, Event, MailSent, MailTaken, StoredEvent
    from ikigai.core.state.loading import Loading, Reading
    from ikigai.core.state.memory import Memory
    from ikigai.core.views.transcript import Block, Rule

_T = TypeVar("_T")


class Started(Record, frozen=True):
    """Whether a call may run: `refused` is what the model is told when not, `decision` the fact of the approval."""

    refused: str = ""
    decision: "ApprovalDecided | None" = None


Ask: TypeAlias = Callable[[Question], Awaitable[Answered]]
"""Asks the user; whoever cannot be asked has answered with the default."""


class Tools(Protocol):
    """What a model may do."""

    async def start(self, call: ToolCall, turn: int, settings: "Choices", ask: Ask) -> Started:
        """Whether the call may run, once those before it in the turn `turn` let it. Asks the user where it must."""
        ...

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolResult:
        """Run one call to its end; `progress` takes its output as it comes. Never raises but for cancellation, which
        ends the tool.
        """
        ...

    def also(self, call_id: str) -> "tuple[MailSent | MailTaken, ...]":
        """The facts that the call, which is done, came to besides its result: to be stored with it."""
        ...


class Appended(Record, frozen=True):
    """The rows as the database returned them and, if it was asked for, the memory loaded behind them."""

    rows: "tuple[StoredEvent, ...]"
    memory: "Memory | None" = None


class Log(Protocol):
    """The log of one agent, with the pen: nobody else appends to it while this is held."""

    async def append(self, facts: "Sequence[Event]", reload: "Loading | None" = None) -> Appended:
        """Store the facts in one transaction and, in the same, load memory anew by `reload`.

        Raises Unavailable when the database cannot be reached or is full: then nothing is stored, or everything is and
        a second call with the very same tuple returns what was stored. Raises Busy when the pen was lost.
        """
        ...

    async def load(self, asking: "Reading[_T]") -> "_T":
        """Answer the questions that loading, or another reading, asks of the log."""
        ...

    async def save_draft(self, draft: Draft) -> None:
        """Keep what a streaming reply has said so far; gone with the append that stores the reply or ends the turn."""
        ...

    async def draft(self) -> Draft | None: ...


class View(Protocol):
    """Somebody who watches: the terminal, print mode, a test. Nothing here waits."""

    def show(self, block: "Block") -> None:
        """A stored event, as people read it."""
        ...

    def rule(self, rule: "Rule") -> None:
        """The context begins elsewhere now."""
        ...

    def live(self, asked_by: int, event: Delta | Waiting) -> None:
        """More of the reply to the event `asked_by`."""
        ...

    def progress(self, call_id: str, text: str) -> None:
        """More of what a running tool writes."""
        ...

    def saved(self, asked_by: int, characters: int) -> None:
        """The first `characters` of that reply's words are in the database: finished blocks of them may stay."""
        ...

    def stored(self, event: "StoredEvent") -> None:
        """An event as it is in the log, before it is shown."""
        ...

    def changed(self, memory: "Memory") -> None:
        """Memory is this now: status line, what is running."""
        ...

    def notice(self, text: str) -> None:
        """A sentence for the user that is no event: a refusal, a warning, the state of the database."""
        ...

    def away(self, is_away: bool) -> None:
        """The database cannot be reached, or takes nothing; or it is back."""
        ...

    async def ask(self, question: Question) -> Answered:
        """Ask the user, and wait for the answer; cancellation takes the question back."""
        ...

    def returned(self, text: str) -> None:
        """What the user sent was not taken: it belongs in the input line again; empty for a command, which does not."""
        ...

    def queued(self, texts: tuple[str, ...]) -> None:
        """The messages waiting for the turn to end are these now."""
        ...
