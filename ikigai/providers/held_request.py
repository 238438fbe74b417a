"""This module holds a request back, ready to be sent: an SDK builds it while the user pauses or the database stores.

An SDK and its HTTP client take two milliseconds to build a request, longer than a commit. A request that is expected
waits before it takes a connection. Once it is wanted it waits in the last step before its first byte, with its
connection. So nothing of it leaves this machine before `send` or `open` is called.

A request that is only rehearsed ends at the first of these places: an SDK loads what all requests need for it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

from ikigai.core.request.build import Request

T = TypeVar("T")

MAX_HELD_SECONDS = 1.0
"""Seconds that a request is held: a server may close a connection on which nothing comes."""
MAX_EXPECTED_SECONDS = 60.0
"""Seconds that an expected request is good for: some are signed with the time at which they were built."""
BUILDING_STEPS = 10
"""Turns of the event loop that a request is built in, at most, where its connection is open."""

_held: ContextVar["HeldRequest[Any] | None"] = ContextVar("held", default=None)
"""The held request that a task sends; None for a request that is sent at once."""
_rehearses: ContextVar[bool] = ContextVar("rehearses", default=False)
"""True in a task whose request ends in `hold_back`."""


class _Rehearsed(Exception):
    """The end of a request that was only rehearsed."""


class HeldRequest(Generic[T]):
    """`request` on its way: `opening` sends it and returns its answer, and has been started already.

    One that `is_expected` takes a connection once `want` is called.
    """

    def __init__(self, request: Request, opening: Coroutine[Any, Any, T], is_expected: bool = False) -> None:
        self.request, self._wanted, self._released = request, asyncio.Event(), asyncio.Event()
        self._began = time.monotonic()
        self._is_built = False
        if not is_expected:
            self._wanted.set()
        context = copy_context()
        context.run(_held.set, self)
        self._opening = asyncio.create_task(opening, name="held request", context=context)
        self._opening.add_done_callback(_ignore_failure)

    async def built(self) -> None:
        """Wait until the request is built. Do not wait for a connection: that takes longer than a commit."""
        for _ in range(BUILDING_STEPS):
            if self._is_built or self._opening.done():
                return
            await asyncio.sleep(0)

    @property
    def is_under_way(self) -> bool:
        """True for some time from when the request was sent: `open` takes its answer."""
        return self._released.is_set() and time.monotonic() - self._began < MAX_HELD_SECONDS

    @property
    def is_wanted(self) -> bool:
        """True if the request is not only expected."""
        return self._wanted.is_set()

    def want(self) -> bool:
        """Let an expected request take its connection. Return False if it is none that can be used."""
        if self.is_wanted or self._opening.done() or not self.is_usable:
            return False
        self._wanted.set()
        self._began = time.monotonic()
        return True

    async def wanted(self) -> None:
        """Wait until the request is wanted."""
        await self._wanted.wait()

    async def hold(self) -> None:
        """Wait until the request may be sent, once: a request that is ended has further steps."""
        if not self._is_built:
            self._is_built = True
            await self._released.wait()

    @property
    def is_usable(self) -> bool:
        """True if the request was sent, or can still be sent."""
        longest = MAX_HELD_SECONDS if self.is_wanted else MAX_EXPECTED_SECONDS
        return self._released.is_set() or time.monotonic() - self._began < longest

    def send(self) -> bool:
        """See `PreparedRequest`."""
        if self._opening.done() or not self.is_usable:
            return False
        self._released.set()
        self._began = time.monotonic()
        return True

    async def open(self) -> T:
        """Send the request, if that was not done yet, and return its answer. A cancellation ends the request."""
        self._wanted.set()
        self._released.set()
        return await self._opening

    @property
    def answer(self) -> T | None:
        """The answer that has come; None without one."""
        opening = self._opening
        return opening.result() if opening.done() and not opening.cancelled() and not opening.exception() else None

    def discard(self) -> None:
        """End the request, and close its connection if it has one."""
        self._opening.cancel()

    async def discarded(self) -> None:
        """End the request; return when its connection is closed."""
        self.discard()
        await asyncio.wait([self._opening])


class RequestSlot(Generic[T]):
    """The place of the one request that a provider holds back; `open_answer` sends a request and returns its answer."""

    def __init__(self, open_answer: Callable[[Request], Coroutine[Any, Any, T]]) -> None:
        self._open_answer = open_answer
        self.held: HeldRequest[T] | None = None

    async def prepare(self, request: Request) -> HeldRequest[T] | None:
        """Hold back a request that `take` will probably be called with next. Return None where another is under way."""
        held = self.held
        if held and held.is_under_way:
            return None  # `take` is about to be called with it, for another agent
        if held is None or held.request != request or not held.want():
            held = self._hold(request)
        await held.built()
        return held

    def expect(self, request: Request) -> None:
        """Begin to build a request that `prepare` may be called with later, unless a wanted one is held."""
        held = self.held
        if held is None or not held.is_usable or not (held.is_wanted or held.request == request):
            self._hold(request, is_expected=True)

    def take(self, request: Request) -> HeldRequest[T] | None:
        """Return the held request if it is an equal one that can be used, and hold it no longer."""
        held = self.held
        if held is None or held.request != request or not held.is_usable:
            return None
        self.held = None
        return held

    async def discarded(self) -> None:
        """End the request that is held; return when its connection is closed."""
        held, self.held = self.held, None
        if held:
            await held.discarded()

    def _hold(self, request: Request, is_expected: bool = False) -> HeldRequest[T]:
        """Begin to build a request in the place of the one that was held before."""
        if self.held:
            self.held.discard()
        self.held = HeldRequest(request, self._open_answer(request), is_expected)
        return self.held


async def hold_back(request: Any) -> None:
    """Let a held request wait before its connection and before its first byte: a hook of the HTTP client."""
    if _rehearses.get():
        raise _Rehearsed
    if held := _held.get():
        await held.wanted()

        async def on_step(name: str, _: object) -> None:
            if not name.startswith("connection."):  # to connect, the client sends nothing of the request
                await held.hold()

        request.extensions = {**request.extensions, "trace": on_step}


async def rehearse(sending: Coroutine[Any, Any, object]) -> None:
    """Have an SDK build a request that is not sent: the first one imports and makes what all later ones share."""
    _rehearses.set(True)
    with suppress(Exception):  # each SDK wraps the end of the rehearsal in its own way
        await sending


def _ignore_failure(opening: asyncio.Task[Any]) -> None:
    """Take the error of a request, which nobody may wait for: an equal one that is sent meets it again."""
    if not opening.cancelled():
        opening.exception()
