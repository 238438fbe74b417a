"""Run the real program with toy tools; it kills itself at a place: KILL_AT and KILL_NUMBER.

KILL_AT is before:KIND or after:KIND (around the append that holds an event of that kind), draft (a draft has just been
saved) or tool (the tool is running). TOOL_LOG gets a line per run of the tool: its side effect in the world.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ikigai.app.run import services as app
from ikigai.app.tools.tool_runtime import ToolRuntime, no_subagents
from ikigai.cli import main as cli
from ikigai.core.agents.subagent_port import Subagents
from ikigai.core.events import codec
from ikigai.core.events.events import Event
from ikigai.core.events.messages import ToolSpec
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.store.log.log import AgentLog
from ikigai.tools import base
from ikigai.tools.read_result import ReadResult, Whole
from ikigai.tools.recall import Found
from ikigai.tools.registry import ToolRegistry
from ikigai.tools.subagent_tools import agent_tools
from tests.tools.builtin_specs import nothing

KILL_AT = os.environ.get("KILL_AT", "")


def die(at: str) -> None:
    if at == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


class Number(msgspec.Struct):
    n: int | None = None


class Toy:
    """A tool that needs no approval."""

    set, arguments = "toys", Number

    async def preview(self, arguments: Number) -> base.Effect:
        return base.Effect(base.EffectKind.NOTHING, "")


class Touch(Toy):
    name, description = "touch", "Leaves a line in a file."

    async def run(self, arguments: Number, progress: base.OnOutput) -> base.ToolOutput:
        with Path(os.environ["TOOL_LOG"]).open("a") as log:
            log.write(f"{arguments.n}\n")
        die("tool")
        return base.ToolOutput(f"touched {arguments.n}")


class Lines(Toy):
    name, description = "lines", "Prints so many lines."

    async def run(self, arguments: Number, progress: base.OnOutput) -> base.ToolOutput:
        return base.ToolOutput("".join(f"line {n} of the toy\n" for n in range(arguments.n or 0)))


class ToyToolRuntime(ToolRuntime):
    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.registry(nothing, nothing, no_subagents).specs

    def registry(self, whole: Whole, found: Found, subagents: Callable[[], Subagents], agent: str = "") -> ToolRegistry:
        whole_again = ReadResult(whole, self.config.context.max_tool_result_tokens)
        own = agent_tools(subagents) if "AGENTS" in os.environ else ()
        return ToolRegistry((Touch(), Lines(), whole_again, *own))


class DyingLog(AgentLog):
    async def append(self, events: Sequence[Event], reload: Any = None, ids: Sequence[str] = ()) -> Appended:
        kinds = [codec.KIND_OF[type(event)] for event in events]
        for kind in kinds:
            die(f"before:{kind}")
        appended = await super().append(events, reload, ids)
        for kind in kinds:
            die(f"after:{kind}")
        return appended

    async def save_draft(self, draft: Draft) -> None:
        await super().save_draft(draft)
        die("draft")


if __name__ == "__main__":
    import ikigai.store.log.write_access

    ikigai.store.log.write_access.AgentLog = DyingLog  # type: ignore[misc]
    app.make_tool_runtime = lambda config: ToyToolRuntime(config, Path.cwd())
    sys.exit(cli.main())
