"""The tools a model is offered, by name: what a call would do, whether it may, when it may, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core.events import Choices, MailSent, MailTaken
from ikigai.core.json_schema import schema
from ikigai.core.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Ask, Started
from ikigai.core.sanitize import storable
from ikigai.core.state.project_limits import ALL
from ikigai.tools.approval.batch import Together, Waiting
from ikigai.tools.base import Kind, Progress, Tool, Touch
from ikigai.tools.external import External
from ikigai.tools.scheduling import Order
from ikigai.tools.shell.output_buffer import shortened

if TYPE_CHECKING:
    from ikigai.tools.approval.gate import Gate


class Registry:
    """Fulfils the port `Tools`: offers its tools in the order of their names, so that a request with the same tools
    begins with the same bytes, and turns whatever happens into a result of at most `most` bytes. `gate` gives what
    decides, when the first call comes; without one everything may run.
    """

    def __init__(self, tools: Iterable[Tool] = (), gate: Callable[[], Gate] | None = None, most: int = 1 << 24) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._most = most
        self._gate, self._order, self._together = gate, Order(), Together()
        self._also: dict[str, tuple[MailSent | MailTaken, ...]] = {}
        self.specs = tuple(_spec(tool) for tool in self._tools.values())

    async def start(self, call: ToolCall, turn: int, settings: Choices, ask: Ask) -> Started:
        """Wait until the calls before it let it, and find out whether it may run. Calls are started in their order."""
        with self._together.expected(turn, call.id) as looked, self._order.entered(turn, call.id) as place:
            if why := self._switched_off(call, settings):
                return Started(refused=why)
            touch = await self._glance(call, settings) if place.follows else None
            looked.set()
            await place.after_commands()
            try:
                tool, arguments = self._understood(call)
                if touch is None or place.waited:  # what stood before it may have changed what it does
                    touch = await tool.look(arguments)
            except Exception as error:  # a tool's failure is the model's to read
                return Started(refused=_told(error))
            waited = place.waited
            await place.after_conflicts(touch)
            if place.waited and not waited:
                try:
                    touch = await tool.look(arguments)
                except Exception as error:
                    return Started(refused=_told(error))
            started = Started()
            if self._gate:
                started = await self._gate().decide(call, touch, settings, ask, self._together)
            place.runs = not started.refused
            return started if touch.kind is not Kind.NOTHING else Started(refused=started.refused)

    def _switched_off(self, call: ToolCall, settings: Choices) -> str:
        """What the model is told of a tool that it remembers and that the user or the project has switched off."""
        off, tool = str(settings.get("tools_off") or "").split(","), self._tools.get(call.name)
        if tool and (tool.set in off or ALL in off):
            return f"The tool {call.name} is switched off here, and was not run."
        return ""

    async def _glance(self, call: ToolCall, settings: Choices) -> Touch | None:
        """What the call would do as things are now, None where that cannot be said; whether it will be asked about."""
        try:
            tool, arguments = self._understood(call)
            touch = await tool.look(arguments)
        except Exception:  # when its turn has come, it is told
            return None
        if self._gate:
            from ikigai.tools.approval.policy import Ask as Asked

            found = self._gate().found(call, touch, settings)
            if isinstance(found, Asked):
                self._together.will_ask(Waiting(call, touch, found.why))
        return touch

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
        if output.also:
            self._also[call.id] = output.also
        text = shortened(storable(output.text), self._most)
        return ToolResult(call.id, text, output.failed, images=output.images, diff=output.diff)

    def also(self, call_id: str) -> tuple[MailSent | MailTaken, ...]:
        return self._also.pop(call_id, ())

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
