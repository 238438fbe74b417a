"""These tests cover copying by the terminal, and the refusal where no program reaches its clipboard."""

import os
import pty
from base64 import b64encode

import pytest

from ikigai.core.errors import Rejected
from ikigai.terminal.clipboard import MAX_CLIPBOARD_BYTES, copy_through_tty
from ikigai.terminal.tty import Tty

XTERM = {"TERM": "xterm"}


@pytest.fixture
def ends():
    """Both ends of a pseudo-terminal: the user's, the program's."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


async def test_copy_is_written_to_the_terminal(ends: tuple[int, int]):
    master, slave = ends
    tty = Tty(slave, slave, XTERM)
    tty.raw()
    assert await copy_through_tty("é\n", "it", tty, XTERM) == "Copied it (2 characters), if the terminal allows it."
    assert os.read(master, 100) == b"\x1b]52;c;" + b64encode("é\n".encode()) + b"\x07"


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("x", {"TERM": "dumb"}, "This terminal has no clipboard"),
        ("x", {}, "This terminal has no clipboard"),
        ("x", {"TERM": "linux"}, "This terminal has no clipboard"),
        ("é" * (MAX_CLIPBOARD_BYTES // 2 + 1), XTERM, "37,001 characters are more than terminals copy"),
    ],
)
async def test_copy_is_refused_without_a_clipboard(
    ends: tuple[int, int], text: str, environ: dict[str, str], said: str
):
    master, slave = ends
    os.set_blocking(master, False)
    tty = Tty(slave, slave, environ)
    tty.raw()
    with pytest.raises(Rejected, match=said):
        await copy_through_tty(text, "it", tty, environ)
    with pytest.raises(BlockingIOError):
        os.read(master, 100)
