"""Repeat database calls while the database is away, and tell the user once.

    after 2 s without an answer    the status line says that the database is unreachable
    a call fails within 1 s        it is repeated once at once: most lost connections are made anew so
    it fails again                 the user is told, once for each error; it is repeated after 0.25 to 7.5 s
    meanwhile                      the agent waits; what is typed is queued and shown
    it answers                     everything is stored in its order, and the user is told
    after `timeout` (print mode)   the error ends the loop
    the program ends before        unsaved events go to a file (`app.unsaved.spool`), and the next start stores them

`store/connection` connects anew. Where another server has taken over, `store/write_access` completes the logs first.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from ikigai.core.errors import WAITED_FOR, Misconfigured, Unavailable
from ikigai.core.ports import View

RETRY_AFTER = (0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to save while the database is away; the last one repeats. Each is longer or shorter by up to
half, so that programs which a restart cut off together do not all come back together.
"""

SLOW_DATABASE_SECONDS = 2.0
"""Seconds without an answer from the database after which the user is told."""
FAST_FAILURE_SECONDS = 1.0
"""Seconds: a call that fails within them is retried at once, before the user is notified."""

_RETRIED_EVERY_MINUTE = "ikigai tries again every minute. "


class RetryMessages(NamedTuple):
    """The sentence after the error message, and the one for when the database is back."""

    meanwhile: str = "Unsaved messages are kept in memory and saved when it works again."
    passed: str = "The database is back; everything is saved."


SAVING = RetryMessages()


_T = TypeVar("_T")


class DatabaseStatus:
    """Watches the database: tells the view when it has not answered for a while or fails, and when it is back."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.unreachable = False
        self._calls: dict[object, float] = {}  # those that wait, oldest first, and since when
        self._timer: asyncio.TimerHandle | None = None  # one for all: each message would wait for its own to be set

    def watch(self) -> _WatchedCall:
        """Return a context manager that watches one call to the database."""
        return _WatchedCall(self)

    def begin(self, call: object) -> None:
        """Start watching a call."""
        loop = asyncio.get_running_loop()
        self._calls[call] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(SLOW_DATABASE_SECONDS, self._look)

    def end(self, call: object, error: BaseException | None) -> None:
        """Stop watching a call, which was answered or raised `error`."""
        del self._calls[call]
        if error is None or isinstance(error, WAITED_FOR):
            self._set(error is not None)

    def _look(self) -> None:
        """Tell the view if the oldest call is slow; look again when the next one may be."""
        self._timer = None
        if self._calls:
            loop = asyncio.get_running_loop()
            due = next(iter(self._calls.values())) + SLOW_DATABASE_SECONDS
            if due <= loop.time():
                self._set(True)
                due = loop.time() + SLOW_DATABASE_SECONDS
            self._timer = loop.call_at(due, self._look)

    def _set(self, away: bool) -> None:
        if away is not self.unreachable:
            self.unreachable = away
            self._view.database_unreachable(away)


class _WatchedCall:
    """One call to the database while it is watched."""

    __slots__ = ("_status",)

    def __init__(self, status: DatabaseStatus) -> None:
        self._status = status

    def __enter__(self) -> None:
        self._status.begin(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._status.end(self, error)


class RetryUntilAvailable:
    """Repeats a database call of one agent while the database is away, and notifies `view` with `messages`.

    After `timeout` seconds the error, one of WAITED_FOR, is raised; None waits for ever. `on_lost` is called when the
    database goes away, `on_answer` after every answer. `chance` returns a number from 0 to 1.
    """

    def __init__(
        self,
        status: DatabaseStatus,
        view: View,
        timeout: float | None = None,
        on_lost: Callable[[], None] = lambda: None,
        on_answer: Callable[[], None] = lambda: None,
        messages: RetryMessages = SAVING,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._status, self._view, self._timeout, self._messages = status, view, timeout, messages
        self._on_lost, self._on_answer, self._chance = on_lost, on_answer, chance

    async def __call__(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Call `call` until it succeeds; return its result."""
        waits = iter(RETRY_AFTER)
        wait = next(waits)
        lost_at: float | None = None
        notified = set[object]()  # an outage may end in a refusal that the user has to repair, and that in another one
        while True:
            try:
                with self._status.watch():
                    answer = await (_call_twice(call) if lost_at is None else call())
                break
            except WAITED_FOR as error:
                now = time.monotonic()
                kind = str(error) if isinstance(error, Misconfigured) else type(error)
                if kind not in notified:
                    notified.add(kind)
                    self._view.notice(f"{error} {self._meanwhile(error)}")
                if lost_at is None:
                    lost_at = now
                    self._on_lost()
                if self._timeout is not None and now - lost_at > self._timeout:
                    raise
                await asyncio.sleep(wait * (0.5 + self._chance()))
                wait = next(waits, wait)
        self._on_answer()
        if lost_at is not None:
            self._view.note(self._messages.passed)
        return answer

    def _meanwhile(self, error: Exception) -> str:
        if self._timeout is not None:  # then the program ends: it cannot promise that anything is saved
            return f"ikigai tries again for {self._timeout:g} s."
        retried = _RETRIED_EVERY_MINUTE if isinstance(error, Misconfigured) else ""
        return f"{retried}{self._messages.meanwhile}"


async def _call_twice(call: Callable[[], Awaitable[_T]]) -> _T:
    """Return the result of `call`; call it again at once if it failed quickly, as with a connection that was cut.

    A call that timed out is not repeated.
    """
    started = time.monotonic()
    try:
        return await call()
    except Unavailable:
        if time.monotonic() - started > FAST_FAILURE_SECONDS:
            raise
    return await call()
