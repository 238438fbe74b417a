"""This module turns bytes from the terminal into key presses: escape sequences whole or not at all, pastes as text.

prompt_toolkit's own parser is quadratic in the length of a paste, takes what it does not know for Esc and text, and
Shift+Enter for Enter. This one knows the shape of every sequence: it swallows a complete sequence that is unknown. Only
time can tell a lone Esc or the end of a paste: `flush` decides on them. It is called after a pause in the input.

A terminal that is asked for its background answers among the keys, maybe in parts and maybe late. The answer goes to
the caller of `expect` and is never typed.
"""

import codecs
import contextlib
import os
import re
import sys
import termios
import time
from collections.abc import Callable, Iterator

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

ESC_KEY = Keys.ShiftEscape
"""The Esc key alone. Keys.Escape stays the beginning of Alt+key, so that neither has to wait for the other."""
NEWLINE_KEY = Keys.ControlJ
"""Ctrl+J, and Enter with any modifier that the terminal reports."""

MAX_PASTE_BYTES = 16 << 20
"""Characters of a paste; those beyond are dropped and counted."""
MAX_BURST_BYTES = 1 << 16
"""Characters that nobody types between two calls of `flush`: they belong to the paste before them."""
PASTE_TIMEOUT = 1.0
"""Seconds without input after which a key press ends a paste whose end mark got lost."""

ANSWER_TIMEOUT = 2.0
"""Seconds in which a terminal that answers at all does so: the beginning of an answer is held for so long."""
_ANSWER = re.compile(r"\x1b(?:\]11;[^\x07\x1b]{0,64}(?:\x07|\x1b\\)|\[\?[\d;]{0,64}c)")
"""The color of the background (OSC 11), or the terminal's attributes (DA1)."""
_PART = re.compile(r"\x1b\](?:1(?:1(?:;[?#:/rgbaA-F\da-f]{0,40}\x1b?)?)?)?\Z")

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_STRINGS = ("\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_")
_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\x1b?\[(?:\[[A-E]|[0-?]*[ -/]*[@-Z\\-~])"  # function keys of the Linux console, CSI; both with Alt, too
    r"|\x1b?O[ -~]"  # SS3
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|(?=\x1b[^\\]))"  # OSC, DCS, SOS, PM, APC
    r"|[^\x1b\[O\]PX^_]"  # Alt+key
    r")",
    re.DOTALL,
)
_OPEN = re.compile(r"\x1b(?:\x1b?(?:\[(?:\[|[0-?]*[ -/]*)?|O)?|[\]PX^_][^\x07\x1b]*\x1b?)\Z", re.DOTALL)
_MODIFIED = re.compile(r"\x1b\[(?:(\d+)(?:;(\d+))?u|27;(\d+);(\d+)~)")
_FOCUS = {"\x1b[I": True, "\x1b[O": False}
_NAMED = {8: Keys.ControlH, 9: Keys.ControlI, 13: Keys.ControlM, 27: ESC_KEY, 127: Keys.ControlH}
_SHIFT, _ALT, _CTRL = 1, 2, 4


class KeyParser:
    """A parser that turns text, as it is read, into key presses."""

    def __init__(self) -> None:
        self.dropped = 0  # characters of the last paste that were too many
        self.focused: bool | None = None  # the terminal is in front, as it has reported; None: it has not
        self._rest = ""  # the start of a sequence
        self._paste: list[str] | None = None
        self._room = 0
        self._after: str | None = None  # what followed the paste's end mark: keys, unless another end mark comes
        self._fed = 0.0
        self._on_answer: Callable[[str], object] | None = None
        self._until = 0.0  # an answer may come
        self._cut = False  # the rest stays although nothing came for a while: it looks like a part of an answer
        self._escaped = False  # the last flush took for the Esc key what may have been the first byte of an answer

    def expect(self, on_answer: Callable[[str], object]) -> None:
        """Call `on_answer` with each answer to the queries for the background and the terminal's attributes."""
        self._on_answer, self._until = on_answer, time.monotonic() + ANSWER_TIMEOUT

    def feed(self, text: str) -> Iterator[KeyPress]:
        now, before = time.monotonic(), self._fed
        self._fed = now
        if (
            self._paste is not None
            and now - before > PASTE_TIMEOUT
            and len(text) < 16
            and _END not in self._rest + text
        ):
            yield from self._take_paste()
        if self._paste is None:
            if self._cut and not (now - before < PASTE_TIMEOUT and _continues(self._rest + text)):
                self._rest = ""  # it was no answer, or will never be one
            if self._escaped and text.startswith(("]11;", "[?")):
                self._rest = "\x1b"
            self._cut = self._escaped = False
            yield from self._keys(self._rest + text)
        else:
            self._add_to_paste(text)

    def clear(self) -> None:
        """Drop what was held back: the beginning of a sequence, and a paste."""
        self._rest, self._paste, self._after, self._cut = "", None, None, False

    def flush(self) -> Iterator[KeyPress]:
        """Return the key presses that were held back; called when nothing came for a while."""
        if self._after is not None:
            after = self._after
            yield from self._take_paste()
            yield from self._keys(after)
        if self._paste is not None:
            return
        if not self._rest.strip("\x1b"):
            self._escaped = self._rest == "\x1b" and time.monotonic() < self._until
            yield from (KeyPress(ESC_KEY, "") for _ in self._rest)
            self._rest = ""
        elif _PART.match(self._rest) and (time.monotonic() < self._until or ";" in self._rest):
            self._cut = True
        elif self._rest.startswith(_STRINGS):
            self._rest = ""

    def _keys(self, text: str) -> Iterator[KeyPress]:
        self._rest = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                yield from _press(text[at])
                at += 1
            elif text.startswith(_BEGIN, at):
                self._paste, self._room, self.dropped = [], MAX_PASTE_BYTES, 0
                self._add_to_paste(text[at + len(_BEGIN) :])
                return
            elif match := _SEQUENCE.match(text, at):
                self.focused = _FOCUS.get(match[0], self.focused)
                if self._on_answer and _ANSWER.fullmatch(match[0]):
                    self._on_answer(match[0])
                yield from _presses(match[0])
                at = match.end()
            elif _OPEN.match(text, at):
                self._rest = text[at:]
                return
            elif text.startswith("\x1b\x1b", at):
                yield KeyPress(ESC_KEY, "")
                at += 1
            else:
                at += 2

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
        self._paste.append(text[: self._room])
        self.dropped += max(len(text) - self._room, 0)
        self._room = max(self._room - len(text), 0)

    def _take_paste(self) -> Iterator[KeyPress]:
        text = "".join(self._paste or [])
        self._paste, self._after, self._rest = None, None, ""
        if self._on_answer and time.monotonic() < self._until:  # it has got into what was pasted
            for answer in _ANSWER.findall(text):
                self._on_answer(answer)
            text = _ANSWER.sub("", text)
        yield KeyPress(Keys.BracketedPaste, text.replace("\r\n", "\n").replace("\r", "\n"))


def _continues(text: str) -> bool:
    """Return True if `text`, the held part and the new input, is an answer or a part of one."""
    return bool(_PART.match(text) or _ANSWER.match(text))


def _press(char: str) -> Iterator[KeyPress]:
    key = ANSI_SEQUENCES.get(char, char)
    if isinstance(key, Keys):
        if not "\x80" <= char <= "\x9f":
            yield KeyPress(key, char)
    elif isinstance(key, str):
        yield KeyPress(key, char)


def _presses(sequence: str) -> Iterator[KeyPress]:
    """Return the key presses for a whole escape sequence; none for an unknown one."""
    if match := _MODIFIED.fullmatch(sequence):
        code, modifiers = (match[1], match[2] or "1") if match[1] else (match[4], match[3])
        yield from _modified(int(code), int(modifiers) - 1)
    elif sequence in ANSI_SEQUENCES:
        keys = ANSI_SEQUENCES[sequence]
        yield from (KeyPress(key, "") for key in (keys if isinstance(keys, tuple) else (keys,)))
    elif len(sequence) == 2 or (sequence.startswith("\x1b\x1b") and sequence[1:] in ANSI_SEQUENCES):
        yield KeyPress(Keys.Escape, "")
        yield from _presses(sequence[1:]) if len(sequence) > 2 else _press(sequence[1])


def _modified(code: int, modifiers: int) -> Iterator[KeyPress]:
    """Return the key presses for a key as CSI u and modifyOtherKeys report it.

    `code` is that of its character; `modifiers` holds Shift, Alt and Ctrl as bits.
    """
    if code == 13 and modifiers & (_SHIFT | _ALT | _CTRL):
        yield KeyPress(NEWLINE_KEY, "")
        return
    if modifiers & _ALT:
        yield KeyPress(Keys.Escape, "")
    if code == 9 and modifiers & _SHIFT:
        yield KeyPress(Keys.BackTab, "")
    elif code in _NAMED:
        yield KeyPress(_NAMED[code], "")
    elif 32 <= code < 0xD800:
        char = chr(code).upper() if modifiers & _SHIFT else chr(code)
        yield from _press(chr(ord(char.upper()) & 0x1F) if modifiers & _CTRL and "@" <= char.upper() <= "_" else char)


class Keyboard(Vt100Input):
    """Standard input for prompt_toolkit, with the parser above; the Tty sets the modes of the device."""

    def __init__(self, early: bytes) -> None:
        super().__init__(sys.stdin)
        self.parser = KeyParser()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._closed = self.drops = False
        self.has_guest = False  # a list or the browser reads the keys, also those that are held back
        store_typeahead(self, [*self.parser.feed(self._decode(early)), *self.parser.flush()])

    def read_keys(self) -> list[KeyPress]:
        try:
            data = os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return []
        except OSError:  # the terminal is gone
            data = b""
        self._closed = not data
        return [] if self.drops else self.parse(data)

    def parse(self, data: bytes) -> list[KeyPress]:
        """Return the key presses of bytes from the terminal."""
        return list(self.parser.feed(self._decode(data)))

    def drop(self, drops: bool) -> None:
        """Drop what is typed from now on, or no longer; what has come and was not returned yet is dropped as well."""
        self.drops = drops
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.parser.clear()
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcflush(self.fileno(), termios.TCIFLUSH)

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys held back for the prompt: none while a guest has the keyboard, whose keys they are."""
        return [] if self.has_guest else self.take_held()

    def take_held(self) -> list[KeyPress]:
        """Return the keys that were held back: an Esc that nothing followed."""
        return list(self.parser.flush())

    @property
    def closed(self) -> bool:
        return self._closed

    def raw_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def cooked_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
