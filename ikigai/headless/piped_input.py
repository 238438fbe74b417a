"""This module reads what is piped into print mode: text that is added to the message, or turns as JSON lines.

It is data and never a command. Standard input is read in a thread that nothing waits for: signals and --timeout end the
program while nothing comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ikigai.core.errors import ConfigError

CHUNK_BYTES = 65_536
"""Bytes that are read at once."""
TURN_FORM = 'Write one object a line: {"type": "user", "text": "…"}'


async def read_text() -> str:
    """Return the text that is piped in, without line ends around it; "" at a terminal or where nothing can be read.

    Raise ConfigError for binary data.
    """
    if sys.stdin.isatty():
        return ""
    chunks = list[bytes]()
    while chunk := await _read_chunk():
        chunks.append(chunk)
    return decode(b"".join(chunks), "The standard input").strip("\n")


async def read_turns() -> AsyncIterator[str]:
    """Yield the message of each line. Raise ConfigError, with the number of the line, for one that is no turn."""
    rest, number = b"", 0
    while chunk := await _read_chunk():
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


async def _read_chunk() -> bytes:
    """Return the next bytes of standard input, b"" at its end or where it cannot be read."""
    loop = asyncio.get_running_loop()
    outcome = loop.create_future()

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
    return await outcome
