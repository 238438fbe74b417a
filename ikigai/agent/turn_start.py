"""Additions to a message that begins a turn: changes of the prompt, and turns recalled from outside of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.errors import Rejected
from ikigai.core.events.events import Event
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY, with_instructions
from ikigai.core.state.decisions.decisions import decide
from ikigai.core.state.decisions.rewind import rewind_before
from ikigai.core.state.inputs import (
    DefaultSystemChanged,
    InstructionsChanged,
    MailDelivered,
    McpToolsChanged,
    Plan,
    Retry,
    SkillsChanged,
    Submitted,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, replace

if TYPE_CHECKING:
    from ikigai.agent.db_retry import RetryUntilAvailable
    from ikigai.agent.input_queue import InputQueue
    from ikigai.agent.loop_options import PromptSource, RunServices
    from ikigai.core.ports import Log

BEGINS_TURN = Submitted, Plan, Retry, MailDelivered


class RecalledTurns:
    """Adds to a message of the user what the agent recalls for it. `active` is True meanwhile."""

    def __init__(self, store: Log, retry: RetryUntilAvailable, services: RunServices, queue: InputQueue) -> None:
        self._store, self._retry, self._services, self._queue = store, retry, services, queue
        self.active = False

    async def add(self, memory: Memory, incoming: Submitted | Retry) -> Submitted | Retry:
        """Return the input with what this memory recalls for its message."""
        try:
            back, message = rewind_before(memory) if isinstance(incoming, Retry) else (None, incoming)
        except Rejected:  # `decide` says so
            return incoming
        if isinstance(incoming, Submitted) and incoming.sender:
            return incoming
        self.active = True
        try:
            if back:  # the turn that is taken back has nothing in the window then, and others may come back
                memory = await self._retry(lambda: self._store.load(load_memory(memory.run, memory.agent, back)))
            recalled = await self._services.recall_for(memory, message.text)
        except BaseException:  # the loop ends here, and what waits is returned to the user
            self._queue.follow_up.appendleft(incoming)
            raise
        finally:
            self.active = False
        if recalled is None:
            return incoming
        return replace(incoming, recalled=replace(recalled, text=self._services.redactor().foreign(recalled.text)))


def change_prompt(memory: Memory, source: PromptSource) -> tuple[Memory, tuple[Event, ...]]:
    """Return memory with the instructions of `source`, and the events about what else is in force than before."""
    events: tuple[Event, ...] = ()
    run, instructions = memory.run, source.instructions()
    if (run.below.get(INSTRUCTIONS_KEY) or "") != instructions:
        events = decide(memory, InstructionsChanged(instructions))
        memory = replace(memory, run=replace(run, below=with_instructions(run.below, instructions)))
    events += decide(memory, DefaultSystemChanged(source.default_system(memory)))
    events += decide(memory, McpToolsChanged(source.mcp_tools(memory)))
    return memory, events + decide(memory, SkillsChanged(source.skills(memory)))
