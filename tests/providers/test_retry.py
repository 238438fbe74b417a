"""When a failed request is sent again: the table, and the provider that goes by it, with a sleep of its own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ikigai.core.events.messages import StopReason
from ikigai.core.request.build import Request
from ikigai.core.request.reply import (
    FailureKind,
    ProviderEvent,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
)
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider, wait
from ikigai.providers.scripted import (
    Reply,
    ScriptedCall,
    ScriptedFailure,
    ScriptedHang,
    ScriptedProvider,
    ScriptedThinking,
)
from tests.providers.conftest import ask, collect, reply
from tests.support.wire_server import WireServer, failure

PASSING = (FailureKind.RATE, FailureKind.OVERLOADED, FailureKind.UNREACHABLE, FailureKind.CUT)


@pytest.mark.parametrize("kind", FailureKind)
def test_what_is_sent_again(kind: FailureKind):
    assert (wait(kind, 1, None, shown=False, jitter=0.5) is not None) is (kind in PASSING)
    assert wait(kind, 1, None, shown=True, jitter=0.5) is None
    assert wait(kind, 8, None, shown=False, jitter=0.5) is None


@pytest.mark.parametrize("kind", FailureKind)
def test_another_model_is_asked_after_two_tries(kind: FailureKind):
    waits = [wait(kind, attempt, None, shown=False, jitter=0.5, has_fallback=True) for attempt in (1, 2)]
    assert waits == [0.75 if kind in (*PASSING, FailureKind.QUOTA) else None, None]
    assert wait(kind, 1, None, shown=True, jitter=0.5, has_fallback=True) is None
    assert wait(FailureKind.RATE, 1, 10.0, shown=False, jitter=0.5, has_fallback=True) == 10.0
    assert wait(FailureKind.RATE, 1, 10.1, shown=False, jitter=0.5, has_fallback=True) is None


@pytest.mark.parametrize(
    ("attempt", "longest"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30)],  # 2 to the power of attempt - 1, up to 30
)
@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
def test_how_long_the_wait_is(attempt: int, longest: float, jitter: float):
    assert wait(FailureKind.OVERLOADED, attempt, None, shown=False, jitter=jitter) == (0.5 + jitter / 2) * longest


@pytest.mark.parametrize("kind", PASSING)
def test_wait_is_never_next_to_nothing(kind: FailureKind):
    assert wait(kind, 1, None, shown=False, jitter=0.0) == 0.5


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(0.5, 0.5), (1, 1), (60, 60), (60.1, None), (86400, None), (0, 0.75), (-1, 0.75), (float("nan"), 0.75)],
)
def test_wait_the_server_asks_for(asked: float, waited: float | None):
    assert wait(FailureKind.RATE, 1, asked, shown=False, jitter=0.5) == waited


@pytest.mark.parametrize(
    ("taken", "asked", "waited"),
    [(179, 1, 1), (179.1, 1, None), (120, 60, 60), (120.1, 60, None), (179.25, None, 0.75), (179.3, None, None)],
)
def test_last_try_begins_within_three_minutes(taken: float, asked: float | None, waited: float | None):
    assert wait(FailureKind.RATE, 1, asked, shown=False, jitter=0.5, taken=taken) == waited


async def play(*replies: Reply, each: float = 0.0) -> tuple[list[ProviderEvent], list[float], ScriptedProvider]:
    """All events, the waits, the provider; by a clock on which only waits and requests (`each`) take time."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scripted = ScriptedProvider(replies)
    retrying = RetryingProvider(scripted, sleep, lambda: 0.5, lambda: sum(slept) + each * len(scripted.requests))
    return await collect(retrying), slept, scripted


BUSY = (ScriptedFailure(FailureKind.OVERLOADED, "Too busy."),)


async def test_it_passes():
    events, slept, scripted = await play(
        BUSY, (ScriptedFailure(FailureKind.RATE, "Slow.", retry_after=7),), BUSY, "Hello"
    )
    waits = [event for event in events if isinstance(event, RetryScheduled)]
    assert waits == [
        RetryScheduled(0.75, 2, "Too busy.", "overloaded", "", 8),
        RetryScheduled(7, 3, "Slow.", "rate", "", 8),
        RetryScheduled(3, 4, "Too busy.", "overloaded", "", 8),
    ]
    assert slept == [0.75, 7, 3]
    assert reply(events).text == "Hello"
    assert events.index(waits[-1]) < events.index(TextDelta("Hell"))
    assert len({id(request) for request in scripted.requests}) == 1


async def test_it_does_not_pass():
    events, slept, scripted = await play(*[BUSY] * 20)
    assert [event.attempt for event in events[:-1] if isinstance(event, RetryScheduled)] == [2, 3, 4, 5, 6, 7, 8]
    assert len(events) == 8
    assert events[-1] == StreamFailed(FailureKind.OVERLOADED, "Too busy. Stopped after 8 attempts.")
    assert slept == [0.75, 1.5, 3, 6, 12, 22.5, 22.5]
    assert len(scripted.requests) == 8


async def test_it_takes_too_long():
    events, slept, _ = await play(*[BUSY] * 20, each=50)
    assert slept == [0.75, 1.5, 3]
    assert events[-1] == StreamFailed(FailureKind.OVERLOADED, "Too busy. Stopped after 4 attempts.")


async def test_request_id_of_what_failed_goes_with_the_wait(wire_server: WireServer, provider: OpenAIProvider):
    wire_server.script[:] = [failure(503, "busy", x_request_id="req_7"), "Hello"]
    events = await collect(RetryingProvider(provider, jitter=lambda: 0.0))
    waits = [event for event in events if isinstance(event, RetryScheduled)]
    assert [(event.failure, event.request_id) for event in waits] == [("overloaded", "req_7")]


class Counting(ScriptedProvider):
    async def count(self, request: Request) -> int | None:
        return len(request.messages)


async def test_counting_is_handed_on():
    assert await RetryingProvider(Counting()).count(ask()) == 1


@pytest.mark.parametrize("shown", ["x", ScriptedThinking("x"), ScriptedCall("x")])
async def test_what_was_shown_is_not_asked_for_again(shown: str | ScriptedThinking | ScriptedCall):
    events, slept, _ = await play((shown, *BUSY), "Hello")
    assert events[-1] == StreamFailed(FailureKind.OVERLOADED, "Too busy.")
    assert slept == []


async def test_failure_that_stays():
    events, slept, _ = await play((ScriptedFailure(FailureKind.AUTH, "No.", "Check the key."),), "Hello")
    assert events == [StreamFailed(FailureKind.AUTH, "No.", "Check the key.")]
    assert slept == []


@pytest.mark.parametrize(
    ("asked", "words"), [(61, "2 minutes"), (3600, "1 hour"), (86400, "1 day"), (100_000, "2 days")]
)
async def test_wait_too_long_is_the_users_decision(asked: float, words: str):
    [broke], slept, _ = await play((ScriptedFailure(FailureKind.RATE, "Slow.", "x", asked),))
    assert isinstance(broke, StreamFailed)
    assert broke.remedy == f"The server asks to wait {words}; then send the message again."
    assert slept == []


async def test_cancelling_ends_the_wait():
    retrying = RetryingProvider(ScriptedProvider([BUSY]), jitter=lambda: 0.999)
    stream = retrying.stream(ask())
    assert isinstance(await anext(stream), RetryScheduled)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Watched(ScriptedProvider):
    """Counts the streams that are open."""

    opened = 0

    async def stream(self, request: Request) -> AsyncIterator[ProviderEvent]:
        self.opened += 1
        try:
            async for event in super().stream(request):
                yield event
        finally:
            self.opened -= 1


async def test_leaving_it_leaves_the_provider():
    watched = Watched([("Half", ScriptedHang())])
    stream = RetryingProvider(watched).stream(ask())
    assert await anext(stream) == TextDelta("Half")
    assert watched.opened == 1
    await stream.aclose()
    assert watched.opened == 0


async def test_end_is_handed_on():
    events, _, _ = await play("Hello")
    assert isinstance(events[-1], StreamFinished)
    assert events[-1].stop is StopReason.END
