"""Tool `read_result`, which reads the whole text of a result that was cut or masked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.core.state.open_turn import READ_RESULT
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput

Whole: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Function from the id of a tool call to the whole text of its result in the log, or None."""

PAGE_TOKENS = 8000
"""Maximum tokens of a page."""
FRAME_BYTES = 400
"""Bytes of a page that are reserved for the line above it."""
MAX_LINE_CHARACTERS = 500
"""Characters of a matching line that are shown."""


class ReadResultArguments(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, description="The id from [read_result ID].")]
    offset: Annotated[int, Meta(ge=0, description="The first character to read, counted from 0.")] = 0
    grep: Annotated[
        str, Meta(description="Only lines that contain this text, ignoring case; | separates alternatives.")
    ] = ""


class ReadResult:
    """Tool that reads a result in pages.

    `whole` reads the log. `page` is the size of a page in tokens; no page exceeds the limit of a result, which would
    cut it.
    """

    name, set = READ_RESULT, "memory"
    description = (
        "Reads the whole text of an earlier tool result that was cut or masked: a page from a character offset, or "
        "with grep the lines that contain a text, each with its number and offset."
    )
    arguments = ReadResultArguments

    def __init__(self, whole: Whole, page: int = PAGE_TOKENS) -> None:
        self._whole = whole
        self._room = max(256, min(page, PAGE_TOKENS) * BYTES_PER_TOKEN - FRAME_BYTES)

    async def preview(self, arguments: ReadResultArguments) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.id)

    async def run(self, arguments: ReadResultArguments, progress: OnOutput) -> ToolOutput:
        return ToolOutput(await self.read(arguments))

    async def read(self, arguments: ReadResultArguments) -> str:
        text = await self._whole(arguments.id)
        if text is None:
            raise LookupError(f"there is no tool result with the id {arguments.id!r}.")
        if arguments.offset and arguments.offset >= len(text):
            raise LookupError(f"the result has {len(text):,} characters; offset {arguments.offset:,} is past its end.")
        if arguments.grep:
            return await asyncio.to_thread(self._matching_lines, text, arguments)  # megabytes take a while
        return self._page(text, arguments.offset)

    def _page(self, text: str, offset: int) -> str:
        page = _head(text[offset : offset + self._room], self._room)
        end = offset + len(page)
        on = f"; continue with offset={end}" if end < len(text) else ", its end"
        return f"[characters {offset:,} to {end:,} of {len(text):,}{on}]\n{page}"

    def _matching_lines(self, text: str, arguments: ReadResultArguments) -> str:
        """Return the lines that hold one of the texts of `grep`, with their numbers and offsets.

        The texts are plain: a regular expression from a model could run for ever, and nothing could stop it.
        """
        words = [word.casefold() for word in arguments.grep.split("|") if word]
        matches, room, at, more = list[str](), self._room, 0, 0
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            begin, at = at, at + len(line)
            if at <= arguments.offset or not any(word in line.casefold() for word in words):
                continue
            shown = line.rstrip("\r\n")
            cut = "…" * (len(shown) > MAX_LINE_CHARACTERS)
            shown = f"{number} (offset {begin}): {shown[:MAX_LINE_CHARACTERS]}{cut}"
            shown = shown if matches else _head(shown, room)
            room -= len(shown.encode(errors="surrogatepass")) + 1
            if matches and room < 0:
                more = begin
                break
            matches.append(shown)
        if not matches:
            return f"[no line of {len(text):,} characters contains {arguments.grep!r}]"
        on = f"; there are more: continue with offset={more}" if more else ""
        return "\n".join((f"[{len(matches):,} line{'s' * (len(matches) != 1)}{on}]", *matches))


def _head(text: str, max_bytes: int) -> str:
    """Return as many characters as fit into `max_bytes`."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= max_bytes else data[:max_bytes].decode(errors="ignore")
