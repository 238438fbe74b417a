"""What models may do in one run of the program: known at the start, made when the first tool is called."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.redaction import BRAVE_KEY, Redaction
from ikigai.config import Config, tools_enabled
from ikigai.core.errors import IkigaiError, Refused
from ikigai.core.events import Choices, MailSent, MailTaken
from ikigai.core.messages import ToolCall, ToolResult, ToolSpec
from ikigai.core.ports import Ask, Started, Tools
from ikigai.system import paths
from ikigai.tools import builtin_specs as told
from ikigai.tools.approval import standing_approvals as standing

if TYPE_CHECKING:
    from ikigai.app.project import Project
    from ikigai.core.agents.subagents import Delegates
    from ikigai.tools.approval.allow_rules import Exactly, Rule
    from ikigai.tools.approval.gate import Gate
    from ikigai.tools.approval.policy import Approval
    from ikigai.tools.base import Touch
    from ikigai.tools.external import External, Folder
    from ikigai.tools.read_result import Whole
    from ikigai.tools.recall import Found
    from ikigai.tools.registry import Registry
    from ikigai.tools.shell.background import Processes
    from ikigai.tools.shell.sandbox import Sandbox

RESERVED = ("shell", "web_search", "filter_context")
"""Names that no other tool may take, though they are not always offered."""
SANDBOX = ("tools", "sandbox")


class Kept:
    """Standing approvals in their file: `approval.gate.Standing`. `own` replaces ikigai's own keys in what it keeps."""

    def __init__(self, file: Path, own: Callable[[str], str] = str) -> None:
        self._file, self._own = file, own

    def known(self) -> Mapping[str, Approval]:
        from ikigai.tools.approval.policy import Approval, Lasting

        try:
            kept = standing.approved(self._file)
            return {key: Approval(Lasting.ALWAYS, tuple(sorted(each.scripts.items()))) for key, each in kept.items()}
        except IkigaiError:  # damaged: then nothing is approved, and /approve says so
            return {}

    def approve(self, fingerprint: str, call: ToolCall, touch: Touch) -> None:
        given = standing.Approved(call.name, self._own(touch.shown), touch.directory, time.time(), dict(touch.scripts))
        with contextlib.suppress(OSError):  # what stands against it is said by who writes there
            paths.private(self._file.parent)  # beside a database elsewhere nothing has made it yet
        standing.approve(self._file, fingerprint, given)


class Later:
    """The tools of one agent (`ports.Tools`), made when the first is called and what that takes has been loaded."""

    def __init__(self, load: Callable[[], Awaitable[None]], make: Callable[[], Tools]) -> None:
        self._load, self._make = load, make

    @cached_property
    def _made(self) -> Tools:
        return self._make()

    async def start(self, call: ToolCall, turn: int, settings: Choices, ask: Ask) -> Started:
        await self._load()
        return await self._made.start(call, turn, settings, ask)

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolResult:
        await self._load()
        return await self._made.run(call, progress)

    def also(self, call_id: str) -> tuple[MailSent | MailTaken, ...]:
        return self._made.also(call_id)


class Workshop:
    """`directory` is where the program was started."""

    def __init__(self, config: Config, directory: Path) -> None:
        self.config, self._enabled = config, tools_enabled(config)
        self.redaction = Redaction(config)
        self.directory = Path(os.path.realpath(directory))
        self.sandbox = self._sandbox()
        self._processes: dict[str, Processes] = {}
        self._allowed = _allowed(config.tools.allow)
        self.external: tuple[External, ...] = ()
        self.problems: list[str] = []
        self._loading: asyncio.Task[object] | None = None

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The environment of commands and external tools: only what the list and `[tools] env` name."""
        from ikigai.tools.shell.environment import for_commands

        secret = [server.api_key_env for server in self.config.providers.values() if server.api_key_env]
        return for_commands(os.environ, secret=[*secret, BRAVE_KEY], env=self.config.tools.env)

    @property
    def brave_key(self) -> str:
        """The key of the web search; without one there is none."""
        return os.environ.get(BRAVE_KEY, "").strip()

    @cached_property
    def gate(self) -> Gate:
        """Made for the first call."""
        from ikigai.tools.approval.allowlist import Allowlist
        from ikigai.tools.approval.gate import Gate
        from ikigai.tools.approval.path_policy import Place

        own = tuple(str(Path(os.path.realpath(each))) for each in paths.own())
        place = Place(str(self.directory), own, self.environment.get("PATH", ""))
        return Gate(place, Allowlist(self._allowed), Kept(standing_file(), self.redaction.own))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told of the tools, in the order of their names."""
        if not self._enabled:
            return ()
        if self.sandbox or self.external:  # of these the tools themselves tell
            return self._registry(_nowhere, _nothing, alone).specs
        return tuple(spec for spec in told.specs() if self.brave_key or spec.name != "web_search")

    def registry(self, whole: Whole, found: Found, delegates: Callable[[], Delegates], agent: str = "") -> Tools:
        """The tools of one agent; `whole` reads results in its log, `found` searches everything ever said; `delegates`
        gives its own agents.
        """
        return Later(self.warm, lambda: self._registry(whole, found, delegates, agent))

    def _registry(self, whole: Whole, found: Found, delegates: Callable[[], Delegates], agent: str = "") -> Registry:
        from ikigai.app import build_tools as toolbox

        if not self._enabled:
            return toolbox.Registry()
        context = toolbox.ToolContext(
            self.config,
            self.directory,
            self.environment,
            self.sandbox,
            self.external,
            self.brave_key,
            lambda: self.gate,
        )
        return toolbox.registry(context, self._running(agent), whole, found, delegates)

    def _running(self, agent: str) -> Processes:
        """What the agent runs in the background; still there when it is opened again."""
        from ikigai.tools.shell.background import Processes

        if agent not in self._processes:
            self._processes[agent] = Processes(self.environment, self.sandbox.wrap if self.sandbox else None)
        return self._processes[agent]

    async def warm(self) -> None:
        """Load what any first call needs, once and in a thread: ahead of it, or when it comes."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_load), name="tools")
        if not self._loading.done():
            await asyncio.wait({self._loading})
        self._loading.result()

    async def open(self, project: Project | None = None) -> None:
        """Find out whether the sandbox works, and what other tools there are: the user's, and the project's where it is
        trusted. Raises IkigaiError when a sandbox is demanded and does not work.
        """
        if self.sandbox and (why := await self.sandbox.probe()):
            who, place = "configuration", 'set sandbox = "off" under [tools].'
            if self.config.kind(SANDBOX) == "project":
                who, place = "project", f"take it out of {self.config.settings[SANDBOX].place}."
            raise IkigaiError(
                f"The sandbox that the {who} demands cannot be used: {why}",
                f"Install bubblewrap, or ikigai with the extra `sandbox`; or {place}",
            )

        own = paths.config_dir() / "tools"
        theirs = project if project and project.trusted and project.tools.is_dir() else None
        if self._enabled and (own.is_dir() or theirs):
            await self.warm()
            from ikigai.tools.external import discovered

            folders = self._folders(own, theirs)
            built_in = [spec.name for spec in self.specs]
            asked = discovered(folders, self.directory, self.environment, {*built_in, *RESERVED})
            found, self.problems = await asked
            self.external = tuple(found)

    def _folders(self, own: Path, project: Project | None) -> list[Folder]:
        """Where executables are that may be tools; the user's own come first, and keep their names."""
        from ikigai.tools.external import Folder
        from ikigai.tools.shell.run import Limits

        folders, limits = list[Folder](), Limits.of(self.config.tools.max_stored_result)
        if own.is_dir():
            wrap = partial(self.sandbox.wrap, seen=(Path(os.path.realpath(own)),)) if self.sandbox else None
            folders.append(Folder(own, wrap=wrap, limits=limits))
        if project:
            wrap = self.sandbox.wrap if self.sandbox else None
            folders.append(Folder(project.tools, project.refusal, wrap, limits))
        return folders

    async def end(self, agent: str) -> None:
        """End what the agent runs in the background: it was killed."""
        if processes := self._processes.pop(agent, None):
            await processes.close()

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._processes.values()))

    def _sandbox(self) -> Sandbox | None:
        if self.config.tools.sandbox != "bwrap" or not self._enabled:
            return None
        from ikigai.tools.shell.sandbox import Sandbox

        return Sandbox(self.directory, list(paths.own()), self.environment, self.config.tools.sandbox_network)


def _load() -> None:
    from ikigai.app import build_tools as toolbox  # noqa: F401
    from ikigai.tools.approval import gate  # noqa: F401


def _allowed(written: Sequence[str]) -> Sequence[Rule | Exactly]:
    """The rules of the configuration. Raises ConfigError, at the start and not when they are needed."""
    if not written:
        return ()
    from ikigai.tools.approval import allow_rules as rules

    return rules.parsed(written, "tools.allow")


def standing_file() -> Path:
    return paths.data_dir() / standing.FILE


async def _nowhere(call_id: str) -> None:
    """For those who want to know what tools there are, and run none."""


def alone() -> Delegates:
    """For an agent without a crew."""
    raise Refused("No agents can be had here.", "Do it yourself.")


async def _nothing(question: str) -> str:
    return ""
