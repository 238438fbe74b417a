"""Load the prebuilt specifications of the tools that come with ikigai, as models get them.

Building them from the tools takes a twentieth of a start. So `builtin_specs.json` holds them by name. A test compares
the two, and `python -m tests.tools.builtin_specs` writes the file anew.
"""

from functools import cache
from pathlib import Path

import msgspec

from ikigai.core.events.messages import ToolSpec
from ikigai.core.events.record import Record

SPECS_FILE = Path(__file__).with_suffix(".json")


class BuiltinSpec(Record, frozen=True):
    """Specification of a tool in SPECS_FILE: like `ToolSpec`, but the schema is JSON instead of text."""

    set: str
    description: str
    schema: msgspec.Raw


@cache
def builtin_specs() -> tuple[ToolSpec, ...]:
    """Return all of them, in the order of their names. In a sandbox the description of the shell says more."""
    specs = msgspec.json.decode(SPECS_FILE.read_bytes(), type=dict[str, BuiltinSpec])
    return tuple(
        ToolSpec(name, each.description, msgspec.json.format(bytes(each.schema), indent=-1).decode(), each.set)
        for name, each in sorted(specs.items())
    )
