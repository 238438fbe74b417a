"""What an agent has read and what was shown of its calls, so that no file is overwritten that looks different by now.

One `Seen` belongs to one agent; its tools share it. Nothing is kept over a restart: then a file is read again.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ikigai.tools.files.encodings import Encoding

MOST = 5_000
"""Files and shown calls that are remembered; the oldest are forgotten, and a forgotten file must be read again."""


class State(NamedTuple):
    """A file at one moment. `digest` is that of all it held, "" where it is too large to be read whole."""

    stamp: tuple[int, int, int, int]
    digest: str = ""
    encoding: Encoding | None = None

    def same(self, other: State) -> bool:
        """By content where both are known, else by what the file system says of it."""
        return self.digest == other.digest if self.digest and other.digest else self.stamp == other.stamp


class Shown(NamedTuple):
    """What whoever approved a call was shown: the resolved path, and the file as it was (None where there was none)."""

    path: str
    state: State | None


def stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Seen:
    """Files by resolved path, calls by their arguments."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, State] = OrderedDict()
        self._shown: OrderedDict[bytes, Shown] = OrderedDict()
        self._written: OrderedDict[str, tuple[str, set[str]]] = OrderedDict()

    def read(self, path: str, state: State) -> None:
        """The agent has been told what the file holds."""
        _keep(self._files, path, state)

    def state(self, path: str) -> State | None:
        """The file as the agent knows it; None when it was never read."""
        return self._files.get(path)

    def wrote(self, path: str, before: State | None, after: State) -> None:
        """The agent itself made the file so: what was shown of `before` is not stale by that."""
        now, earlier = self._written.get(path, ("", set[str]()))
        earlier = earlier if before and before.digest == now else set()
        _keep(self._written, path, (after.digest, earlier | {before.digest if before else ""}))
        self.read(path, after)

    def show(self, tool: str, arguments: msgspec.Struct, shown: Shown) -> None:
        _keep(self._shown, _key(tool, arguments), shown)

    def shown(self, tool: str, arguments: msgspec.Struct) -> Shown | None:
        return self._shown.get(_key(tool, arguments))

    def stale(self, shown: Shown, now: State | None) -> bool:
        """Whether the file is another one than was shown, by other hands than the agent's."""
        if shown.state is None or now is None:
            if shown.state is now:
                return False
        elif shown.state.same(now):
            return False
        last, earlier = self._written.get(shown.path, ("", set[str]()))
        before = shown.state.digest if shown.state else ""
        return now is None or not now.digest or now.digest != last or before not in earlier


def _keep(kept: OrderedDict, key: str | bytes, value: object) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > MOST:
        kept.popitem(last=False)


def _key(tool: str, arguments: msgspec.Struct) -> bytes:
    return hashlib.sha256(tool.encode() + b"\0" + msgspec.json.encode(arguments)).digest()
