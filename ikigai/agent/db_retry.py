"""A database that may be away: asked the same again and again, and the user told once of each kind of trouble."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ikigai.agent.reply_drafts import Link
from ikigai.core.errors import WAITED_FOR, Misconfigured, Unavailable
from ikigai.core.ports import View

RETRY_AFTER = (0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to save while the database is away; the last one repeats."""

AT_ONCE = 1.0
"""Seconds within which a question has failed that is worth asking again before anybody is told."""

_AGAIN = "It is tried again every minute. "
_KEPT = "What is not saved yet is kept here and saved as soon as that works."

_T = TypeVar("_T")


class Patience:
    """Asks the database of one agent, however long it is away.

    After `patience` seconds its error, one of WAITED_FOR, is raised; None is for ever. `lost` is called when it goes
    away, `back` when it has answered.
    """

    def __init__(
        self, link: Link, view: View, patience: float | None, lost: Callable[[], None], back: Callable[[], None]
    ) -> None:
        self._link, self._view, self._patience, self._lost, self._back = link, view, patience, lost, back

    async def __call__(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """The answer to `ask`, which is called until there is one."""
        waits = iter(RETRY_AFTER)
        wait = next(waits)
        lost_at: float | None = None
        told = set[object]()  # an outage may end in a refusal that somebody has to mend, and that in another one
        while True:
            try:
                with self._link.watched():
                    answer = await (_soon(ask) if lost_at is None else ask())
                break
            except WAITED_FOR as error:
                now = time.monotonic()
                kind = str(error) if isinstance(error, Misconfigured) else type(error)
                if kind not in told:
                    told.add(kind)
                    self._view.notice(f"{error} {_AGAIN if isinstance(error, Misconfigured) else ''}{_KEPT}")
                if lost_at is None:
                    lost_at = now
                    self._lost()
                if self._patience is not None and now - lost_at > self._patience:
                    raise
                await asyncio.sleep(wait)
                wait = next(waits, wait)
        self._back()
        if lost_at is not None:
            self._view.notice("The database is back; everything is saved.")
        return answer


async def _soon(ask: Callable[[], Awaitable[_T]]) -> _T:
    """The answer; asked again at once where it failed quickly, as under a connection that was cut, and not where
    nobody answered for a while.
    """
    asked = time.monotonic()
    try:
        return await ask()
    except Unavailable:
        if time.monotonic() - asked > AT_ONCE:
            raise
    return await ask()
