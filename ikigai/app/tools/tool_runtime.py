"""Tools of one run: their specs at the start, the tools themselves with the first call."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.skills.library import SkillLibrary
from ikigai.app.tools.redaction_keys import BRAVE_KEY, Redaction
from ikigai.config import Config
from ikigai.config.layers import are_tools_enabled
from ikigai.core.errors import IkigaiError, Rejected
from ikigai.core.events.events import Choices, MailSent, MailTaken
from ikigai.core.events.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Ask, LiveSettings, StartDecision, Tools
from ikigai.core.tools.mcp_tools import offered_specs
from ikigai.core.tools.skill_offer import SKILLS_SET, skills_setting
from ikigai.core.tools.tool_selection import EXTERNAL_SET, ToolSelection
from ikigai.core.tools.vendor_search import VENDOR_SEARCH, VENDOR_SEARCH_SPEC
from ikigai.system import paths
from ikigai.tools import builtin_specs
from ikigai.tools.approval import standing_approvals

if TYPE_CHECKING:
    from ikigai.app.plugins.plugin import Plugin
    from ikigai.app.project.trusted_project import Project
    from ikigai.config.records import ContextSettings
    from ikigai.core.agents.subagent_port import Subagents
    from ikigai.core.state.memory import Memory
    from ikigai.tools.approval.allow_rules import AllowRule, ExactRule
    from ikigai.tools.approval.gate import ApprovalGate
    from ikigai.tools.approval.policy import Approval
    from ikigai.tools.base import Effect, ToolOutput
    from ikigai.tools.external import ExternalTool, ToolFolder
    from ikigai.tools.mcp.servers import McpServers
    from ikigai.tools.read_result import Whole
    from ikigai.tools.recall import Found
    from ikigai.tools.registry import ToolRegistry
    from ikigai.tools.shell.background import BackgroundProcesses
    from ikigai.tools.shell.sandbox import Sandbox

RESERVED_TOOL_NAMES = ("shell", "web_search", "filter_context", VENDOR_SEARCH)
"""Names that no other tool may take, though they are not always offered."""
SANDBOX_KEY = ("tools", "sandbox")
MCP = ".mcp.json"
MAX_REFUSALS_TOLD = 3


class StandingApprovals:
    """The `approval.gate.StandingApprovalStore` in a file. `own` replaces ikigai's own keys in stored calls."""

    def __init__(self, file: Path, own: Callable[[str], str] = str) -> None:
        self._file, self._own = file, own

    def known(self) -> Mapping[str, Approval]:
        from ikigai.tools.approval.policy import Approval, ApprovalLifetime

        try:
            stored = standing_approvals.list_approvals(self._file)
            scripts = {key: tuple(sorted(each.scripts.items())) for key, each in stored.items() if not each.rule}
            return {key: Approval(ApprovalLifetime.ALWAYS, each) for key, each in scripts.items()}
        except IkigaiError:  # damaged: then nothing is approved, and /approve reports it
            return {}

    def rules(self, directory: str) -> tuple[str, ...]:
        try:
            stored = standing_approvals.list_approvals(self._file)
        except IkigaiError:
            return ()
        return tuple(each.rule for each in stored.values() if each.rule and each.directory == directory)

    def approve_rule(self, rule: str, call: ToolCall, directory: str) -> None:
        fingerprint = hashlib.sha256(f"rule\0{call.name}\0{directory}\0{rule}".encode()).hexdigest()
        approval = standing_approvals.StandingApproval(call.name, rule, directory, time.time(), rule=rule)
        self._store(fingerprint, approval)

    def approve(self, fingerprint: str, call: ToolCall, effect: Effect) -> None:
        from ikigai.tools.base import EffectKind

        tool = "edits" if effect.kind is EffectKind.EDIT else call.name  # by any tool
        approval = standing_approvals.StandingApproval(
            tool, self._own(effect.shown), effect.directory, time.time(), dict(effect.scripts)
        )
        self._store(fingerprint, approval)

    def _store(self, fingerprint: str, approval: standing_approvals.StandingApproval) -> None:
        with contextlib.suppress(OSError):  # writing the file raises the error
            paths.make_private(self._file.parent)  # with a database elsewhere the folder may not exist
        standing_approvals.approve(self._file, fingerprint, approval)


class LazyTools:
    """The tools of one agent (`ports.Tools`), built with the first call, after their modules are loaded."""

    def __init__(self, load: Callable[[], Awaitable[None]], make: Callable[[], Tools]) -> None:
        self._load, self._make = load, make

    @cached_property
    def _made(self) -> Tools:
        return self._make()

    async def start(self, call: ToolCall, turn: int, settings: LiveSettings, ask: Ask) -> StartDecision:
        await self._load()
        return await self._made.start(call, turn, settings, ask)

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolResult:
        await self._load()
        return await self._made.run(call, progress)

    def extra_events(self, call_id: str) -> tuple[MailSent | MailTaken, ...]:
        return self._made.extra_events(call_id)


class ToolRuntime:
    """The tools of one run and what they share. `directory` is where the program was started."""

    def __init__(self, config: Config, directory: Path) -> None:
        self.config, self._enabled = config, are_tools_enabled(config)
        self.redaction = Redaction(config)
        self.directory = Path(os.path.realpath(directory))
        self.sandbox = self._sandbox()
        self._processes: dict[str, BackgroundProcesses] = {}
        self._allowed = _allowed(config.tools.allow)
        self.external: tuple[ExternalTool, ...] = ()
        self.mcp: McpServers | None = None
        self.skills = SkillLibrary()
        self._plugins: Sequence[Plugin] = ()
        self._offered_skills = dict[str, tuple[str, ...]]()  # by the agent
        self._offered: tuple[object, str] = None, ""  # the tools of MCP servers, and from which they follow
        self.problems: list[str] = []
        self._on_notice: Callable[[str], None] | None = None
        self._told = set[str]()  # sentences about refused tools
        self._loading: asyncio.Task[object] | None = None

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The environment of commands and external tools: only what the list and `[tools] env` name."""
        from ikigai.tools.shell.environment import command_environment

        return command_environment(os.environ, secret=self.redaction.variables(), env=self.config.tools.env)

    @property
    def brave_key(self) -> str:
        """The key of the web search; "" disables it."""
        return os.environ.get(BRAVE_KEY, "").strip()

    @cached_property
    def gate(self) -> ApprovalGate:
        """The gate of the run, built with the first call."""
        from ikigai.tools.approval.allowlist import Allowlist
        from ikigai.tools.approval.gate import ApprovalGate
        from ikigai.tools.approval.path_policy import PathScope

        own = tuple(str(Path(os.path.realpath(each))) for each in paths.own_folders())
        place = PathScope(str(self.directory), own, self.environment.get("PATH", ""), self._readable_folders)
        return ApprovalGate(place, Allowlist(self._allowed), StandingApprovals(approvals_file(), self.redaction.own))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of the tools for models, in the order of their names."""
        if not self._enabled:
            return ()
        if self.sandbox or self.external:  # the specs then depend on the tools themselves
            return _with_vendor_search(self._registry(_nowhere, _nothing, no_subagents).specs)
        own = (spec for spec in builtin_specs.builtin_specs() if self.brave_key or spec.name != "web_search")
        return _with_vendor_search(own)

    def _readable_folders(self) -> tuple[str, ...]:
        skills = self.skills.skills().values()
        return tuple(str(each.folder) for each in (*skills, *self._plugins))

    def skills_offer(self, memory: Memory, settings: ContextSettings) -> str:
        """Return the list of skills of a turn that begins with this memory, as the setting has it; "" for none."""
        off, max_tokens = ToolSelection.of(memory.settings).is_off(SKILLS_SET), settings.skills_tokens
        can = self._enabled and memory.limits.tools and not off and max_tokens
        known = self.skills.skills() if can else {}
        wanted = {each.name: each.description for each in known.values() if each.by_model}
        for name in settings.skills_off:
            wanted.pop(name, None)
        text, count = skills_setting(wanted, max_tokens)
        if count < len(wanted):
            self.skills.tell_left_out(len(wanted) - count, max_tokens)
        self._offered_skills[memory.agent] = tuple(wanted)[:count]
        return text

    async def read_skill(self, agent: str, name: str) -> str:
        """Return the instructions of a skill that an agent is offered. Raise LookupError, Rejected."""
        offered = self._offered_skills.get(agent, ())
        skill = (await asyncio.to_thread(self.skills.skills)).get(name) if name in offered else None
        if skill is None:
            raise LookupError(f"there is no skill {name!r}. Skills: {', '.join(offered) or 'none'}.")
        return await asyncio.to_thread(self.skills.instructions, skill)

    def registry(self, whole: Whole, found: Found, subagents: Callable[[], Subagents], agent: str = "") -> Tools:
        """Return the tools of one agent: `whole` reads results in its log, `found` searches all logs.

        `subagents` returns its subagents; `agent` is its id.
        """
        return LazyTools(self.preload, lambda: self._registry(whole, found, subagents, agent))

    def _registry(
        self, whole: Whole, found: Found, subagents: Callable[[], Subagents], agent: str = ""
    ) -> ToolRegistry:
        from ikigai.app.tools import build_tools

        if not self._enabled:
            return build_tools.ToolRegistry()
        context = build_tools.ToolContext(
            self.config,
            self.directory,
            self.environment,
            self.sandbox,
            self.external,
            self.brave_key,
            lambda: self.gate,
            self.mcp,
            partial(self.read_skill, agent),
        )
        return build_tools.build_registry(context, self._running(agent), whole, found, subagents)

    def _running(self, agent: str) -> BackgroundProcesses:
        """Return the background processes of the agent; they survive until it is opened again."""
        from ikigai.tools.shell.background import BackgroundProcesses

        if agent not in self._processes:
            self._processes[agent] = BackgroundProcesses(self.environment, self.sandbox.wrap if self.sandbox else None)
        return self._processes[agent]

    async def preload(self) -> None:
        """Load the modules of a first call once, in a thread: ahead of the call or with it."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_load), name="tools")
        if not self._loading.done():
            await asyncio.wait({self._loading})
        self._loading.result()

    async def open(self, project: Project | None = None) -> None:
        """Check the sandbox and discover the tools of the user and of a trusted project.

        Raise IkigaiError if the configuration demands a sandbox that does not work.
        """
        if self.sandbox and (why := await self.sandbox.probe()):
            who, place = "configuration", 'set sandbox = "off" under [tools].'
            if self.config.kind(SANDBOX_KEY) == "project":
                who, place = "project", f"remove it from {self.config.settings[SANDBOX_KEY].place}."
            raise IkigaiError(
                f"The sandbox that the {who} demands cannot be used: {why}.",
                f"Install bubblewrap, or ikigai with the extra `sandbox`; or {place}",
            )

        own = paths.config_dir() / "tools"
        theirs = project if project and project.trusted and project.tools.is_dir() else None
        if self._enabled and (own.is_dir() or theirs):
            await self.preload()
            from ikigai.tools.external import discover_tools

            folders = self._folders(own, theirs)
            built_in = [spec.name for spec in self.specs]
            reserved = {*built_in, *RESERVED_TOOL_NAMES}
            tools, self.problems = await discover_tools(folders, self.directory, self.environment, reserved)
            self.external = tuple(tools)
        if paths.plugins_file().exists():
            from ikigai.app.plugins.installed import usable_plugins

            self._plugins = await asyncio.to_thread(usable_plugins, self.problems)
        self.skills = SkillLibrary(project, [each.skill_place for each in self._plugins])
        self.add_servers(project)

    def add_servers(self, project: Project | None) -> None:
        """Make the MCP servers that the configuration, a trusted project and plugins name; none is started yet."""
        has_any = project is not None and project.trusted and (project.folder / MCP).exists()
        has_any = has_any or bool(self.config.mcp_servers) or any(each.servers for each in self._plugins)
        if not (self._enabled and has_any):
            return
        from ikigai.app.tools.mcp_servers import make_servers

        withholds = self.redaction.withholds
        context = self.config, project, self.directory, self.environment, withholds, self.problems
        self.mcp = make_servers(*context, self._plugins)

    def mcp_offer(self, memory: Memory) -> str:
        """Return the tools of MCP servers of a turn that begins with this memory, as the setting has them."""
        if self.mcp is None:
            return ""
        from ikigai.core.tools.mcp_tools import DEFINITIONS_SHARE, MCP_TOOLS_KEY, read_offer

        before = str(memory.settings.get(MCP_TOOLS_KEY) or "")
        limit = int(DEFINITIONS_SHARE * (memory.budget or memory.room))
        key = before, limit, self.mcp.changes
        if self._offered[0] != key:  # the meter asks with each key press
            self._offered = key, self.mcp.offer(read_offer(before), limit).text
        return self._offered[1]

    def tell_notices(self, on_notice: Callable[[str], None]) -> None:
        """Tell what the user should know about tools to `on_notice` from now on."""
        self._on_notice = on_notice
        if self.mcp:
            self.mcp.on_notice = on_notice

    def tell_refused(self, memory: Memory, offer: str) -> None:
        """Tell, once in a run, which tools the vendor of the model refuses. `offer` is what the turn is offered."""
        foreign = [*offered_specs(offer), *(tool for tool in memory.run.tools if tool.set == EXTERNAL_SET)]
        if not (foreign and self._on_notice):
            return
        from ikigai.core.request.tool_rules import refused_tools

        rule = memory.run.encoder(memory.model).tool_rule
        new = [each for each in refused_tools(foreign, rule) if each not in self._told]
        self._told.update(new)
        for each in new[:MAX_REFUSALS_TOLD]:
            self._on_notice(each)
        if (more := len(new) - MAX_REFUSALS_TOLD) > 0:
            self._on_notice(f"{more} more tools are not offered for such reasons: /mcp NAME lists those of a server.")

    def withdraw(self, folder: Path) -> None:
        """Withdraw the tools of this folder."""
        self.external = tuple(each for each in self.external if each.listed.parent != folder)

    def _folders(self, own: Path, project: Project | None) -> list[ToolFolder]:
        """Return the folders of external tools; the user's own come first, so that their names win."""
        from ikigai.tools.external import ToolFolder
        from ikigai.tools.shell.run_command import MAX_STORED_RESULT_BYTES, OutputLimits

        folders, limits = list[ToolFolder](), OutputLimits.of(MAX_STORED_RESULT_BYTES)
        if own.is_dir():
            wrap = partial(self.sandbox.wrap, visible=(Path(os.path.realpath(own)),)) if self.sandbox else None
            folders.append(ToolFolder(own, wrap=wrap, limits=limits))
        if project:
            wrap = self.sandbox.wrap if self.sandbox else None
            folders.append(ToolFolder(project.tools, project.refusal, wrap, limits))
        return folders

    async def read_resource(self, server: str, uri: str) -> ToolOutput:
        """Read a resource of an MCP server; a failure is also an output."""
        from ikigai.images import read_picture
        from ikigai.tools.mcp.host_messages import ReadResource
        from ikigai.tools.mcp.tools import read_result

        assert self.mcp
        order = ReadResource(self.mcp.next_id(), server, uri)
        return await read_result(await self.mcp.carry_out(order), read_picture)

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the MCP servers."""
        return tuple(self.mcp.servers) if self.mcp else ()

    async def fetch_page(self, url: str, settings: Choices, ask: Ask) -> ToolOutput:
        """Fetch a page that the user names, as `web_fetch` would after its approval.

        Raise Rejected if the policy or the user says no, and the tool's own errors in words.
        """
        await self.preload()
        from ikigai.app.tools import build_tools

        return await build_tools.fetch_page(self.directory, self.config, self.gate, url, settings, ask)

    async def end(self, agent: str) -> None:
        """End the background processes of an agent that was killed."""
        if processes := self._processes.pop(agent, None):
            await processes.close()

    async def close(self) -> None:
        servers = (self.mcp.close(),) if self.mcp else ()
        await asyncio.gather(*(each.close() for each in self._processes.values()), *servers)

    def _sandbox(self) -> Sandbox | None:
        if self.config.tools.sandbox != "bwrap" or not self._enabled:
            return None
        from ikigai.tools.shell.sandbox import Sandbox

        return Sandbox(self.directory, list(paths.own_folders()), self.environment, self.config.tools.sandbox_network)


def _with_vendor_search(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the specs with the vendors' search among them, in the order of their names."""
    return tuple(sorted((*specs, VENDOR_SEARCH_SPEC), key=lambda spec: spec.name))


def _load() -> None:
    from ikigai.app.tools import build_tools  # noqa: F401
    from ikigai.tools.approval import gate  # noqa: F401


def _allowed(written: Sequence[str]) -> Sequence[AllowRule | ExactRule]:
    """Return the allow rules of the configuration. Raise ConfigError at the start, not with the first call."""
    if not written:
        return ()
    from ikigai.tools.approval import allow_rules

    return allow_rules.parse_rules(written, "tools.allow")


def approvals_file() -> Path:
    return paths.data_dir() / standing_approvals.APPROVED_FILE


async def _nowhere(call_id: str) -> None:
    """Stand in for the log where tools are only listed."""


def no_subagents() -> Subagents:
    """Raise Rejected: the agent is not managed and has no subagents."""
    raise Rejected("Agents cannot be created here.", "Do it yourself.")


async def _nothing(question: str) -> str:
    return ""
