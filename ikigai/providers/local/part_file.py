"""Keep the part of a file that has been downloaded so far: for one program at a time.

The bytes are in FILE.part, with FILE.part.json beside it, which says what they are part of. Once the file is whole and
checked it gets its name. Nothing of the address is stored: it may hold a password or a signature.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from ikigai.core.events.record import Record
from ikigai.system import paths

LOCK_POLL_SECONDS = 0.2
"""Seconds between two looks at a part that another program downloads."""
MAX_STATE_BYTES = 4096
"""Bytes of a .part.json: one that is longer was not written here."""


class PartState(Record, frozen=True):
    """The file that a part belongs to: its size in bytes (0 if unknown), SHA-256 and ETag, "" if unknown."""

    size: int = 0
    sha256: str = ""
    validator: str = ""


class PartFile:
    """The part of the file `target` that is here. All methods but `locked` need the lock."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target.with_name(f"{target.name}.part")
        self._state_file = target.with_name(f"{target.name}.part.json")

    @property
    def size(self) -> int:
        """The number of bytes here."""
        return self.path.stat().st_size if self.path.is_file() else 0

    @asynccontextmanager
    async def locked(self, on_wait: Callable[[], object]) -> AsyncGenerator[None]:
        """Hold the part against other programs. While one of them has it, call `on_wait` again and again."""
        while not (lock := _lock(self.path)):
            on_wait()
            await asyncio.sleep(LOCK_POLL_SECONDS)
        with lock:
            try:
                yield
            finally:
                if not self.size:
                    self.path.unlink(missing_ok=True)
                    self._state_file.unlink(missing_ok=True)

    def read_state(self) -> tuple[PartState, int]:
        """Return the state and size of the part; no size where nothing says what it is part of."""
        try:
            with self._state_file.open("rb") as file:
                state = msgspec.json.decode(file.read(MAX_STATE_BYTES), type=PartState)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return PartState(), 0
        return (state, self.size) if state.sha256 or state.validator else (PartState(), 0)

    def write_state(self, state: PartState) -> None:
        with paths.open_private(self._state_file, "wb") as file:
            file.write(msgspec.json.encode(state))

    def discard(self) -> None:
        """Empty the part. It is not removed, because others wait for its lock."""
        os.truncate(self.path, 0)
        self._state_file.unlink(missing_ok=True)

    def finish(self) -> None:
        """Give the part the name of the file."""
        self.path.replace(self._target)
        self._state_file.unlink(missing_ok=True)


def _lock(path: Path) -> BinaryIO | None:
    """Return the part, locked until it is closed; None if another program has it, or had it and has moved it away."""
    part = paths.open_private(path, "ab")
    try:
        fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(part.fileno()), path.stat()):
            return part
    except (BlockingIOError, FileNotFoundError):
        pass
    part.close()
    return None
