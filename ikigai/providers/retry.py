"""When to send a failed request again: one table, and the provider that goes by it.

what failed                                     is sent again
rate, overloaded, unreachable, cut              up to 8 tries, as long as nothing of the reply was shown
  the server names a wait of up to 60 s         after that wait
  it names a longer one                         no: the user is told how long
  it names none                                 after 1 s, doubling to 30 s, times a random share of it
everything else, and everything after a delta   no
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from ikigai.core.ports import Provider
from ikigai.core.reply import Broke, Failure, ProviderEvent, TextDelta, ThinkingDelta, ToolCallDelta, Waiting
from ikigai.core.request import Request

PASSING = frozenset({Failure.RATE, Failure.OVERLOADED, Failure.UNREACHABLE, Failure.CUT})
"""What may be gone in a moment."""

TRIES = 8
FIRST = 1.0
CEILING = 30.0
LONGEST = 60.0
"""Seconds that a server may ask to wait before it is the user's decision."""


def wait(kind: Failure, attempt: int, retry_after: float | None, shown: bool, jitter: float) -> float | None:
    """Seconds until the next attempt, None to give up. `attempt` counts from 1, `jitter` lies in [0, 1)."""
    if shown or kind not in PASSING or attempt >= TRIES:
        return None
    if retry_after is not None and retry_after > 0:
        return retry_after if retry_after <= LONGEST else None
    return jitter * min(CEILING, FIRST * 2 ** (attempt - 1))


class Retrying:
    """A provider whose passing failures are tried again; a Waiting comes before every wait.

    `sleep` takes seconds, `jitter` gives a number in [0, 1).
    """

    def __init__(
        self,
        provider: Provider,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._provider = provider
        self._sleep = sleep
        self._jitter = jitter

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        attempt = 1
        while True:
            broke, shown = None, False
            async with aclosing(cast("AsyncGenerator[ProviderEvent, None]", self._provider.stream(request))) as events:
                async for event in events:
                    if isinstance(event, Broke):
                        broke = event
                        break
                    shown = shown or isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta)
                    yield event
            if broke is None:
                return
            seconds = wait(broke.kind, attempt, broke.retry_after, shown, self._jitter())
            if seconds is None:
                yield _given_up(broke, attempt)
                return
            attempt += 1
            yield Waiting(seconds, attempt, broke.text)
            await self._sleep(seconds)

    async def close(self) -> None:
        await self._provider.close()


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
