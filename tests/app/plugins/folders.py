"""Write folders of plugins."""

import json
from pathlib import Path
from typing import Any

from tests.app.skills.folders import write_skill

SCHEMAS = "https://agent-plugins.org/schemas/1.0.0/"


def write_plugin(
    folder: Path,
    name: str = "demo",
    servers: dict[str, Any] | None = None,
    skills: tuple[str, ...] = ("summarize",),
    **fields: Any,
) -> Path:
    """Write a plugin with these skills and MCP servers, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"$schema": f"{SCHEMAS}plugin.schema.json", "name": name, **fields}
    (folder / "plugin.json").write_text(json.dumps(manifest))
    for each in skills:
        write_skill(folder / "skills", each)
    if servers is not None:
        (folder / "mcp.json").write_text(json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": servers}))
    return folder
