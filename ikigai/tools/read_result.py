"""The tool that reads what was cut or masked: the whole text of an earlier tool result, by pages or line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.core.state.open_turn import READ_RESULT
from ikigai.core.tokens import BYTES_PER_TOKEN
from ikigai.tools.base import Kind, Output, Progress, Touch

Whole: TypeAlias = Callable[[str], Awaitable[str | None]]
"""The id of a tool call → the whole text of its result in the log, None where there is none."""

PAGE = 8000
"""Tokens that a page takes at most."""
FRAME = 400
"""Bytes of a page that are left for the line above it."""
LINE = 500
"""Characters of a found line that are shown."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, description="The id that stands in [read_result ID].")]
    offset: Annotated[int, Meta(ge=0, description="The character to begin at, counted from 0.")] = 0
    grep: Annotated[
        str,
        Meta(description="Only lines that hold this text, whatever its case; | stands between alternatives."),
    ] = ""


class ReadResult:
    """`whole` reads the log; `page` is in tokens, and no page is larger than results may be (else it would be cut)."""

    name, set = READ_RESULT, "memory"
    description = (
        "Reads the whole text of an earlier tool result that was cut or masked: a page from a character offset on, or "
        "with grep the lines that hold a text, each with its number and offset."
    )
    arguments = Arguments

    def __init__(self, whole: Whole, page: int = PAGE) -> None:
        self._whole = whole
        self._room = max(256, min(page, PAGE) * BYTES_PER_TOKEN - FRAME)

    async def look(self, arguments: Arguments) -> Touch:
        return Touch(Kind.NOTHING, arguments.id)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        return Output(await self.read(arguments))

    async def read(self, arguments: Arguments) -> str:
        text = await self._whole(arguments.id)
        if text is None:
            raise LookupError(f"there is no tool result under the id {arguments.id!r}.")
        if arguments.offset and arguments.offset >= len(text):
            raise LookupError(
                f"the result has {len(text):,} characters; offset {arguments.offset:,} is behind its end."
            )
        if arguments.grep:
            return await asyncio.to_thread(self._found, text, arguments)  # of megabytes it takes a while
        return self._page(text, arguments.offset)

    def _page(self, text: str, offset: int) -> str:
        page = _head(text[offset : offset + self._room], self._room)
        end = offset + len(page)
        on = f"; offset={end} goes on" if end < len(text) else ", its end"
        return f"[characters {offset:,} to {end:,} of {len(text):,}{on}]\n{page}"

    def _found(self, text: str, arguments: Arguments) -> str:
        """Plain text is looked for: a pattern from a model could take for ever, and nothing could stop it."""
        words = [word.casefold() for word in arguments.grep.split("|") if word]
        found, room, at, more = list[str](), self._room, 0, 0
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            begin, at = at, at + len(line)
            if at <= arguments.offset or not any(word in line.casefold() for word in words):
                continue
            shown = line.rstrip("\r\n")
            shown = f"{number} (offset {begin}): {shown[:LINE]}{'…' * (len(shown) > LINE)}"
            shown = shown if found else _head(shown, room)
            room -= len(shown.encode(errors="surrogatepass")) + 1
            if found and room < 0:
                more = begin
                break
            found.append(shown)
        if not found:
            return f"[no line of {len(text):,} characters holds {arguments.grep!r}]"
        on = f"; there are more: offset={more} goes on" if more else ""
        return "\n".join((f"[{len(found):,} line{'s' * (len(found) != 1)}{on}]", *found))


def _head(text: str, most: int) -> str:
    """As many characters as fit into `most` bytes."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= most else data[:most].decode(errors="ignore")
