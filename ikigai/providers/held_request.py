"""This module holds a request back, ready to be sent: an SDK builds it while the database stores the message.

An SDK takes about a millisecond to build a request, as long as a commit takes. The last step before the connection is a
hook of the HTTP client, and there the request waits. So nothing of it leaves this machine before `open` is called.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

from ikigai.core.request.build import Request

T = TypeVar("T")

_release: ContextVar[asyncio.Event | None] = ContextVar("release", default=None)
"""The event that the requests of a task wait for; None where they are sent at once."""


class HeldRequest(Generic[T]):
    """`request` on its way: `opening` sends it and returns its answer, and has been started already."""

    def __init__(self, request: Request, opening: Coroutine[Any, Any, T]) -> None:
        self.request, self._released = request, asyncio.Event()
        context = copy_context()
        context.run(_release.set, self._released)
        self._opening = asyncio.create_task(opening, name="held request", context=context)
        self._opening.add_done_callback(_ignore_failure)

    async def open(self) -> T:
        """Send the request and return its answer. A cancellation ends the request."""
        self._released.set()
        return await self._opening

    @property
    def answer(self) -> T | None:
        """The answer that has come; None without one."""
        opening = self._opening
        return opening.result() if opening.done() and not opening.cancelled() and not opening.exception() else None

    def discard(self) -> None:
        """End the request without sending it."""
        self._opening.cancel()


async def hold_back(request: object) -> None:
    """Wait until the request may be sent: the last hook of the HTTP client before its connection."""
    if released := _release.get():
        await released.wait()


def _ignore_failure(opening: asyncio.Task[Any]) -> None:
    """Take the error of a request, which nobody may wait for: an equal one that is sent meets it again."""
    if not opening.cancelled():
        opening.exception()
