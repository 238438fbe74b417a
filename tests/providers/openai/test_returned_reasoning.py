"""Servers with Responses that do not encrypt thinking, or late: LiteLLM's proxy, vLLM, llama.cpp.

Each refuses a call that comes back without its thinking, as the model behind it does.
"""

import json
from typing import Any

import pytest

from ikigai.core.events.codec import decode, encode
from ikigai.core.events.messages import Message, Role, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.build import Request, join
from ikigai.core.request.reply import ProviderEvent, StreamFinished, reply_events
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.bodies import responses_validated
from tests.providers.conftest import KEY, collect, reply
from tests.support.wire_server import Answer, Received, WireServer, failure, sse

MODEL = "thinker"
USER = Message(Role.USER, (Text("How many files?"),))
CALL = {"type": "function_call", "id": "fc_1", "call_id": "functions.ls:0", "name": "ls", "arguments": "{}"}
ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]}
IN_SUMMARY = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]}
IN_CONTENT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "I look."}],
    "encrypted_content": "",
}
SIGNED = '[{"type":"thinking","thinking":"I look.","signature":"c2ln+/=="}]'


def stream(*items: dict[str, Any], whole: tuple[dict[str, Any], ...] = ()) -> Answer:
    """Return a reply; `whole` are the items as its end repeats them."""
    events: list[dict[str, Any]] = []
    for at, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**item, "summary": []}})
        if item["type"] == "reasoning":
            piece = {"item_id": item["id"], "output_index": at, "delta": "I look."}
            events.append({"type": "response.reasoning_summary_text.delta", **piece})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    response = {"status": "completed", "output": whole or items}
    return Answer(sse(*events, {"type": "response.completed", "response": response}))


def history(found: list[ProviderEvent], messages: tuple[Message, ...] = (USER,)) -> tuple[Message, ...]:
    """Return the messages, the reply as the log gives it back, and a result of each of its calls."""
    end = found[-1]
    assert isinstance(end, StreamFinished), end
    extended, calls = list(messages), list[ToolCall]()
    for event in reply_events(reply(found).blocks(), end.stop, f"mine/{MODEL}"):
        read = decode(*encode(event))
        join(extended, read)
        calls += [read] if isinstance(read, ToolCall) else []
    for call in calls:
        join(extended, ToolResult(call.id, "4 files"))
    return tuple(extended)


def sent(received: Received, kind: str = "reasoning") -> list[dict[str, Any]]:
    body = received.json
    assert responses_validated(body) == body
    return [item for item in body["input"] if item["type"] == kind]


@pytest.fixture
async def mine(wire_server: WireServer):
    provider = OpenAIProvider("mine", wire_server.base_url, KEY, api="responses")
    yield provider
    await provider.close()


@pytest.mark.parametrize("item", [IN_SUMMARY, IN_CONTENT])
async def test_plain_thinking_goes_back_with_its_calls_alone(
    mine: OpenAIProvider, wire_server: WireServer, item: dict[str, Any]
):
    thought = {key: value for key, value in item.items() if value != ""}

    def deepseek(received: Received) -> Answer:
        if len(sent(received)) != len(sent(received, "function_call")):
            return failure(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
        answers = sent(received, "function_call_output")
        return stream(item, ANSWER) if answers else stream(item, CALL)

    wire_server.answer = deepseek
    messages = history(await collect(mine, Request(MODEL, (USER,))))
    messages = history(await collect(mine, Request(MODEL, messages)), messages)
    found = await collect(mine, Request(MODEL, (*messages, USER)))
    assert isinstance(found[-1], StreamFinished), found[-1]
    assert sent(wire_server.requests[-1]) == [thought], "thinking before an answer only costs tokens"
    assert len(wire_server.requests) == 3, "nothing was refused"
    await collect(mine, Request("another", messages))
    assert "I look." not in wire_server.requests[-1].body.decode()


async def test_signature_that_the_end_brings_goes_back_in_its_place(mine: OpenAIProvider, wire_server: WireServer):
    late = {"type": "reasoning", "id": "rs_1", "status": "completed", "encrypted_content": SIGNED}
    wire_server.script += [stream(IN_SUMMARY, CALL, whole=(late, CALL)), stream(ANSWER)]
    found = await collect(mine, Request(MODEL, (USER,)))
    assert reply(found).thinking == "I look."
    messages = history(found)
    await collect(mine, Request(MODEL, messages))
    body = wire_server.requests[-1].json
    assert body["input"][1] == IN_SUMMARY | {"encrypted_content": SIGNED}
    assert [item["type"] for item in body["input"][2:]] == ["function_call", "function_call_output"]
    size = sum(len(json.dumps(item, separators=(",", ":"))) + 1 for item in body["input"][1:3])
    assert mine.encoder(MODEL).message(messages[1]) == size


@pytest.mark.parametrize(
    "refusal",
    [
        failure(422, "input.1.ReasoningItem: Extra inputs are not permitted"),
        failure(400, "item['content'] is not an array"),  # llama.cpp, of thinking that another server gave
        failure(404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    ],
)
async def test_plain_thinking_that_is_refused_is_left_out_from_then_on(
    mine: OpenAIProvider, wire_server: WireServer, refusal: Answer
):
    wire_server.script += [stream(IN_SUMMARY, CALL)]
    wire_server.answer = lambda received: refusal if sent(received) else stream(ANSWER)
    messages = history(await collect(mine, Request(MODEL, (USER,))))
    for _ in range(2):
        assert isinstance((await collect(mine, Request(MODEL, messages)))[-1], StreamFinished)
    assert [len(sent(each)) for each in wire_server.requests] == [0, 1, 0, 0]


async def test_refused_thinking_is_not_counted(mine: OpenAIProvider, wire_server: WireServer):
    refusal = failure(422, "input.1.ReasoningItem: Extra inputs are not permitted")
    wire_server.script += [stream(IN_SUMMARY, CALL)]
    wire_server.answer = lambda received: refusal if b"I look." in received.body else stream(ANSWER)
    messages = history(await collect(mine, Request(MODEL, (USER,))))
    await collect(mine, Request(MODEL, messages))
    await mine.count(Request(MODEL, messages))
    counted = wire_server.requests[-1]
    assert counted.path == "/v1/responses/input_tokens" and "I look." not in counted.body.decode()


async def test_openai_gets_back_what_it_encrypted_alone(wire_server: WireServer):
    """It stores nothing, and knows no item that comes back without its encrypted content."""
    provider = OpenAIProvider("openai", "https://api.openai.com/v1", KEY)
    target: Any = None
    reader = provider.reader(Request(MODEL, (USER,)), target)
    events = [json.loads(line[6:]) for line in stream(IN_SUMMARY, CALL).body.decode().split("\n\n") if line]
    blocks = reply([event for each in events for event in reader.events(each)]).blocks()
    assert blocks[0] == Thinking("I look.", vendor=f"openai/{MODEL}")
    await provider.close()
