"""Make the loop of an agent, and give it what it needs of the services of the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ikigai.agent.loop import AgentLoop
from ikigai.app.run.factories import make_options, make_price, model_list_file
from ikigai.providers.models import model_list_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.agent.loop_options import LoopOptions
    from ikigai.agent.request.prompt_cache import PromptCache
    from ikigai.app.run.services import Services
    from ikigai.core.agents.subagent_port import Subagents
    from ikigai.core.context.condense_threshold import CondenseOptions
    from ikigai.core.events.events import TurnsRecalled
    from ikigai.core.events.messages import Usage
    from ikigai.core.ports import View
    from ikigai.core.request.default_prompt import Surroundings
    from ikigai.core.secrets.redaction import Redactor
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent
    from ikigai.store.log.log import AgentLog


def make_loop(
    services: Services,
    agent: Agent,
    memory: Memory,
    log: AgentLog,
    view: View,
    subagents: Callable[[], Subagents],
    options: LoopOptions,
) -> AgentLoop:
    """Return the loop of an agent, with these options and the services of the run."""

    async def recall(question: str) -> str:
        from ikigai.app.history.recall_commands import find_excerpts, format_excerpts

        turns = (await find_excerpts(services.database, question)).turns
        # The turn that asks is in the context, and its call has all words of the question.
        return format_excerpts([turn for turn in turns if turn.last or turn.agent_id != agent.id])

    own = AgentServices(services, agent, memory, view)
    tools = services.tool_runtime.registry(services.database.reader(agent).result, recall, subagents, agent.id)
    options = options._replace(services=own, prompt=own)
    loop = AgentLoop(memory, log, services.pool.provider, tools, view, options)
    guard_spending(services, loop, agent, log, view)
    return loop


def guard_spending(services: Services, loop: AgentLoop, agent: Agent, log: AgentLog, view: View) -> None:
    """Keep the requests of a loop under the caps of the run, if there are any."""
    if services.spending is None:
        return
    from ikigai.agent.spending_guard import GuardTerms, SpendingGuard

    reader = services.database.reader(agent)
    terms = GuardTerms(agent.id, log, view, services.pool.encoder, services.pool.provider, reader.last_counted)
    loop.billing.guard = SpendingGuard(services.spending, terms, loop.services.price, loop)


class AgentServices:
    """The `RunServices` and the `PromptSource` of one agent; problems with the files behind its prompt are told to its
    view.
    """

    def __init__(self, services: Services, agent: Agent, memory: Memory, view: View) -> None:
        self._services, self._agent, self._view = services, agent, view
        self._price = make_price(services.config)
        self._cache: PromptCache | None = None
        # The last default system prompt, behind what it was made of.
        self._default_system: tuple[Memory, Surroundings, Redactor, str] | None = None
        if memory.provider == "anthropic":  # the ledger is read before the first request
            self.request_cache()

    def price(self, model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        return self._price(model, usage, at)

    def learn_context(self, model: str, context: int) -> None:
        self._services.pool.learn(model, context)

    def learn_no_tools(self, model: str) -> None:
        """Remember with the list of its provider, until that is fetched anew, that a model refused tools."""
        provider = model.partition("/")[0]
        known = self._services.pool.known.without_tools(model)
        model_list_cache.save(model_list_file(), provider, known, time.time())

    def condense_options(self, memory: Memory) -> CondenseOptions:
        return make_options(self._services.context_settings(memory))

    def request_cache(self) -> PromptCache:
        if self._cache is None:
            from ikigai.agent.request.prompt_cache import PromptCache

            self._cache = PromptCache(
                lambda: self._services.database.usage.cache_uses(self._agent.id),
                lambda memory: self._services.context_settings(memory).cache_ttl,
            )
            self._cache.load()
        return self._cache

    def redactor(self) -> Redactor:
        return self._services.redaction.redactor()

    async def recall_for(self, memory: Memory, message: str) -> TurnsRecalled | None:
        if self._services.context_settings(memory).auto_recall != "on":
            return None
        from ikigai.app.history.auto_recall import recall_for

        return await recall_for(self._services.database, memory, message)

    def instructions(self) -> str:
        value = self._services.instructions()
        for problem in self._services.problems():
            self._view.notice(problem)
        return value

    def default_system(self, memory: Memory) -> str:
        from ikigai.app.run.surroundings import find_surroundings

        # Each message waits for it: it was made while the user paused, as a rule.
        where, redactor, known = find_surroundings(), self.redactor(), self._default_system
        if known and known[0] is memory and known[1] == where and known[2] is redactor:
            return known[3]
        value = self._services.default_system(memory)
        self._default_system = memory, where, redactor, value
        return value

    def skills(self, memory: Memory) -> str:
        value = self._services.skills_offer(memory)
        for problem in self._services.problems():
            self._view.notice(problem)
        return value

    def mcp_tools(self, memory: Memory) -> str:
        offer = self._services.tool_runtime.mcp_offer(memory)
        self._services.tool_runtime.tell_refused(memory, offer)
        return offer
