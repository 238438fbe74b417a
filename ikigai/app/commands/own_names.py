"""Find what /NAME means where the program has no such command: a command of the user's own, or a skill."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.commands import own_commands
from ikigai.app.commands.own_commands import OwnCommand
from ikigai.config import Config, with_profile
from ikigai.core.commands.table import BY_NAME
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Document, DocumentKind
from ikigai.core.state.inputs import Submitted
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.app.project.trusted_project import Project
    from ikigai.app.run.services import Services
    from ikigai.app.skills.library import Skill, SkillLibrary
    from ikigai.core.state.memory import Memory


class OwnNames(NamedTuple):
    """The names that the user may type besides the program's. `off` are skills that are switched off."""

    project: Project | None
    library: SkillLibrary
    off: Collection[str] = ()

    def _skills(self) -> dict[str, Skill]:
        found = self.library.skills()
        return {name: skill for name, skill in found.items() if skill.by_user and name not in BY_NAME}

    def has(self, name: str) -> bool:
        """Return True if this is the name of a command of the user's, or of a skill that can be typed."""
        return name in own_commands.command_files(self.project) or name in self._skills()

    def describe(self) -> dict[str, OwnCommand]:
        """Return all names with what they take and their help."""
        from ikigai.app.skills.library import short_line

        found = dict(own_commands.describe_commands(self.project))
        for name, skill in self._skills().items():
            if name not in self.off:
                found.setdefault(name, OwnCommand(skill.hint, short_line(skill.description), ""))
        return found

    def message_of(self, line: str) -> Submitted:
        """Return the message that a line /NAME [ARGUMENTS] stands for. Raise Rejected if it cannot be had."""
        name, *rest = line[1:].split(maxsplit=1)
        if name in own_commands.command_files(self.project) or (skill := self._skills().get(name)) is None:
            return Submitted(own_commands.message_of(line, self.project))
        if name in self.off:
            raise Rejected(f"The skill {name} is switched off.", f"/skills on {name} switches it on.")
        text = self.library.instructions(skill).replace("$ARGUMENTS", "".join(rest).strip())
        return Submitted(line, documents=(Document(name, text, DocumentKind.SKILL),))


def own_names_of(services: Services, memory: Memory | None) -> OwnNames:
    """Return the names of a run; `memory` is the one of the agent on screen."""
    settings = services.context_settings(memory) if memory else services.config.context
    return OwnNames(services.project, services.skills, settings.skills_off)


def find_own_names(config: Config) -> OwnNames:
    """Return the names where no services are open."""
    from ikigai.app.plugins.installed import usable_plugins
    from ikigai.app.project.trusted_project import make_project
    from ikigai.app.skills.library import SkillLibrary

    project = make_project()
    project.check_trust()
    plugins = usable_plugins([]) if paths.plugins_file().exists() else []
    library = SkillLibrary(project, [each.skill_place for each in plugins])
    return OwnNames(project, library, with_profile(config, config.profile).context.skills_off)
