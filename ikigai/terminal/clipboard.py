"""Copy text through the terminal itself (OSC 52), which works over ssh and needs no other program."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from base64 import b64encode
from collections.abc import Callable, Mapping

from ikigai.core.errors import Rejected
from ikigai.terminal import capabilities
from ikigai.terminal.tty import Tty

MAX_CLIPBOARD_BYTES = 74_000
"""Bytes of text: they make 100,000 characters of base64, beyond which xterm and others drop the sequence."""
TMUX_TIMEOUT = 2.0
"""Seconds that tmux may take."""


def copy_sequence(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that makes the terminal copy `text`; "" when it is longer than terminals take.

    tmux gets the plain sequence and a wrapped one: it takes the first where `set-clipboard` is on, and hands the second
    on where `allow-passthrough` is. GNU screen hands on a wrapped one, in pieces: a string of its own holds 768 bytes
    at most.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_CLIPBOARD_BYTES:
        return ""
    plain = f"\x1b]52;c;{b64encode(data).decode()}\x07"
    if "TMUX" in environ:
        doubled = plain.replace("\x1b", "\x1b\x1b")
        return f"{plain}\x1bPtmux;{doubled}\x1b\\"
    if "STY" in environ:
        return "".join(f"\x1bP{plain[at : at + 700]}\x1b\\" for at in range(0, len(plain), 700))
    return plain


async def copy_through_tty(text: str, what: str, tty: Tty, environ: Mapping[str, str]) -> str:
    """Copy `text`, which is clean already and which `what` names, through `tty`. Return a message about the result.

    Raise Rejected where the terminal cannot copy it.
    """
    if tty.dumb or not (capabilities.swallows_osc(environ) or "TMUX" in environ):
        hint = "`ikigai history show ID` prints a message."
        raise Rejected("This terminal has no clipboard for programs.", hint)
    if len(text.encode("utf-8", "replace")) > MAX_CLIPBOARD_BYTES and "TMUX" not in environ:
        raise Rejected(f"{len(text):,} characters are more than terminals copy.", "/export FILE writes them to a file.")
    return await copy_text(text, what, tty.tell, environ)


async def copy_text(text: str, what: str, write: Callable[[str], object], environ: Mapping[str, str]) -> str:
    """Copy `text`, which is clean already and which `what` names, by tmux or `write`. Return a message about the
    result.

    Neither way tells if the terminal allowed it.
    """
    count = f"{len(text):,} character{'s' * (len(text) != 1)}"
    if "TMUX" in environ and await _by_tmux(text):
        return f"Copied {what} ({count}), also to tmux's buffer."
    if sequence := copy_sequence(text, environ):
        write(sequence)
        return f"Copied {what} ({count}), if the terminal allows it."
    return f"{count} are more than terminals can copy."


async def _by_tmux(text: str) -> bool:
    """Copy `text` into a buffer of tmux's and, from 3.2 on, through tmux to the terminal.

    By default tmux lets no program inside it reach the terminal's clipboard. Return False where tmux does not know how.
    """
    try:
        command = ("tmux", "load-buffer", "-w", "-")
        tmux = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL)
        await asyncio.wait_for(tmux.communicate(text.encode("utf-8", "replace")), TMUX_TIMEOUT)
    except (OSError, TimeoutError):
        return False
    return tmux.returncode == 0
