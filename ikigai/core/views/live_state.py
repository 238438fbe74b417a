"""This module holds the state of an agent that is not in its log, for a view that draws it or buffers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory


MAX_OUTPUT_CHARACTERS = 2_000
"""Characters kept of a running tool's output, the newest ones."""


class StreamedReply(Protocol):
    """A reply as it streams, in the form that a view needs; `asked_by` is the event that it answers."""

    asked_by: int


_Reply = TypeVar("_Reply", bound=StreamedReply)


class LiveState(Generic[_Reply]):
    """The state of one agent from the calls of its view. `new_reply` makes a reply to the event of that id.

    `outputs` holds the newest output of each running call, by its id, and that of the user's own `command` by its
    words. `waiting` holds the texts that wait to be sent, oldest first. `away` says that the database is unreachable.
    """

    def __init__(self, new_reply: Callable[[int], _Reply]) -> None:
        self._new_reply = new_reply
        self.memory: Memory | None = None
        self.reply: _Reply | None = None
        self.outputs: dict[str, str] = {}
        self.command = ""
        self.waiting: tuple[str, ...] = ()
        self.database_unreachable = False

    def reply_to(self, asked_by: int) -> _Reply:
        """Return the reply to this event; begin it if another one streamed."""
        if self.reply is None or self.reply.asked_by != asked_by:
            self.reply = self._new_reply(asked_by)
        return self.reply

    def progress(self, call_id: str, text: str) -> None:
        """Add to the output of a running call or command."""
        self.outputs[call_id] = (self.outputs.get(call_id, "") + text)[-MAX_OUTPUT_CHARACTERS:]

    def running(self, command: str) -> None:
        """Begin the user's own command, or end it with ""."""
        self.outputs.pop(self.command, None)
        self.command = command

    def changed(self, memory: Memory) -> None:
        """Drop the reply and the outputs that this memory waits for no longer."""
        self.memory, opened = memory, memory.open
        if self.reply and (opened is None or opened.last != self.reply.asked_by):
            self.reply = None
        running = {self.command, *(call.id for _, call in opened.pending)} if opened else {self.command}
        self.outputs = {id: text for id, text in self.outputs.items() if id in running}

    def forget_agent(self) -> None:
        """Drop the state of one agent; the command, the database and the text typed ahead are the user's."""
        self.memory, self.reply, self.outputs = None, None, {}
