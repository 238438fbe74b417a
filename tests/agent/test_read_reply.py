"""Reading a metered stream: what is shown, collected and known of its end."""

import asyncio
import threading

from ikigai.agent.request.usage_meter import UsageMeter, read_reply
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason, Text, Thinking, Usage
from ikigai.core.request.reply import (
    FailureKind,
    RetryScheduled,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.secrets.redaction import Redactor
from tests.agent.test_usage_meter import END, Played, Read, price, read
from tests.providers.conftest import ask

KEY = "key-of-sixteen-or-more"


async def test_read_reply_shows_deltas_and_reports_each_attempt():
    waiting = RetryScheduled(0.01, 2, "Busy.", "overloaded")
    played = Played(waiting, UsageUpdate(Usage(100)), ThinkingDelta("hm"), TextDelta("Hi"), END)
    reply = ReplyBuilder()
    events = await read(played, UsageMeter(ask(), "wire/x", price), reply)
    rows = [event for event in events if isinstance(event, UsageReported)]
    assert events == [rows[0], waiting, ThinkingDelta("hm"), TextDelta("Hi"), END, rows[1]]
    assert [(row.attempt, row.failure) for row in rows] == [(1, "overloaded"), (2, "")]
    assert reply.last == END
    assert reply.stored() == (Thinking("hm"), Text("Hi")) and reply.text == "Hi"


async def test_read_reply_has_no_usage_where_nothing_was_sent():
    broke = StreamFailed(FailureKind.UNAVAILABLE, "No model.")
    assert await read(Played(broke), UsageMeter(ask(), "wire/x", price)) == [broke]


async def test_read_reply_shows_the_whole_redacted_reply_before_it_is_priced():
    begun, over = threading.Event(), threading.Event()

    def slow(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        if usage != Usage():  # not when what prices need is loaded
            begun.set()
            over.wait(60)
        return 1.0, "slow"

    played = Played(TextDelta(f"It is {KEY[:9]}"), TextDelta(f"{KEY[9:]} and {KEY[:5]}"), END)
    reply, events = ReplyBuilder(Redactor({"X_API_KEY": KEY}, formats=False)), Read()
    meter = UsageMeter(ask(), "wire/x", slow)
    reading = asyncio.create_task(read_reply(played, meter, reply, events.append, events.append))
    assert await asyncio.to_thread(begun.wait, 30)
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == reply.text == f"It is [redacted: X_API_KEY] and {KEY[:5]}"
    assert reply.last == StreamFinished(StopReason.END, END.usage, "req_1") and not reading.done()
    over.set()
    row = await reading
    assert row and row.cost == 1.0


async def test_stopped_reply_takes_most_of_a_key_for_the_key():
    reply, meter = ReplyBuilder(Redactor({"X_API_KEY": KEY}, False)), UsageMeter(ask(), "wire/x", price)
    shown = asyncio.Queue[object]()
    played = Played(TextDelta(f"So {KEY[:15]}"), 9.0)
    reading = asyncio.create_task(read_reply(played, meter, reply, shown.put_nowait, shown.put_nowait))
    assert await shown.get() == TextDelta("So ")
    assert reply.stored() == (Text("So [redacted: X_API_KEY]"),)
    stopped = await meter.stop("interrupted")
    assert stopped and stopped.failure == "interrupted"
    reading.cancel()
