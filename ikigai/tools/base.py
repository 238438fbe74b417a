"""What a tool is to the registry and to whoever approves its calls."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from ikigai.core.events import MailSent, MailTaken
from ikigai.core.messages import Image
from ikigai.core.record import Record


class Kind(StrEnum):
    """What a call does to the world, from harmless to not."""

    NOTHING = "nothing"  # looks at ikigai's own log or processes, or has agents whose own calls are looked at
    READ = "read"  # reads files
    EDIT = "edit"  # writes files
    NETWORK = "network"
    RUN = "run"  # runs a command, which may do anything


class Touch(Record, frozen=True):
    """What a call would do, told before it runs: for whoever approves it, and for the order of calls.

    `paths` are real absolute paths (symlinks resolved) that are read or written; `inside` says that all of them lie in
    the working directory. `shown` is the whole command, URL or path in plain text; `diff` a unified diff of an edit.
    `directory` is where it happens, `background` says that it goes on after the call.
    `scripts` are the files that a command runs, by path, each with a digest of its content. `agents` says that the call
    is about other agents.
    """

    kind: Kind
    shown: str
    directory: str = ""
    paths: tuple[str, ...] = ()
    inside: bool = True
    diff: str = ""
    background: bool = False
    scripts: tuple[tuple[str, str], ...] = ()
    agents: bool = False


class Output(Record, frozen=True):
    """What came of a call: text for the model and the log, images for models that see; `failed` marks an error.

    `diff` is what it really changed in a file, as a unified diff, for people. `also` are facts that it came to.
    """

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    diff: str = ""
    also: tuple[MailSent | MailTaken, ...] = ()


Progress = Callable[[str], None]
"""Takes a piece of live output for the screen; never waits."""


class Tool(Protocol):
    """One thing a model may do. `arguments` is the Struct that its arguments are; its fields bring their descriptions.
    Those of an external tool are a dict.

    `set` names the group it is switched with (files, shell, web, memory, agents, external).
    """

    @property
    def name(self) -> str: ...

    @property
    def set(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Any]: ...

    async def look(self, arguments: Any) -> Touch:
        """What the call would do; changes nothing. What it raises reaches the model as an error."""
        ...

    async def run(self, arguments: Any, progress: Progress) -> Output:
        """Do it. What it raises reaches the model as an error, in the exception's words; cancellation ends it."""
        ...
