"""Decide which words of a streaming reply stay in the live area and which go to the scrollback, once.

delta ──► tail (live) ──► finished block, saved as a draft ──► scrollback
                                         the rest, once stored ──►
thinking ──► its end (live) ──► folded, when words or a call begin, after all words before it ──►
hosted call, its result ──► (live) ──► when words after it go up, or once stored ──►
"""

import time
from typing import NamedTuple, TypeAlias

from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.request.reply import Delta, HostedDelta, RetryScheduled, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.text.sanitize import clean, storable
from ikigai.terminal.render.blocks import ReplyContext
from ikigai.terminal.render.markdown import MarkdownStream

_MAX_VISIBLE_THINKING = 2000
"""Characters of thinking that can be in sight."""


class FinishedBlock(NamedTuple):
    """A finished block of Markdown, and the message it belongs to."""

    source: str
    context: ReplyContext


class FoldedThinking(NamedTuple):
    """The text of one stretch of thinking, and how many seconds it took."""

    text: str
    seconds: float


FinishedPiece: TypeAlias = FinishedBlock | FoldedThinking | ToolCall | ToolResult
"""A piece that goes up into the scrollback; calls are those that the vendor ran."""


def piece_size(piece: FinishedPiece) -> int:
    """Return the characters of a piece, about."""
    match piece:
        case FoldedThinking(text) | FinishedBlock(text):
            return len(text)
        case ToolCall():
            return len(piece.arguments)
        case ToolResult():
            return len(piece.content)


class LiveThinking:
    """The model's thinking under way. A delta costs the same however much came before it."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self._texts: list[str] = []
        self._last = ""
        self._ended = False  # the next delta begins another block
        self.has_text = False  # there is something to read

    def add(self, delta: ThinkingDelta) -> None:
        text = f"\n\n{delta.text}" if self._ended and self.has_text and delta.text else delta.text
        self._ended = bool(delta.signature) or (self._ended and not delta.text)
        self._texts.append(text)
        self._last += text
        if len(self._last) > 2 * _MAX_VISIBLE_THINKING:  # rarely: where it begins decides where its rows break
            self._last = self._last[-_MAX_VISIBLE_THINKING:]
        self.has_text = self.has_text or bool(text.strip())

    @property
    def text(self) -> str:
        """All of the thinking so far."""
        return "".join(self._texts)

    @property
    def last(self) -> str:
        """The end of the thinking, cleaned."""
        return clean(self._last).strip()


class _Part:
    """The words of one assistant message, or those between two steps in it, and the step before them: a thought, a
    hosted call or its result.
    """

    def __init__(self, start: int, step: FoldedThinking | ToolCall | ToolResult | None = None) -> None:
        self.start = start  # characters of the reply before it
        self.thoughts = int(isinstance(step, FoldedThinking))
        self.is_hosted = isinstance(step, ToolCall | ToolResult)  # and its event is not stored yet
        self.texts: list[str] = []
        self.stream = MarkdownStream()
        self.context = ReplyContext()
        self._step = step

    def take(self, upto: int | None = None) -> list[FinishedPiece]:
        """Return the pieces that may go up when `upto` characters of the part are saved; None: all finished ones."""
        if upto is not None and upto <= 0:
            return []
        pieces = [FinishedBlock(source, self.context) for source in self.stream.take(upto)]
        return [*self.take_step(), *pieces]

    def take_step(self) -> list[FinishedPiece]:
        """Return the step, once."""
        step, self._step = self._step, None
        return [step] if step else []

    def rest(self) -> list[FinishedPiece]:
        self.stream.finish()
        return self.take()


class LiveReply:
    """One reply, from its first delta until the messages that it becomes are stored."""

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.waiting: RetryScheduled | None = None  # for the next attempt, since `since`
        self.since = time.monotonic()
        self.calls: dict[int, str] = {}  # index → name, as far as it came
        self.hosted: ToolCall | None = None  # under way
        self.thinking: LiveThinking | None = None
        self._parts: list[_Part] = []
        self._characters = 0
        self._saved = 0
        self._closed = True  # the next words begin a part

    @property
    def waits(self) -> bool:
        """True if a part of it is not stored yet: else the next stored reply is one that was not streamed."""
        return bool(self._parts) or self.thinking is not None

    def add(self, event: Delta | RetryScheduled) -> list[FinishedPiece]:
        """Add the next delta. Return the pieces that go up because of it alone: a thought that has ended."""
        self.waiting = None
        if type(event) is TextDelta:  # as nearly all are
            return self._take_text(event.text) if event.text else []
        finished: list[FinishedPiece] = []
        match event:
            case ThinkingDelta():
                self.thinking = self.thinking or LiveThinking()
                self.thinking.add(event)
                if self.thinking.has_text:
                    self._close()
            case ToolCallDelta(index, _, name):
                finished = self._fold()
                self._close()
                self.calls[index] = self.calls.get(index, "") + name
            case HostedDelta(block):
                finished = self._fold()
                self._close()
                self._begin(block)
                self.hosted = block if isinstance(block, ToolCall) else None
                finished += self.saved(self._saved)
            case RetryScheduled():
                self.waiting, self.since = event, time.monotonic()
            case _:
                pass
        return finished

    def _take_text(self, text: str) -> list[FinishedPiece]:
        finished = self._fold() if self.thinking else []
        if self._closed:
            self._begin()
        part = self._parts[-1]
        part.texts.append(text)
        part.stream.feed(text)
        self._characters += len(text)
        return finished

    def saved(self, characters: int) -> list[FinishedPiece]:
        """Return the pieces that may go up now that `characters` of the reply are in the database."""
        self._saved = characters
        return [piece for part in self._parts for piece in part.take(characters - part.start)]

    def stored(self, text: str, thoughts: int = 0) -> list[FinishedPiece]:
        """Return the rest of an assistant message that is in the log now, and drop the parts that it is made of.

        `text` holds all its words; `thoughts` is how many it has. Words that differ from the streamed ones are returned
        whole: shown twice rather than not at all.
        """
        pieces = self._fold()
        while self._parts and (text or thoughts > 0) and not self._parts[0].is_hosted:
            part = self._parts[0]
            words = storable("".join(part.texts))
            if not text.startswith(words):
                break
            pieces += part.rest()
            text, thoughts = text[len(words) :], thoughts - part.thoughts
            del self._parts[0]
        if not text:
            return pieces
        part = _Part(0)
        part.stream.feed(text)
        return pieces + part.rest()

    def stored_step(self) -> list[FinishedPiece]:
        """Return the hosted call, or its result, whose event is in the log now; nothing if it went up before."""
        part = next((part for part in self._parts if part.is_hosted), None)
        if part is None:
            return []
        earlier = self._parts[: self._parts.index(part)]  # a thought without words, say
        pieces = [piece for each in earlier for piece in each.rest()] + part.take_step()
        del self._parts[: len(earlier)]
        part.is_hosted = False
        if not part.texts:
            del self._parts[0]
        return pieces

    @property
    def awaits_step(self) -> bool:
        """True if the event of a hosted call, or of its result, is not stored yet."""
        return any(part.is_hosted for part in self._parts)

    def dropped(self) -> list[FinishedPiece]:
        """Return the thoughts that no words followed: the reply was cut off. Hosted calls are stored by themselves."""
        return self._fold() + [each for part in self._parts for each in part.take() if isinstance(each, FoldedThinking)]

    def tail(self, width: int, rows: int) -> tuple[list[str], bool]:
        """Return the last rows that have not gone up, as plain text, and True if they begin the words."""
        part = next((part for part in reversed(self._parts) if part.texts), None)
        if part is None:
            return [], False
        return part.stream.tail(width, rows), not part.context.begun

    def _fold(self) -> list[FinishedPiece]:
        """End the thought: it goes up as soon as words after it are saved, or with the stored message."""
        thinking, self.thinking = self.thinking, None
        if thinking is None or not thinking.has_text:
            return []
        self._begin(FoldedThinking(thinking.text, time.monotonic() - thinking.since))
        return self.saved(self._saved)

    def _begin(self, step: FoldedThinking | ToolCall | ToolResult | None = None) -> None:
        self._parts.append(_Part(self._characters, step))
        self._closed = False

    def _close(self) -> None:
        if not self._closed:
            self._parts[-1].stream.finish()
            self._closed = True
