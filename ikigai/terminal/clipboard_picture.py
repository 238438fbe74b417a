"""Read a picture from the clipboard of the desktop, with the program that the desktop has for it.

desktop     programs, the first that is installed
Wayland     wl-paste (package wl-clipboard), xclip
X11         xclip
macOS       pngpaste, osascript (part of the system)
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping

from ikigai.core.errors import Rejected

MAX_PICTURE_BYTES = 50 << 20
PROGRAM_TIMEOUT = 5.0
"""Seconds that one program may take."""
TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types that are asked for, the best first."""
_PASSED = ("PATH", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "LANG", "TMPDIR")
"""Variables that the programs get: no keys."""
_APPLE = ("osascript", "-e", "get the clipboard as «class PNGf»")
_APPLE_DATA = re.compile(rb"data PNGf([0-9A-F]+)")
_NO_PICTURE = Rejected(
    "There is no picture in the clipboard.", "To paste text, use the terminal's own key, such as Ctrl+Shift+V."
)


async def read_clipboard_picture(environ: Mapping[str, str], platform: str = sys.platform) -> bytes:
    """Return the bytes of the picture in the clipboard. Raise Rejected, in words, for none."""
    environment = {name: environ[name] for name in _PASSED if name in environ}
    path = environ.get("PATH", "")
    if platform == "darwin":
        if shutil.which("pngpaste", path=path):
            return await _output(("pngpaste", "-"), environment) or _refuse()
        data = _APPLE_DATA.search(await _output(_APPLE, environment))
        return bytes.fromhex(data[1].decode()) if data else _refuse()
    if "WAYLAND_DISPLAY" in environ and shutil.which("wl-paste", path=path):
        listed, by_type = ("wl-paste", "--list-types"), ("wl-paste", "--no-newline", "--type")
    elif "DISPLAY" in environ and shutil.which("xclip", path=path):
        by_type = ("xclip", "-selection", "clipboard", "-o", "-t")
        listed = (*by_type, "TARGETS")
    else:
        raise _missing(environ)
    offered = (await _output(listed, environment)).decode(errors="replace").split()
    wanted = next((each for each in TYPES if each in offered), "")
    return (wanted and await _output((*by_type, wanted), environment)) or _refuse()


def _refuse() -> bytes:
    raise _NO_PICTURE


def _missing(environ: Mapping[str, str]) -> Rejected:
    if "WAYLAND_DISPLAY" in environ:
        remedy = "Install wl-clipboard (wl-paste)."
    elif "DISPLAY" in environ:
        remedy = "Install xclip."
    else:
        return Rejected("There is no desktop with a clipboard here.", "@path attaches a picture's file.")
    return Rejected("No program here reads pictures from the clipboard.", remedy)


async def _output(command: tuple[str, ...], environment: Mapping[str, str]) -> bytes:
    """Return what the program writes, b"" if it fails. Raise Rejected if it takes too long or writes too much."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
        )
    except OSError as error:
        raise Rejected(f"{command[0]} cannot be started: {error.strerror}.", "Check its installation.") from None
    assert process.stdout
    data = bytearray()
    try:
        async with asyncio.timeout(PROGRAM_TIMEOUT):
            while piece := await process.stdout.read(1 << 20):
                data += piece
                if len(data) > MAX_PICTURE_BYTES:
                    most = MAX_PICTURE_BYTES >> 20
                    raise Rejected(f"The picture in the clipboard is larger than {most} MB.", "Make it smaller first.")
            code = await process.wait()
    except TimeoutError:
        what = f"{command[0]} did not answer within {PROGRAM_TIMEOUT:g} s."
        raise Rejected(what, "The program with the clipboard may be stuck; copy the picture again.") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with its children, which hold the pipe open
            await process.communicate()  # `wait` alone never returns where more was printed than has been read
    return bytes(data) if code == 0 else b""
