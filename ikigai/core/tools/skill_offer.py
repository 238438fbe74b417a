"""Skills as a conversation knows them: the list that its turns are offered, as the setting `skills`.

The setting is the text as the model gets it: an introduction, then a line `- NAME: DESCRIPTION` for each skill. Empty
or missing, the tool that reads a skill is not offered. It changes only where a turn begins.
"""

from collections.abc import Mapping, Sequence

from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line, storable

SKILLS_KEY = "skills"
"""The name of the setting."""
SKILLS_ORIGIN = "skills"
SKILLS_SET = "skills"
SKILL_TOOL = "skill"
"""The tool set and the name of the tool that reads a skill."""
DESCRIPTION_CHARACTERS = (1024, 400, 200, 100, 50, 0)
"""Characters of each description that are tried one after the other until the list has room."""
MAX_SHOWN = 6
"""Skills that a note names."""
_INTRODUCTION = (
    "Skills are instructions for some kinds of task, installed by the user. When a task matches one of these "
    f"descriptions, call the tool `{SKILL_TOOL}` with its name first, and follow what it returns:"
)


def skills_setting(described: Mapping[str, str], max_tokens: int) -> tuple[str, int]:
    """Return the setting for skills, names with their descriptions, and how many of them it has.

    If they have no room, all descriptions are cut to the same length; then the last skills are left out.
    """
    room, lines = max_tokens * tokens.BYTES_PER_TOKEN, list[str]()
    for length in DESCRIPTION_CHARACTERS:
        lines = [list_line(name, description, length) for name, description in described.items()]
        if len(_join(lines).encode()) <= room:
            break
    while lines and len(_join(lines).encode()) > room:
        del lines[-max(1, len(lines) // 20) :]
    return _join(lines) if lines else "", len(lines)


def list_line(name: str, description: str, length: int = DESCRIPTION_CHARACTERS[0]) -> str:
    """Return the line of a skill, with at most so many characters of its description."""
    text = storable(clean_line(" ".join(description.split())))
    return f"- {name}: {text if len(text) <= length else f'{text[:length].rstrip()}…'}" if length else f"- {name}"


def _join(lines: Sequence[str]) -> str:
    return "\n".join((_INTRODUCTION, *lines))


def listed_skills(value: str) -> list[str]:
    """Return the names in the setting."""
    return [line[2:].partition(":")[0] for line in value.splitlines() if line.startswith("- ")]


def setting_tokens(value: str) -> int:
    """Return the tokens that the setting takes."""
    return tokens.count_tokens("", "", len(value.encode()))


def describe_skills(value: str) -> str:
    """Return the sentence about the list that the setting holds."""
    size = tokens.format_tokens(setting_tokens(value))
    names = listed_skills(value)
    shown = [*names[:MAX_SHOWN], f"{len(names) - MAX_SHOWN:,} more"] if len(names) > MAX_SHOWN else names
    return f"Skills offered: {', '.join((*shown, f'{size} tokens')) if names else 'none'}"
