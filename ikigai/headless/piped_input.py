"""Read what is piped into print mode: text that is added to the message, or turns as JSON lines.

It is data and never a command. Standard input is read in a thread that nothing waits for: signals and --timeout end the
program while nothing comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ikigai.core.errors import ConfigError

CHUNK_BYTES = 65_536
"""Bytes that are read at once."""
NOTICE_SECONDS = 3.0
"""Seconds without input until a notice says that the program waits for it."""
SILENT_SECONDS = 10.0
"""Seconds that a message waits for input that no other program of a pipeline feeds."""
WAITING = "Waiting for the end of standard input, which belongs to the message. To send the message alone: < /dev/null"
WAITING_FOR_MESSAGE = "Waiting for the message on standard input, up to its end."
LATE_TEXT = (
    "Text came on standard input after the message had been sent without it. It was not read. Write it at once, or "
    "redirect a file: < FILE"
)
_WRITABLE = 0o200
"""The permission that /proc gives to a descriptor that is open for writing."""
TURN_FORM = 'Write one object a line: {"type": "user", "text": "…"}'


class PipedText:
    """The text that is piped in. A pipeline is read to its end, however slow it is.

    A supervisor may start this program with a pipe that it neither writes to nor closes. There a message that was typed
    goes on alone after `SILENT_SECONDS`. `came_late` is True if text has come since then, which was not read.
    """

    def __init__(self, has_message: bool, on_notice: Callable[[str], None]) -> None:
        self._has_message, self._on_notice = has_message, on_notice
        self._told = False
        self._unread: asyncio.Future[bytes] | None = None

    @property
    def came_late(self) -> bool:
        return self._unread is not None and self._unread.done() and bool(self._unread.result())

    async def read(self) -> str:
        """Return the text without line ends around it; "" at a terminal or where nothing is or can be read.

        Raise ConfigError for binary data.
        """
        if sys.stdin.isatty():
            return ""
        first = _start_reading()
        await self._tell_of_wait(first)
        if self._has_message and not await _has_come(first):
            self._unread = first
            seconds = f"{SILENT_SECONDS:g} s"
            self._on_notice(f"Nothing came on standard input in {seconds}. The message is sent without it.")
            return ""
        chunks = list[bytes]()
        while chunk := await first:
            chunks.append(chunk)
            first = _start_reading()
            await self._tell_of_wait(first)
        return decode(b"".join(chunks), "The standard input").strip("\n")

    async def _tell_of_wait(self, reading: asyncio.Future[bytes]) -> None:
        if not self._told and not (await asyncio.wait({reading}, timeout=NOTICE_SECONDS))[0]:
            self._told = True
            self._on_notice(WAITING if self._has_message else WAITING_FOR_MESSAGE)


async def _has_come(reading: asyncio.Future[bytes]) -> bool:
    """Wait for data, or for the end of the input; return False if no program feeds it and nothing has come in time."""
    wait = max(0.0, SILENT_SECONDS - NOTICE_SECONDS)
    while not (await asyncio.wait({reading}, timeout=wait))[0]:
        if not await asyncio.to_thread(has_producer):
            return reading.done()
        wait = SILENT_SECONDS
    return True


async def read_turns() -> AsyncIterator[str]:
    """Yield the message of each line. Raise ConfigError, with the number of the line, for one that is not a turn."""
    rest, number = b"", 0
    while chunk := await _start_reading():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield parse_turn(line, number)
    if rest.strip():
        yield parse_turn(rest, number + 1)


def decode(data: bytes, source: str) -> str:
    """Return the text of UTF-8. Raise ConfigError with the offset of the first byte that text does not have."""
    try:
        text, bad = data.decode(), data.find(b"\0")
    except UnicodeDecodeError as error:
        text, bad = "", min(error.start, data.find(b"\0") % (len(data) + 1))
    if bad >= 0:
        raise ConfigError(
            f"{source} is not text: byte 0x{data[bad]:02x} at offset {bad:,} is not UTF-8 text.",
            "Convert it to UTF-8, or attach a picture as @FILE. Nothing was sent.",
        )
    return text.removeprefix("\ufeff")


def parse_turn(line: bytes, number: int) -> str:
    """Return the message of a line of --input-format stream-json. Raise ConfigError.

    The forms are {"type": "user", "text": TEXT} and {"type": "user", "message": {"role": "user", "content": TEXT}},
    where the content may also be a list of {"type": "text", "text": TEXT}.
    """
    where = f"Line {number:,} of the standard input"
    try:
        value: Any = msgspec.json.decode(decode(line, where))
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}.", TURN_FORM) from None
    turn: dict[str, Any] = value if isinstance(value, dict) else {}
    message = turn.get("message")
    content = message.get("content") if isinstance(message, dict) and message.get("role", "user") == "user" else None
    text = turn.get("text", content)
    if isinstance(text, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in text):
        parts = [part.get("text") for part in text]
        text = "\n".join(parts) if all(isinstance(part, str) for part in parts) else None
    if turn.get("type") != "user" or not isinstance(text, str):
        raise ConfigError(f"{where} is not a message of the user.", TURN_FORM)
    if not text.strip():
        raise ConfigError(f"{where} has an empty message.", TURN_FORM)
    return text


def _start_reading() -> asyncio.Future[bytes]:
    """Return the future next bytes of standard input, b"" at its end or where it cannot be read."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(sys.stdin.fileno(), CHUNK_BYTES)
        except (OSError, ValueError):
            data = b""
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(deliver, data)

    def deliver(data: bytes) -> None:
        if not outcome.done():  # cancelled
            outcome.set_result(data)

    threading.Thread(target=read, name="input", daemon=True).start()
    return outcome


def has_producer() -> bool:
    """Return True for a pipe that another program can write to than those that started this one.

    A shell gives the end of a pipe that is written to the program before the bar alone. A supervisor that starts
    programs with an open pipe, and writes nothing, has that end itself. Also return True if the writers cannot be seen:
    without /proc, or when they are another user's or in another container.
    """
    status = os.fstat(0)
    if not stat.S_ISFIFO(status.st_mode):
        return False
    writers = set(_writers(status))
    return not writers or not writers <= {os.getpid(), *_ancestors()}


def _writers(pipe: os.stat_result) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if any(_is_writer(entry, pipe) for entry in os.scandir(folder)):
                yield int(folder.parent.name)


def _is_writer(descriptor: os.DirEntry[str], pipe: os.stat_result) -> bool:
    try:
        is_writable = descriptor.stat(follow_symlinks=False).st_mode & _WRITABLE
        return bool(is_writable) and os.path.samestat(descriptor.stat(), pipe)
    except OSError:  # closed meanwhile
        return False


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 0:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            return
