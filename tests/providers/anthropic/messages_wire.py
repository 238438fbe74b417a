"""Anthropic's Messages as a scripted server speaks them: streams, errors, and the golden streams with what they mean.

The golden streams (tests/golden/messages) are written after the vendor's description of its streams, trailing blanks
included; `llamacpp` is what a llama.cpp server sent, shortened.
"""

import json
from typing import Any

from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, Usage
from ikigai.core.request.reply import StreamFinished
from tests import GOLDEN
from tests.support.wire_server import Answer

MODEL = "claude-sonnet-5-5"
VENDOR = f"anthropic/{MODEL}"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=="
STREAMS = {file.stem: file.read_bytes() for file in (GOLDEN / "messages").iterdir()}

MEANT: dict[str, tuple[tuple[ReplyBlock, ...], StreamFinished]] = {
    "text": ((Text("Hello 👩‍👩‍👧!\n"),), StreamFinished(StopReason.END, Usage(25, 15))),
    "thinking": (
        (Thinking("I need 27 * 453.\n\n= 12231 – é", SIGNATURE, VENDOR), Text("12,231.")),
        StreamFinished(StopReason.END, Usage(152, 60, cached=100, thinking=42, written=40)),
    ),
    "omitted": (
        (Thinking("", SIGNATURE, VENDOR), Text("12,231.")),
        StreamFinished(StopReason.END, Usage(25, 60, thinking=42)),
    ),
    "redacted": (
        (
            Thinking("Hm.", SIGNATURE, VENDOR),
            Thinking("", "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw==", f"{VENDOR}#redacted"),
            Thinking("", "SecondOne+/==", f"{VENDOR}#redacted"),
            Text("Done."),
        ),
        StreamFinished(StopReason.END, Usage(25, 9)),
    ),
    "tools": (
        (
            Thinking("Two places.", SIGNATURE, VENDOR),
            Text("Looking:"),
            ToolCall("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", '{"location": "Köln",  "n": 1}'),
            ToolCall("toolu_02", "get_time", "{}"),
            ToolCall("toolu_03", "get_weather", '{"location": "Rom"}'),
        ),
        StreamFinished(StopReason.TOOLS, Usage(472, 89, thinking=3)),
    ),
    "refusal": ((Text("This request could enable harm."),), StreamFinished(StopReason.REFUSED, Usage(25))),
    "length": ((Text("Half a"),), StreamFinished(StopReason.LENGTH, Usage(25, 2))),
    "llamacpp": ((Text("The world"),), StreamFinished(StopReason.LENGTH, Usage(23, 12, cached=22))),
}


def sse(*chunks: object) -> bytes:
    """Events of a stream, each under its own name; bytes go out as they are."""
    return b"".join(chunk if isinstance(chunk, bytes) else _event(chunk) for chunk in chunks)


def _event(chunk: Any) -> bytes:
    data = json.dumps(chunk, separators=(",", ":"), ensure_ascii=False)
    return f"event: {chunk['type']}\ndata: {data}\n\n".encode()


def start(**usage: int) -> dict[str, Any]:
    """The beginning of a reply without an id, by which no request can ask for a diagnosis."""
    message = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}
    return {"type": "message_start", "message": message | {"usage": {"input_tokens": 10, "output_tokens": 1} | usage}}


def block(index: object, type: str, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def delta(index: object, type: str, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def said(index: object, text: str) -> dict[str, Any]:
    return delta(index, "text_delta", text=text)


def stop(index: object) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5} | usage}


END = {"type": "message_stop"}


def spoken(text: str) -> list[dict[str, Any]]:
    """The chunks of a whole reply."""
    return [start(), block(0, "text", text=""), said(0, text), stop(0), finish(), END]


def answer(text: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(sse(*spoken(text)), headers={"Content-Type": "text/event-stream; charset=utf-8", **named})


def failure(status: int, message: str = "", kind: str = "invalid_request_error", **headers: str) -> Answer:
    """An error as Anthropic words it; underscores in header names are hyphens."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_body"}
    return page(body, status, **headers)


def page(body: object, status: int = 200, **headers: str) -> Answer:
    """An answer that is JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(body).encode(), status, {"Content-Type": "application/json", **named})
