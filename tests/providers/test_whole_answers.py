"""Servers that answer a request for a stream with a whole reply, in every format."""

from typing import Any

import pytest

from ikigai.core.events.messages import StopReason, Text, Thinking, ToolCall
from ikigai.core.request.reply import StreamFailed, StreamFinished
from tests.providers.conftest import collect, reply
from tests.providers.formats import FORMATS, Format
from tests.support.wire_server import Answer, WireServer, _json

CALL = {"name": "ls", "arguments": '{"path":"."}'}
REPLIES: dict[str, Any] = {
    "messages": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "responses": {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "id": "f1", "call_id": "c1", "status": "completed", **CALL},
        ],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "chat": {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [{"id": "c1", "type": "function", "function": CALL}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    },
    "contents": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "I look."},
                        {"functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}}},
                    ]
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3},
    },
}


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "text/event-stream"])
async def test_whole_reply_is_read_as_one_chunk(form: Format, vendor: Any, wire_server: WireServer, kind: str):
    name = next(name for name, one in FORMATS.items() if one is form)
    wire_server.script = [Answer(_json(REPLIES[name]), headers={"Content-Type": kind})]
    found = await collect(vendor)
    end = found[-1]
    assert isinstance(end, StreamFinished)
    said, called = reply(found).blocks()
    assert said == Text("I look.")
    assert isinstance(called, ToolCall) and (called.id, called.name) == ("c1", "ls")
    assert called.arguments.replace(" ", "") == CALL["arguments"]
    assert (end.stop, end.usage.input, end.usage.output) == (StopReason.TOOLS, 7, 3)


async def test_list_of_chunks_is_read(wire_server: WireServer):
    google = FORMATS["contents"]
    chunks = [{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}, REPLIES["contents"]]
    wire_server.script = [Answer(_json(chunks), headers={"Content-Type": "application/json"})]
    provider: Any = google.connect(f"http://127.0.0.1:{wire_server.port}", "")
    try:
        assert reply(await collect(provider)).text == "HiI look."
    finally:
        await provider.close()


@pytest.mark.parametrize("page", [{"status": "ok"}, [], 7, {"choices": []}])
async def test_other_json_is_no_reply(form: Format, vendor: Any, wire_server: WireServer, page: object):
    wire_server.script = [Answer(_json(page), headers={"Content-Type": "application/json"})]
    [failed] = await collect(vendor)
    assert isinstance(failed, StreamFailed) and "is not a model" in failed.text


@pytest.mark.parametrize("thought", [(), (Thinking("Hm."),)], ids=["nothing", "thinking"])
async def test_reply_without_text_is_whole(
    form: Format, vendor: Any, wire_server: WireServer, thought: tuple[Any, ...]
):
    wire_server.script = [Answer(form.stream(thought, StopReason.END))]
    found = await collect(vendor)
    assert isinstance(found[-1], StreamFinished) and found[-1].stop is StopReason.END and not reply(found).text


async def test_calls_with_an_empty_id_get_one_each(form: Format, vendor: Any, wire_server: WireServer):
    calls = (ToolCall("", "ls"), ToolCall("", "ls"))
    wire_server.script = [Answer(form.stream(calls, StopReason.TOOLS))]
    ids = [block.id for block in reply(await collect(vendor)).blocks() if isinstance(block, ToolCall)]
    assert len(set(ids)) == 2 and all(ids)
