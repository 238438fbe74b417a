"""What a tool of an agent can do with agents of its own: start them, look at them, write to them, wait for them, end
them.

How it is meant: whoever makes an agent's registry gives its tools a `Delegates` of that agent; a tool's `run` awaits
its methods, and turns the Refused that they raise into words for the model. Nothing here knows of a terminal: in print
mode it is the same, but that a child's questions are answered with their default.
"""

from collections.abc import Sequence
from typing import Protocol

from ikigai.core.agents.mail import Mail
from ikigai.core.events import MailSent
from ikigai.core.record import Record


class Delegate(Record, frozen=True):
    """A descendant: `depth` is 1 for a child. `state` is in words; `tokens` are those of its last request and reply."""

    name: str
    depth: int
    state: str
    model: str
    turns: int
    tokens: int
    words: str


class Came(Record, frozen=True):
    """What waiting came to: `mails` have come, which the result of the call has to say and to store; `busy` are those
    waited for who are still at work, `silent` those who are at rest and have said nothing new. `more` messages wait.
    `why` says what ended it before the time, and what holds messages for those who are silent.
    """

    mails: tuple[Mail, ...] = ()
    busy: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    more: int = 0
    why: str = ""


class Delegates(Protocol):
    """The descendants of one agent. Everything raises Refused in sentences, and StoreError."""

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        """A fresh child at work on the prompt, behind a clear: it has the parent's settings, and nothing of its past.

        `model` is PROVIDER/NAME[:LEVEL], "" the parent's; `tools` are the sets that it keeps of the parent's, None all
        of them. Returns its name when the prompt is stored.
        """
        ...

    async def agents(self) -> tuple[Delegate, ...]:
        """All living descendants that tools made, parents before their children."""
        ...

    async def letter(self, name: str, text: str) -> tuple[MailSent, str]:
        """The message to this agent of the same tree, which is sent when it is stored; and a sentence about what holds
        it, "" for nothing.
        """
        ...

    async def wait(self, names: Sequence[str], seconds: float) -> Came:
        """Wait until all of these agents are at rest; without names, for the next message. At most so long."""
        ...

    async def kill(self, name: str) -> tuple[tuple[str, ...], tuple[Mail, ...]]:
        """Kill the descendant and all below it: their names, and what they had sent, which nobody has to hear now."""
        ...
