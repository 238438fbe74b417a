"""Import exported histories: `ikigai history import`, with its progress and its message."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.core.relocation.redacted_rows import redact_row
from ikigai.core.relocation.turn_ends import TurnEnds
from ikigai.export.json_import import ImportReader
from ikigai.store.transfer.transfer import History
from ikigai.system.progress import show_progress

if TYPE_CHECKING:
    from ikigai.core.relocation.renumber import RawRow
    from ikigai.store.database import Database
    from ikigai.store.transfer.transfer import Imported

UNCHECKED = " The file has no checksum, so damage could not be detected."
STANDARD_INPUT = Path("-")


class ImportFile:
    """A file that is imported: reads its rows, and words what became of them."""

    def __init__(self, path: Path, file: BinaryIO, own: Callable[[str], str]) -> None:
        self.path = Path("standard input") if path == STANDARD_INPUT else path
        self._own, self._ends = own, TurnEnds()
        self.reader = _reader(self.path, file)

    def rows(self) -> Iterator[RawRow]:
        """Yield the rows without ikigai's own keys, each turn with its end. Raise IkigaiError."""
        try:
            for row in self._ends.rows(self.reader.rows()):
                yield redact_row(row, self._own)
        except OSError as error:
            raise IkigaiError(f"{self.path} cannot be read: {error.strerror}.", "Check the disk.") from None

    def place(self, number: int) -> str:
        """Return the place of the row `number`, counted from 1."""
        return f"{self.path}, {self.reader.place(self._ends.original_number(number))}"

    def describe(self, made: Imported) -> str:
        """Return a sentence about the agent."""
        kind = (
            f"is new, a fork of {made.parent}, and has {made.events:,} events of its own"
            if made.parent
            else (f"is new and has {made.events:,} events")
        )
        added = f" {self._ends.added:,} turn{'s' * (self._ends.added != 1)} had no end: added." * bool(self._ends.added)
        return f"{made.name} {kind}.{added}{'' if self.reader.has_checksum else UNCHECKED}"


def _reader(path: Path, file: BinaryIO) -> ImportReader:
    return ImportReader(path, file, max(1, os.fstat(file.fileno()).st_size))


async def run_import(database: Database, arguments: argparse.Namespace, own: Callable[[str], str] = str) -> str:
    """Run `ikigai history import`; return its message. Raise IkigaiError.

    `own` replaces ikigai's own keys in a text.
    """
    paths = [Path(each) for each in arguments.file]
    if len(paths) > 1 and (arguments.name or STANDARD_INPUT in paths):
        raise ConfigError("Of several files each agent gets the name it had.", "Import one alone with --name, or by -.")
    if len(paths) > 1:
        paths = await asyncio.to_thread(_parents_first, paths)
    files = list[ImportFile]()
    with contextlib.ExitStack() as opened, show_progress("Importing", "bytes") as on_progress:

        def histories() -> Iterator[History]:
            for path in paths:
                files.append(ImportFile(path, opened.enter_context(_open_history(path)), own))
                yield History(files[-1].rows(), arguments.name, files[-1].reader.agent)
                opened.pop_all().close()

        def progress(count: int) -> None:
            on_progress(files[-1].reader.done, files[-1].reader.size)

        try:
            made = await database.begin_import().store_all(histories(), progress)
        except Rejected as refusal:
            if number := getattr(refusal, "number", 0):
                raise Rejected(f"{files[-1].place(number)}: {refusal.what}", refusal.remedy) from None
            raise
    lines = [file.describe(agent) for file, agent in zip(files, made, strict=True)]
    return "\n".join(lines) + f" Go on with it: ikigai -r {made[-1].name}" * (len(made) == 1)


def _parents_first(paths: list[Path]) -> list[Path]:
    """Return the files by the number of ancestors in each, and check them all. Raise IkigaiError for a wrong one."""
    depths = dict[Path, int]()
    for path in dict.fromkeys(paths):
        with open_import(path) as file:
            depths[path] = len({row.agent for row in _reader(path, file).rows()})
    return sorted(depths, key=depths.__getitem__)


def _open_history(path: Path) -> BinaryIO:
    """Open the file for reading, or a copy of the standard input for -. Raise IkigaiError."""
    if path != STANDARD_INPUT:
        return open_import(path)
    import shutil
    import tempfile

    if sys.stdin.isatty():
        raise ConfigError("A history is not read from a terminal.", "Name a file, or redirect the input.")
    copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    try:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.seek(0)
    except (OSError, ValueError) as error:
        copy.close()
        raise IkigaiError(f"The standard input cannot be copied: {error}.", "Name a file.") from None
    return copy


def open_import(path: Path) -> BinaryIO:
    """Open the file for reading. Raise ConfigError."""
    from ikigai.images import picture_files

    try:
        return picture_files.open_picture(path)
    except picture_files.SpecialFile:
        raise ConfigError(f"{path} is not a regular file.", "Copy its contents into a regular file.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check the name.") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r} is not a path.", "Check the name.") from None
