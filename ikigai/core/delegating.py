"""What a tool of an agent can do with agents of its own: start them, look at them, wait for them, end them.

How it is meant: whoever makes an agent's registry gives its tools a `Delegates` of that agent; a tool's `run` awaits
its methods, and turns the Refused that they raise into words for the model. Limits (how deep, how many at once, how
many in all) are the tool's: `agents` tells what there is. Nothing here knows of a terminal: in print mode it is the
same, but that a child's questions are answered with their default.
"""

from collections.abc import Sequence
from typing import Protocol

from ikigai.core.events import Ending
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


class Outcome(Record, frozen=True):
    """What an agent's newest turn came to: the words of its last reply, and why it ended where it did not as it should.

    `ending` is None while it is still at work, or was never asked anything.
    """

    name: str
    ending: Ending | None
    words: str = ""
    reason: str = ""


class Delegates(Protocol):
    """The descendants of one agent. Everything raises Refused in sentences, and StoreError."""

    async def start(self, prompt: str, *, name: str = "", model: str = "", tools: Sequence[str] | None = None) -> str:
        """A fresh child at work on the prompt, behind a clear: it has the parent's settings, and nothing of its past.

        `model` is PROVIDER/NAME[:LEVEL], "" the parent's; `tools` are the sets that it has, None those of the parent.
        Returns its name.
        """
        ...

    async def agents(self) -> tuple[Delegate, ...]:
        """All living descendants, parents before their children."""
        ...

    async def outcome(self, name: str, seconds: float | None = None) -> Outcome:
        """Wait until the descendant has nothing more to do, at most so long, and say what came of it."""
        ...

    async def kill(self, name: str) -> tuple[str, ...]:
        """Kill the descendant and all below it; their names."""
        ...
