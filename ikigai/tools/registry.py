"""The tools a model is offered, by name, and the running of one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from ikigai.core.messages import ToolCall, ToolResult, ToolSpec

Run = Callable[[dict[str, object]], Awaitable[str]]


class Registry:
    """Fulfils the port `Tools`: offers its tools in the order given and turns whatever happens into a result."""

    def __init__(self, tools: Iterable[tuple[ToolSpec, Run]] = ()) -> None:
        self._tools = {spec.name: (spec, run) for spec, run in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec, _ in self._tools.values())

    async def run(self, call: ToolCall) -> ToolResult:
        if call.name not in self._tools:
            known = ", ".join(self._tools) or "none"
            return ToolResult(call.id, f"There is no tool {call.name!r}. Tools: {known}.", is_error=True)
        try:
            arguments = msgspec.json.decode(call.arguments, type=dict[str, object])
            return ToolResult(call.id, await self._tools[call.name][1](arguments))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a tool's failure is the model's to read
            return ToolResult(call.id, f"{type(error).__name__}: {error}", is_error=True)
