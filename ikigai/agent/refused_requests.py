"""Requests that a model refused for their size or their tools, and the requests that replace them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ikigai.core.state.decisions import overflow
from ikigai.core.state.inputs import ContextOverflowed, Failed, Input, Job, ToolsRefused, UsageRecorded
from ikigai.core.state.memory import Memory
from ikigai.core.text import tokens

if TYPE_CHECKING:
    from ikigai.agent.loop_options import RunServices
    from ikigai.core.ports import View
    from ikigai.core.state.effective_settings import RunConfig

NO_TOOLS_REMEDY = 'Remove tools = "yes" under [models] in the configuration, or choose another model.'
"""The advice where the configuration promises tools that a model refuses."""


class RefusedRequests:
    """Has the refused requests of one agent sent again, smaller or without tools.

    `reload` loads memory anew under a run. `discard` ends a job, so that the next request is built from that memory.
    """

    def __init__(
        self,
        services: RunServices,
        view: View,
        reload: Callable[[RunConfig], Awaitable[Memory]],
        discard: Callable[[Job], None],
    ) -> None:
        self._services, self._view, self._reload, self._discard = services, view, reload, discard
        self._shrunk: tuple[Job | None, int] = (None, 0)  # the request that was shrunk, and how often

    async def shrink(self, memory: Memory, refused: ContextOverflowed) -> Input:
        """Drop older turns and iterations and send the request again; a turn that cannot be made to fit fails.

        Memory is loaded anew under the limits just learned, so that it equals the memory of a restart under them.
        """
        job, tries = self._shrunk
        tries = tries + 1 if job == refused.job else 1
        self._shrunk = refused.job, tries
        self._services.learn_context(memory.model, overflow.learned_context(memory, refused.reason))
        smaller = await self._reload(memory.run)
        fails = tries > overflow.MAX_SHRINKS or smaller.size >= memory.size or not memory.budget
        if fails:
            return Failed(refused.job, overflow.overflow_message(smaller, refused.reason), (), refused.usage)
        sizes = " → ".join(tokens.format_tokens(each.used) for each in (memory, smaller))
        self._view.notice(f"{refused.reason} Sending a smaller request: {sizes} tokens.")
        return self._send_again(refused)

    async def leave_out_tools(self, memory: Memory, refused: ToolsRefused) -> Input:
        """Send the request again without tools, and offer this model none from now on."""
        self._services.learn_no_tools(memory.model)
        without = await self._reload(memory.run)
        if without.limits.tools:  # the configuration says that it takes some
            return Failed(refused.job, f"{refused.reason} {NO_TOOLS_REMEDY}", (), refused.usage)
        self._view.notice(f"{memory.model} does not support tools: it is offered none from now on.")
        return self._send_again(refused)

    def _send_again(self, refused: ContextOverflowed | ToolsRefused) -> Input:
        """Have the refused request sent anew, as memory is now; return the input that is left of the refusal."""
        self._discard(refused.job)
        return UsageRecorded(refused.usage) if refused.usage else refused
