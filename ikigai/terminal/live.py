"""The reply being streamed: which of its words stay below, and which go up into the scrollback, each exactly once.

delta ──► tail (live) ──► finished block, saved as a draft ──► scrollback
                                         the rest, once stored ──►
"""

import time
from typing import NamedTuple

from ikigai.core.reply import Delta, TextDelta, ThinkingDelta, ToolCallDelta, Waiting
from ikigai.core.sanitize import clean, storable
from ikigai.terminal.markdown import MarkdownStream
from ikigai.terminal.render import Voice

_THOUGHT = 2000
"""Characters of thinking that are kept to be shown."""


class Piece(NamedTuple):
    """A finished block of Markdown, and the message it belongs to."""

    source: str
    voice: Voice


class _Part:
    """The words of one assistant message: a reply has several when words stand between its tool calls."""

    def __init__(self, start: int) -> None:
        self.start = start  # characters of the reply before it
        self.said: list[str] = []
        self.stream = MarkdownStream()
        self.voice = Voice()

    def take(self, upto: int | None = None) -> list[Piece]:
        return [Piece(source, self.voice) for source in self.stream.take(upto)]

    def rest(self) -> list[Piece]:
        self.stream.finish()
        return self.take()


class LiveReply:
    """One reply, from its first delta until the messages that it becomes are stored."""

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.waiting: Waiting | None = None  # for the next attempt, since `since`
        self.since = time.monotonic()
        self.calls: dict[int, str] = {}  # index → name, as far as it came
        self.thought = ""
        self._parts: list[_Part] = []
        self._characters = 0
        self._called = False  # a call came after the last words

    def add(self, event: Delta | Waiting) -> None:
        self.waiting = event if isinstance(event, Waiting) else None
        match event:
            case TextDelta(text) if text:
                if not self._parts or self._called:
                    self._parts.append(_Part(self._characters))
                    self._called = False
                self._parts[-1].said.append(text)
                self._parts[-1].stream.feed(text)
                self._characters += len(text)
                self.thought = ""
            case ThinkingDelta(text):
                self.thought = (self.thought + text)[-_THOUGHT:]
            case ToolCallDelta(index, _, name):
                if self._parts and not self._called:
                    self._parts[-1].stream.finish()
                self._called = True
                self.thought = ""
                self.calls[index] = self.calls.get(index, "") + name
            case Waiting():
                self.since = time.monotonic()
            case _:
                pass

    def saved(self, characters: int) -> list[Piece]:
        """What may go up now that so many characters of the reply are in the database."""
        return [piece for part in self._parts for piece in part.take(characters - part.start)]

    def stored(self, text: str) -> list[Piece]:
        """The rest of an assistant message that is in the log now, `text` being all of it.

        The parts that it is made of are done. Words that are not those that were streamed are given whole: shown
        twice rather than not at all.
        """
        pieces: list[Piece] = []
        while self._parts:
            said = storable("".join(self._parts[0].said))
            if not text.startswith(said):
                break
            pieces += self._parts.pop(0).rest()
            text = text[len(said) :]
            if not text:
                return pieces
        part = _Part(0)
        part.stream.feed(text)
        return pieces + part.rest()

    def tail(self, width: int, rows: int) -> tuple[list[str], bool]:
        """The last rows of what has not gone up, as plain text, and whether that is how what is said begins."""
        if not self._parts:
            return [], False
        part = self._parts[-1]
        return part.stream.tail(width, rows), not part.voice.begun

    def thinking(self) -> str:
        """The end of what the model thinks before it speaks, made safe."""
        return clean(self.thought)
