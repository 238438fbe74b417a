"""When a failed request is sent again: the table, and the provider that goes by it, with a sleep of its own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ikigai.core.messages import StopReason
from ikigai.core.request.build import Request
from ikigai.core.request.reply import Broke, Failure, Finished, ProviderEvent, TextDelta, Waiting
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import Retrying, wait
from ikigai.providers.scripted import Break, Call, Hang, Reply, Scripted, Think
from tests.providers.conftest import ask, collect, reply
from tests.support.wire_server import WireServer, failure

PASSING = (Failure.RATE, Failure.OVERLOADED, Failure.UNREACHABLE, Failure.CUT)


@pytest.mark.parametrize("kind", Failure)
def test_what_is_sent_again(kind: Failure):
    assert (wait(kind, 1, None, shown=False, jitter=0.5) is not None) is (kind in PASSING)
    assert wait(kind, 1, None, shown=True, jitter=0.5) is None
    assert wait(kind, 8, None, shown=False, jitter=0.5) is None


@pytest.mark.parametrize(
    ("attempt", "longest"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30)],  # 2 to the power of attempt - 1, up to 30
)
@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
def test_how_long_the_wait_is(attempt: int, longest: float, jitter: float):
    assert wait(Failure.OVERLOADED, attempt, None, shown=False, jitter=jitter) == (0.5 + jitter / 2) * longest


@pytest.mark.parametrize("kind", PASSING)
def test_a_wait_is_never_next_to_nothing(kind: Failure):
    assert wait(kind, 1, None, shown=False, jitter=0.0) == 0.5


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(0.5, 0.5), (1, 1), (60, 60), (60.1, None), (86400, None), (0, 0.75), (-1, 0.75), (float("nan"), 0.75)],
)
def test_a_wait_the_server_asks_for(asked: float, waited: float | None):
    assert wait(Failure.RATE, 1, asked, shown=False, jitter=0.5) == waited


@pytest.mark.parametrize(
    ("taken", "asked", "waited"),
    [(179, 1, 1), (179.1, 1, None), (120, 60, 60), (120.1, 60, None), (179.25, None, 0.75), (179.3, None, None)],
)
def test_the_last_try_begins_within_three_minutes(taken: float, asked: float | None, waited: float | None):
    assert wait(Failure.RATE, 1, asked, shown=False, jitter=0.5, taken=taken) == waited


async def play(*replies: Reply, each: float = 0.0) -> tuple[list[ProviderEvent], list[float], Scripted]:
    """All events, the waits, the provider; by a clock on which only waits and requests (`each`) take time."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scripted = Scripted(replies)
    retrying = Retrying(scripted, sleep, lambda: 0.5, lambda: sum(slept) + each * len(scripted.requests))
    return await collect(retrying), slept, scripted


BUSY = (Break(Failure.OVERLOADED, "Too busy."),)


async def test_it_passes():
    events, slept, scripted = await play(BUSY, (Break(Failure.RATE, "Slow.", retry_after=7),), BUSY, "Hello")
    waits = [event for event in events if isinstance(event, Waiting)]
    assert waits == [
        Waiting(0.75, 2, "Too busy.", "overloaded", "", 8),
        Waiting(7, 3, "Slow.", "rate", "", 8),
        Waiting(3, 4, "Too busy.", "overloaded", "", 8),
    ]
    assert slept == [0.75, 7, 3]
    assert reply(events).text == "Hello"
    assert events.index(waits[-1]) < events.index(TextDelta("Hell"))
    assert len({id(request) for request in scripted.requests}) == 1


async def test_it_does_not_pass():
    events, slept, scripted = await play(*[BUSY] * 20)
    assert [event.attempt for event in events[:-1] if isinstance(event, Waiting)] == [2, 3, 4, 5, 6, 7, 8]
    assert len(events) == 8
    assert events[-1] == Broke(Failure.OVERLOADED, "Too busy. Given up after 8 attempts.")
    assert slept == [0.75, 1.5, 3, 6, 12, 22.5, 22.5]
    assert len(scripted.requests) == 8


async def test_it_takes_too_long():
    events, slept, _ = await play(*[BUSY] * 20, each=50)
    assert slept == [0.75, 1.5, 3]
    assert events[-1] == Broke(Failure.OVERLOADED, "Too busy. Given up after 4 attempts.")


async def test_the_request_id_of_what_failed_goes_with_the_wait(wire_server: WireServer, provider: OpenAIProvider):
    wire_server.script[:] = [failure(503, "busy", x_request_id="req_7"), "Hello"]
    events = await collect(Retrying(provider, jitter=lambda: 0.0))
    waits = [event for event in events if isinstance(event, Waiting)]
    assert [(event.failure, event.request_id) for event in waits] == [("overloaded", "req_7")]


class Counting(Scripted):
    async def count(self, request: Request) -> int | None:
        return len(request.messages)


async def test_counting_is_handed_on():
    assert await Retrying(Counting()).count(ask()) == 1


@pytest.mark.parametrize("shown", ["x", Think("x"), Call("x")])
async def test_what_was_shown_is_not_asked_for_again(shown: str | Think | Call):
    events, slept, _ = await play((shown, *BUSY), "Hello")
    assert events[-1] == Broke(Failure.OVERLOADED, "Too busy.")
    assert slept == []


async def test_a_failure_that_stays():
    events, slept, _ = await play((Break(Failure.AUTH, "No.", "Check the key."),), "Hello")
    assert events == [Broke(Failure.AUTH, "No.", "Check the key.")]
    assert slept == []


@pytest.mark.parametrize(
    ("asked", "words"), [(61, "2 minutes"), (3600, "1 hour"), (86400, "1 day"), (100_000, "2 days")]
)
async def test_a_wait_too_long_is_the_users_decision(asked: float, words: str):
    [broke], slept, _ = await play((Break(Failure.RATE, "Slow.", "x", asked),))
    assert isinstance(broke, Broke)
    assert broke.remedy == f"The server asks to wait {words}; send the message again after that."
    assert slept == []


async def test_cancelling_ends_the_wait():
    retrying = Retrying(Scripted([BUSY]), jitter=lambda: 0.999)
    stream = retrying.stream(ask())
    assert isinstance(await anext(stream), Waiting)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Watched(Scripted):
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
    watched = Watched([("Half", Hang())])
    stream = Retrying(watched).stream(ask())
    assert await anext(stream) == TextDelta("Half")
    assert watched.opened == 1
    await stream.aclose()
    assert watched.opened == 0


async def test_the_end_is_handed_on():
    events, _, _ = await play("Hello")
    assert isinstance(events[-1], Finished)
    assert events[-1].stop is StopReason.END
