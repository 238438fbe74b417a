"""Protocol by which a tool of an agent works with subagents: start, list, write, wait, end.

The owner of an agent's tool registry gives the tools a `Subagents` of that agent. A tool's `run` awaits its methods,
and turns the Rejected that they raise into words for the model. Nothing here depends on a terminal: in print mode only
a child's questions are answered with their default.
"""

from collections.abc import Sequence
from typing import Protocol

from ikigai.core.agents.mail import Mail
from ikigai.core.events.events import MailSent
from ikigai.core.events.record import Record


class Subagent(Record, frozen=True):
    """A descendant: `depth` is 1 for a child. `state` is in words; `tokens` counts its last request and reply."""

    name: str
    depth: int
    state: str
    model: str
    turns: int
    tokens: int
    words: str


class WaitOutcome(Record, frozen=True):
    """The result of a wait. `mails` have arrived; the result of the call has to say and to store them. `busy` are
    agents waited for that still run, `idle` idle ones that have sent nothing new. `more` messages wait. `reason` says
    what ended the wait before the time, and what delays messages for silent agents.
    """

    mails: tuple[Mail, ...] = ()
    busy: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    more: int = 0
    reason: str = ""


class Subagents(Protocol):
    """The descendants of one agent. Every method raises Rejected in sentences, and StoreError."""

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        """Start a fresh child on the prompt, behind a clear: it has the parent's settings, and nothing of its past.

        `model` is PROVIDER/NAME[:LEVEL], "" the parent's. `tools` are the sets that it keeps of the parent's, None all
        of them. Return its name when the prompt is stored.
        """
        ...

    async def agents(self) -> tuple[Subagent, ...]:
        """Return all living descendants that tools made, parents before their children."""
        ...

    async def write_message(self, name: str, text: str) -> tuple[MailSent, str]:
        """Return the message to this agent of the same tree, and a sentence about what delays it, "" for nothing.
        Storing the message sends it.
        """
        ...

    async def wait(self, names: Sequence[str], seconds: float) -> WaitOutcome:
        """Wait at most `seconds` until all of these agents are idle; without names, for the next message."""
        ...

    async def kill(self, name: str) -> tuple[tuple[str, ...], tuple[Mail, ...]]:
        """Kill the descendant and all below it. Return their names, and the mail that they had sent and nobody needs
        now.
        """
        ...
