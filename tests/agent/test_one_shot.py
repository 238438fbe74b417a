"""Side calls over real HTTP and the scripted provider: what they send, what they bring, what they took."""

import asyncio

import pytest

from ikigai.agent.request.one_shot import complete
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason, Usage
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.providers.retry import RetryingProvider
from ikigai.providers.scripted import (
    ScriptedCall,
    ScriptedFailure,
    ScriptedHang,
    ScriptedProvider,
    ScriptedStop,
    ScriptedThinking,
)
from tests.support.wire_server import WireServer, completion, failure


def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    return (usage.input + usage.output) / 1000, model


async def test_over_http(wire_model: WireServer, wire_provider: RetryingProvider):
    wire_model.script[:] = [
        failure(503, "busy"),
        completion("A short title", thinking="hm", usage={"prompt_tokens": 30, "completion_tokens": 7}),
    ]
    made = await complete(
        wire_provider, "wire/small", "Find a title.", "We talk of foxes.", purpose="title", max_output=64, price=price
    )
    assert (made.text, made.failure, made.stop) == ("A short title", None, StopReason.END)
    rows = [(row.model, row.purpose, row.attempt, row.failure, row.cost, row.size) for row in made.usage]
    assert rows == [
        ("wire/small", "title", 1, "overloaded", 0.0, 0),
        ("wire/small", "title", 2, "", 0.037, 0),
    ]
    assert made.usage[1].usage.input == 30 and made.usage[1].usage.output == 7
    body = wire_model.requests[-1].json
    assert body["model"] == "small" and "tools" not in body
    assert body["messages"] == [
        {"role": "system", "content": "Find a title."},
        {"role": "user", "content": "We talk of foxes."},
    ]
    assert 64 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert wire_model.requests[0].body == wire_model.requests[1].body


async def test_over_http_a_failure_is_told_and_counted(wire_model: WireServer, wire_provider: RetryingProvider):
    wire_model.script[:] = [failure(401, "bad key")]
    made = await complete(wire_provider, "wire/small", "", "Hello", purpose="summary", max_output=64)
    assert made.text == "" and made.failure and made.failure.kind is FailureKind.AUTH
    assert [(row.failure, row.purpose, row.cost) for row in made.usage] == [("auth", "summary", 0.0)]
    assert [message["role"] for message in wire_model.requests[0].json["messages"]] == ["user"]


async def test_scripted():
    scripted = ScriptedProvider([("One ", ScriptedThinking("hm"), "two", ScriptedStop(StopReason.LENGTH))])
    made = await complete(scripted, "scripted/x", "s", "t", purpose="summary", max_output=8, level="low", price=price)
    assert (made.text, made.stop, made.failure) == ("One two", StopReason.LENGTH, None)
    (request,) = scripted.requests
    assert (request.model, request.system, request.level, request.max_output, request.tools) == ("x", "s", "low", 8, ())
    (row,) = made.usage
    assert row.usage.input > 0 and row.cost == round((row.usage.input + row.usage.output) / 1000, 12)


async def test_words_before_a_failure_and_calls_that_nobody_runs():
    broken = ScriptedProvider([("Half a ", ScriptedFailure(FailureKind.CUT, "Cut."))])
    made = await complete(broken, "scripted/x", "", "t", purpose="summary", max_output=8)
    assert made.text == "Half a " and made.failure == StreamFailed(FailureKind.CUT, "Cut.")
    made = await complete(
        ScriptedProvider([("Look: ", ScriptedCall("ls"))]), "scripted/x", "", "t", purpose="match", max_output=8
    )
    assert (made.text, made.stop, made.failure) == ("Look: ", StopReason.TOOLS, None)


async def test_nothing_sent_is_nothing_spent():
    nobody = ScriptedProvider([(ScriptedFailure(FailureKind.UNAVAILABLE, "No model."),)])
    made = await complete(nobody, "x/y", "", "t", purpose="summary", max_output=8)
    assert made.usage == () and made.failure and made.failure.kind is FailureKind.UNAVAILABLE


async def test_cancelling_ends_the_request():
    hanging = ScriptedProvider([("Half", ScriptedHang())])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await complete(hanging, "scripted/x", "", "t", purpose="summary", max_output=8)


async def test_cancelled_call_reports_its_usage():
    rows = list[UsageReported]()
    asking = complete(
        ScriptedProvider([("So far", ScriptedHang())]),
        "scripted/x",
        "",
        "?",
        purpose="summary",
        max_output=9,
        on_usage=rows.append,
    )
    task = asyncio.create_task(asking)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(row.purpose, row.failure) for row in rows] == [("summary", "interrupted")]
