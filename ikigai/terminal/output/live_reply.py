"""The reply being streamed: which of its words stay below, and which go up into the scrollback, each exactly once.

delta ──► tail (live) ──► finished block, saved as a draft ──► scrollback
                                         the rest, once stored ──►
thinking ──► its end (live) ──► folded, when words or a call begin, behind all that was said before it ──►
"""

import time
from typing import NamedTuple, TypeAlias

from ikigai.core.request.reply import Delta, TextDelta, ThinkingDelta, ToolCallDelta, Waiting
from ikigai.core.sanitize import clean, storable
from ikigai.terminal.render.blocks import Voice
from ikigai.terminal.render.markdown import MarkdownStream

_LAST = 2000
"""Characters of thinking that can be in sight."""


class Piece(NamedTuple):
    """A finished block of Markdown, and the message it belongs to."""

    source: str
    voice: Voice


class Folded(NamedTuple):
    """All that was thought in one go, and how long that took."""

    text: str
    seconds: float


Rising: TypeAlias = Piece | Folded
"""What goes up into the scrollback."""


class Thinking:
    """What the model thinks just now. A delta costs the same however much came before it."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self._said: list[str] = []
        self._last = ""
        self._ended = False  # what comes next is another block
        self.inked = False  # there is something to read

    def add(self, delta: ThinkingDelta) -> None:
        text = f"\n\n{delta.text}" if self._ended and self.inked and delta.text else delta.text
        self._ended = bool(delta.signature) or (self._ended and not delta.text)
        self._said.append(text)
        self._last += text
        if len(self._last) > 2 * _LAST:  # rarely: where it begins decides where its rows break
            self._last = self._last[-_LAST:]
        self.inked = self.inked or bool(text.strip())

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._said)

    @property
    def last(self) -> str:
        """The end of it, made safe."""
        return clean(self._last).strip()


class _Part:
    """The words of one assistant message, or of what lies between two thoughts in it, and the thought before them."""

    def __init__(self, start: int, thought: Folded | None = None) -> None:
        self.start = start  # characters of the reply before it
        self.thoughts = int(thought is not None)
        self.said: list[str] = []
        self.stream = MarkdownStream()
        self.voice = Voice()
        self._thought = thought

    def take(self, upto: int | None = None) -> list[Rising]:
        """What of it may go up when so many characters of it are saved; None: all that is finished.

        A thought is safe once words behind it are.
        """
        if upto is not None and upto <= 0:
            return []
        thought, self._thought = self._thought, None
        pieces = [Piece(source, self.voice) for source in self.stream.take(upto)]
        return [thought, *pieces] if thought else [*pieces]

    def rest(self) -> list[Rising]:
        self.stream.finish()
        return self.take()


class LiveReply:
    """One reply, from its first delta until the messages that it becomes are stored."""

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.waiting: Waiting | None = None  # for the next attempt, since `since`
        self.since = time.monotonic()
        self.calls: dict[int, str] = {}  # index → name, as far as it came
        self.thinking: Thinking | None = None
        self._parts: list[_Part] = []
        self._characters = 0
        self._saved = 0
        self._closed = True  # the next words begin a part

    @property
    def waits(self) -> bool:
        """Whether anything of it is not stored yet: else what is stored next is of a reply that nobody streamed."""
        return bool(self._parts) or self.thinking is not None

    def add(self, event: Delta | Waiting) -> list[Rising]:
        """Take the next delta; gives what can go up because of it alone: a thought that has come to its end."""
        self.waiting = None
        if type(event) is TextDelta:  # as nearly all are
            return self._said(event.text) if event.text else []
        risen: list[Rising] = []
        match event:
            case ThinkingDelta():
                self.thinking = self.thinking or Thinking()
                self.thinking.add(event)
                if self.thinking.inked:
                    self._close()
            case ToolCallDelta(index, _, name):
                risen = self._fold()
                self._close()
                self.calls[index] = self.calls.get(index, "") + name
            case Waiting():
                self.waiting, self.since = event, time.monotonic()
            case _:
                pass
        return risen

    def _said(self, text: str) -> list[Rising]:
        risen = self._fold() if self.thinking else []
        if self._closed:
            self._begin()
        part = self._parts[-1]
        part.said.append(text)
        part.stream.feed(text)
        self._characters += len(text)
        return risen

    def saved(self, characters: int) -> list[Rising]:
        """What may go up now that so many characters of the reply are in the database."""
        self._saved = characters
        return [piece for part in self._parts for piece in part.take(characters - part.start)]

    def stored(self, text: str, thoughts: int = 0) -> list[Rising]:
        """The rest of an assistant message that is in the log now: `text` all its words, `thoughts` how many it has.

        The parts that it is made of are done. Words that are not those that were streamed are given whole: shown
        twice rather than not at all.
        """
        pieces = self._fold()
        while self._parts and (text or thoughts > 0):
            part = self._parts[0]
            said = storable("".join(part.said))
            if not text.startswith(said):
                break
            pieces += part.rest()
            text, thoughts = text[len(said) :], thoughts - part.thoughts
            del self._parts[0]
        if not text:
            return pieces
        part = _Part(0)
        part.stream.feed(text)
        return pieces + part.rest()

    def dropped(self) -> list[Rising]:
        """The thoughts that nothing came of: the reply was cut off."""
        return self._fold() + [each for part in self._parts for each in part.take() if isinstance(each, Folded)]

    def tail(self, width: int, rows: int) -> tuple[list[str], bool]:
        """The last rows of what has not gone up, as plain text, and whether that is how what is said begins."""
        part = next((part for part in reversed(self._parts) if part.said), None)
        if part is None:
            return [], False
        return part.stream.tail(width, rows), not part.voice.begun

    def _fold(self) -> list[Rising]:
        """The thought is at its end: it goes up as soon as words behind it are saved, or with what is stored."""
        thinking, self.thinking = self.thinking, None
        if thinking is None or not thinking.inked:
            return []
        self._begin(Folded(thinking.text, time.monotonic() - thinking.since))
        return self.saved(self._saved)

    def _begin(self, thought: Folded | None = None) -> None:
        self._parts.append(_Part(self._characters, thought))
        self._closed = False

    def _close(self) -> None:
        if not self._closed:
            self._parts[-1].stream.finish()
            self._closed = True
