"""What a project asks of whoever works on it (AGENTS.md), as the setting `instructions` and as a part of the prompt.

The setting is the text as the model gets it, headed by a line that names the file; empty or missing for none.
"""

from ikigai.core.events import Choices
from ikigai.core.request.pins import framed, pins
from ikigai.core.sanitize import storable

KEY = "instructions"
"""The setting's name."""
ORIGIN = "project"
_BEFORE, _BEHIND = "Instructions of this project (", "):\n"


def headed(file: str, text: str) -> str:
    """The setting for what stands in a file; "" where nothing does."""
    text = storable(text).strip()
    return f"{_BEFORE}{file}{_BEHIND}\n{text}" if text else ""


def named(value: str) -> str:
    """The file that the setting comes from."""
    head = value[len(_BEFORE) :].partition(_BEHIND)[0]
    return head if value.startswith(_BEFORE) and "\n" not in head else "a file"


def instructed(below: Choices, value: str) -> Choices:
    """What a run brings below an agent's own choices, with these instructions of the project."""
    others = {key: each for key, each in below.items() if key != KEY}
    return {**others, KEY: value} if value else others


def system(settings: Choices) -> str:
    """The system prompt in force: the user's, the project's instructions, what is pinned, a blank line between."""
    pinned = (framed(pin) for pin in pins(settings))
    return "\n\n".join(str(part) for part in (settings.get("system"), settings.get(KEY), *pinned) if part)
