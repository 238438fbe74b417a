"""The tools a model is offered, by name: what a call would do, whether it may, when it may, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core.events import Choices
from ikigai.core.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Ask, Started
from ikigai.core.schemas import schema
from ikigai.tools.base import Kind, Output, Progress, Tool
from ikigai.tools.external import External
from ikigai.tools.order import Order

if TYPE_CHECKING:
    from ikigai.tools.gate import Gate


class Registry:
    """Fulfils the port `Tools`: offers its tools in the order of their names, so that a request with the same tools
    begins with the same bytes, and turns whatever happens into a result. `gate` gives what decides,
    when the first call comes; without one everything may run.
    """

    def __init__(self, tools: Iterable[Tool] = (), gate: Callable[[], Gate] | None = None) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._gate, self._order = gate, Order()
        self.specs = tuple(_spec(tool) for tool in self._tools.values())

    async def start(self, call: ToolCall, turn: int, settings: Choices, ask: Ask) -> Started:
        """Wait until the calls before it let it, and find out whether it may run. Calls are started in their order."""
        with self._order.entered(turn, call.id) as place:
            await place.after_commands()
            try:
                tool, arguments = self._understood(call)
                touch = await tool.look(arguments)
            except Exception as error:  # a tool's failure is the model's to read
                return Started(refused=_told(error))
            await place.after_conflicts(touch)
            if place.waited:
                try:
                    touch = await tool.look(arguments)  # what stood before it may have changed what it does
                except Exception as error:
                    return Started(refused=_told(error))
            started = await self._gate().decide(call, touch, settings, ask) if self._gate else Started()
            place.runs = not started.refused
            return started if touch.kind is not Kind.NOTHING else Started(refused=started.refused)

    async def run(self, call: ToolCall, progress: Progress) -> ToolResult:
        try:
            tool, arguments = self._understood(call)
            output = await tool.run(arguments, progress)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a tool's failure is the model's to read
            return ToolResult(call.id, _told(error), is_error=True)
        finally:
            self._order.left(call.id)
        return _result(call, output)

    def _understood(self, call: ToolCall) -> tuple[Tool, Any]:
        """The tool and its arguments. Raises LookupError, ValueError in words for the model."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise Misunderstood(f"There is no tool {call.name!r}. Tools: {known}.")
        try:
            return tool, msgspec.json.decode(call.malformed or call.arguments or "{}", type=tool.arguments)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            why = f"{call.name} cannot take these arguments: {error}. Its schema: {_schema(tool)}"
            raise Misunderstood(why) from None


class Misunderstood(Exception):
    """What a model called is not there, or cannot be called like that; said in whole sentences."""


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, Misunderstood) else f"{type(error).__name__}: {error}"


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, _schema(tool), tool.set)


def _schema(tool: Tool) -> str:
    """That of its arguments; a tool that is described elsewhere brings it as text."""
    return tool.schema if isinstance(tool, External) else schema(tool.arguments)


def _result(call: ToolCall, output: Output) -> ToolResult:
    return ToolResult(call.id, output.text, is_error=output.failed)
