"""When to send a failed request again: one table, and the provider that goes by it.

what failed                                     is sent again
rate, overloaded, unreachable, cut              up to 8 tries, as long as nothing of the reply was shown
  the server names a wait of up to 60 s         after that wait
  it names a longer one                         no: the user is told how long
  it names none                                 after 1 s, doubling to 30 s, or half of it, or at random between
  the next try would begin after 3 minutes      no
everything else, and everything after a delta   no
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from ikigai.core.model import Provider
from ikigai.core.request.build import Request
from ikigai.core.request.reply import (
    PASSING,
    Broke,
    Failure,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Waiting,
)

TRIES = 8
FIRST = 1.0
CEILING = 30.0
LONGEST = 60.0
"""Seconds that a server may ask to wait before it is the user's decision."""
WHOLE = 180.0
"""Seconds from the first try within which the last one has to begin."""


def wait(
    kind: Failure, attempt: int, retry_after: float | None, shown: bool, jitter: float, taken: float = 0.0
) -> float | None:
    """Seconds until the next attempt, None to give up.

    `attempt` counts from 1, `jitter` lies in [0, 1), `taken` are the seconds since the first attempt began.
    """
    if shown or kind not in PASSING or attempt >= TRIES:
        return None
    if retry_after is not None and retry_after > 0:
        seconds = retry_after if retry_after <= LONGEST else None
    else:
        # Half of it is certain: what failed just now would fail again in no time at all.
        seconds = (0.5 + jitter / 2) * min(CEILING, FIRST * 2 ** (attempt - 1))
    return seconds if seconds is not None and taken + seconds <= WHOLE else None


class Retrying:
    """A provider whose passing failures are tried again; a Waiting comes before every wait.

    `sleep` takes seconds, `jitter` gives a number in [0, 1), `clock` tells seconds from any start.
    """

    def __init__(
        self,
        provider: Provider,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        attempt, began = 1, self._clock()
        while True:
            broke, shown = None, False
            async with aclosing(cast("AsyncGenerator[ProviderEvent, None]", self._provider.stream(request))) as events:
                async for event in events:
                    if isinstance(event, Broke):
                        broke = event
                        break
                    shown = shown or _shows(event)
                    yield event
            if broke is None:
                return
            taken = self._clock() - began
            seconds = wait(broke.kind, attempt, broke.retry_after, shown, self._jitter(), taken)
            if seconds is None:
                yield _given_up(broke, attempt)
                return
            attempt += 1
            yield Waiting(seconds, attempt, broke.text, broke.kind.value, broke.request_id, TRIES)
            await self._sleep(seconds)

    async def count(self, request: Request) -> int | None:
        """The provider's own count; not asked a second time, for a figure that can be done without."""
        return await self._provider.count(request)

    async def close(self) -> None:
        await self._provider.close()


def _shows(event: ProviderEvent) -> bool:
    """Whether something of the reply came. That a model begins to think is nothing yet: overload often comes then."""
    if isinstance(event, ThinkingDelta):
        return bool(event.text or event.signature)
    return isinstance(event, TextDelta | ToolCallDelta)


def _given_up(broke: Broke, attempts: int) -> Broke:
    """The last failure, with what came of trying."""
    text, remedy = broke.text, broke.remedy
    if attempts > 1:
        text = f"{text} Given up after {attempts} attempts."
    if broke.kind in PASSING and broke.retry_after is not None and broke.retry_after > LONGEST:
        remedy = f"The server asks to wait {_duration(broke.retry_after)}; send the message again after that."
    return Broke(broke.kind, text, remedy, broke.retry_after, broke.request_id)


def _duration(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = -int(-seconds // size)  # rounded up: never too early
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} seconds"
