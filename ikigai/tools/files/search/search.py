"""Search and list files below a directory with ripgrep.

.gitignore is honored, hidden files are searched, .git and links are not. No search takes longer than its timeout.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ikigai.tools.files.safe_paths import open_directory, open_file
from ikigai.tools.files.search import ripgrep
from ikigai.tools.files.search.glob_patterns import Glob
from ikigai.tools.secret_files import is_secret
from ikigai.tools.shell.child import ChildProcess

SEARCH_SECONDS = 20.0
"""Timeout of a search, which then returns its matches so far."""
MAX_NAMED_SKIPPED = 10
"""Skipped files that are named in a result."""
_RIPGREP = (
    "--no-config",
    "--color=never",
    "--hidden",
    "--glob=!.git",
    "--sort=path",
    "--null",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--engine=auto",  # lookaround and back references
)
_CPU_LIMITED = ("/bin/sh", "-c", 'ulimit -t "$0" 2>/dev/null; exec "$@"')
"""A search that outlives a killed ikigai ends by the limit of its processor time, which is its first argument."""
_LINE = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_MAX_PATH_BYTES = 4096
_MAX_PENDING_BYTES = 1 << 20
"""Maximum bytes of a record that has not ended; with the options above ripgrep prints no such lines."""


class Order(NamedTuple):
    """Request for a search below `root`, or in the one file `only` in it; without a pattern for a list of files."""

    root: Path
    only: str = ""
    everything: bool = False
    glob: str = ""
    pattern: str = ""
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    names: bool = False
    line: int = 500
    seconds: float = SEARCH_SECONDS
    secrets_from: str = ""
    """Folder from which files are judged to look like keys and skipped; "" skips none."""

    def is_secret(self, path: str) -> bool:
        """Return True for a path below `root` that is skipped. The one file `only` was approved by its name."""
        return bool(self.secrets_from) and not self.only and is_secret(self.secrets_from, f"{self.root}/{path}")


class FoundLine(NamedTuple):
    """One matching line, or one beside it (`context`)."""

    path: str
    number: int
    text: str
    context: bool


class FileSearch:
    """One search. After the results, `is_late` is True if it timed out.

    Raise ValueError, in words, for an invalid pattern, and OSError if ripgrep is missing. Files that look like keys
    give no results (see `Order`). `skipped` holds those that a listing has found.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._glob = Glob(order.glob) if order.glob else None
        self.is_late = False
        self.skipped = list[str]()

    async def files(self) -> AsyncGenerator[str]:
        """Yield paths of files, relative to the root of the order: all, or those that match its pattern."""
        if self._order.only:
            async with aclosing(self.lines()) as lines:
                async for line in lines:
                    yield line.path
                    break
            return
        async with aclosing(self._read_records(b"\0")) as records:
            async for record in records:
                path = _path(record)
                if not self._matches(path):
                    continue
                if not self._order.is_secret(path):
                    yield path
                elif not self._order.pattern:
                    self.skipped.append(path)

    async def lines(self) -> AsyncGenerator[FoundLine]:
        begun = b""  # of a name with line breaks
        async with aclosing(self._read_records(b"\n")) as records:
            async for record in records:
                name, end, rest = record.partition(b"\0")
                if not end:
                    is_name = (begun or name.startswith(b"./")) and b"binary file" not in name
                    begun = begun + name + b"\n" if is_name and len(begun) < _MAX_PATH_BYTES else b""
                    continue
                name, begun = begun + name, b""
                match = _LINE.fullmatch(rest)
                if match and self._matches(path := self._order.only or _path(name)) and not self._order.is_secret(path):
                    text = match[3].decode(errors="replace").removesuffix("\r")
                    yield FoundLine(path, int(match[1]), text, match[2] == b"-")

    async def list_skipped(self) -> list[str]:
        """Return the files in the scope of the search that look like keys.

        A separate listing finds them: if only files with a match were named, patterns could guess their content.
        """
        if self._order.only or not self._order.secrets_from:
            return []
        listing = FileSearch(self._order._replace(pattern="", names=False))
        async with aclosing(listing.files()) as files:
            async for _ in files:
                pass
        return listing.skipped

    def _matches(self, path: str) -> bool:
        return self._glob is None or self._glob.matches(path)

    async def _read_records(self, end: bytes) -> AsyncGenerator[bytes]:
        """Yield the output of the program, split at `end`."""
        order, command = self._order, _command(self._order, self._glob)
        async with (
            _open_root(order) as (directory, file),
            ChildProcess(command, order.seconds, directory=directory, file=file) as child,
        ):
            rest = b""
            while piece := await child.read():
                *records, rest = (rest + piece).split(end)
                rest = rest[:_MAX_PENDING_BYTES]
                for record in records:
                    yield record
        self.is_late = child.is_late
        # 1 means no match; 2 without a message means files that could not be read.
        if self.is_late or child.status in (0, 1) or (child.status == 2 and not child.complaint):
            return
        why = child.complaint.strip().rpartition("\n")[2].removeprefix("rg: ").removeprefix("error: ")
        if child.status == 2 and order.pattern:
            raise ValueError(f"{order.pattern!r} is not a regular expression: {why}.")
        raise OSError(f"the search failed. {why}".strip())


@asynccontextmanager
async def _open_root(order: Order) -> AsyncGenerator[tuple[str, BinaryIO | None]]:
    """Open the directory and the single file of the search, which stay the same whatever takes their names."""
    if order.only:
        with open_file(order.root / order.only) as file:
            yield "/", file
    else:
        with open_directory(order.root) as descriptor:
            here = f"/proc/self/fd/{descriptor}"
            yield here if Path(here).exists() else str(order.root), None


def _command(order: Order, glob: Glob | None) -> tuple[str, ...]:
    command = [*_CPU_LIMITED, str(int(order.seconds) + 2), ripgrep.program(), *_RIPGREP]
    if order.everything:
        command.append("--no-ignore")
    if glob and glob.name:  # --glob would include ignored files again; a type does not
        command += [f"--type-add=wanted:{glob.name}", "--type=wanted"]
    if not order.pattern:
        return *command, "--files", "--", "./"
    command += ["--crlf", "--ignore-case" if order.ignore_case else "--case-sensitive"]
    if order.literal:
        command.append("--fixed-strings")
    if order.names and not order.only:
        command.append("--files-with-matches")
    else:
        command += ["--line-number", "--with-filename", "--no-heading", f"--context={order.context}"]
        command += [f"--max-columns={order.line}", "--max-columns-preview"]
    return *command, f"--regexp={order.pattern}", "--", "-" if order.only else "./"


def _path(name: bytes) -> str:
    return os.fsdecode(name).removeprefix("./")


def skipped_note(paths: Sequence[str]) -> list[str]:
    """Return the line that names the files skipped because they look like keys, as a list of at most one."""
    if not paths:
        return []
    more = f" and {len(paths) - MAX_NAMED_SKIPPED:,} more" if len(paths) > MAX_NAMED_SKIPPED else ""
    named = ", ".join(paths[:MAX_NAMED_SKIPPED]) + more
    return [f"[skipped, as they look like files with keys or passwords: {named}; to read one, name it as the path]"]
