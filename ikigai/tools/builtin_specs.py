"""What models are told of the tools that come with ikigai, ready made.

Making it of the tools themselves takes a twentieth of a start. So `builtin_specs.json` has it, by name; a test compares
the two, and `python -m tests.tools.builtin_specs` writes it anew.
"""

from functools import cache
from pathlib import Path

import msgspec

from ikigai.core.messages import ToolSpec
from ikigai.core.record import Record

FILE = Path(__file__).with_suffix(".json")


class Told(Record, frozen=True):
    """What FILE says of a tool: as `ToolSpec`, but the schema is itself and no text."""

    set: str
    description: str
    schema: msgspec.Raw


@cache
def specs() -> tuple[ToolSpec, ...]:
    """All of them, in the order of their names; those of a sandbox tell more."""
    told = msgspec.json.decode(FILE.read_bytes(), type=dict[str, Told])
    return tuple(
        ToolSpec(name, each.description, msgspec.json.format(bytes(each.schema), indent=-1).decode(), each.set)
        for name, each in sorted(told.items())
    )
