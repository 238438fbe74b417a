"""Tests of the query for the terminal's background, with a real terminal device and keys between the answers."""

import asyncio
import os
import tty as modes
from collections.abc import Iterator

import pytest

from ikigai.terminal.background_color import COLOR_QUERY, BackgroundColor
from ikigai.terminal.keyboard import Keyboard
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

DARK = "\x1b]11;rgb:0000/0000/0000\x1b\\"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Tty]]:
    """Yield the other end of a terminal that is standard input and output, and the device."""
    master, slave = os.openpty()
    modes.setraw(slave)
    with os.fdopen(slave, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield master, Tty(slave, slave, {"TERM": "xterm"})
    os.close(master)


@pytest.mark.parametrize("attributes", ["\x1b[?62;22c", ""])
def test_settle_returns_the_keys_typed_between_the_answers(terminal: tuple[int, Tty], attributes: str) -> None:
    master, tty = terminal

    async def settle() -> tuple[str, str]:
        background = BackgroundColor(tty, Keyboard(b""), Theme(), {"TERM": "xterm"}, lambda: None)
        assert os.read(master, 100) == COLOR_QUERY.encode()
        os.write(master, f"a{DARK}b{attributes}c".encode())
        keys = background.settle()
        await asyncio.sleep(0)  # the answer is taken by the loop
        return "".join(press.data for press in keys), background.kind

    assert asyncio.run(settle()) == ("abc", "dark")
