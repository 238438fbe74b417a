"""The real program with one toy tool, and a place at which it kills itself: KILL_AT and KILL_NUMBER in the environment.

KILL_AT is before:KIND or after:KIND (around the append that holds an event of that kind), draft (a draft has just been
saved) or tool (the tool is running). TOOL_LOG gets a line per run of the tool: its side effect in the world.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ikigai import app, cli
from ikigai.core import codec
from ikigai.core.events import Event
from ikigai.core.messages import ToolSpec
from ikigai.core.ports import Appended, Draft
from ikigai.store.log import AgentLog
from ikigai.tools.registry import Registry

KILL_AT = os.environ.get("KILL_AT", "")


def die(at: str) -> None:
    if at == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


async def touch(arguments: dict[str, object]) -> str:
    with Path(os.environ["TOOL_LOG"]).open("a") as log:
        log.write(f"{arguments.get('n')}\n")
    die("tool")
    return f"touched {arguments.get('n')}"


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


TOUCH = ToolSpec("touch", "Leaves a line in a file.", '{"type":"object","properties":{"n":{"type":"integer"}}}')

if __name__ == "__main__":
    import ikigai.store.database

    ikigai.store.database.AgentLog = DyingLog  # type: ignore[misc]
    app.make_tools = lambda: Registry([(TOUCH, touch)])
    sys.exit(cli.main())
