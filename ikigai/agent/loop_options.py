"""Options of a loop: the services of its run, its mail, its prompt, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.ports import CommandOutputStore
from ikigai.core.state.decisions.redacted_inputs import no_redactor

if TYPE_CHECKING:
    from ikigai.agent.request.prompt_cache import PromptCache
    from ikigai.core.agents.mail import Mail
    from ikigai.core.errors import Rejected
    from ikigai.core.events.events import TurnsRecalled
    from ikigai.core.events.messages import Usage
    from ikigai.core.secrets.redaction import Redactor
    from ikigai.core.state.memory import Memory


class RunServices(Protocol):
    """The services of a run, for the loop of one agent."""

    def price(self, model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        """Return the cost of a request, and the price list used; see `usage_meter.PriceOf`."""
        ...

    def learn_context(self, model: str, context: int) -> None:
        """Remember the context in tokens that the provider of a model reported."""
        ...

    def learn_no_tools(self, model: str) -> None:
        """Remember that a model refused tools."""
        ...

    def condense_options(self, memory: Memory) -> CondenseOptions:
        """Return the options for condensing the oldest turns of this memory."""
        ...

    def request_cache(self) -> PromptCache | None:
        """Return the state of the provider's cache of the conversation; None if nothing is known."""
        ...

    def redactor(self) -> Redactor:
        """Return the redactor of the secrets as they are now."""
        ...

    async def recall_for(self, memory: Memory, message: str) -> TurnsRecalled | None:
        """Return the turns that this memory recalls for a message of the user, or None."""
        ...


class NoServices:
    """The `RunServices` of a loop that runs by itself: nothing is priced, learned, redacted or recalled."""

    def price(self, model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        return None, ""

    def learn_context(self, model: str, context: int) -> None: ...

    def learn_no_tools(self, model: str) -> None: ...

    def condense_options(self, memory: Memory) -> CondenseOptions:
        return CondenseOptions()

    def request_cache(self) -> PromptCache | None:
        return None

    def redactor(self) -> Redactor:
        return no_redactor()

    async def recall_for(self, memory: Memory, message: str) -> TurnsRecalled | None:
        return None


class MailSource(Protocol):
    """The mail of one agent, for its loop."""

    async def collect(self) -> tuple[Mail, ...]:
        """Return the messages that begin a turn now."""
        ...

    def refuse(self, mails: tuple[Mail, ...], error: Rejected) -> None:
        """Hold these messages, because the turn that they would begin was rejected; tell the user."""
        ...


class PromptSource(Protocol):
    """The parts of the prompt that a turn begins with, as they are now; each is "" for none."""

    def instructions(self) -> str:
        """Return the instructions of the project."""
        ...

    def default_system(self, memory: Memory) -> str:
        """Return the default system prompt of a turn that begins with this memory."""
        ...

    def mcp_tools(self, memory: Memory) -> str:
        """Return the tools of MCP servers that a turn which begins with this memory is offered."""
        ...

    def skills(self, memory: Memory) -> str:
        """Return the list of skills that a turn which begins with this memory is offered."""
        ...


class LoopOptions(NamedTuple):
    """The optional parts of an AgentLoop.

    `max_requests` limits the requests of a turn; 0 means no limit. `db_timeout` is the time in seconds to wait for a
    lost database before Unavailable is raised; None waits for ever. Where nobody `can_ask` the user, a spending cap
    stops requests. Unless it `condenses`, only the user's command does. `outputs` keeps the output of the user's
    commands until it is stored. Without `prompt` a turn begins with the prompt that the agent has.
    """

    max_requests: int = 0
    db_timeout: float | None = None
    can_ask: bool = True
    condenses: bool = True
    services: RunServices = NoServices()
    prompt: PromptSource | None = None
    mail: MailSource | None = None
    outputs: CommandOutputStore | None = None


DEFAULTS = LoopOptions()
