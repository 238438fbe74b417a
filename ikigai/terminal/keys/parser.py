"""Parser of what a terminal sends: escape sequences whole or not at all, pastes as text.

prompt_toolkit's own parser is quadratic in the length of a paste, takes what it does not know for Esc and text, and
Shift+Enter for Enter. This one knows the shape of every sequence: it swallows a complete sequence that is unknown. Only
time can tell a lone Esc or the end of a paste: `flush` decides on them. It is called after a pause in the input.

Terminals without bracketed paste send pasted lines as keys, slow lines character by character. A person does not type
Enter and more text between two calls of `flush`, nor two keys within `TYPED_APART`: such lines are a paste as well.

A terminal that is asked for its background answers among the keys, maybe in parts and maybe late. The answer goes to
the caller of `expect` and is never typed.
"""

import re
import time
from collections.abc import Callable, Iterator

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.terminal.keys.codes import ESC_KEY, is_known, press, presses

MAX_PASTE_BYTES = 16 << 20
"""Characters of a paste; those beyond are dropped and counted."""
MAX_BURST_BYTES = 1 << 16
"""Characters that nobody types between two calls of `flush`: they belong to the paste before them."""
PASTE_TIMEOUT = 1.0
"""Seconds without input after which a paste is over: one whose end mark got lost, or one without marks."""
TYPED_APART = 0.02
"""Seconds between two keys of the fastest typist."""

ANSWER_TIMEOUT = 2.0
"""Seconds in which a terminal that answers at all does so: the beginning of an answer is held for so long."""
# A pattern that is text is compiled with its first use: a plain key needs none of them.
_ANSWER = r"\x1b(?:\]11;[^\x07\x1b]{0,64}(?:\x07|\x1b\\)|\[\?[\d;]{0,64}c)"
"""The color of the background (OSC 11), or the terminal's attributes (DA1)."""
_PART = r"\x1b\](?:1(?:1(?:;[?#:/rgbaA-F\da-f]{0,40}\x1b?)?)?)?\Z"

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_STRINGS = ("\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_")
_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\x1b?\[(?:\[[A-E]|M(?:[^\x1b]{3}|[^\x1b]{0,2}(?=\x1b))|(?!M)[0-?]*[ -/]*[@-Z\\-~])"  # function keys of the Linux
    # console, an old report of the mouse, CSI; each also with Alt
    r"|\x1b?O[ -~]"  # SS3
    r"|[\]PX^_][^\x07\x1b\x9c\udc9c]*(?:\x07|\x1b\\|[\x9c\udc9c]|(?=\x1b[^\\]))"  # OSC, DCS, SOS, PM, APC
    r"|[^\x1b\[O\]PX^_]"  # Alt+key
    r")",
    re.DOTALL,
)
_OPEN = re.compile(
    r"\x1b(?:\x1b?(?:\[(?:\[|M[^\x1b]{0,2}|[0-?]*[ -/]*)?|O)?|[\]PX^_][^\x07\x1b\x9c\udc9c]*\x1b?)\Z", re.DOTALL
)
_BROKEN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|.)", re.DOTALL)
"""The part to swallow of a sequence that goes on with what cannot belong to it."""
_STRING = r"\x1b[\]PX^_][^\x07\x1b\x9c\udc9c]*(?:\x07|\x1b\\|[\x9c\udc9c])"
_C1 = "\x8f\x90\x98\x9b\x9d\x9e\x9f"
"""SS3, DCS, SOS, CSI, OSC, PM and APC as one character."""
C1_BYTES = {chr(0xDC00 + ord(char)): char for char in _C1 + "\x9c"}
"""These controls, and ST, where they came as single bytes: in a paste these are no text."""
_NO_TEXT = f"[{''.join(C1_BYTES)}]"
_TEXT = re.compile(r"[^\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Text with its tabs and line ends."""
_FOCUS = {"\x1b[I": True, "\x1b[O": False}


class KeyParser:
    """A parser that turns text, as it is read, into key presses."""

    def __init__(self) -> None:
        self.dropped = 0  # characters of the last paste that were too many
        self.focused: bool | None = None  # the terminal is in front, as it has reported; None: it has not
        self._rest = ""  # the start of a sequence, or Enter behind text: more lines may follow
        self._paste: list[str] | None = None
        self._has_marks = False  # the paste ends with a mark; else with a pause, or with a key that is not text
        self._room = 0
        self._after: str | None = None  # what followed the paste's end mark: keys, unless another end mark comes
        self._typed_ahead = False
        self._pasted_lines = False  # a moment ago: Enter is the end of a line, unless it comes alone after a flush
        self._flushed = True
        self._fed = 0.0
        self._is_fast = False  # this text came too soon after the text before it to be typed
        self._on_answer: Callable[[str], object] | None = None
        self._until = 0.0  # an answer may come
        self._cut = 0  # characters of the rest behind which nothing came for a while: others in it may be typed text
        self._escaped = False  # the last flush took for the Esc key what may have been the first byte of an answer

    def expect(self, on_answer: Callable[[str], object]) -> None:
        """Call `on_answer` with each answer to the queries for the background and the terminal's attributes."""
        self._on_answer, self._until = on_answer, time.monotonic() + ANSWER_TIMEOUT

    def feed(self, text: str, typed_ahead: bool = False) -> Iterator[KeyPress]:
        """Return the key presses of `text`. With `typed_ahead` it waited for the program, and Enter is always a key."""
        now, before = time.monotonic(), self._fed
        self._fed, self._typed_ahead, self._is_fast = now, typed_ahead, now - before < TYPED_APART
        if now - before > PASTE_TIMEOUT or (self._flushed and text == "\r"):
            self._pasted_lines = False
        self._flushed = False
        if self._paste is not None and not self._has_marks:
            lines = match[0] if (match := _TEXT.match(text)) else ""
            self._append_to_paste(lines)
            if lines == text:
                return
            yield from self._take_lines()
            text = text[len(lines) :]
        if (
            self._paste is not None
            and now - before > PASTE_TIMEOUT
            and len(text) < 16
            and _END not in self._rest + text
        ):
            yield from self._take_paste()
        if self._paste is None:
            yield from self._continue(text, now - before < PASTE_TIMEOUT)
        else:
            self._add_to_paste(text)

    def clear(self) -> None:
        """Drop what was held back: the beginning of a sequence, and a paste."""
        self._rest, self._paste, self._after, self._cut, self._pasted_lines = "", None, None, 0, False

    def flush(self) -> Iterator[KeyPress]:
        """Return the key presses that were held back; called when nothing came for a while."""
        if self._paste is not None and not self._has_marks:
            yield from self._take_lines()
        self._flushed = True
        if self._after is not None:
            after = self._after
            yield from self._take_paste()
            yield from self._keys(after)
        if self._paste is not None:
            return
        if self._rest.startswith("\r"):
            yield from (each for enter in self._rest for each in press(enter))
            self._rest = ""
        elif not self._rest.strip("\x1b"):
            self._escaped = self._rest == "\x1b" and time.monotonic() < self._until
            yield from (KeyPress(ESC_KEY, "") for _ in self._rest)
            self._rest = ""
        else:
            self._cut = self._cut or len(self._rest)

    def _continue(self, text: str, at_once: bool) -> Iterator[KeyPress]:
        """Return the key presses of the held text and of `text`; `at_once` if little time lies between the two."""
        if self._cut and not self._goes_on(text, at_once):
            text, self._rest = self._rest[self._cut :] + text, ""
        if self._escaped and text.startswith(("]11;", "[?")):
            self._rest = "\x1b"
        self._escaped = False
        held = self._rest
        yield from self._keys(held + text)
        if not held or not self._rest.startswith(held):
            self._cut = 0

    def _goes_on(self, text: str, at_once: bool) -> bool:
        """Return True if `text` belongs to the sequence that was cut, False if the user has typed it.

        A person's keys come one by one, and the first two characters of a sequence are Alt and a key.
        """
        joined, many = self._rest + text, len(text) > 1
        is_sequence = self._cut > 2
        if re.match(_ANSWER, joined):
            return is_sequence or many
        if re.match(_PART, joined):
            is_awaited = at_once and time.monotonic() < self._until
            return is_awaited or (";" in self._rest and (many or at_once))
        if self._rest.startswith(_STRINGS):
            return bool((is_sequence or many) and re.match(_STRING, joined))
        if match := _SEQUENCE.match(joined):
            return is_sequence or len(match[0]) > 3 or is_known(match[0])
        return is_sequence or (many and bool(_OPEN.match(joined)))

    def _keys(self, text: str) -> Iterator[KeyPress]:
        has_lines = "\r" in text or "\n" in text
        is_continued = self._rest.startswith("\r") and (self._is_fast or len(text) > len(self._rest) + 1)
        self._rest = ""
        at = 0
        while at < len(text):
            if (c1 := C1_BYTES.get(text[at], text[at])) in _C1:
                text = f"{text[:at]}\x1b{chr(ord(c1) - 0x40)}{text[at + 1 :]}"
            if text[at] != "\x1b":
                if has_lines and not self._typed_ahead and (match := _TEXT.match(text, at)):
                    yield from self._lines(match[0], is_continued and not at, match.end() == len(text))
                    at = match.end()
                else:
                    yield from press(text[at])
                    at += 1
            elif text.startswith(_BEGIN, at):
                self._begin_paste(has_marks=True)
                self._add_to_paste(text[at + len(_BEGIN) :])
                return
            elif match := _SEQUENCE.match(text, at):
                self.focused = _FOCUS.get(match[0], self.focused)
                if self._on_answer and re.fullmatch(_ANSWER, match[0]):
                    self._on_answer(match[0])
                yield from presses(match[0])
                at = match.end()
            elif _OPEN.match(text, at):
                self._rest = text[at:]
                return
            elif text.startswith("\x1b\x1b", at):
                yield KeyPress(ESC_KEY, "")
                at += 1
            elif match := _BROKEN.match(text, at):
                at = match.end()

    def _lines(self, text: str, is_continued: bool, is_last: bool) -> Iterator[KeyPress]:
        """Return the key presses of a text. If it `is_last` more may follow: what may be lines of a paste is held.

        It `is_continued` if Enter, with which it begins, was held behind other text.
        """
        body = text.rstrip("\r\n")
        if (self._pasted_lines and text != body) or _has_pasted_lines(body, is_continued):
            self._begin_paste(has_marks=False)
            self._append_to_paste(text)
            self._pasted_lines |= "\r" in body
            if not is_last:
                yield from self._take_lines()
            return
        ends = text[len(body) :]
        if (body or self._is_fast) and is_last and ends.startswith("\r"):
            text, self._rest = body, ends
        for char in text:
            yield from press(char)

    def _begin_paste(self, has_marks: bool) -> None:
        self._paste, self._room, self.dropped, self._has_marks = [], MAX_PASTE_BYTES, 0, has_marks

    def _add_to_paste(self, text: str) -> None:
        """Add `text` to the paste. Pasted text may hold an end mark of its own; the real one is the last of a burst."""
        if self._after is None:
            body, end, after = (self._rest + text).partition(_END)
            self._rest = ""
            if not end:
                held = next((n for n in range(len(_END) - 1, 0, -1) if body.endswith(_END[:n])), 0)
                body, self._rest = body[: len(body) - held], body[len(body) - held :]
            self._append_to_paste(body)
            if not end:
                return
            self._after = after
        else:
            self._after += text
        while self._after and _END in self._after:
            body, _, self._after = self._after.partition(_END)
            self._append_to_paste(body.removeprefix(_BEGIN) if body.startswith(_BEGIN) else _END + body)
        if len(self._after) > MAX_BURST_BYTES:
            self._append_to_paste(_END + self._after)
            self._after = None

    def _append_to_paste(self, text: str) -> None:
        assert self._paste is not None
        text = text if text.isascii() else re.sub(_NO_TEXT, "\ufffd", text)
        self._paste.append(text[: self._room])
        self.dropped += max(len(text) - self._room, 0)
        self._room = max(self._room - len(text), 0)

    def _take_lines(self) -> Iterator[KeyPress]:
        """End a paste without marks. Where its lines ended with line feeds, Enter at its end is the key."""
        text = "".join(self._paste or [])
        body = text.rstrip("\r")
        self._pasted_lines |= "\r" in body
        self._paste = [text if self._pasted_lines else body]
        yield from self._take_paste()
        for enter in "" if self._pasted_lines else text[len(body) :]:
            yield from press(enter)

    def _take_paste(self) -> Iterator[KeyPress]:
        text = "".join(self._paste or [])
        self._paste, self._after, self._rest = None, None, ""
        if self._on_answer and time.monotonic() < self._until:  # it has got into what was pasted
            for answer in re.findall(_ANSWER, text):
                self._on_answer(answer)
            text = re.sub(_ANSWER, "", text)
        yield KeyPress(Keys.BracketedPaste, text.replace("\r\n", "\n").replace("\r", "\n"))


def _has_pasted_lines(text: str, is_continued: bool) -> bool:
    """Return True if `text` has a line end between other text, or `is_continued`: nobody types that at once."""
    inner = text.strip("\r\n")
    return "\r" in inner or "\n" in inner or (is_continued and bool(inner))
