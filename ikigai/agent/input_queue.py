"""Queue of user input that no turn has taken yet.

    entered while the agent is busy                   waits for
    a message (Enter), a command that needs idle      the end of the turn; then they are taken in their order
    a change of the approval mode                     nothing
    a steering message (Ctrl+S)                       the next tool results of the open turn, else its end
    anything, before the agent is open                the agent to be open (`input_router` holds it)

What waits is shown above the prompt. Up on an empty line takes the newest message back, and an interrupt returns all
messages to the prompt. Other commands do not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeGuard

from ikigai.core.commands.parsers import command_line
from ikigai.core.events.events import Event, UserMessage
from ikigai.core.state.inputs import (
    NEEDS_IDLE,
    Condensed,
    Input,
    Quote,
    Steered,
    Submitted,
    acts_at_once,
    is_command,
)
from ikigai.core.text.sanitize import storable

if TYPE_CHECKING:
    from ikigai.core.ports import View


class InputQueue:
    """The only queue of user input, one for each agent. Views show it and keep no copy.

    `steering` waits for the next results of the open turn, `follow_up` for its end (inputs of NEEDS_IDLE).
    `before_open` holds lines as typed, including commands. They wait for another agent to be opened, or for the images
    of the message before them. `sent` holds the texts sent while the database was away. `unsaved` returns the events
    that are not stored yet. `entered` holds the user's messages that the loop has not taken, or is taking.
    """

    def __init__(self, view: View, unsaved: Callable[[], tuple[Event, ...]] = lambda: ()) -> None:
        self.steering: deque[Steered] = deque()
        self.follow_up: deque[Input] = deque()
        self.before_open: list[str] = []
        self.sent: list[str] = []
        self.entered: deque[str] = deque()
        self._view, self._unsaved = view, unsaved

    def show(self) -> None:
        """Show all waiting input, oldest first."""
        waiting, unsaved = filter(None, map(typed_text, (*self.steering, *self.follow_up))), self.unsaved_texts()
        behind = _without(self.entered, (*unsaved, *self.sent)) if unsaved else ()
        self._view.queued((*unsaved, *waiting, *behind, *self.sent, *self.before_open))

    def unsaved_texts(self) -> list[str]:
        """Return the user's messages that are being stored."""
        return [event.text for event in self._unsaved() if isinstance(event, UserMessage) and not event.sender]

    def unstored_texts(self, shown: Iterable[str] = ()) -> list[str]:
        """Return the user's messages that are being stored, and behind them those that wait for that, without those
        that are `shown`; of equal ones as many as are shown.
        """
        unsaved = self.unsaved_texts()
        return _without([*unsaved, *_without(self.entered, unsaved)], shown)

    def note_entered(self, incoming: Input) -> None:
        """Keep the text of a message of the user that is put into the inbox."""
        if _is_typed_message(incoming):
            self.entered.append(incoming.text)

    def note_taken(self, incoming: Input) -> None:
        """Drop the text of a message that is stored, queued or refused; messages are taken in their order."""
        if _is_typed_message(incoming) and self.entered:
            self.entered.popleft()

    @staticmethod
    def must_wait(incoming: Input, has_turn: bool) -> bool:
        """Return True if a turn is open, and the input comes after it."""
        return has_turn and isinstance(incoming, (Steered, *NEEDS_IDLE)) and not acts_at_once(incoming)

    def wait_for_turn(self, incoming: Input) -> None:
        """Queue an input during a turn: a steering message for its next tool results, anything else for its end."""
        if isinstance(incoming, Steered):
            self.steering.append(incoming)
        else:
            self.follow_up.append(incoming)
        self.show()

    def hold(self, line: str) -> None:
        """Keep a line until the agent is open."""
        self.before_open.append(line)
        self.show()

    def take_before_open(self) -> list[str]:
        """Take the lines that have waited for the agent to be opened."""
        lines, self.before_open = self.before_open, []
        self.show()
        return lines

    def take_over(self, other: InputQueue) -> None:
        """Take over the lines that wait in another agent's queue for this one to be opened."""
        self.before_open, other.before_open = other.before_open, []
        self.show()

    def unqueue(self) -> str:
        """Remove and return the newest waiting message or line, or ""."""
        if self.before_open:
            line = self.before_open.pop()
            self.show()
            return line
        for queue in (self.follow_up, self.steering):
            for place in reversed(range(len(queue))):
                if isinstance(incoming := queue[place], Submitted | Steered):
                    del queue[place]  # not `remove`: an equal one may wait before it
                    self.show()
                    return incoming.text
        return ""

    def unsent(self, inbox: asyncio.Queue[Input | None]) -> list[Submitted | Quote]:
        """Remove and return the messages that no turn took and the results of commands; items of `inbox` come last."""
        left: list[Input] = [*self.steering, *self.follow_up]
        self.steering.clear()
        self.follow_up.clear()
        while not inbox.empty():
            if (incoming := inbox.get_nowait()) is not None:
                left.append(incoming)
        left = [as_new_message(incoming) for incoming in left]
        return [incoming for incoming in left if isinstance(incoming, Submitted) or is_command_result(incoming)]

    def requeue_steering(self) -> None:
        """Queue the steering messages first in `follow_up`, because the turn they were meant for has ended."""
        self.follow_up.extendleft(map(as_new_message, reversed(self.steering)))
        self.steering.clear()

    def return_to_prompt(self) -> None:
        """Return messages to the prompt and list the commands not done; results of past work go on waiting."""
        results = [each for each in self.follow_up if isinstance(each, Condensed) or is_command_result(each)]
        self.follow_up = deque(incoming for incoming in self.follow_up if incoming not in results)
        if undone := [typed_text(incoming) for incoming in self.follow_up if not isinstance(incoming, Submitted)]:
            self._view.notice(f"Not run: {', '.join(undone)}.")
        waiting = (*self.steering, *self.follow_up)
        self.steering.clear()
        if texts := [incoming.text for incoming in waiting if isinstance(incoming, Submitted | Steered)]:
            self._view.restore_input("\n".join(texts))
        self.follow_up = deque(results)


def is_command_result(incoming: Input) -> TypeGuard[Quote]:
    """Return True for the result of a user's command, which cannot be undone."""
    return isinstance(incoming, Quote) and incoming.is_command_output


def _is_typed_message(incoming: Input) -> TypeGuard[Submitted | Steered]:
    return isinstance(incoming, Steered) or (isinstance(incoming, Submitted) and not incoming.sender)


def _without(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the texts, as they can be stored, that are left when each of the others has taken an equal one away."""
    left = list(map(storable, texts))
    for text in map(storable, others):
        if text in left:
            left.remove(text)
    return left


def as_new_message(incoming: Input) -> Input:
    """Return `incoming`, a steering message as one that begins the next turn."""
    if not isinstance(incoming, Steered):
        return incoming
    return Submitted(incoming.text, incoming.images, documents=incoming.documents)


def typed_text(incoming: Input) -> str:
    """Return the text that the user typed for `incoming`; "" if there was none."""
    match incoming:
        case Submitted(text) | Steered(text):
            return text
        case Quote(is_command_output=True):  # its output was not typed, and a retyped command would run again
            return ""
        case _:
            return command_line(incoming) if is_command(incoming) else ""
