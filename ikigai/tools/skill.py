"""Tool `skill`, which returns the instructions of a skill. Its other files are read with the file tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ikigai.core.tools.skill_offer import SKILL_TOOL, SKILLS_SET
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput

ReadSkill: TypeAlias = Callable[[str], Awaitable[str]]
"""Function from the name of a skill to its instructions. Raise LookupError, in words, for an unknown one."""


class SkillArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, description="The name of the skill, as listed.")]


class SkillTool:
    """Tool that reads a skill with the function `read`. It runs nothing, and approves nothing."""

    name, set = SKILL_TOOL, SKILLS_SET
    description = (
        "Returns the instructions of a skill, and the folder of its other files, which read_file reads. Its scripts "
        "run as any other command does."
    )
    arguments = SkillArguments

    def __init__(self, read: ReadSkill) -> None:
        self._read = read

    async def preview(self, arguments: SkillArguments) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.name)

    async def run(self, arguments: SkillArguments, progress: OnOutput) -> ToolOutput:
        return ToolOutput(await self._read(arguments.name))
