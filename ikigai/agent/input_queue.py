"""What was sent to one agent and waits: for the open turn, for its end, or for the database; shown, and given back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeGuard

from ikigai.core.commands.parsers import typed
from ikigai.core.events import Event, UserMessage
from ikigai.core.ports import View
from ikigai.core.state.inputs import Condensed, Input, Quote, Steered, Submitted, is_command


class Pending:
    """`queue` waits for the turn to end (it is of NEEDS_IDLE), `steering` for the next results of the open one.

    `sent` are the words sent while the database was away. `unsaved` gives the facts that are not stored yet.
    """

    def __init__(self, view: View, unsaved: Callable[[], tuple[Event, ...]]) -> None:
        self.queue: deque[Input] = deque()
        self.steering: deque[Steered] = deque()
        self.sent: list[str] = []
        self._view, self._unsaved = view, unsaved

    def tell(self) -> None:
        """Show what waits, oldest first."""
        unsaved = [fact.text for fact in self._unsaved() if isinstance(fact, UserMessage)]
        self._view.queued((*unsaved, *filter(None, map(words, (*self.steering, *self.queue))), *self.sent))

    def unqueue(self) -> str:
        """Take back the newest message that waits for the turn to end; empty when there is none."""
        for happened in reversed((*self.steering, *self.queue)):
            if isinstance(happened, Submitted | Steered):
                (self.steering if isinstance(happened, Steered) else self.queue).remove(happened)  # pyright: ignore
                self.tell()
                return happened.text
        return ""

    def unsent(self, inbox: asyncio.Queue[Input | None]) -> list[Submitted | Quote]:
        """The messages that nobody took any more, and what commands have done, those of the inbox last; nothing is left
        of them here.
        """
        left: list[Input] = [*self.steering, *self.queue]
        self.steering.clear()
        self.queue.clear()
        while not inbox.empty():
            if (happened := inbox.get_nowait()) is not None:
                left.append(happened)
        left = [whole(happened) for happened in left]
        return [happened for happened in left if isinstance(happened, Submitted) or _ran(happened)]

    def too_late(self) -> None:
        """The turn that was to be steered has ended: what was meant for it begins the next one."""
        self.queue.extendleft(map(whole, reversed(self.steering)))
        self.steering.clear()

    def give_back(self) -> None:
        """Return messages to the input and say which commands are not done; what has happened goes on waiting."""
        made = [happened for happened in self.queue if isinstance(happened, Condensed) or _ran(happened)]
        self.queue = deque(happened for happened in self.queue if happened not in made)
        if undone := [words(happened) for happened in self.queue if not isinstance(happened, Submitted)]:
            self._view.notice(f"Not done: {', '.join(undone)}.")
        waiting = (*self.steering, *self.queue)
        self.steering.clear()
        if texts := [happened.text for happened in waiting if isinstance(happened, Submitted | Steered)]:
            self._view.returned("\n".join(texts))
        self.queue = deque(made)


def _ran(happened: Input) -> TypeGuard[Quote]:
    """Whether it tells what a command of the user's has done, which nobody can take back."""
    return isinstance(happened, Quote) and happened.ran


def whole(happened: Input) -> Input:
    """A message for a turn that has ended, as one that begins the next."""
    return Submitted(happened.text, happened.images) if isinstance(happened, Steered) else happened


def words(happened: Input) -> str:
    """What was typed for this to happen."""
    match happened:
        case Submitted(text) | Steered(text):
            return text
        case Quote(ran=True):  # nobody has typed its output, and typed again it would run again
            return ""
        case _:
            return typed(happened) if is_command(happened) else ""
