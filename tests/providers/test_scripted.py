"""The scripted model: what it plays, from where, and what it does behind the script."""

import asyncio
import json
from pathlib import Path

import pytest

from ikigai.core.events.messages import Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished, TextDelta
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.scripted import (
    DEMO_SCRIPT,
    Reply,
    ScriptedCall,
    ScriptedHang,
    ScriptedPause,
    ScriptedProvider,
    ScriptedStop,
    ScriptedThinking,
    Step,
)
from tests.providers.conftest import ask, collect, reply


async def test_replies_in_order():
    provider = ScriptedProvider(
        [
            "One.",
            ("Two", ScriptedPause(0), " pieces."),
            (ScriptedThinking("hm"), ScriptedCall("ls", {"a": 1}), ScriptedCall("x", "[", "id")),
        ]
    )
    assert reply(await collect(provider)).blocks() == (Text("One."),)
    assert reply(await collect(provider)).blocks() == (Text("Two pieces."),)
    events = await collect(provider)
    assert reply(events).blocks() == (
        Thinking("hm", "", "scripted"),
        ToolCall("call_3_0", "ls", '{"a":1}'),
        ToolCall("id", "x", "{}", malformed="["),
    )
    assert isinstance(events[-1], StreamFinished)
    assert events[-1].stop is StopReason.TOOLS
    assert len(provider.requests) == 3


async def test_small_deltas_and_a_count_that_is_a_function_of_the_request():
    request = ask("Hello?")
    *deltas, end = await collect(ScriptedProvider(["12345"]), request)
    assert deltas == [TextDelta("1234"), TextDelta("5")]
    assert isinstance(end, StreamFinished)
    assert (end.usage.input, end.usage.output) == (-(-len(ChatEncoder().body(request)) // 4), 2)


async def test_another_end():
    [end] = await collect(ScriptedProvider([(ScriptedStop(StopReason.LENGTH),)]))
    assert isinstance(end, StreamFinished)
    assert end.stop is StopReason.LENGTH


async def test_hanging_until_cancelled():
    stream = ScriptedProvider([("Half", ScriptedHang())]).stream(ask())
    assert await anext(stream) == TextDelta("Half")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await anext(stream)


async def test_echo_behind_the_script():
    provider = ScriptedProvider(["One."])
    await collect(provider)
    assert reply(await collect(provider, ask("Say this."))).text == "Say this."
    results = (Message(Role.TOOL, (ToolResult("a", "first"), ToolResult("b", "second"))),)
    assert reply(await collect(provider, Request("m", results))).text == "first\n\nsecond"
    assert reply(await collect(provider, Request("m"))).text == ""


async def test_demonstration_converses():
    provider = ScriptedProvider(pace=0.0)
    request = Request("demo", ask("Hello?").messages)
    assert reply(await collect(provider, request)).text == "".join(
        step for step in DEMO_SCRIPT[0] if isinstance(step, str)
    )
    await collect(provider, request)
    assert reply(await collect(provider, request)).text == "Hello?"


EVERYTHING = [
    "A string.",
    ["Half ", {"do": "pause", "seconds": 0}, "and half."],
    [{"do": "think", "text": "hm"}, {"do": "call", "name": "ls", "arguments": {"p": 1}, "id": "c"}],
    [{"do": "break", "kind": "rate", "text": "Slow.", "retry_after": 3}],
    [{"do": "stop", "reason": "refused"}],
]


async def test_script_in_a_file(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps(EVERYTHING))
    provider = ScriptedProvider()
    request = Request(str(path), ask().messages)
    found = [await collect(provider, request) for _ in EVERYTHING]
    assert reply(found[1]).text == "Half and half."
    assert reply(found[2]).blocks() == (Thinking("hm", "", "scripted"), ToolCall("c", "ls", '{"p":1}'))
    assert found[3] == [StreamFailed(FailureKind.RATE, "Slow.", retry_after=3)]
    assert isinstance(found[4][-1], StreamFinished)
    assert found[4][-1].stop is StopReason.REFUSED


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '[[{"do": "dance"}]]', '[[{"do": "call"}]]', "\xff"])
async def test_file_that_is_no_script(tmp_path: Path, text: str | None):
    path = tmp_path / "script.json"
    if text is not None:
        path.write_text(text, "latin-1")
    [broke] = await collect(ScriptedProvider(), Request(str(path)))
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.NOT_FOUND
    assert str(path) in broke.text


async def test_every_model_name_has_a_script_of_its_own():
    provider = ScriptedProvider()
    demo, echo = Request("demo", ask("x").messages), Request("echo", ask("x").messages)
    assert reply(await collect(provider, echo)).text == "x"
    assert reply(await collect(provider, demo)).text.startswith("Hello!")
    assert reply(await collect(provider, echo)).text == "x"


def test_steps_are_what_the_docstring_says():
    import msgspec

    import ikigai.providers.scripted as scripted

    text = scripted.__doc__ or ""
    example = text[text.index("    [") : text.index("]]\n") + 2]
    assert len(msgspec.json.decode(example, type=list[Reply])) == 4
    for step in ('{"do": "pause", "seconds": 0.5}', '{"do": "stop", "reason": "length"}'):
        assert step in text
        msgspec.json.decode(step, type=Step)
