"""Copying by the terminal itself (OSC 52): works over ssh, and needs no program beside."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from base64 import b64encode
from collections.abc import Callable, Mapping

from ikigai.core.errors import Refused
from ikigai.terminal import capabilities
from ikigai.terminal.tty import Tty

LONGEST = 74_000
"""Bytes of text: what makes 100,000 characters of base64, beyond which xterm and others drop the sequence."""
WITHIN = 2.0
"""Seconds that tmux may take."""


def sequence(text: str, environ: Mapping[str, str]) -> str:
    """What makes the terminal copy `text`; "" when it is longer than terminals take.

    tmux takes the sequence itself where `set-clipboard` is on, and hands a wrapped one on where `allow-passthrough` is:
    it is given both. GNU screen hands on a wrapped one, in pieces: a string of its own holds 768 bytes at most.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > LONGEST:
        return ""
    plain = f"\x1b]52;c;{b64encode(data).decode()}\x07"
    if "TMUX" in environ:
        doubled = plain.replace("\x1b", "\x1b\x1b")
        return f"{plain}\x1bPtmux;{doubled}\x1b\\"
    if "STY" in environ:
        return "".join(f"\x1bP{plain[at : at + 700]}\x1b\\" for at in range(0, len(plain), 700))
    return plain


async def copied(text: str, tty: Tty, environ: Mapping[str, str]) -> str:
    """Copy `text`, safe already, through this terminal; says what came of it. Raises Refused where that cannot be."""
    if tty.dumb or not (capabilities.strings(environ) or "TMUX" in environ):
        raise Refused(
            "This terminal has no clipboard that programs reach.", "`ikigai history show ID` prints a message."
        )
    if len(text.encode("utf-8", "replace")) > LONGEST and "TMUX" not in environ:
        raise Refused(f"{len(text):,} characters are more than terminals copy.", "/export FILE writes them to a file.")
    return await copy(text, tty.tell, environ)


async def copy(text: str, write: Callable[[str], object], environ: Mapping[str, str]) -> str:
    """Copy `text`, which is safe already; says what came of it. Neither way tells whether the terminal allowed it."""
    count = f"{len(text):,} character{'s' * (len(text) != 1)}"
    if "TMUX" in environ and await _by_tmux(text):
        return f"Copied, into tmux's buffer, too: {count}."
    if made := sequence(text, environ):
        write(made)
        return f"Copied, if the terminal allows it: {count}."
    return f"{count} are more than terminals copy."


async def _by_tmux(text: str) -> bool:
    """Into a buffer of tmux's and, from 3.2 on, by it to the terminal: its own default lets no program in it do that.

    False where it does not know how.
    """
    try:
        tmux = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
        )
        await asyncio.wait_for(tmux.communicate(text.encode("utf-8", "replace")), WITHIN)
    except (OSError, TimeoutError):
        return False
    return tmux.returncode == 0
