"""Interface of a tool: its name and arguments, the effect of a call, and its output."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from ikigai.core.events.events import MailSent, MailTaken
from ikigai.core.events.messages import Image
from ikigai.core.events.record import Record
from ikigai.core.ports import Ask


class EffectKind(StrEnum):
    """Kind of change that a call makes, from harmless to dangerous."""

    NOTHING = "nothing"  # reads ikigai's own log or processes, or manages agents whose calls need their own approval
    READ = "read"  # reads files
    EDIT = "edit"  # writes files
    NETWORK = "network"
    RUN = "run"  # runs a command, which may do anything


class Effect(Record, frozen=True):
    """Effect of a call, known before it runs: approval and the schedule of calls depend on it."""

    kind: EffectKind
    shown: str
    """The whole command, URL or path in plain text."""
    directory: str = ""
    """The directory where it happens."""
    paths: tuple[str, ...] = ()
    """The real absolute paths (symlinks resolved) that are read or written."""
    inside: bool = True
    """True if all `paths` lie in the working directory."""
    diff: str = ""
    """The unified diff of an edit."""
    background: bool = False
    """True if the command goes on after the call."""
    scripts: tuple[tuple[str, str], ...] = ()
    """The files that a command runs: pairs of path and digest of the content. For a tool of a server: its name and the
    digest of its definition.
    """
    agents: bool = False
    """True for a call about other agents."""
    rule: str = ""
    """The name by which all later calls of the tool can be approved; "" for none."""
    approved_by: str = ""
    """The setting or the reason that approves the call."""
    setting: str = ""
    """A setting that would approve the call."""
    origin: str = ""
    """Scheme, host and port of a page on this machine or its network."""


class ToolOutput(Record, frozen=True):
    """Result of a call: text for the model and the log, images for models that see; `failed` marks an error.

    `diff` is the unified diff of the change that was really made to a file, for people. `also` are further events that
    the call produced.
    """

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    diff: str = ""
    extra_events: tuple[MailSent | MailTaken, ...] = ()


OnOutput = Callable[[str], None]
"""Callback that takes a piece of live output for the screen. It never waits."""


class Tool(Protocol):
    """Tool that a model may call.

    `set` is the tool set that it is switched on and off with (files, shell, web, memory, agents, external, mcp …).
    `arguments` is the Struct of its arguments, whose fields carry their descriptions; dict for an external tool.
    """

    @property
    def name(self) -> str: ...

    @property
    def set(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Any]: ...

    async def preview(self, arguments: Any) -> Effect:
        """Return the effect that the call would have; change nothing. The model reads an exception as an error."""
        ...

    async def run(self, arguments: Any, progress: OnOutput) -> ToolOutput:
        """Run the call; cancellation ends it. The model reads an exception as an error, in the exception's words."""
        ...


@runtime_checkable
class AskingTool(Protocol):
    """Tool that may ask the user while it runs."""

    async def run_asking(self, arguments: Any, progress: OnOutput, ask: Ask | None) -> ToolOutput:
        """Run the call as `Tool.run` does. `ask` asks the user; None where nobody can be asked."""
        ...


@runtime_checkable
class DescribedTool(Protocol):
    """Tool that has the JSON schema of its arguments as text."""

    @property
    def schema(self) -> str: ...
