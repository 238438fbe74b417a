"""Track the files that an agent has read and the calls that were shown, so that no changed file is lost.

One `ReadTracker` belongs to one agent; its tools share it. It is empty after a restart: then a file is read again.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ikigai.tools.files.encodings import Encoding

MAX_REMEMBERED = 5_000
"""Maximum files and shown calls; the oldest are dropped, and a dropped file must be read again."""


class FileState(NamedTuple):
    """State of a file at one moment. `digest` is the digest of its whole content, "" if it is too large to be read
    whole.
    """

    stamp: tuple[int, int, int, int]
    digest: str = ""
    encoding: Encoding | None = None

    def same(self, other: FileState) -> bool:
        """Compare by content if both digests are known, else by the stamp from the file system."""
        return self.digest == other.digest if self.digest and other.digest else self.stamp == other.stamp


class ShownCall(NamedTuple):
    """Call as it was shown for approval: the resolved path, and the state of the file (None if there was none)."""

    path: str
    state: FileState | None


def stat_stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class ReadTracker:
    """States of files by resolved path, shown calls by tool and arguments."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, FileState] = OrderedDict()
        self._shown: OrderedDict[bytes, ShownCall] = OrderedDict()
        self._written: OrderedDict[str, tuple[str, set[str]]] = OrderedDict()

    def read(self, path: str, state: FileState) -> None:
        """Record the state of a file whose content the agent has got."""
        _remember(self._files, path, state)

    def state(self, path: str) -> FileState | None:
        """Return the file as the agent knows it, None if it was never read."""
        return self._files.get(path)

    def wrote(self, path: str, before: FileState | None, after: FileState) -> None:
        """Record a write by the agent itself, which does not make a call stale that was shown with `before`."""
        now, earlier = self._written.get(path, ("", set[str]()))
        earlier = earlier if before and before.digest == now else set()
        _remember(self._written, path, (after.digest, earlier | {before.digest if before else ""}))
        self.read(path, after)

    def show(self, tool: str, arguments: msgspec.Struct, shown: ShownCall) -> None:
        _remember(self._shown, _key(tool, arguments), shown)

    def shown(self, tool: str, arguments: msgspec.Struct) -> ShownCall | None:
        return self._shown.get(_key(tool, arguments))

    def stale(self, shown: ShownCall, now: FileState | None) -> bool:
        """Return True if the file has changed since the call was shown, except by writes of the agent itself."""
        if shown.state is None or now is None:
            if shown.state is now:
                return False
        elif shown.state.same(now):
            return False
        last, earlier = self._written.get(shown.path, ("", set[str]()))
        before = shown.state.digest if shown.state else ""
        return now is None or not now.digest or now.digest != last or before not in earlier


def _remember(entries: OrderedDict, key: str | bytes, value: object) -> None:
    entries[key] = value
    entries.move_to_end(key)
    while len(entries) > MAX_REMEMBERED:
        entries.popitem(last=False)


def _key(tool: str, arguments: msgspec.Struct) -> bytes:
    return hashlib.sha256(tool.encode() + b"\0" + msgspec.json.encode(arguments)).digest()
