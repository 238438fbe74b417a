"""Announces that the provider's cache of the conversation on screen has expired, where that makes it much dearer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikigai.core.request.cache_diagnosis import CacheUse
    from ikigai.repl.session import Session

CHECK_SECONDS = 10.0
"""Seconds between two looks at the clock."""


async def watch(session: Session) -> None:
    """Say once for each pause, before the user types, what the next message costs now. It runs until cancelled."""
    told: CacheUse | None = None
    while True:
        open_agent = session.active_agent.open_agent
        cache = open_agent.agent_loop.cache if open_agent else None
        if open_agent and cache and not open_agent.agent_loop.busy and open_agent.agent_loop.memory.window.turns:
            last = await cache().last_use()
            if last and last is not told and (notice := await _notice(session, last)):
                session.view.note(notice)
                told = last
        await asyncio.sleep(CHECK_SECONDS)


async def _notice(session: Session, last: CacheUse) -> str:
    from ikigai.core.request.cache_diagnosis import is_expired

    memory, services = session.memory, session.services
    if memory is None or services is None or memory.model != last.report.model or not is_expired(last, time.time()):
        return ""
    from ikigai.app.next_request_price import price_of_next
    from ikigai.core.views.next_price import cold_notice

    return cold_notice(await price_of_next(services.config, services.before_turn(memory), last))
