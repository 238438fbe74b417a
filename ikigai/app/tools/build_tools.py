"""Build the tools of one agent. Their modules are large, and a start avoids them: `builtin_specs` describes the tools.

Tools that act on files, processes and the web are built for each agent, which remembers the files it has read and its
directory. Its background processes are its own, and still there when it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ikigai.agent.jobs import SettingsInForce
from ikigai.config import Config, with_profile
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import ToolCall
from ikigai.core.text.sanitize import clean_line
from ikigai.images import read_picture
from ikigai.tools.ask_user import AskUserTool
from ikigai.tools.base import Tool, ToolOutput
from ikigai.tools.files.factory import file_tools
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.read_result import ReadResult, Whole
from ikigai.tools.recall import Found, Recall
from ikigai.tools.registry import ToolRegistry
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.process_tools import process_tools
from ikigai.tools.shell.run_command import MAX_STORED_RESULT_BYTES, OutputLimits
from ikigai.tools.shell.shell import ShellTool
from ikigai.tools.skill import ReadSkill, SkillTool
from ikigai.tools.subagent_tools import agent_tools
from ikigai.tools.web.factory import web_tools
from ikigai.tools.web.fetch import FetchArguments, WebFetch
from ikigai.tools.web.http import Fetcher

if TYPE_CHECKING:
    from ikigai.core.agents.subagent_port import Subagents
    from ikigai.core.events.events import Choices
    from ikigai.core.ports import Ask
    from ikigai.tools.approval.gate import ApprovalGate
    from ikigai.tools.external import ExternalTool
    from ikigai.tools.mcp.servers import McpServers
    from ikigai.tools.shell.sandbox import Sandbox


async def no_skill(name: str) -> str:
    """Raise LookupError: there are no skills."""
    raise LookupError(f"there is no skill {name!r}.")


class ToolContext(NamedTuple):
    """The part of a run that the tools of all its agents share.

    `directory` is where the program was started, `environment` the environment of commands, without secrets. Without
    `brave_key` there is no web search. `gate` returns the one gate of the run; it is loaded with the first call.
    `read_skill` returns the instructions of a skill.
    """

    config: Config
    directory: Path
    environment: Mapping[str, str]
    sandbox: Sandbox | None
    external: tuple[ExternalTool, ...]
    brave_key: str
    gate: Callable[[], ApprovalGate]
    mcp: McpServers | None = None
    read_skill: ReadSkill = no_skill


def build_registry(
    context: ToolContext, processes: BackgroundProcesses, whole: Whole, found: Found, subagents: Callable[[], Subagents]
) -> ToolRegistry:
    """Return the tools of an agent: `whole` reads results in its log, `found` searches all logs."""
    tools = (
        *world_tools(context, processes),
        *log_tools(context.config, whole, found),
        *agent_tools(subagents),
        AskUserTool(),
        SkillTool(context.read_skill),
    )
    find = no_tool
    if servers := context.mcp:
        from ikigai.tools.mcp.tools import find_tool

        find = lambda name: find_tool(servers, name, read_picture)  # noqa: E731
    return ToolRegistry((*tools, *context.external), context.gate, MAX_STORED_RESULT_BYTES, find)


def no_tool(name: str) -> Tool | None:
    """Return None: there are no MCP servers."""
    return None


def world_tools(context: ToolContext, processes: BackgroundProcesses) -> tuple[Tool, ...]:
    """Return the tools that act on files, processes and the web."""
    directory = context.directory
    private, limits = context.config.tools.private_hosts, OutputLimits.of(MAX_STORED_RESULT_BYTES)
    return (
        *file_tools(directory, ReadTracker(), picture=read_picture),
        ShellTool(directory, context.environment, processes, context.sandbox, limits),
        *process_tools(processes),
        *web_tools(directory, private=private, picture=read_picture, brave_key=context.brave_key),
    )


async def fetch_page(
    directory: Path, config: Config, gate: ApprovalGate, url: str, settings: Choices, ask: Ask
) -> ToolOutput:
    """Fetch a page as `web_fetch` does for a model, after the same approval. Raise Rejected if it is not allowed, and
    the errors of the tool.
    """
    tool = WebFetch(directory, Fetcher(config.tools.private_hosts), read_picture)
    arguments = FetchArguments(url)
    call = ToolCall("mention", tool.name, msgspec.json.encode(arguments).decode())
    started = await gate.decide(call, await tool.preview(arguments), SettingsInForce(settings), ask)
    if started.refusal:
        by_policy = started.decision is not None and started.decision.by == "policy"
        why = f" {started.refusal}" if by_policy else ""
        raise Rejected(f"{clean_line(url)} was not fetched.{why}", "Nothing was sent.")
    return await tool.run(arguments, lambda text: None)


def log_tools(config: Config, whole: Whole, found: Found) -> tuple[Tool, ...]:
    """Return the tools that read the log."""
    pages = (with_profile(config, name).context.max_tool_result_tokens for name in ("", *config.profiles))
    return Recall(found), ReadResult(whole, min(pages))
