"""The tools a model is offered, by name, and the running of one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from ikigai.core.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.schemas import schema


class Tool(Protocol):
    """One thing a model may do. `arguments` is the Struct that its arguments are; its fields bring their descriptions.

    `description` is what the model is told of the tool.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[msgspec.Struct]: ...

    async def run(self, arguments: Any) -> str:
        """What the model reads as the result. Whatever is raised reaches it as an error, in the exception's words."""
        ...


class Registry:
    """Fulfils the port `Tools`: offers its tools in the order of their names, so that a request with the same tools
    begins with the same bytes, and turns whatever happens into a result.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self.specs = tuple(
            ToolSpec(tool.name, tool.description, schema(tool.arguments)) for tool in self._tools.values()
        )

    async def run(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return ToolResult(call.id, f"There is no tool {call.name!r}. Tools: {known}.", is_error=True)
        try:
            arguments = msgspec.json.decode(call.malformed or call.arguments or "{}", type=tool.arguments)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            why = f"{call.name} cannot take these arguments: {error}. Its schema: {schema(tool.arguments)}"
            return ToolResult(call.id, why, is_error=True)
        try:
            return ToolResult(call.id, await tool.run(arguments))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a tool's failure is the model's to read
            return ToolResult(call.id, f"{type(error).__name__}: {error}", is_error=True)
