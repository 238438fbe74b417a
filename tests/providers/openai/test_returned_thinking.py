"""Servers with Chat Completions that want back what they sent beside the words: DeepSeek, Gemini, OpenRouter, Mistral.

Each is scripted as its vendor documents it, and refuses a history that lacks its fields. Replies pass through the
events of the log and their rows, as in use.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ikigai.core.events.codec import decode, encode
from ikigai.core.events.messages import Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import Request, join, pair_calls
from ikigai.core.request.reply import ProviderEvent, StreamFailed, StreamFinished, reply_events, storable_blocks
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, collect, reply
from tests.support.wire_server import DONE, Answer, Received, WireServer, call_delta, chunk, completion, failure, sse

MODEL = "thinker"
USER = Message(Role.USER, (Text("How many files?"),))


def stream(*chunks: dict[str, Any], finish: str = "tool_calls") -> Answer:
    return Answer(sse(*chunks, chunk(finish=finish), DONE))


def history(found: list[ProviderEvent], messages: tuple[Message, ...] = (USER,)) -> tuple[Message, ...]:
    """The messages, the reply as the log gives it back, and a result of each of its calls."""
    end = found[-1]
    assert isinstance(end, StreamFinished), end
    extended = list(messages)
    calls: list[ToolCall] = []
    for event in reply_events(storable_blocks(reply(found).blocks()), end.stop, f"mine/{MODEL}"):
        read = decode(*encode(event))
        assert read == event
        join(extended, read)
        calls += [read] if isinstance(read, ToolCall) else []
    for call in calls:
        join(extended, ToolResult(call.id, "4 files"))
    return pair_calls(extended, frozenset())


def ask(messages: tuple[Message, ...], model: str = MODEL) -> Request:
    return Request(model, messages)


def assistants(received: Received) -> list[dict[str, Any]]:
    return [message for message in received.json["messages"] if message["role"] == "assistant"]


@pytest.fixture
async def mine(wire_server: WireServer):
    provider = OpenAIProvider("mine", wire_server.base_url, KEY)
    yield provider
    await provider.close()


MISSING = "The `reasoning_content` in the thinking mode must be passed back to the API."
MISSING_AT_MOONSHOT = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"


def deepseek(needs: Callable[[dict[str, Any]], bool] = lambda message: "tool_calls" in message, words: str = MISSING):
    """DeepSeek (api-docs.deepseek.com/guides/thinking_mode): refuses messages that lack their thinking."""

    def answer(received: Received) -> Answer:
        said = assistants(received)
        if any("reasoning_content" not in message for message in said if needs(message)):
            return failure(400, words, "invalid_request_error")
        if received.json["messages"][-1]["role"] == "tool":
            return completion("There are 4.", thinking="So it is four.")
        return completion(thinking="I should look.", calls=[{"name": "ls", "id": f"call_{len(said)}"}])

    return answer


async def test_thinking_goes_back_with_calls_in_every_turn(mine: OpenAIProvider, wire_server: WireServer):
    wire_server.answer = deepseek()
    messages = history(await collect(mine, ask((USER,))))
    messages = history(await collect(mine, ask(messages)), messages)
    found = await collect(mine, ask((*messages, USER)))
    assert isinstance(found[-1], StreamFinished)
    assert len(wire_server.requests) == 3, "nothing was refused"
    first, last = assistants(wire_server.requests[-1])
    assert first["reasoning_content"] == "I should look."
    assert "reasoning_content" not in last, "thinking before an answer only costs tokens"


async def test_empty_thinking_goes_back_too(mine: OpenAIProvider, wire_server: WireServer):
    call = call_delta(0, id="c", name="ls", arguments="{}")
    wire_server.script = [stream(chunk({"reasoning_content": ""}), chunk({"tool_calls": [call]}))]
    wire_server.answer = deepseek()
    messages = history(await collect(mine, ask((USER,))))
    assert isinstance((await collect(mine, ask(messages)))[-1], StreamFinished)
    assert assistants(wire_server.requests[-1])[0]["reasoning_content"] == ""
    assert len(wire_server.requests) == 2


@pytest.mark.parametrize("words", [MISSING, MISSING_AT_MOONSHOT])
async def test_calls_of_another_model_get_empty_thinking_once_it_is_wanted(
    mine: OpenAIProvider, wire_server: WireServer, words: str
):
    wire_server.answer = deepseek(words=words)
    foreign = Message(Role.ASSISTANT, (Thinking("hm", "sig", "anthropic/claude-x"), ToolCall("c", "ls")))
    messages = (USER, foreign, Message(Role.TOOL, (ToolResult("c", "4 files", name="ls"),)))
    for _ in range(2):
        assert isinstance((await collect(mine, ask(messages)))[-1], StreamFinished)
    assert [assistants(each)[0].get("reasoning_content") for each in wire_server.requests] == [None, "", ""]


async def test_server_that_wants_thinking_with_calls_gets_none_with_answers(
    mine: OpenAIProvider, wire_server: WireServer
):
    """A refusal because of a call is not a reason to send all thinking from then on, which costs tokens."""
    wire_server.answer = deepseek()
    foreign = Message(Role.ASSISTANT, (ToolCall("c", "ls"),))
    messages = (USER, foreign, Message(Role.TOOL, (ToolResult("c", "4 files", name="ls"),)))
    messages = history(await collect(mine, ask(messages)), messages)
    messages = history(await collect(mine, ask((*messages, USER))), (*messages, USER))
    assert isinstance((await collect(mine, ask(messages)))[-1], StreamFinished)
    kept = [message.get("reasoning_content") for message in assistants(wire_server.requests[-1])]
    assert kept == ["", None, "I should look."] and len(wire_server.requests) == 4


async def test_answers_get_their_thinking_where_the_server_wants_it(mine: OpenAIProvider, wire_server: WireServer):
    wire_server.answer = deepseek(needs=lambda message: True)
    messages = history(await collect(mine, ask((USER,))))
    messages = history(await collect(mine, ask(messages)), messages)
    assert isinstance((await collect(mine, ask((*messages, USER))))[-1], StreamFinished)
    wanted = [message["reasoning_content"] for message in assistants(wire_server.requests[-1])]
    assert wanted == ["I should look.", "So it is four."]


async def test_thinking_stays_with_its_model(mine: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [completion(thinking="secret", calls=[{"name": "ls"}])]
    messages = history(await collect(mine, ask((USER,))))
    await collect(mine, ask(messages, "another"))
    assert "secret" not in wire_server.requests[-1].body.decode()


async def test_thinking_is_left_out_for_a_server_that_takes_none(mine: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [completion(thinking="hm", calls=[{"name": "ls"}])]
    messages = history(await collect(mine, ask((USER,))))

    def strict(received: Received) -> Answer:
        if any("reasoning_content" in message for message in assistants(received)):
            return failure(422, "messages.1.reasoning_content: Extra inputs are not permitted")
        return completion("4")

    wire_server.answer = strict
    for _ in range(2):
        assert isinstance((await collect(mine, ask(messages)))[-1], StreamFinished)
    assert len(wire_server.requests) == 4, "refused once, known from then on"


async def test_another_refusal_is_told_and_thinking_still_goes_back(mine: OpenAIProvider, wire_server: WireServer):
    wire_server.answer = lambda received: failure(400, "Unrecognized key: temperature")
    assert isinstance((await collect(mine, ask((USER,))))[-1], StreamFailed)
    assert len(wire_server.requests) == 1
    wire_server.script = [completion(thinking="hm", calls=[{"name": "ls"}])]
    wire_server.answer = deepseek()
    messages = history(await collect(mine, ask((USER,))))
    await collect(mine, ask(messages))
    assert assistants(wire_server.requests[-1])[0]["reasoning_content"] == "hm" and len(wire_server.requests) == 3


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_goes_back_in_the_field_it_came_in(mine: OpenAIProvider, wire_server: WireServer, field: str):
    call = chunk({"tool_calls": [call_delta(0, id="c", name="ls", arguments="{}")]})
    wire_server.script = [stream(chunk({field: "I "}), chunk({field: "look."}), call)]
    messages = history(await collect(mine, ask((USER,))))
    await collect(mine, ask(messages))
    [said] = assistants(wire_server.requests[-1])
    assert said[field] == "I look."
    assert sum("reasoning" in name for name in said) == 1


async def test_thinking_before_and_behind_words_goes_back_whole(mine: OpenAIProvider, wire_server: WireServer):
    call = chunk({"tool_calls": [call_delta(0, id="c", name="ls", arguments="{}")]})
    thoughts = [chunk({"reasoning_content": "First. "}), chunk({"reasoning_content": "Then."})]
    wire_server.script = [stream(thoughts[0], chunk({"content": "I look."}), thoughts[1], call)]
    messages = history(await collect(mine, ask((USER,))))
    await collect(mine, ask(messages))
    [said] = assistants(wire_server.requests[-1])
    assert said["reasoning_content"] == "First. Then." and said["content"] == "I look."


SIGNATURE = {"google": {"thought_signature": "AbC/+="}}


@pytest.mark.parametrize("late", [False, True])
async def test_undefined_fields_of_a_call_go_back_with_it(mine: OpenAIProvider, wire_server: WireServer, late: bool):
    """Gemini behind an OpenAI-compatible address (ai.google.dev/gemini-api/docs/thought-signatures)."""
    first = call_delta(0, id="c1", name="ls", arguments="{}")
    second = call_delta(1, id="c2", name="ls", arguments="{}")
    pieces = [first, {"index": 0, "extra_content": SIGNATURE}] if late else [first | {"extra_content": SIGNATURE}]
    wire_server.script = [stream(chunk({"tool_calls": [*pieces, second]}))]

    def gemini(received: Received) -> Answer:
        first, _ = assistants(received)[0]["tool_calls"]
        if first.get("extra_content") != SIGNATURE:
            return failure(400, "Function call is missing a thought_signature in functionCall parts.")
        return completion("4")

    wire_server.answer = gemini
    messages = history(await collect(mine, ask((USER,))))
    assert isinstance((await collect(mine, ask(messages)))[-1], StreamFinished)
    first, second = assistants(wire_server.requests[-1])[0]["tool_calls"]
    assert list(second) == ["id", "type", "function"], "the other call has no such field"
    await collect(mine, ask(messages, "another"))
    assert "AbC" not in wire_server.requests[-1].body.decode()


async def test_call_that_was_cut_after_its_fields_does_not_run(mine: OpenAIProvider, wire_server: WireServer):
    call = call_delta(0, id="c1", name="rm", arguments="{}")
    late = {"index": 0, "extra_content": SIGNATURE}
    wire_server.script = [stream(chunk({"tool_calls": [call, late]}), finish="length")]
    found = await collect(mine, ask((USER,)))
    events = reply_events(reply(found).blocks(), StopReason.LENGTH, "m")
    assert [event.call_id for event in events if isinstance(event, ToolResult)] == ["c1"]


async def test_reasoning_details_go_back_whole(mine: OpenAIProvider, wire_server: WireServer):
    """OpenRouter (openrouter.ai/docs/use-cases/reasoning-tokens): the pieces of one detail are one again."""

    def text(words: str, **more: Any) -> dict[str, Any]:
        detail = {"type": "reasoning.text", "text": words, "format": "anthropic-claude-v1", "index": 0} | more
        return chunk({"reasoning": words, "reasoning_details": [detail]})

    signed = {"type": "reasoning.text", "signature": "s1", "format": "anthropic-claude-v1", "index": 0}
    hidden = {"type": "reasoning.encrypted", "data": "zzz", "id": "r1", "index": 1}
    call = chunk({"tool_calls": [call_delta(0, id="c", name="ls", arguments="{}")]})
    last = chunk({"reasoning_details": [hidden]})
    wire_server.script = [stream(text("I "), text("look."), chunk({"reasoning_details": [signed]}), call, last)]
    found = await collect(mine, ask((USER,)))
    assert reply(found).thinking == "I look."
    await collect(mine, ask(history(found)))
    [said] = assistants(wire_server.requests[-1])
    assert said["reasoning_details"] == [
        {"type": "reasoning.text", "text": "I look.", "format": "anthropic-claude-v1", "index": 0, "signature": "s1"},
        hidden,
    ]
    assert "reasoning" not in said


def part(kind: str, words: str) -> dict[str, Any]:
    text = {"type": "text", "text": words}
    return text if kind == "text" else {"type": "thinking", "thinking": [text]}


async def test_content_as_a_list_is_read_and_goes_back(mine: OpenAIProvider, wire_server: WireServer):
    """Mistral's reasoning models (docs.mistral.ai/capabilities/reasoning)."""
    chunks = [
        chunk({"content": [part("thinking", "Two and ")]}),
        chunk({"content": [part("thinking", "two.")]}),
        chunk({"content": [part("text", "The answer ")]}),
        chunk({"content": "is 4."}),
        chunk({"tool_calls": [call_delta(0, id="c", name="ls", arguments="{}")]}),
    ]
    wire_server.script = [stream(*chunks)]
    found = await collect(mine, ask((USER,)))
    assert (reply(found).thinking, reply(found).text) == ("Two and two.", "The answer is 4.")
    await collect(mine, ask(history(found)))
    [said] = assistants(wire_server.requests[-1])
    assert said["content"] == [part("thinking", "Two and two."), part("text", "The answer is 4.")]


def test_size_of_a_message_with_thinking_is_exact(wire_server: WireServer):
    provider = OpenAIProvider("mine", "http://127.0.0.1:9/v1")
    vendor = f"openai-chat/mine/{MODEL}"
    blocks = (
        Thinking("é", '{"field":"reasoning_content"}', vendor),
        Thinking("", json.dumps({"call": 0, "fields": {"extra_content": SIGNATURE}}), vendor),
        ToolCall("c", "ls"),
    )
    message, encoder = Message(Role.ASSISTANT, blocks), provider.encoder(MODEL)
    one, two = (len(encoder.body(Request(MODEL, (USER,) + (message,) * count))) for count in (1, 2))
    assert two - one == encoder.message(message)
    assert encoder.message(message) > encoder.message(Message(Role.ASSISTANT, blocks[2:])) + 50
