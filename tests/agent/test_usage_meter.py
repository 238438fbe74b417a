"""The usage of every attempt of a request is reported, over real HTTP and over streams played by hand."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias

import pytest

from ikigai.agent.request.usage_meter import PriceOf, UsageMeter, read_reply
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import (
    FailureKind,
    ProviderEvent,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from tests.providers.conftest import ask
from tests.support.wire_server import Answer, WireServer, completion, failure, sse


def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    """A thousandth of a dollar for each token in, two for each token out."""
    assert abs(at - time.time()) < 60
    return usage.input * 0.001 + usage.output * 0.002, f"prices of {model}"


def free(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    return 0.0, "free"


def unknown(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    return None, ""


class Played:
    """A provider whose stream says these events, a number being seconds of silence."""

    def __init__(self, *events: ProviderEvent | float) -> None:
        self._events = events

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for event in self._events:
            if isinstance(event, int | float):
                await asyncio.sleep(event)
            else:
                yield event

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None: ...


Read: TypeAlias = list[ProviderEvent | UsageReported]


async def read(provider: Provider, meter: UsageMeter, reply: ReplyBuilder | None = None) -> Read:
    """Return what is shown of a reply and the usage of its attempts, in order; before the last usage its last event."""
    reply, events = reply or ReplyBuilder(), Read()
    row = await read_reply(provider, meter, reply, events.append, events.append)
    return [*events, *filter(None, (reply.last, row))]


async def metered(provider: Provider, price: PriceOf = price, **more: object) -> Read:
    return await read(provider, UsageMeter(ask(), "wire/x", price, **more))  # type: ignore[arg-type]


def reports(events: Read) -> list[UsageReported]:
    return [event for event in events if isinstance(event, UsageReported)]


END = StreamFinished(StopReason.END, Usage(100, 20, 90, 5, 7), "req_1")


async def test_cost_that_the_provider_names_goes_before_prices():
    usage = Usage(100, 20, cost=0.5)
    report = reports(await metered(Played(StreamFinished(StopReason.END, usage))))[-1]
    assert (report.cost, report.priced_by) == (0.5, "wire")


async def test_one_attempt():
    played = Played(0.05, ThinkingDelta("hm"), 0.05, TextDelta("Hi"), END)
    events = await metered(played, purpose="title", size=lambda: 444)
    *before, last, report = events
    assert before == [ThinkingDelta("hm"), TextDelta("Hi")] and last == END
    assert isinstance(report, UsageReported)
    assert (report.model, report.usage, report.request_id, report.attempt, report.failure) == (
        "wire/x",
        END.usage,
        "req_1",
        1,
        "",
    )
    assert (report.cost, report.priced_by) == (0.14, "prices of wire/x")
    assert (report.purpose, report.size) == ("title", 444)
    assert report.first_token_seconds is not None
    assert 0.05 <= report.first_token_seconds <= report.seconds - 0.04


async def test_every_attempt_before_its_wait():
    played = Played(
        0.06,
        RetryScheduled(0.4, 2, "Busy.", "overloaded", "req_1"),
        0.4,
        UsageUpdate(Usage(10), "req_2"),
        RetryScheduled(0.4, 3, "Slow.", "rate", ""),
        0.4,
        0.02,
        TextDelta("Hi"),
        StreamFinished(StopReason.END, Usage(10, 1)),
    )
    began = time.monotonic()
    events = await metered(played)
    elapsed = time.monotonic() - began
    assert [type(event) for event in events] == [
        UsageReported, RetryScheduled, UsageReported, RetryScheduled, TextDelta, StreamFinished,
        UsageReported,
    ]  # fmt: skip
    first, second, third = reports(events)
    assert [(report.attempt, report.failure, report.request_id) for report in (first, second, third)] == [
        (1, "overloaded", "req_1"),
        (2, "rate", "req_2"),
        (3, "", ""),
    ]
    assert (first.cost, second.cost, third.cost) == (0.0, 0.01, 0.012)
    assert (first.usage, second.usage, third.usage) == (Usage(), Usage(10), Usage(10, 1))
    assert first.seconds >= 0.06 and third.seconds >= 0.02
    assert first.seconds + second.seconds + third.seconds <= elapsed - 0.8 + 0.01, "waits are nobody's time"
    assert first.first_token_seconds is None and third.first_token_seconds


@pytest.mark.parametrize(
    "kind", [kind for kind in FailureKind if kind not in (FailureKind.CUT, FailureKind.UNAVAILABLE)]
)
async def test_attempt_without_model_work_costs_nothing(kind: FailureKind):
    (report,) = reports(await metered(Played(StreamFailed(kind, "No.", request_id="req_9"))))
    assert (report.cost, report.priced_by, report.failure, report.request_id) == (0.0, "", kind.value, "req_9")


async def test_where_nothing_was_sent_there_is_no_row():
    broke = StreamFailed(FailureKind.UNAVAILABLE, "No model.")
    meter = UsageMeter(ask(), "wire/x", price)
    assert await read(Played(broke), meter) == [broke]
    assert await meter.stop("interrupted") is None


async def test_uncounted_attempt_has_no_cost_unless_it_is_free():
    cut = (TextDelta("Hal"), StreamFailed(FailureKind.CUT, "Cut."))
    for prices, cost in ((price, None), (unknown, None), (free, 0.0)):
        (report,) = reports(await metered(Played(*cut), prices))
        assert report.cost == cost and report.priced_by == ("free" if cost == 0 else "")
    (report,) = reports(await metered(Played(TextDelta("Hi"), StreamFinished(StopReason.END))))
    assert report.cost is None and not report.failure


async def test_last_count_stands_and_that_of_the_end_before_all():
    begun, more = UsageUpdate(Usage(10), "req_1"), UsageUpdate(Usage(10, 3))
    (report,) = reports(await metered(Played(begun, more, TextDelta("x"), StreamFailed(FailureKind.CUT, "Cut."))))
    assert (report.usage, report.request_id, report.cost) == (Usage(10, 3), "req_1", 0.016)
    (report,) = reports(await metered(Played(begun, StreamFinished(StopReason.END, Usage(11, 4)))))
    assert report.usage == Usage(11, 4)
    (report,) = reports(await metered(Played(begun, more, StreamFinished(StopReason.END))))
    assert report.usage == Usage(10, 3)


async def test_all_that_was_counted_before_a_cut_is_priced():
    counted, priced = Usage(10, 3, 4, 0, 5, written_1h=5, searches=1), list[Usage]()

    def seen(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        priced.append(usage)
        return 1.0, "list"

    cut = StreamFailed(FailureKind.CUT, "Cut.")
    (report,) = reports(await metered(Played(UsageUpdate(counted), TextDelta("x"), cut), seen))
    assert report.is_minimum and counted in priced


async def test_stream_without_an_end_was_cut():
    *_, last, report = await metered(Played(TextDelta("x")))
    assert isinstance(last, StreamFailed) and last.kind is FailureKind.CUT
    assert isinstance(report, UsageReported) and report.failure == "cut"


async def test_stopped_at_any_time():
    meter, retry = UsageMeter(ask(), "wire/x", price), RetryScheduled(0.05, 2, "Busy.", "overloaded")

    async def stopped() -> tuple[int, str] | None:
        report = await meter.stop("interrupted")
        return report and (report.attempt, report.failure)

    assert await stopped() is None, "nothing was sent"
    assert await meter.admit() is None
    await meter.end(retry)
    assert await stopped() == (1, "overloaded"), "known already"
    assert await meter.admit(retry) is None
    meter.saw(retry)
    assert await stopped() is None, "nothing is under way"
    await asyncio.sleep(0.05)
    meter.saw(UsageUpdate(Usage(10)))
    assert await stopped() == (2, "interrupted")
    meter.saw(TextDelta("Hal"))
    interrupted = await meter.stop("interrupted")
    assert interrupted and (interrupted.usage, interrupted.cost) == (Usage(10), 0.01)
    assert await meter.end(END) and await stopped() == (2, "interrupted")


async def test_ended_attempt_keeps_its_outcome():
    meter = UsageMeter(ask(), "wire/x", price)
    (report,) = reports(await read(Played(TextDelta("Hi"), END), meter))
    assert await meter.stop("interrupted") == report and not report.failure


async def test_price_that_cannot_be_had_costs_no_reply(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.agent.request.usage_meter.PRICE_TIMEOUT", 0.05)
    over = threading.Event()

    def slow(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        over.wait(60)
        return 1.0, "late"

    def broken(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        raise RuntimeError("no such file")

    for prices in (slow, broken, unknown):
        events = await metered(Played(TextDelta("Hi"), END), prices)
        assert events[:-1] == [TextDelta("Hi"), END]
        (report,) = reports(events)
        assert (report.cost, report.priced_by, report.usage) == (None, "", END.usage)
        over.set()


async def test_cancelling_while_it_is_priced_keeps_the_attempt():
    begun, over = threading.Event(), threading.Event()

    def slow(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        begun.set()
        over.wait(60)
        return 1.0, "slow"

    meter = UsageMeter(ask(), "wire/x", slow)
    played = Played(UsageUpdate(Usage(5)), RetryScheduled(9, 2, "Busy.", "overloaded"))
    reading = asyncio.ensure_future(read(played, meter))
    assert await asyncio.to_thread(begun.wait, 30)
    reading.cancel()
    asyncio.get_running_loop().call_later(0.05, over.set)
    report = await meter.stop("interrupted")
    assert report and (report.failure, report.attempt, report.cost) == ("overloaded", 1, 1.0)


def test_costs_have_no_noise_of_floating_point():
    report = asyncio.run(metered(Played(StreamFinished(StopReason.END, Usage(3))), lambda *_: (0.1 + 0.2, "x")))[-1]
    assert isinstance(report, UsageReported) and report.cost == 0.3


# -- over the wire -----------------------------------------------------------------------------------------------


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with WireServer() as server:
        yield server


async def test_over_http(server: WireServer):
    server.script[:] = [
        failure(503, "busy", x_request_id="req_1"),
        failure(429, "slow", x_request_id="req_2"),
        Answer(completion("Hello there", usage={"prompt_tokens": 10, "completion_tokens": 5}).body, pause=0.01),
    ]
    provider = OpenAIProvider("wire", server.base_url, "key", traits=lambda model: ModelTraits())
    events = await metered(RetryingProvider(provider, jitter=lambda: 0.05))
    await provider.close()
    found = [(report.attempt, report.failure, report.request_id, report.cost) for report in reports(events)]
    assert found == [(1, "overloaded", "req_1", 0.0), (2, "rate", "req_2", 0.0), (3, "", "", 0.02)]
    last = reports(events)[-1]
    assert last.usage == Usage(10, 5) and last.first_token_seconds and last.first_token_seconds < last.seconds
    assert len(server.requests) == 3


async def test_over_http_what_was_counted_before_the_cut(server: WireServer):
    begun = {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": [],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 80, "output_tokens": 1},
        },
    }  # fmt: skip
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hal"}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    body = b"".join(b"event: " + part["type"].encode() + b"\n" + sse(part) for part in (begun, start, delta))
    server.script[:] = [Answer(body, end="reset")]
    provider = AnthropicProvider(
        "anthropic", server.base_url.removesuffix("/v1"), "key", traits=lambda model: ModelTraits()
    )
    events = await metered(provider)
    await provider.close()
    (report,) = reports(events)
    assert TextDelta("Hal") in events and report.failure == "cut"
    assert report.usage.input == 90 and report.usage.cached == 80 and report.cost is not None and report.cost >= 0.09
