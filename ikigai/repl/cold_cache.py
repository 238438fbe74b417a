"""Announces that the provider's cache of the conversation on screen has expired, where that makes it much dearer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.repl.session import Session

MAX_SLEEP_SECONDS = 30.0
"""Seconds between two looks at the clock while a cache is kept. Timers stand still while the computer sleeps."""


async def watch(session: Session) -> None:
    """Say once for each pause, before the user types, what the next message costs now. It runs until cancelled.

    It sleeps until the cache expires. From then on, and without a cache, only a change of the conversation wakes it.
    """
    from ikigai.core.request.cache_diagnosis import seconds_left

    noted: CacheUse | None = None
    while True:
        session.view.changed_idle.clear()
        open_agent = session.active_agent.open_agent
        agent_loop = open_agent.agent_loop if open_agent else None
        has_turns = agent_loop is not None and bool(agent_loop.memory.window.turns)
        cache = agent_loop.services.request_cache() if agent_loop and has_turns else None
        last = await cache.last_use() if cache else None
        seconds = seconds_left(last, time.time()) if last and last is not noted else None
        if last and seconds == 0 and (notice := await _notice(session, last)):
            session.view.note(notice)
            noted = last
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, MAX_SLEEP_SECONDS) if seconds else None):
                await session.view.changed_idle.wait()


async def _notice(session: Session, last: CacheUse) -> str:
    """Return the notice about the cache of the request `last`, which has expired; "" where there is nothing to say."""
    memory, services = session.memory, session.services
    if memory is None or services is None or session.active_agent.busy or memory.model != last.report.model:
        return ""
    from ikigai.app.usage.next_request_price import price_of_next
    from ikigai.core.views.next_price import cold_notice

    return cold_notice(await price_of_next(services.config, services.before_turn(memory), last))
