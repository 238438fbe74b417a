"""The state of an agent that is not in its log. One view writes it; those that are attached draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikigai.core.request.reply import Delta, RetryScheduled
    from ikigai.core.state.memory import Memory


MAX_OUTPUT_CHARACTERS = 2_000
"""Characters kept of the output of a running tool or command, the newest ones."""


class StreamedReply:
    """A reply as it streams to the event `asked_by`, from its first delta on."""

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.deltas: list[Delta | RetryScheduled] = []
        self.saved = 0  # characters of its text in the database


class LiveState:
    """The live state of one agent, from the calls of its view."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.reply: StreamedReply | None = None
        self.outputs: dict[str, str] = {}  # newest output of each running call, by its id
        self.waiting: tuple[str, ...] = ()  # texts that wait to be sent, oldest first
        self.database_unreachable = False

    def reply_to(self, asked_by: int) -> StreamedReply:
        """Return the reply to this event; begin it if another one streamed."""
        if self.reply is None or self.reply.asked_by != asked_by:
            self.reply = StreamedReply(asked_by)
        return self.reply

    def progress(self, call_id: str, text: str) -> None:
        """Add to the output of a running call."""
        self.outputs[call_id] = newest_output(self.outputs.get(call_id, ""), text)

    def changed(self, memory: Memory) -> None:
        """Drop the reply and the outputs that this memory waits for no longer."""
        self.memory, opened = memory, memory.open
        if self.reply and (opened is None or opened.last != self.reply.asked_by):
            self.reply = None
        running = {call.id for _, call in opened.pending} if opened else ()
        self.outputs = {id: text for id, text in self.outputs.items() if id in running}


def newest_output(output: str, text: str) -> str:
    """Return the end of the output that `text` adds to."""
    return (output + text)[-MAX_OUTPUT_CHARACTERS:]
