"""Keep the definitions that MCP servers gave last, so that a conversation begins with them.

A server may take long to start. Its tools are offered before it is ready, and a call waits for it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.tools.mcp_tools import McpDefinition
from ikigai.system import paths, private_json
from ikigai.tools.mcp.host_messages import ServerLaunch

HOST_START_SECONDS = 20.0
"""Seconds that the process itself may take to start, beside its servers."""
_DAMAGED = ("the tools of MCP servers", "Delete it.")


class KnownServer(msgspec.Struct):
    """The definitions of the server with this `launch`, by its digest."""

    launch: str
    definitions: tuple[McpDefinition, ...] = ()


def read(file: Path) -> Mapping[str, KnownServer]:
    """Return the known definitions, by the names of the servers; nothing from a damaged file."""
    with contextlib.suppress(IkigaiError):
        return private_json.read(file, KnownServer, *_DAMAGED)
    return {}


def of_launch(known: Mapping[str, KnownServer], launch: ServerLaunch) -> tuple[McpDefinition, ...] | None:
    """Return the definitions of the server that this launch starts; None if they are not known."""
    found = known.get(launch.name)
    return found.definitions if found and found.launch == launch_digest(launch) else None


def store(file: Path, launch: ServerLaunch, definitions: tuple[McpDefinition, ...]) -> None:
    """Store the definitions of a server; a file that cannot be written is left as it is."""
    with contextlib.suppress(OSError, IkigaiError):
        paths.make_private(file.parent)
        with private_json.open_for_change(file, KnownServer, *_DAMAGED) as kept:
            kept[launch.name] = KnownServer(launch_digest(launch), definitions)


def launch_digest(launch: ServerLaunch) -> str:
    """Return the identity of a server: its command and place, or its address; not its secrets."""
    parts = msgspec.json.encode([launch.name, launch.command, launch.directory, launch.url])
    return hashlib.sha256(parts).hexdigest()[:16]
