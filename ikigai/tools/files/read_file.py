"""Tool `read_file`, which reads a limited part of a file: numbered lines, or an image."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.core.events.messages import Image
from ikigai.tools.base import Effect, OnOutput, ToolOutput
from ikigai.tools.files.contents import MAX_WHOLE_BYTES, Content, read_prefix, read_whole
from ikigai.tools.files.encodings import Encoding, describe_line_ends, named_encoding, recognize_encoding, visible_text
from ikigai.tools.files.read_only_tool import ReadOnlyTool
from ikigai.tools.files.read_tracker import FileState, ReadTracker, stat_stamp
from ikigai.tools.files.safe_paths import open_file, readable_error

Picture: TypeAlias = Callable[[BinaryIO, str], Image | None]
"""Function from an open file and its name to the image in it; None, the file rewound, if it holds none.

Raise an exception, in words, if the image is damaged.
"""

DEFAULT_LINES, MAX_LINE_CHARACTERS, MAX_RESULT_CHARACTERS = 2_000, 2_000, 400_000
"""Default number of lines, characters of a line that are shown, characters of a result."""
MAX_SCANNED_BYTES = 256_000_000
"""Maximum bytes of a large file that are scanned for the first line."""
_BLOCK_BYTES = 1 << 18


class ReadFileArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or relative to the working directory; ~ is the home.")]
    offset: Annotated[int, Meta(ge=1, description="The first line to read, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines.")] = DEFAULT_LINES
    encoding: Annotated[
        str, Meta(description="The encoding of the file, such as shift_jis; only if the detected one is wrong.")
    ] = ""


class FilePage(NamedTuple):
    """Requested lines; `more` is True if the file goes on; `total` is its number of lines, None if unknown."""

    lines: list[str]
    more: bool
    total: int | None


class ReadFile:
    """Tool that reads a file. `picture` recognizes images, for models that see; without it they are binary files."""

    name = "read_file"
    set = "files"
    description = (
        "Reads lines of a text file. The number and the tab before each line are not part of the file. "
        "Shows PNG, JPEG, WebP and GIF images. A file must be read before edit_file or write_file may change it."
    )
    arguments = ReadFileArguments

    def __init__(self, directory: Path, tracker: ReadTracker, picture: Picture | None = None) -> None:
        self._access, self._tracker, self._picture = ReadOnlyTool(self.name, directory, tracker), tracker, picture

    async def preview(self, arguments: ReadFileArguments) -> Effect:
        return self._access.read_effect(arguments, arguments.path)

    async def run(self, arguments: ReadFileArguments, progress: OnOutput) -> ToolOutput:
        return await asyncio.to_thread(self._read, arguments)

    def _read(self, arguments: ReadFileArguments) -> ToolOutput:
        path = self._access.path(arguments, arguments.path)
        try:
            with open_file(path) as file:
                return self._format_page(file, path, arguments)
        except OSError as error:
            raise readable_error(error, arguments.path) from None

    def _format_page(self, file: BinaryIO, path: Path, arguments: ReadFileArguments) -> ToolOutput:
        status = os.fstat(file.fileno())
        if self._picture and (image := self._picture(file, arguments.path)):
            file.seek(0)
            content = read_whole(file)
            self._tracker.read(str(path), content.state)
            size = f"{image.width} × {image.height} pixels"
            return ToolOutput(f"[image {arguments.path}, {image.media_type}, {size} as shown]", (image,))
        content = read_whole(file, arguments.encoding)
        if len(content.data) > MAX_WHOLE_BYTES:
            file.seek(0)
            encoding, page = _large_file_page(file, content.data[:_BLOCK_BYTES], arguments)
            state = FileState(stat_stamp(status), encoding=encoding)
        else:
            encoding, page, state = content.encoding, _page(content.text, arguments), content.state
        if encoding is None:
            first = content.data[:8].hex(" ")
            raise ValueError(f"{arguments.path} is a binary file of {content.size:,} bytes; it begins with {first}.")
        self._tracker.read(str(path), state)
        return ToolOutput(_format_lines(page, arguments, encoding, content))


def _page(text: str, arguments: ReadFileArguments) -> FilePage:
    """Return the requested lines of a whole text."""
    lines = text.removesuffix("\n").split("\n") if text else []
    first = arguments.offset - 1
    taken = [line.removesuffix("\r") for line in _limit_lines(iter(lines[first : first + arguments.limit]))]
    return FilePage(taken, first + len(taken) < len(lines), len(lines))


def _limit_lines(lines: Iterator[str]) -> Iterator[str]:
    """Yield as many lines as a result holds, at least one."""
    room = MAX_RESULT_CHARACTERS
    for line in lines:
        yield line
        room -= min(len(line), MAX_LINE_CHARACTERS) + 8
        if room < 0:
            return


def _large_file_page(file: BinaryIO, head: bytes, arguments: ReadFileArguments) -> tuple[Encoding | None, FilePage]:
    """Return encoding and lines of a file that is too large to read whole, read in blocks; long lines are cut."""
    encoding = named_encoding(arguments.encoding, head) if arguments.encoding else recognize_encoding(head, whole=False)
    if encoding is None:
        return None, FilePage([], False, None)
    decoder = codecs.getincrementaldecoder(encoding.name)("surrogateescape" if encoding.name == "utf-8" else "replace")
    file.seek(len(encoding.mark))
    lines, number, line, room, scanned = list[str](), 1, "", MAX_RESULT_CHARACTERS, 0
    while scanned < MAX_SCANNED_BYTES and (block := read_prefix(file, _BLOCK_BYTES)):
        scanned += len(block)
        text = decoder.decode(block)
        if (skipped := text.count("\n")) < arguments.offset - number:
            number += skipped
            line = ("" if skipped else line) + text.rpartition("\n")[2][: MAX_LINE_CHARACTERS + 1]
            continue
        first, *rest = text.split("\n")
        line += first[: MAX_LINE_CHARACTERS + 1]
        for following in rest:
            if number >= arguments.offset:
                lines.append(line.removesuffix("\r"))
                room -= min(len(line), MAX_LINE_CHARACTERS) + 8
            if len(lines) == arguments.limit or room < 0:
                return encoding, FilePage(lines, True, None)
            number, line = number + 1, following[: MAX_LINE_CHARACTERS + 1]
        line = line[: MAX_LINE_CHARACTERS + 1]
    if scanned >= MAX_SCANNED_BYTES:
        if not lines:
            raise ValueError(
                f"line {arguments.offset:,} is after the first {MAX_SCANNED_BYTES:,} bytes, which is the limit."
            )
        return encoding, FilePage(lines, True, None)
    if line and number >= arguments.offset:
        lines.append(line)
    return encoding, FilePage(lines, False, number - (not line))


def _format_lines(page: FilePage, arguments: ReadFileArguments, encoding: Encoding, content: Content) -> str:
    """Return the lines numbered as by `cat -n`, below a line with their range and the oddities of the file."""
    first, last = arguments.offset, arguments.offset + len(page.lines) - 1
    notes = [word for word in (encoding.shown, describe_line_ends(content.text)) if word]
    if content.text and not content.text.endswith("\n"):
        notes.append("no newline at the end")
    if not content.data:
        return "[the file is empty]"
    if not page.lines:
        of = f"the file has {page.total:,} lines"
        raise LookupError(f"there is no line {first:,}: {of}.")
    of = f" of {page.total:,}" if page.total is not None else f" of a file of {content.size:,} bytes"
    next_page = f"; continue with offset={last + 1}" if page.more else ""
    head = f"[lines {first:,} to {last:,}{of}{next_page}{''.join(f'; {word}' for word in notes)}]"
    return "\n".join((head, *(f"{number:6}\t{_cut_line(line)}" for number, line in enumerate(page.lines, first))))


def _cut_line(line: str) -> str:
    return visible_text(
        line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]}… [the line is longer]"
    )
