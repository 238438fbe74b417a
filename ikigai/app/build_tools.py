"""The tools of one agent, made. There is much in them, and a start does without: what models are told is known before.

Those that reach the world are fresh for each agent, which remembers what it has read and where it is; what it runs in
the background is its own, and still there when it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.config import Config, under
from ikigai.images import pictured
from ikigai.tools.base import Tool
from ikigai.tools.files.factory import file_tools
from ikigai.tools.files.listing import program
from ikigai.tools.files.read_tracker import Seen
from ikigai.tools.read_result import ReadResult, Whole
from ikigai.tools.recall import Found, Recall
from ikigai.tools.registry import Registry
from ikigai.tools.shell.background import Processes
from ikigai.tools.shell.process_tools import process_tools
from ikigai.tools.shell.run import Limits
from ikigai.tools.shell.shell import Shell
from ikigai.tools.subagents import agent_tools
from ikigai.tools.web.factory import web_tools

if TYPE_CHECKING:
    from ikigai.core.agents.subagents import Delegates
    from ikigai.tools.approval.gate import Gate
    from ikigai.tools.external import External
    from ikigai.tools.shell.sandbox import Sandbox


class ToolContext(NamedTuple):
    """The part of a run that the tools of all its agents share.

    `directory` is where the program was started, `environment` that of commands, without secrets. Without `brave_key`
    there is no web search. `gate` returns the one gate of the run; it is loaded with the first call.
    """

    config: Config
    directory: Path
    environment: Mapping[str, str]
    sandbox: Sandbox | None
    external: tuple[External, ...]
    brave_key: str
    gate: Callable[[], Gate]


def registry(
    context: ToolContext, processes: Processes, whole: Whole, found: Found, delegates: Callable[[], Delegates]
) -> Registry:
    """`whole` reads results in the agent's log, `found` searches everything ever said; `delegates` gives its agents."""
    made = (*reaching(context, processes), *remembering(context.config, whole, found), *agent_tools(delegates))
    return Registry((*made, *context.external), context.gate, context.config.tools.max_stored_result)


def reaching(context: ToolContext, processes: Processes) -> tuple[Tool, ...]:
    """Those that reach the world."""
    directory = context.directory
    ripgrep = program("rg", context.environment.get("PATH", ""), directory)
    private, limits = context.config.tools.private_hosts, Limits.of(context.config.tools.max_stored_result)
    return (
        *file_tools(directory, Seen(), picture=pictured, ripgrep=ripgrep),
        Shell(directory, context.environment, processes, context.sandbox, limits),
        *process_tools(processes),
        *web_tools(directory, private=private, picture=pictured, brave_key=context.brave_key),
    )


def remembering(config: Config, whole: Whole, found: Found) -> tuple[Tool, ...]:
    """Those that look into the log."""
    pages = (under(config, name).context.max_tool_result_tokens for name in ("", *config.profiles))
    return Recall(found), ReadResult(whole, min(pages))
