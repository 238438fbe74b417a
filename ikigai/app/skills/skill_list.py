"""List skills with their tokens and their use, as text and as JSON."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from ikigai.app.json_records.record_fields import timestamp
from ikigai.app.json_records.skill_records import SkillFields, SkillsRecord
from ikigai.app.skills.library import Skill
from ikigai.core.text import tokens
from ikigai.core.tools.skill_offer import list_line, setting_tokens, skills_setting

NO_USES: Mapping[str, tuple[int, float]] = MappingProxyType({})
NO_SKILLS = (
    "There are no skills. A folder NAME with a SKILL.md in ~/.agents/skills, or in .agents/skills, .claude/skills or "
    ".ikigai/skills of a trusted folder, makes one."
)
MAX_NAME_COLUMNS = 30
MAX_TOKENS = 1_000_000_000
"""Room for any list: the largest value of the setting."""


def skills_record(
    skills: Iterable[Skill],
    off: Collection[str],
    max_tokens: int,
    uses: Mapping[str, tuple[int, float]] | None = None,
) -> SkillsRecord:
    """Return the skills as JSON has them; `uses` are counts and times by name, None if they are not known."""

    def fields(skill: Skill) -> SkillFields:
        listed = len(list_line(skill.name, skill.description).encode()) if skill.by_model else 0
        count, last = (uses or NO_USES).get(skill.name, (0, 0.0))
        return SkillFields(
            name=skill.name,
            description=skill.description,
            folder=str(skill.folder),
            place=skill.place,
            on=skill.name not in off,
            by_model=skill.by_model,
            by_user=skill.by_user,
            listed_tokens=tokens.count_tokens("", "", listed),
            tokens=tokens.count_tokens("", "", skill.size),
            uses=count if uses is not None else None,
            last_used_at=timestamp(last) if last else None,
            warnings=skill.warnings,
        )

    return SkillsRecord(skills=tuple(map(fields, skills)), max_tokens=max_tokens)


def format_skills(record: SkillsRecord) -> str:
    """Return a line for each skill, and below it what is wrong with it."""
    if not record.skills:
        return NO_SKILLS
    width = min(max(len(each.name) for each in record.skills), MAX_NAME_COLUMNS)
    rows = [row for each in record.skills for row in (_row(each, width), *(f"       {why}" for why in each.warnings))]
    wanted = {each.name: each.description for each in record.skills if each.on and each.by_model}
    listed, count = skills_setting(wanted, record.max_tokens)
    taken, room = (tokens.format_tokens(each) for each in (setting_tokens(listed), record.max_tokens))
    size = f"The list for models takes {taken} of {room} tokens ([context] skills_tokens)."
    if left := len(wanted) - count:
        size += f" It has no room for {left:,} of {len(wanted):,} skills."
    elif listed != skills_setting(wanted, MAX_TOKENS)[0]:
        size += " It cuts descriptions."
    return "\n".join((*rows, f"{size} /skills off NAME and /skills on NAME switch one."))


def _row(skill: SkillFields, width: int) -> str:
    who = "" if skill.by_model and skill.by_user else "only by models" if skill.by_model else f"only by /{skill.name}"
    used = f"used {skill.uses}×" if skill.uses else "not used lately" if skill.uses == 0 else ""
    if skill.last_used_at:
        used += f", last {time.strftime('%Y-%m-%d', skill.last_used_at.astimezone().timetuple())}"
    listed, whole = tokens.format_tokens(skill.listed_tokens), tokens.format_tokens(skill.tokens)
    about = "  ".join(filter(None, (f"{listed} tokens listed, {whole} when used", used, who, skill.place)))
    return f"{'on ' if skill.on else 'off'}  {skill.name:<{width}}  {about}"
