"""The tools of one run of the program: made of its configuration, handed to each agent, put down at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai import paths, standing
from ikigai.config import Config, tools_enabled, under
from ikigai.core.errors import IkigaiError, Refused
from ikigai.core.messages import ToolCall, ToolSpec
from ikigai.images import pictured
from ikigai.tools.agents import agent_tools
from ikigai.tools.background import Processes
from ikigai.tools.base import Tool, Touch
from ikigai.tools.environment import for_commands
from ikigai.tools.external import External, Folder, discovered
from ikigai.tools.files import file_tools
from ikigai.tools.listing import program
from ikigai.tools.processes import process_tools
from ikigai.tools.read_result import ReadResult, Whole
from ikigai.tools.recall import Found, Recall
from ikigai.tools.registry import Registry
from ikigai.tools.sandbox import Sandbox
from ikigai.tools.seen import Seen
from ikigai.tools.shell import Shell
from ikigai.tools.web import web_tools

if TYPE_CHECKING:
    from ikigai.core.delegating import Delegates
    from ikigai.project import Project
    from ikigai.tools.approval import Lasting
    from ikigai.tools.gate import Gate
    from ikigai.tools.rules import Exactly, Rule

RESERVED = ("shell", "web_search", "filter_context")
"""Names that no other tool may take, though they are not always offered."""
SANDBOX = ("tools", "sandbox")
BRAVE_KEY = "BRAVE_API_KEY"
"""The variable that holds the key of the web search."""


class Kept:
    """Standing approvals in their file: `tools.gate.Standing`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def known(self) -> Mapping[str, Lasting]:
        from ikigai.tools.approval import Lasting

        try:
            return dict.fromkeys(standing.approved(self._file), Lasting.ALWAYS)
        except IkigaiError:  # damaged: then nothing is approved, and /approve says so
            return {}

    def approve(self, fingerprint: str, call: ToolCall, touch: Touch) -> None:
        given = standing.Approved(call.name, touch.shown, touch.directory, time.time())
        with contextlib.suppress(OSError):  # what stands against it is said by who writes there
            paths.private(self._file.parent)  # beside a database elsewhere nothing has made it yet
        standing.approve(self._file, fingerprint, given)


class Workshop:
    """`directory` is where the program was started."""

    def __init__(self, config: Config, directory: Path) -> None:
        self._config, self._enabled = config, tools_enabled(config)
        root = Path(os.path.realpath(directory))
        self.directory = root
        secret = [server.api_key_env for server in config.providers.values() if server.api_key_env]
        self.environment = for_commands(os.environ, secret=[*secret, BRAVE_KEY])
        self.sandbox = self._sandbox()
        self._processes = dict[str, Processes]()
        self._allowed = _allowed(config.tools.allow)
        self.external: tuple[External, ...] = ()
        self.problems: list[str] = []

    @cached_property
    def gate(self) -> Gate:
        """Made for the first call: there is much in it, and the start does without."""
        from ikigai.tools.allowlist import Allowlist
        from ikigai.tools.gate import Gate
        from ikigai.tools.places import Place

        own = tuple(str(Path(os.path.realpath(each))) for each in paths.own())
        place = Place(str(self.directory), own, self.environment.get("PATH", ""))
        return Gate(place, Allowlist(self._allowed), Kept(standing_file()))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.registry(_nowhere, _nothing, alone).specs

    def registry(self, whole: Whole, found: Found, delegates: Callable[[], Delegates], agent: str = "") -> Registry:
        """The tools of one agent; `whole` reads results in its log, `found` searches everything ever said; `delegates`
        gives its own agents.
        """
        if not self._enabled:
            return Registry()
        own = agent_tools(delegates)
        return Registry((*self.tools(agent), *self.memory_tools(whole, found), *own, *self.external), lambda: self.gate)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Those that reach the world, fresh for one agent: each remembers what it has read and where it is.

        What an agent runs in the background is its own, and still there when it is opened again.
        """
        wrap = self.sandbox.wrap if self.sandbox else None
        processes = self._processes.setdefault(agent, Processes(self.environment, wrap))
        ripgrep = program("rg", self.environment.get("PATH", ""), self.directory)
        tools = self._config.tools
        return (
            *file_tools(self.directory, Seen(), picture=pictured, ripgrep=ripgrep),
            Shell(self.directory, self.environment, processes, self.sandbox),
            *process_tools(processes),
            *web_tools(
                self.directory,
                private=tools.private_hosts,
                picture=pictured,
                brave_key=os.environ.get(BRAVE_KEY, "").strip(),
            ),
        )

    def memory_tools(self, whole: Whole, found: Found) -> tuple[Tool, ...]:
        pages = (under(self._config, name).context.max_tool_result_tokens for name in ("", *self._config.profiles))
        return Recall(found), ReadResult(whole, min(pages))

    async def open(self, project: Project | None = None) -> None:
        """Find out whether the sandbox works, and what other tools there are: the user's, and the project's where it is
        trusted. Raises IkigaiError when a sandbox is demanded and does not work.
        """
        if self.sandbox and (why := await self.sandbox.probe()):
            who, place = "configuration", 'set sandbox = "off" under [tools].'
            if self._config.kind(SANDBOX) == "project":
                who, place = "project", f"take it out of {self._config.settings[SANDBOX].place}."
            raise IkigaiError(
                f"The sandbox that the {who} demands cannot be used: {why}", f"Install bubblewrap, or {place}"
            )

        folders = list(self._folders(project)) if self._enabled else []
        if folders:
            built_in = [spec.name for spec in self.registry(_nowhere, _nothing, alone).specs]
            asked = discovered(folders, self.directory, self.environment, {*built_in, *RESERVED})
            found, self.problems = await asked
            self.external = tuple(found)

    def _folders(self, project: Project | None) -> Iterator[Folder]:
        """Where executables are that may be tools; the user's own come first, and keep their names."""
        own = paths.config_dir() / "tools"
        if own.is_dir():
            wrap = partial(self.sandbox.wrap, seen=(Path(os.path.realpath(own)),)) if self.sandbox else None
            yield Folder(own, wrap=wrap)
        if project and project.trusted and project.tools.is_dir():
            yield Folder(project.tools, lambda: project.trusted, self.sandbox.wrap if self.sandbox else None)

    async def end(self, agent: str) -> None:
        """End what the agent runs in the background: it was killed."""
        if processes := self._processes.pop(agent, None):
            await processes.close()

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._processes.values()))

    def _sandbox(self) -> Sandbox | None:
        if self._config.tools.sandbox != "bwrap" or not self._enabled:
            return None
        return Sandbox(self.directory, list(paths.own()), self.environment, self._config.tools.sandbox_network)


def _allowed(written: Sequence[str]) -> Sequence[Rule | Exactly]:
    """The rules of the configuration. Raises ConfigError, at the start and not when they are needed."""
    if not written:
        return ()
    from ikigai.tools import rules

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
