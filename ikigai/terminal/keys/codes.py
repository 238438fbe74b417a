"""Key presses of single characters and of whole escape sequences."""

import re
from collections.abc import Iterator

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

ESC_KEY = Keys.ShiftEscape
"""The Esc key alone. Keys.Escape stays the beginning of Alt+key, so that neither has to wait for the other."""
NEWLINE_KEY = Keys.ControlJ
"""Ctrl+J, and Enter with any modifier that the terminal reports."""

_CSI_U = (  # a key as the kitty protocol reports it, with its alternate keys, event and text
    r"\x1b\[(?P<code>\d{1,7})(?::(?P<shifted>\d{0,7}))?(?::(?P<base>\d{0,7}))?"
    r"(?:;(?P<modifiers>\d{0,7})(?::(?P<event>\d))?(?:;[\d:]*)?)?u"
)
_OTHER_KEY = r"\x1b\[27;(?P<modifiers>\d{1,7});(?P<code>\d{1,7})~"  # xterm's modifyOtherKeys
_NAMED = {8: Keys.ControlH, 9: Keys.ControlI, 13: Keys.ControlM, 27: ESC_KEY, 127: Keys.ControlH}
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
_RELEASED = "3"
_LATIN = {
    first + number: letter
    for first, letters in (
        (ord("а"), "f,dult;pbqrkvyjghcnea[wxio]sm'.z"),
        (ord("і"), "s"),
        (ord("α"), "abgdezhuiklmnjoprwstyfxcv"),
        (0x5D0, "tcdsvuzjyhlfkonibxg;p.mera,"),  # Hebrew
    )
    for number, letter in enumerate(letters)
}
"""The characters on the same keys of an English keyboard, for terminals that do not name them."""


def is_known(sequence: str) -> bool:
    """Return True if a whole sequence without parameters stands for a key, or reports the focus."""
    return sequence in ANSI_SEQUENCES or sequence in ("\x1b[I", "\x1b[O")


def press(char: str) -> Iterator[KeyPress]:
    """Return the key press for a character; none for the controls that only programs write."""
    if "\x80" <= char <= "\x9f" or "\ud800" <= char <= "\udfff":
        return
    key = ANSI_SEQUENCES.get(char, char)
    if isinstance(key, str):  # as Keys are
        yield KeyPress(ESC_KEY if key is Keys.Escape else key, char)


def presses(sequence: str) -> Iterator[KeyPress]:
    """Return the key presses for a whole escape sequence; none for an unknown one."""
    if match := re.fullmatch(_CSI_U, sequence) or re.fullmatch(_OTHER_KEY, sequence):
        found = {name: text or "" for name, text in match.groupdict().items()}
        if found.get("event") != _RELEASED:
            yield from _reported(found, (int(found["modifiers"] or 1) - 1) & ~_LOCKS)
    elif sequence in ANSI_SEQUENCES:
        keys = ANSI_SEQUENCES[sequence]
        yield from (KeyPress(key, "") for key in (keys if isinstance(keys, tuple) else (keys,)))
    elif len(sequence) == 2 or (sequence.startswith("\x1b\x1b") and sequence[1:] in ANSI_SEQUENCES):
        yield KeyPress(Keys.Escape, "")
        yield from presses(sequence[1:]) if len(sequence) > 2 else press(sequence[1])


def _reported(found: dict[str, str], modifiers: int) -> Iterator[KeyPress]:
    """Return the key presses for a key that the terminal reports by the code of its character, with its modifiers."""
    code = int(found["code"])
    if code == 13 and modifiers:
        yield KeyPress(NEWLINE_KEY, "")
        return
    if modifiers & ~(_SHIFT | _ALT | _CTRL):  # Super, Hyper and Meta type nothing
        return
    char = ""
    if 32 <= code < 0xD800 and code != 127:
        char = _typed(code, found, modifiers)
        if modifiers & _CTRL:
            char = _control(char)
        if not char:
            return
    elif code not in _NAMED:
        return
    if modifiers & _ALT:
        yield KeyPress(Keys.Escape, "")
    if char:
        yield from press(char)
    else:
        yield KeyPress(Keys.BackTab if code == 9 and modifiers & _SHIFT else _NAMED[code], "")


def _typed(code: int, found: dict[str, str], modifiers: int) -> str:
    """Return the character of a key. Together with Ctrl or Alt that is the one on an English keyboard."""
    if modifiers & (_CTRL | _ALT) and code > 127:
        base = int(found.get("base") or 0)
        return chr(base) if 32 <= base < 127 else _LATIN.get(ord(chr(code).lower()), chr(code))
    shifted = int(found.get("shifted") or 0)
    if modifiers & _SHIFT:
        return chr(shifted) if 32 <= shifted < 0xD800 else chr(code).upper()
    return chr(code)


def _control(char: str) -> str:
    """Return the control character that Ctrl makes of a character as terminals send it, "" for none."""
    if char in (" ", "2"):
        return "\0"
    if char == "/":
        return "\x1f"
    return chr(ord(char.upper()) & 0x1F) if "@" <= char.upper() <= "_" else ""
