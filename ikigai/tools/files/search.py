"""Searching files below a directory: by ripgrep where there is one, else by a child of ours; both tell the same.

.gitignore is honoured by both, hidden files are looked into, .git and links are not. Neither outlives its time.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from ikigai.tools.files.glob_patterns import Glob
from ikigai.tools.files.safe_paths import within
from ikigai.tools.files.search_child import Order
from ikigai.tools.shell.child import Child, python

SECONDS = 20.0
"""A search takes no longer; what was found until then is told."""
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
)
_LINE = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)
_UNENDED = 1 << 20
"""Bytes of output without an end that are waited for; no program prints such lines when told not to."""


class Line(NamedTuple):
    """One line that was found, or (`context`) stands beside one."""

    path: str
    number: int
    text: str
    context: bool


class Search:
    """One search. `ripgrep` is the path of that program, "" for none. After the results, `late` says that time ran
    out. Raises ValueError, in words, for a pattern that is none.

    Files that look like keys give no results (see `Order`). `skipped` holds those that a listing came upon.
    """

    def __init__(self, order: Order, ripgrep: str = "") -> None:
        self._order, self._ripgrep = order, ripgrep
        self._glob = Glob(order.glob) if order.glob else None
        self.late = False
        self.skipped = list[str]()

    async def files(self) -> AsyncGenerator[str]:
        """Paths of files, relative to the root of the order: all, or with a pattern those in which it is found."""
        async with aclosing(self._records(b"\0")) as records:
            async for record in records:
                path = _path(record)
                if not self._wanted(path):
                    continue
                if not self._order.is_secret(path):
                    yield path
                elif not self._order.pattern:
                    self.skipped.append(path)

    async def lines(self) -> AsyncGenerator[Line]:
        async with aclosing(self._records(b"\n")) as records:
            async for record in records:
                name, _, rest = record.partition(b"\0")
                found = _LINE.fullmatch(rest)
                if found and self._wanted(path := _path(name)) and not self._order.is_secret(path):
                    text = found[3].decode(errors="replace").removesuffix("\r")
                    yield Line(path, int(found[1]), text, found[2] == b"-")

    async def list_skipped(self) -> list[str]:
        """Return the files that look like keys, of those that the search is for.

        A listing of its own finds them: were only those named in which the pattern is found, patterns could guess what
        stands in them.
        """
        if self._order.only or not self._order.secrets_from:
            return []
        listing = Search(msgspec.structs.replace(self._order, pattern="", names=False), self._ripgrep)
        async with aclosing(listing.files()) as files:
            async for _ in files:
                pass
        return listing.skipped

    def _wanted(self, path: str) -> bool:
        return self._glob is None or self._glob.matches(path)

    async def _records(self, end: bytes) -> AsyncGenerator[bytes]:
        """What the program prints, piece by piece up to `end`; that of our child where ripgrep cannot do it."""
        order = self._order
        feed = msgspec.json.encode(order)
        ways: list[tuple[tuple[str, ...], bytes, tuple[int, ...]]] = [
            (python("ikigai.tools.files.search_child"), feed, (0,))
        ]
        if self._ripgrep and not order.only:  # it would follow a link that has taken the place of the file
            ways.insert(0, (_command(self._ripgrep, order, self._glob), b"", (0, 1)))
        complaint = ""
        for command, given, good in ways:
            async with _in(order.root) as here, Child(command, order.seconds, feed=given, directory=here) as child:
                rest = b""
                while piece := await child.read():
                    *records, rest = (rest + piece).split(end)
                    rest = rest[:_UNENDED]
                    for record in records:
                        yield record
                self.late = child.late
                if self.late or child.status in good:
                    return
                complaint = child.complaint
        if "Traceback" in complaint or not complaint:
            raise OSError(f"the search failed. {complaint.strip().rpartition(chr(10))[2]}".strip())
        raise ValueError(f"{order.pattern!r} is no regular expression: {complaint}.")


@asynccontextmanager
async def _in(root: str) -> AsyncGenerator[str]:
    """The directory at this resolved path as a child can start in it, which is that one whatever takes its name."""
    with within(Path(root)) as descriptor:
        here = f"/proc/self/fd/{descriptor}"
        yield here if Path(here).exists() else root


def _command(ripgrep: str, order: Order, glob: Glob | None) -> tuple[str, ...]:
    command = [ripgrep, *_RIPGREP]
    if order.everything:
        command.append("--no-ignore")
    if glob and glob.name:  # --glob would bring ignored files back; a type does not
        command += [f"--type-add=wanted:{glob.name}", "--type=wanted"]
    if not order.pattern:
        return *command, "--files", "--", "./"
    command += ["--crlf", "--ignore-case" if order.ignore_case else "--case-sensitive"]
    if order.literal:
        command.append("--fixed-strings")
    if order.names:
        command.append("--files-with-matches")
    else:
        command += ["--line-number", "--with-filename", "--no-heading", f"--context={order.context}"]
        command += [f"--max-columns={order.line}", "--max-columns-preview"]
    return *command, f"--regexp={order.pattern}", "--", "./"


def _path(name: bytes) -> str:
    return os.fsdecode(name).removeprefix("./")


def ordered(directory: Path, only: str = "", **more: object) -> Order:
    """An order for a directory, or one file in it."""
    return msgspec.convert({"root": str(directory), "only": only, **more}, Order)


def skipped_note(paths: Sequence[str]) -> list[str]:
    """Return the line that tells a model which files were skipped because they look like keys; none for none."""
    if not paths:
        return []
    more = f" and {len(paths) - MAX_NAMED_SKIPPED:,} more" if len(paths) > MAX_NAMED_SKIPPED else ""
    named = ", ".join(paths[:MAX_NAMED_SKIPPED]) + more
    return [f"[skipped, as they look like files with keys or passwords: {named}; to read one, name it as the path]"]
