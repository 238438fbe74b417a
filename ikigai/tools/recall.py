"""Tool `recall`, which searches the whole log and returns excerpts with their ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput

Found: TypeAlias = Callable[[str], Awaitable[str]]
"""Function from a question to excerpts as text, each with its id; "" if nothing matches."""


class RecallArguments(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, description="What to look for, in words that may occur there.")]


class Recall:
    """Tool that searches the log with the function `search`."""

    name, set = "recall", "memory"
    description = (
        "Searches all conversations with the user, also what is no longer in this context, and "
        "returns excerpts with their ids. Name the ids you rely on."
    )
    arguments = RecallArguments

    def __init__(self, search: Found) -> None:
        self._found = search

    async def preview(self, arguments: RecallArguments) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.question)

    async def run(self, arguments: RecallArguments, progress: OnOutput) -> ToolOutput:
        return ToolOutput(await self._found(arguments.question) or "No message contains these words.")
