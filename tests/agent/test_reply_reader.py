"""The one reader of metered streams: what it yields, collects and knows of the end."""

import asyncio
import threading

from ikigai.agent.reply_reader import ReplyReader
from ikigai.agent.usage_meter import UsageMeter
from ikigai.core.events import UsageReported
from ikigai.core.messages import StopReason, Text, Thinking, Usage
from ikigai.core.redaction import Redactor
from ikigai.core.request.reply import (
    FailureKind,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tests.agent.test_usage_meter import END, Played, price
from tests.providers.conftest import ask

KEY = "key-of-sixteen-or-more"


async def test_reader_yields_deltas_and_a_row_for_each_attempt():
    waiting = RetryScheduled(0.01, 2, "Busy.", "overloaded")
    played = Played(waiting, UsageUpdate(Usage(100)), ThinkingDelta("hm"), TextDelta("Hi"), END)
    reader = ReplyReader(UsageMeter(played, ask(), "wire/x", price))
    events = [event async for event in reader.events()]
    rows = [event for event in events if isinstance(event, UsageReported)]
    assert events == [rows[0], waiting, ThinkingDelta("hm"), TextDelta("Hi"), rows[1]]
    assert [(row.attempt, row.failure) for row in rows] == [(1, "overloaded"), (2, "")]
    assert (reader.last, reader.usage) == (END, rows[1])
    assert reader.blocks() == (Thinking("hm"), Text("Hi")) and reader.reply.text == "Hi"


async def test_reader_has_no_row_where_nothing_was_sent():
    broke = StreamFailed(FailureKind.UNAVAILABLE, "No model.")
    reader = ReplyReader(UsageMeter(Played(broke), ask(), "wire/x", price))
    assert [event async for event in reader.events()] == []
    assert (reader.last, reader.usage) == (broke, None)


async def test_reader_yields_the_whole_redacted_reply_before_it_is_priced():
    begun, over = threading.Event(), threading.Event()

    def slow(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        if usage != Usage():  # not when what prices need is loaded
            begun.set()
            over.wait(60)
        return 1.0, "slow"

    played = Played(TextDelta(f"It is {KEY[:9]}"), TextDelta(f"{KEY[9:]} and {KEY[:5]}"), END)
    reader = ReplyReader(UsageMeter(played, ask(), "wire/x", slow), Redactor({"X_API_KEY": KEY}, formats=False))
    shown = list[str]()

    async def read() -> None:
        async for event in reader.events():
            if isinstance(event, TextDelta):
                shown.append(event.text)

    reading = asyncio.create_task(read())
    assert await asyncio.to_thread(begun.wait, 30)
    assert "".join(shown) == reader.reply.text == f"It is [redacted: X_API_KEY] and {KEY[:5]}"
    assert reader.last == StreamFinished(StopReason.END, END.usage, "req_1") and reader.usage is None
    over.set()
    await reading
    assert reader.usage and reader.usage.cost == 1.0


async def test_stopped_reader_takes_most_of_a_key_for_the_key():
    reader = ReplyReader(
        UsageMeter(Played(TextDelta(f"So {KEY[:15]}"), 9.0), ask(), "wire/x", price),
        Redactor({"X_API_KEY": KEY}, False),
    )
    reading = asyncio.ensure_future(anext(reader.events()))
    assert await reading == TextDelta("So ")
    assert reader.blocks() == (Text("So [redacted: X_API_KEY]"),)
    stopped = await reader.meter.stop("interrupted")
    assert stopped and stopped.failure == "interrupted"
