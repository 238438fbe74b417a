"""The tool that finds what was said long ago, in everything ever said: excerpts with their ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch

Found: TypeAlias = Callable[[str], Awaitable[str]]
"""A question → excerpts as text, each with its id; "" where nothing was found."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, description="What is looked for, in words that may have been used.")]


class Recall:
    """`found` searches the log."""

    name, set = "recall", "memory"
    description = (
        "Searches everything that was ever said with the user, also what is no longer in this conversation, and "
        "returns excerpts with their ids. Name the ids you rely on."
    )
    arguments = Arguments

    def __init__(self, found: Found) -> None:
        self._found = found

    async def look(self, arguments: Arguments) -> Touch:
        return Touch(Kind.NOTHING, arguments.question)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        return Output(await self._found(arguments.question) or "Nothing that was ever said has these words in it.")
