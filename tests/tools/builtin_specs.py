"""Write `ikigai/tools/builtin_specs.json`, the specifications of the tools that come with ikigai."""

from pathlib import Path

import msgspec

from ikigai.app.tools.tool_runtime import ToolRuntime, no_subagents
from ikigai.config import Config
from ikigai.core.events.messages import ToolSpec
from ikigai.tools import builtin_specs as told


async def nothing(asked: str) -> str:
    return ""


class Searching(ToolRuntime):
    """Runtime with a key for the web search."""

    brave_key = "key"


def made() -> tuple[ToolSpec, ...]:
    """Return the specifications that the tools themselves give."""
    shop = Searching(Config(), Path.cwd())
    return shop._registry(nothing, nothing, no_subagents).specs


if __name__ == "__main__":
    whole = {
        spec.name: {"set": spec.set, "description": spec.description, "schema": msgspec.Raw(spec.schema)}
        for spec in made()
    }
    told.SPECS_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
