"""These tests find modes left on in a terminal in the bytes that were written to it."""

import pytest

from tests.terminal.modes import left_on


@pytest.mark.parametrize(
    ("on", "off", "name"),
    [
        ("\x1b[?2004h", "\x1b[?2004l", "?2004"),
        ("\x1b[?1000;1006h", "\x1b[?1006l\x1b[?1000l", "?1006"),
        ("\x1b[?1004h", "\x1b[?1004l", "?1004"),
        ("\x1b[?1049h", "\x1b[?1049l", "?1049"),
        ("\x1b[?25l", "\x1b[?25h", "?25"),
        ("\x1b[?7l", "\x1b[?7h", "?7"),
        ("\x1b[4h", "\x1b[4l", "4"),
        ("\x1b=", "\x1b>", "keypad"),
        ("\x1b[5 q", "\x1b[0 q", "cursor shape"),
        ("\x1b[2;10r", "\x1b[r", "scroll region"),
        ("\x1b[22;2t\x1b]2;mine\x07", "\x1b[23;2t", "title stack"),
        ("\x1b]0;mine\x1b\\", "\x1b]0;\x1b\\", "title"),
        ("\x1b[>1u", "\x1b[<u", "keyboard stack"),
        ("\x1b[>4;2m", "\x1b[>4m", "modifyOtherKeys"),
        ("\x1b[1;31m", "\x1b[0m", "style"),
        ("\x1b[38;5;10m", "\x1b[m", "style"),
        ("\x1b]8;;http://x\x07", "\x1b]8;;\x07", "link"),
        ("\x1b]11;#000000\x07", "\x1b]111\x07", "colour 11"),
        ("\x1b(0", "\x1b(B", "character set ("),
    ],
)
def test_modes_left_on_are_found(on: str, off: str, name: str):
    assert name in left_on(on.encode())
    assert left_on((on + off).encode()) == {}
    assert left_on(f"{on}\x1bc".encode()) == {}


def test_questions_and_text_leave_nothing():
    assert left_on("\x1b]11;?\x07\x1b[6n\x1b[3A\x1b[K\x1b7x\x1b8ü \x1b]133;A\x07\x1b]52;c;eA==\x07".encode()) == {}
