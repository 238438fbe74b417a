"""Make the tools of MCP servers available to models: each one, or a pair that finds and calls them."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Image
from ikigai.core.ports import Ask
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.mcp_tools import CALL_TOOL, MCP_SET, SEARCH_TOOL, McpDefinition, search_definitions
from ikigai.tools.base import Effect, EffectKind, OnOutput, Tool, ToolOutput
from ikigai.tools.files.read_file import Picture
from ikigai.tools.mcp.host_messages import CallResult, CallTool
from ikigai.tools.mcp.servers import McpServers, describe_failure

DEFAULT_MATCHES = 5


class McpTool:
    """A tool of a server. `picture` recognizes images, for models that see."""

    set, arguments = MCP_SET, dict[str, Any]

    def __init__(self, servers: McpServers, definition: McpDefinition, picture: Picture | None) -> None:
        self._servers, self.definition, self._picture = servers, definition, picture
        self.name, self.description, self.schema = definition.name, definition.description, definition.schema

    async def preview(self, arguments: Mapping[str, Any]) -> Effect:
        server = self._servers.servers[self.definition.server]
        tool = msgspec.json.encode(self.definition.tool).decode()
        approved = f"[mcp_servers.{server.launch.name}]" if server.approved(self.definition.tool) else ""
        return Effect(
            EffectKind.RUN,
            msgspec.json.format(msgspec.json.encode(arguments)).decode(),
            server.launch.directory if server.project else "",
            inside=False,
            scripts=((self.name, self.definition.digest),),
            rule=f"{self.name} ({self.definition.digest})",
            approved_by=f"configuration {approved}" if approved else "",
            setting="" if server.project else f"[mcp_servers.{server.launch.name}] approved_tools = [{tool}]",
        )

    async def run(self, arguments: Mapping[str, Any], progress: OnOutput) -> ToolOutput:
        return await self.run_asking(arguments, progress, None)

    async def run_asking(self, arguments: Mapping[str, Any], progress: OnOutput, ask: Ask | None) -> ToolOutput:
        status = await self._servers.wait_ready(self.definition.server)
        if status.state != "ready":
            return ToolOutput(describe_failure(status), failed=True)
        now = self._servers.find(self.name)
        if now is None or now.digest != self.definition.digest:
            text = f"{self.name} was not called: its server has changed it since this call was decided. Call it again."
            return ToolOutput(text, failed=True)
        encoded = msgspec.json.encode(arguments).decode()
        order = CallTool(self._servers.next_id(), self.definition.server, self.definition.tool, encoded)
        result = await self._servers.carry_out(order, progress, ask)
        return await read_result(result, self._picture)


async def read_result(result: CallResult, picture: Picture | None) -> ToolOutput:
    """Return the result of a server with its pictures as models see them."""
    text, images = storable(result.text), list[Image]()
    for each in result.pictures:
        try:
            data = base64.b64decode(each.data, validate=True)
            image = await asyncio.to_thread(picture, io.BytesIO(data), "image") if picture else None
            images += [image] if image else []
            text += "" if image else "\n[picture left out: its format is not known]"
        except (ValueError, IkigaiError) as error:
            text += f"\n[picture left out: {error}]"
    return ToolOutput(text or ("[no text]" if not images else ""), tuple(images), result.failed)


class McpSearchArguments(msgspec.Struct, frozen=True):
    query: str
    limit: Annotated[int, Meta(ge=1, le=20)] = DEFAULT_MATCHES


class McpSearch:
    """Tool that finds the tools whose definitions a request has no room for."""

    name, set, arguments = SEARCH_TOOL, MCP_SET, McpSearchArguments
    description = "Finds tools of MCP servers."

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def preview(self, arguments: McpSearchArguments) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.query)

    async def run(self, arguments: McpSearchArguments, progress: OnOutput) -> ToolOutput:
        found = search_definitions(self._servers.all_definitions(), arguments.query, arguments.limit)
        if not found:
            names = ", ".join(f"{name} ({status.state})" for name, status in self._servers.statuses.items())
            return ToolOutput(f"No tool matches. Servers: {names}.")
        rows = (f"{each.name}\n{each.description}\nSchema: {each.schema}" for each in found)
        return ToolOutput("\n\n".join(rows))


class McpCallArguments(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, Any] = {}


class McpCall:
    """Tool that calls a tool which `McpSearch` has found."""

    name, set, arguments = CALL_TOOL, MCP_SET, McpCallArguments
    description = "Calls a tool of an MCP server."

    def __init__(self, servers: McpServers, picture: Picture | None) -> None:
        self._servers, self._picture = servers, picture
        self._decided: McpTool | None = None  # the tool of the call, as it was previewed

    def _tool(self, name: str) -> McpTool:
        if definition := self._servers.find(name):
            return McpTool(self._servers, definition, self._picture)
        raise ValueError(f"there is no tool {name!r}; {SEARCH_TOOL} finds the names")

    async def preview(self, arguments: McpCallArguments) -> Effect:
        self._decided = self._tool(arguments.tool)
        effect = await self._decided.preview(arguments.arguments)
        return msgspec.structs.replace(effect, shown=f"{arguments.tool} {effect.shown}")

    async def run(self, arguments: McpCallArguments, progress: OnOutput) -> ToolOutput:
        return await self.run_asking(arguments, progress, None)

    async def run_asking(self, arguments: McpCallArguments, progress: OnOutput, ask: Ask | None) -> ToolOutput:
        tool = self._decided or self._tool(arguments.tool)
        return await tool.run_asking(arguments.arguments, progress, ask)


def find_tool(servers: McpServers, name: str, picture: Picture | None) -> Tool | None:
    """Return the tool that models call by this name; None if no server has it."""
    if name == SEARCH_TOOL:
        return McpSearch(servers)
    if name == CALL_TOOL:
        return McpCall(servers, picture)
    definition = servers.find(name)
    return McpTool(servers, definition, picture) if definition else None
