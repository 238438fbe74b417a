"""Offer tools to a model by name, and preview, schedule, approve and run its calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.events.events import Choices, MailSent, MailTaken
from ikigai.core.events.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Ask, LiveSettings, StartDecision
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.json_schema import build_schema
from ikigai.core.tools.tool_selection import ToolSelection
from ikigai.tools.approval.batch import ApprovalBatch, PendingApproval
from ikigai.tools.base import AskingTool, DescribedTool, Effect, EffectKind, OnOutput, Tool
from ikigai.tools.scheduling import CallSchedule
from ikigai.tools.shell.output_buffer import shorten_middle

if TYPE_CHECKING:
    from ikigai.tools.approval.gate import ApprovalGate

NOT_DECIDED = "Not run: nothing in this program has approved this call."


class ToolRegistry:
    """Tools of an agent; implements the port `core.ports.Tools`.

    They are ordered by name, so that a request with the same tools begins with the same bytes. Every outcome becomes a
    result of at most `max_result_bytes` bytes. A call runs only if `start` has let this very call run. `gate` is called
    at the first call and returns the approval gate; without one `start` lets every call run. `find` returns further
    tools, which come and go while the program runs.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        gate: Callable[[], ApprovalGate] | None = None,
        max_result_bytes: int = 1 << 24,
        find: Callable[[str], Tool | None] = lambda name: None,
    ) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._most, self._find = max_result_bytes, find
        self._asks: dict[str, Ask] = {}
        self._gate, self._schedule, self._batch = gate, CallSchedule(), ApprovalBatch()
        self._decided = dict[str, tuple[ToolCall, Tool]]()  # calls that may run, with their tools as they were then
        self._extra_events: dict[str, tuple[MailSent | MailTaken, ...]] = {}
        self.specs = tuple(_spec(tool) for tool in self._tools.values())

    async def start(self, call: ToolCall, turn: int, settings: LiveSettings, ask: Ask) -> StartDecision:
        """Wait for the calls that must run before this one, then decide if it may run. Calls are started in order."""
        with self._batch.expect(turn, call.id) as previewed, self._schedule.enter(turn, call.id) as slot:
            if why := self._describe_off(call, settings.values):
                return StartDecision(refusal=why)
            self._asks[call.id] = ask
            shown = await self._preview_now(call, settings.values) if slot.has_predecessors else None
            previewed.set()
            await slot.wait_for_commands()
            try:
                if shown is None or slot.has_waited:  # the calls before it may have changed its effect
                    tool, arguments = self._decode_call(call)
                    shown = tool, arguments, await tool.preview(arguments)
                tool, arguments, effect = shown
            except Exception as error:  # a tool's failure is the model's to read
                return StartDecision(refusal=_error_text(error))
            had_waited = slot.has_waited
            await slot.wait_for_conflicts(effect)
            if slot.has_waited and not had_waited:
                try:
                    effect = await tool.preview(arguments)
                except Exception as error:
                    return StartDecision(refusal=_error_text(error))
            decision = StartDecision()
            if self._gate:
                decision = await self._gate().decide(call, effect, settings, ask, self._batch)
            if not decision.refusal:
                self._decided[call.id] = call, tool
            slot.is_running = not decision.refusal
            return decision if effect.kind is not EffectKind.NOTHING else StartDecision(refusal=decision.refusal)

    def _describe_off(self, call: ToolCall, settings: Choices) -> str:
        """Return the message for a call of a tool that is switched off here, "" if it is on.

        The model may remember the tool from before the user or the project switched it off.
        """
        tool = self._tool(call.name)
        if tool and ToolSelection.of(settings).is_off(tool.set):
            return f"The tool {call.name} is switched off here; it was not run."
        return ""

    async def _preview_now(self, call: ToolCall, settings: Choices) -> tuple[Tool, Any, Effect] | None:
        """Return the tool, its arguments and its effect as things are now, or None if it has no preview; announce a
        question about the call.
        """
        try:
            tool, arguments = self._decode_call(call)
            effect = await tool.preview(arguments)
        except Exception:  # `start` reports it when the turn of the call comes
            return None
        if self._gate:
            from ikigai.tools.approval.policy import AskUser

            verdict = self._gate().judge(call, effect, settings)
            if isinstance(verdict, AskUser):
                self._batch.will_ask(PendingApproval(call, effect, verdict.why))
        return tool, arguments, effect

    async def run(self, call: ToolCall, progress: OnOutput) -> ToolResult:
        decided, tool = self._decided.pop(call.id, (None, None))
        if decided != call:  # the log has it as started, though nothing here has decided about it
            return ToolResult(call.id, NOT_DECIDED, is_error=True)
        try:
            tool, arguments = self._decode_call(call, tool)
            if isinstance(tool, AskingTool):
                output = await tool.run_asking(arguments, progress, self._asks.get(call.id))
            else:
                output = await tool.run(arguments, progress)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a tool's failure is the model's to read
            return ToolResult(call.id, _error_text(error), is_error=True)
        finally:
            self._schedule.leave(call.id)
            self._asks.pop(call.id, None)
        if output.extra_events:
            self._extra_events[call.id] = output.extra_events
        text = shorten_middle(storable(output.text), self._most)
        return ToolResult(call.id, text, output.failed, images=output.images, diff=output.diff)

    def extra_events(self, call_id: str) -> tuple[MailSent | MailTaken, ...]:
        return self._extra_events.pop(call_id, ())

    def _tool(self, name: str) -> Tool | None:
        return self._tools.get(name) or self._find(name)

    def _decode_call(self, call: ToolCall, started: Tool | None = None) -> tuple[Tool, Any]:
        """Return the tool and its arguments; `started` is the tool of a call that was decided. Raise InvalidCall, in
        words for the model.
        """
        tool = started or self._tool(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise InvalidCall(f"There is no tool {call.name!r}. Tools: {known}.")
        try:
            return tool, msgspec.json.decode(call.malformed or call.arguments or "{}", type=tool.arguments)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            message = f"{call.name} cannot take these arguments: {error}. Its schema: {_schema(tool)}"
            raise InvalidCall(message) from None


class InvalidCall(Exception):
    """The tool that a model called does not exist, or does not take these arguments; in whole sentences."""


_USER_COMMAND = re.compile(r"(?<![\w./])/[a-z]+\b(?!/)|\bikigai [a-z]")


def _error_text(error: Exception) -> str:
    """Return the error for the model, without a remedy that names a command: only the user has those."""
    if isinstance(error, IkigaiError) and _USER_COMMAND.search(error.remedy):
        return f"{type(error).__name__}: {error.what}"
    return str(error) if isinstance(error, InvalidCall) else f"{type(error).__name__}: {error}"


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, _schema(tool), tool.set)


def _schema(tool: Tool) -> str:
    """Return the JSON schema of the arguments; a tool of another program has it as text."""
    return tool.schema if isinstance(tool, DescribedTool) else build_schema(tool.arguments)
