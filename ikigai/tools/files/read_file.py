"""The tool that reads a file: its lines with their numbers, or its picture; never more than it shows and a bound."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.core.messages import Image
from ikigai.tools.base import Output, Progress, Touch
from ikigai.tools.files.contents import WHOLE, Content, readable, whole
from ikigai.tools.files.encodings import Encoding, line_ends, named, recognised, visible
from ikigai.tools.files.read_only_tool import Looking
from ikigai.tools.files.read_tracker import Seen, State, stamp
from ikigai.tools.files.safe_paths import in_words, opened

Picture: TypeAlias = Callable[[BinaryIO, str], Image | None]
"""An open file and what it is called → the image in it; None, the file wound back, where it holds none. Raises in
words when the image is damaged."""

LIMIT, LINE, PAGE = 2_000, 2_000, 400_000
"""Lines of a call that names no number, characters of a line that are shown, characters of one answer."""
SCANNED = 256_000_000
"""Bytes of a larger file that are gone through for the line to begin at."""
_BLOCK = 1 << 18


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or from the working directory on; ~ is the home.")]
    offset: Annotated[int, Meta(ge=1, description="The line to begin at, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines.")] = LIMIT
    encoding: Annotated[
        str, Meta(description="Only where what is recognised is wrong: the encoding of the file, as shift_jis.")
    ] = ""


class Page(NamedTuple):
    """Lines from the first one asked for; `more` says whether the file goes on, `total` how many it has if known."""

    lines: list[str]
    more: bool
    total: int | None


class ReadFile:
    """`picture` recognises images, for models that see; without it an image is a binary file like others."""

    name = "read_file"
    set = "files"
    description = (
        "Reads a text file: its lines, each with its number and a tab before it, which are not part of the file. "
        "Shows PNG, JPEG, WebP and GIF images. A file must be read before edit_file or write_file may change it."
    )
    arguments = Arguments

    def __init__(self, directory: Path, seen: Seen, picture: Picture | None = None) -> None:
        self._looking, self._seen, self._picture = Looking(self.name, directory, seen), seen, picture

    async def look(self, arguments: Arguments) -> Touch:
        return self._looking.touch(arguments, arguments.path)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        return await asyncio.to_thread(self._read, arguments)

    def _read(self, arguments: Arguments) -> Output:
        path = self._looking.path(arguments, arguments.path)
        try:
            with opened(path) as file:
                return self._told(file, path, arguments)
        except OSError as error:
            raise in_words(error, arguments.path) from None

    def _told(self, file: BinaryIO, path: Path, arguments: Arguments) -> Output:
        found = os.fstat(file.fileno())
        if self._picture and (image := self._picture(file, arguments.path)):
            file.seek(0)
            content = whole(file)
            self._seen.read(str(path), content.state)
            size = f"{image.width} × {image.height} pixels"
            return Output(f"[image {arguments.path}, {image.media_type}, {size} as shown]", (image,))
        content = whole(file, arguments.encoding)
        if len(content.data) > WHOLE:
            file.seek(0)
            how, page = _part(file, content.data[:_BLOCK], arguments)
            state = State(stamp(found), encoding=how)
        else:
            how, page, state = content.encoding, _page(content.text, arguments), content.state
        if how is None:
            first = content.data[:8].hex(" ")
            raise ValueError(f"{arguments.path} is a binary file of {content.size:,} bytes; it begins with {first}.")
        self._seen.read(str(path), state)
        return Output(_shown(page, arguments, how, content))


def _page(text: str, arguments: Arguments) -> Page:
    """The lines of a whole text."""
    lines = text.removesuffix("\n").split("\n") if text else []
    first = arguments.offset - 1
    taken = [line.removesuffix("\r") for line in _bounded(iter(lines[first : first + arguments.limit]))]
    return Page(taken, first + len(taken) < len(lines), len(lines))


def _bounded(lines: Iterator[str]) -> Iterator[str]:
    """As many lines as one answer holds, at least one."""
    room = PAGE
    for line in lines:
        yield line
        room -= min(len(line), LINE) + 8
        if room < 0:
            return


def _part(file: BinaryIO, head: bytes, arguments: Arguments) -> tuple[Encoding | None, Page]:
    """The lines of a file that is too large to be read whole, by blocks; lines are cut as they come."""
    how = named(arguments.encoding, head) if arguments.encoding else recognised(head, whole=False)
    if how is None:
        return None, Page([], False, None)
    decoder = codecs.getincrementaldecoder(how.name)("surrogateescape" if how.name == "utf-8" else "replace")
    file.seek(len(how.mark))
    taken, number, line, room, scanned = list[str](), 1, "", PAGE, 0
    while scanned < SCANNED and (block := readable(file, _BLOCK)):
        scanned += len(block)
        text = decoder.decode(block)
        if (skipped := text.count("\n")) < arguments.offset - number:
            number += skipped
            line = ("" if skipped else line) + text.rpartition("\n")[2][: LINE + 1]
            continue
        first, *rest = text.split("\n")
        line += first[: LINE + 1]
        for following in rest:
            if number >= arguments.offset:
                taken.append(line.removesuffix("\r"))
                room -= min(len(line), LINE) + 8
            if len(taken) == arguments.limit or room < 0:
                return how, Page(taken, True, None)
            number, line = number + 1, following[: LINE + 1]
        line = line[: LINE + 1]
    if scanned >= SCANNED:
        if not taken:
            raise ValueError(f"line {arguments.offset:,} is not within the first {SCANNED:,} bytes, which is the most.")
        return how, Page(taken, True, None)
    if line and number >= arguments.offset:
        taken.append(line)
    return how, Page(taken, False, number - (not line))


def _shown(page: Page, arguments: Arguments, how: Encoding, content: Content) -> str:
    """The lines as `cat -n` numbers them, under a line that says which they are and what is odd about the file."""
    first, last = arguments.offset, arguments.offset + len(page.lines) - 1
    odd = [word for word in (how.shown, line_ends(content.text)) if word]
    if content.text and not content.text.endswith("\n"):
        odd.append("no line end at the end")
    if not content.data:
        return "[the file is empty]"
    if not page.lines:
        of = f"the file has {page.total:,} lines"
        raise LookupError(f"there is no line {first:,}: {of}.")
    of = f" of {page.total:,}" if page.total is not None else f" of a file of {content.size:,} bytes"
    on = f"; offset={last + 1} goes on" if page.more else ""
    head = f"[lines {first:,} to {last:,}{of}{on}{''.join(f'; {word}' for word in odd)}]"
    return "\n".join((head, *(f"{number:6}\t{_cut(line)}" for number, line in enumerate(page.lines, first))))


def _cut(line: str) -> str:
    return visible(line if len(line) <= LINE else f"{line[:LINE]}… [the line is longer]")
