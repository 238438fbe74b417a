"""Compose the system prompt, with the project's instructions (AGENTS.md) as the setting `instructions`, and the list
of skills that models may ask for as the setting `skills`.

The setting is the text as the model gets it, headed by a line that names the file; empty or missing for none. The
setting `default_system` is the default system prompt as the last turn had it; the user's own (`system`) replaces it.
"""

from ikigai.core.events.events import Choices
from ikigai.core.request.pins import frame_pin, list_pins
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.skill_offer import SKILLS_KEY

INSTRUCTIONS_KEY = "instructions"
"""The name of the setting."""
INSTRUCTIONS_ORIGIN = "project"
DEFAULT_SYSTEM_KEY = "default_system"
_BEFORE, _BEHIND = "Instructions of this project (", "):\n"


def instructions_setting(file: str, text: str) -> str:
    """Return the setting for the text of a file; "" for an empty file."""
    text = storable(text).strip()
    return f"{_BEFORE}{file}{_BEHIND}\n{text}" if text else ""


def instructions_file(value: str) -> str:
    """Return the file that the setting comes from."""
    head = value[len(_BEFORE) :].partition(_BEHIND)[0]
    return head if value.startswith(_BEFORE) and "\n" not in head else "a file"


def with_instructions(below: Choices, value: str) -> Choices:
    """Return the settings of a run below an agent's own choices, with these instructions of the project."""
    others = {key: other for key, other in below.items() if key != INSTRUCTIONS_KEY}
    return {**others, INSTRUCTIONS_KEY: value} if value else others


def system_prompt(settings: Choices) -> str:
    """Return the system prompt in force: the user's or the default one, the project's instructions, the list of skills,
    the pins, with blank lines between.
    """
    pinned = (frame_pin(pin) for pin in list_pins(settings))
    first = settings.get("system") or settings.get(DEFAULT_SYSTEM_KEY)
    parts = first, settings.get(INSTRUCTIONS_KEY), settings.get(SKILLS_KEY), *pinned
    return "\n\n".join(str(part) for part in parts if part)
