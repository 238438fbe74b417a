"""Carry out `ikigai skills`: list skills, and check one as the reference validator does."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ikigai.app.commands.own_names import find_own_names
from ikigai.app.json_records.json_output import print_answer
from ikigai.app.json_records.skill_records import SkillCheckRecord
from ikigai.config import Config, with_profile
from ikigai.core.errors import ConfigError, ExitCode
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import print_lines


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "skills",
        help="list skills, and check one",
        description="A skill is a folder with a SKILL.md: instructions for a kind of task, which models ask for when "
        "they need them, and which /NAME sends. Skills lie in ~/.agents/skills, in the folder skills beside your "
        "configuration, in plugins, and in .agents/skills, .claude/skills and .ikigai/skills of a trusted folder.",
    )
    actions = command.add_subparsers(dest="what", required=True)
    listed = actions.add_parser("list", parents=[common], help="list the skills that can be used here")
    listed.set_defaults(act=_list)
    check = actions.add_parser("check", parents=[common], help="check a skill against the Agent Skills specification")
    check.add_argument("folder", metavar="FOLDER", help="the folder of the skill, or its SKILL.md")
    check.set_defaults(act=_check)
    for each in (listed, check):
        each.add_argument("--json", action="store_true", help="one object")


async def _list(config: Config, arguments: argparse.Namespace) -> None:
    from ikigai.app.skills.skill_list import format_skills, skills_record

    library, settings = find_own_names(config).library, with_profile(config, config.profile).context
    record = skills_record(library.skills().values(), settings.skills_off, settings.skills_tokens)
    for problem in library.problems:
        sys.stderr.write(f"ikigai: {clean_line(problem)}\n")
    print_answer(record if arguments.json else format_skills(record))


async def _check(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.skills.skill_check import check_skill

    folder = Path(os.path.abspath(arguments.folder))  # noqa: PTH100 - a link keeps its own name
    if not folder.exists():
        raise ConfigError(f"There is no {clean_line(arguments.folder)}.", "Name the folder of a skill.")
    folder = folder.parent if folder.is_file() and folder.name.lower() == "skill.md" else folder
    verdict = check_skill(folder)
    valid = not verdict.errors
    if arguments.json:
        texts = {"errors": verdict.errors, "warnings": verdict.warnings}
        print_answer(SkillCheckRecord(folder=str(folder), valid=valid, **texts))
    else:
        head = f"{folder.name} is {'a valid skill' if valid else 'not a valid skill'}."
        rows = (*(f"error: {each}" for each in verdict.errors), *(f"warning: {each}" for each in verdict.warnings))
        print_lines("\n".join(clean_line(line) for line in (head, *rows)))
    return ExitCode.OK if valid else ExitCode.FAILED
