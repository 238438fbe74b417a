"""The keyboard: standard input for prompt_toolkit, read with a parser of its own."""

import codecs
import contextlib
import os
import sys
import termios

from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from ikigai.terminal.keys.parser import C1_BYTES, KeyParser

MAX_TYPED_AHEAD_BYTES = 1 << 10
"""Bytes that a person types while the program does not read; more of them are a paste."""


def _mark_c1(error: UnicodeError) -> tuple[str, int]:
    """Decode a byte of 8-bit controls (CSI is 0x9b) as `C1_BYTES` says, any other invalid byte as U+FFFD."""
    assert isinstance(error, UnicodeDecodeError)
    char = chr(0xDC00 + error.object[error.start])
    return (char, error.start + 1) if char in C1_BYTES else ("\ufffd", error.end)


codecs.register_error("ikigai-c1", _mark_c1)


class Keyboard(Vt100Input):
    """Standard input for prompt_toolkit; the Tty sets the modes of the device."""

    def __init__(self, early: bytes) -> None:
        super().__init__(sys.stdin)
        self.parser = KeyParser()
        self._reset_decoder()
        self._closed = self.drops = False
        self.has_guest = False  # a list or the browser reads the keys, also those that are held back
        store_typeahead(self, self.typed_ahead(early))

    def read_keys(self) -> list[KeyPress]:
        try:
            data = os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return []
        except OSError:  # the terminal is gone
            data = b""
        self._closed = not data
        return [] if self.drops else list(self.parser.feed(self._decode(data)))

    def typed_ahead(self, data: bytes) -> list[KeyPress]:
        """Return the key presses of bytes that came while the program did not read the terminal, each Enter a key."""
        if self.drops:
            return []
        text = self._decode(data)
        return [*self.parser.feed(text, len(data) <= MAX_TYPED_AHEAD_BYTES), *self.parser.flush()]

    def drop(self, drops: bool) -> None:
        """Drop typed text from now on, or no longer; text that has come and was not returned yet is dropped as well."""
        self.drops = drops
        self._reset_decoder()
        self.parser.clear()
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcflush(self.fileno(), termios.TCIFLUSH)

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys held back for the prompt: none while a guest has the keyboard, whose keys they are."""
        return [] if self.has_guest else self.take_held()

    def take_held(self) -> list[KeyPress]:
        """Return the keys that were held back: an Esc that nothing followed."""
        return list(self.parser.flush())

    def _reset_decoder(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("ikigai-c1").decode

    @property
    def closed(self) -> bool:
        return self._closed

    def raw_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def cooked_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
