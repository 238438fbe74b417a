"""The real program with toy tools, and a place at which it kills itself: KILL_AT and KILL_NUMBER in the environment.

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

from ikigai.app import services as app
from ikigai.app.tool_runtime import Workshop, alone
from ikigai.cli import main as cli
from ikigai.core import codec
from ikigai.core.agents.subagents import Delegates
from ikigai.core.events import Event
from ikigai.core.messages import ToolSpec
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.store.log import AgentLog
from ikigai.tools import base
from ikigai.tools.read_result import ReadResult, Whole
from ikigai.tools.recall import Found
from ikigai.tools.registry import Registry
from ikigai.tools.subagents import agent_tools
from tests.tools.builtin_specs import nothing

KILL_AT = os.environ.get("KILL_AT", "")


def die(at: str) -> None:
    if at == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


class Number(msgspec.Struct):
    n: int | None = None


class Toy:
    """A tool that needs nobody's approval."""

    set, arguments = "toys", Number

    async def look(self, arguments: Number) -> base.Touch:
        return base.Touch(base.Kind.NOTHING, "")


class Touch(Toy):
    name, description = "touch", "Leaves a line in a file."

    async def run(self, arguments: Number, progress: base.Progress) -> base.Output:
        with Path(os.environ["TOOL_LOG"]).open("a") as log:
            log.write(f"{arguments.n}\n")
        die("tool")
        return base.Output(f"touched {arguments.n}")


class Lines(Toy):
    name, description = "lines", "Prints so many lines."

    async def run(self, arguments: Number, progress: base.Progress) -> base.Output:
        return base.Output("".join(f"line {n} of the toy\n" for n in range(arguments.n or 0)))


class ToyWorkshop(Workshop):
    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.registry(nothing, nothing, alone).specs

    def registry(self, whole: Whole, found: Found, delegates: Callable[[], Delegates], agent: str = "") -> Registry:
        whole_again = ReadResult(whole, self.config.context.max_tool_result_tokens)
        own = agent_tools(delegates) if "AGENTS" in os.environ else ()
        return Registry((Touch(), Lines(), whole_again, *own))


class DyingLog(AgentLog):
    async def append(self, facts: Sequence[Event], reload: Any = None) -> Appended:
        kinds = [codec.KIND[type(fact)] for fact in facts]
        for kind in kinds:
            die(f"before:{kind}")
        appended = await super().append(facts, reload)
        for kind in kinds:
            die(f"after:{kind}")
        return appended

    async def save_draft(self, draft: Draft) -> None:
        await super().save_draft(draft)
        die("draft")


if __name__ == "__main__":
    import ikigai.store.database

    ikigai.store.database.AgentLog = DyingLog  # type: ignore[misc]
    app.make_workshop = lambda config: ToyWorkshop(config, Path.cwd())
    sys.exit(cli.main())
