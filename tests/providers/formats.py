"""The four formats as their servers speak them: what a model says as a stream, errors, and the adapter for each."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ikigai.core.events.messages import ReplyBlock, StopReason, Text, Thinking, ToolCall, Usage
from ikigai.core.request.model import Provider
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.google.provider import GoogleProvider
from ikigai.providers.models.models import ModelCatalog
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers import bodies
from tests.providers.anthropic import messages_wire
from tests.providers.bodies import Told
from tests.providers.google import gemini
from tests.support.wire_server import DONE, Answer, call_delta, chunk, failure
from tests.support.wire_server import sse as data

PIECE = 5
"""Characters that a piece of a stream has."""
USAGE = Usage(input=120, output=20, cached=100, thinking=5)
"""The usage that every stream here reports, as far as its format can: Anthropic's also tells thinking apart."""

Blocks = tuple[ReplyBlock, ...]


class Format(NamedTuple):
    """How one vendor's servers speak, and the adapter for it.

    `model` is "provider/name", `api` as in `pool.Endpoint`, `path` what stands behind a server's address. `stream`
    makes the bytes of a reply, `late` the bytes of a word more, `reported` the bytes of an error in the middle (an
    overload), `refusal` an answer that is one: of a status, a message and what it calls itself; `quota` is one that
    says that the credit is used up. `read` and `validated` take a decoded body.
    """

    model: str
    api: str
    path: str
    make: Callable[..., Provider]
    stream: Callable[[Blocks, StopReason], bytes]
    late: Callable[[str], bytes]
    reported: Callable[[str], bytes]
    refusal: Callable[[int, str, str], Answer]
    quota: Answer
    read: Callable[[dict[str, Any]], Told]
    validated: Callable[[dict[str, Any]], object]

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]

    @property
    def name(self) -> str:
        return self.model.partition("/")[2]

    def connect(self, address: str, key: str, **more: float) -> Provider:
        """The adapter without retries, for a server at `address` ("http://host:port")."""
        api = {"api": self.api} if self.make is OpenAIProvider else {}
        return self.make(self.provider, address + self.path, key, traits=self.traits, **api, **more)

    def traits(self, name: str) -> Any:
        return ModelCatalog().traits(f"{self.provider}/{name}")


def pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


# ── Anthropic: Messages ──

REASONS = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens", "refused": "refusal"}


def messages_stream(blocks: Blocks, stop: StopReason) -> bytes:
    events = [messages_wire.start(input_tokens=20, cache_read_input_tokens=100), {"type": "ping"}]
    for at, block in enumerate(blocks):
        match block:
            case Thinking(text, signature):
                events.append(messages_wire.block(at, "thinking", thinking="", signature=""))
                events += [messages_wire.delta(at, "thinking_delta", thinking=piece) for piece in pieces(text)]
                events.append(messages_wire.delta(at, "signature_delta", signature=signature))
            case Text(text):
                events.append(messages_wire.block(at, "text", text=""))
                events += [messages_wire.said(at, piece) for piece in pieces(text)]
            case ToolCall(id, name, arguments):
                events.append(messages_wire.block(at, "tool_use", id=id, name=name, input={}))
                events += [
                    messages_wire.delta(at, "input_json_delta", partial_json=piece) for piece in pieces(arguments)
                ]
        events.append(messages_wire.stop(at))
    counts: dict[str, Any] = {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 5}}
    events += [messages_wire.finish(REASONS[stop], **counts), messages_wire.END]
    return messages_wire.sse(*events)


def messages_reported(message: str) -> bytes:
    return messages_wire.sse({"type": "error", "error": {"type": "overloaded_error", "message": message}})


def messages_refusal(status: int, message: str, code: str) -> Answer:
    return messages_wire.failure(status, message, code or "invalid_request_error")


# ── OpenAI: Responses ──


def responses_stream(blocks: Blocks, stop: StopReason) -> bytes:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}]
    items = []
    for at, block in enumerate(blocks):
        whole, deltas = _item(at, block, stop, last=block is blocks[-1])
        begun = whole | {key: value for key, value in EMPTY_ITEM.items() if key in whole}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        events += [{"output_index": at, "item_id": whole["id"], **delta} for delta in deltas]
        events.append({"type": "response.output_item.done", "output_index": at, "item": whole})
        items.append(whole)
    cut = stop is StopReason.LENGTH
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 140,
    }
    response = {"id": "resp_1", "status": "incomplete" if cut else "completed", "output": items, "usage": usage}
    response["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
    events.append({"type": f"response.{response['status']}", "response": response})
    return _events(*events)


EMPTY_ITEM = {"summary": [], "content": [], "arguments": ""}


def _item(at: int, block: ReplyBlock, stop: StopReason, last: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One item of the output, whole, and the events in which it comes."""
    status = "incomplete" if last and stop is StopReason.LENGTH else "completed"
    match block:
        case Thinking(text, signature):
            summary = [{"type": "summary_text", "text": text}]
            item = {"type": "reasoning", "id": f"rs_{at}", "summary": summary, "encrypted_content": signature}
            type = "response.reasoning_summary_text.delta"
            return item, [{"type": type, "summary_index": 0, "delta": piece} for piece in pieces(text)]
        case Text(text):
            kind = "refusal" if stop is StopReason.REFUSED else "output_text"
            content = [{"type": kind, "refusal" if kind == "refusal" else "text": text}]
            item = {"type": "message", "id": f"msg_{at}", "role": "assistant", "content": content, "status": status}
            return item, [
                {"type": f"response.{kind}.delta", "content_index": 0, "delta": piece} for piece in pieces(text)
            ]
        case ToolCall(id, name, arguments):
            item = {"type": "function_call", "id": f"fc_{at}", "call_id": id, "name": name, "arguments": arguments}
            type = "response.function_call_arguments.delta"
            return item | {"status": status}, [{"type": type, "delta": piece} for piece in pieces(arguments)]


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\n".encode() + data(event) for event in events)


def responses_late(text: str) -> bytes:
    return _events({"type": "response.output_text.delta", "output_index": 9, "item_id": "msg_9", "delta": text})


def responses_reported(message: str) -> bytes:
    return _events({"type": "error", "code": "server_error", "message": message, "param": None})


# ── Chat Completions ──

FINISHES = {"end": "stop", "tools": "tool_calls", "length": "length", "refused": "stop"}


def chat_stream(blocks: Blocks, stop: StopReason) -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    spoken = "refusal" if stop is StopReason.REFUSED else "content"
    calls = 0
    for block in blocks:
        match block:
            case Thinking(text):
                deltas += [{"reasoning_content": piece} for piece in pieces(text)]
            case Text(text):
                deltas += [{spoken: piece} for piece in pieces(text)]
            case ToolCall(id, name, arguments):
                deltas.append({"tool_calls": [call_delta(calls, id=id, name=name, arguments="")]})
                deltas += [{"tool_calls": [call_delta(calls, arguments=piece)]} for piece in pieces(arguments)]
                calls += 1
    usage = {
        "prompt_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    end = {"id": "chatcmpl-1", "choices": [], "usage": usage}
    return data(*map(chunk, deltas), chunk(finish=FINISHES[stop]), end, DONE)


# ── Google: generateContent ──

ENDS = {"end": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}


def contents_stream(blocks: Blocks, stop: StopReason) -> bytes:
    chunks: list[dict[str, Any]] = []
    signature = ""
    for block in blocks:
        match block:
            case Thinking(text, signed):
                chunks += [gemini.chunk(gemini.thought(piece)) for piece in pieces(text)]
                signature = signed
                continue
            case Text(text):
                parts = [gemini.text(piece) for piece in pieces(text)]
            case ToolCall(id, name, arguments):
                parts = [gemini.call(name, _json(arguments), id)]
        if signature:  # a text that is signed comes in one piece
            parts = [gemini.text(block.text)] if isinstance(block, Text) else parts
            parts[0]["thoughtSignature"], signature = signature, ""
        chunks += map(gemini.chunk, parts)
    usage = {"promptTokenCount": 120, "cachedContentTokenCount": 100, "candidatesTokenCount": 15}
    last = gemini.chunk(finish=ENDS[stop], usageMetadata=usage | {"thoughtsTokenCount": 5, "totalTokenCount": 140})
    return gemini.sse(*chunks, last)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def contents_reported(message: str) -> bytes:
    return gemini.sse({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}})


# ── all ──

FORMATS = {
    "messages": Format(
        "anthropic/claude-sonnet-5-5",
        "anthropic",
        "",
        AnthropicProvider,
        messages_stream,
        lambda text: messages_wire.sse(messages_wire.block(9, "text", text=""), messages_wire.said(9, text)),
        messages_reported,
        messages_refusal,
        messages_refusal(429, "Your credit balance is too low.", "billing_error"),
        bodies.messages_read,
        bodies.messages_validated,
    ),
    "responses": Format(
        "openai/gpt-6.1-sol",
        "responses",
        "/v1",
        OpenAIProvider,
        responses_stream,
        responses_late,
        responses_reported,
        failure,
        failure(429, "You exceeded your current quota.", "insufficient_quota"),
        bodies.responses_read,
        bodies.responses_validated,
    ),
    "chat": Format(
        "mine/qwen3-vl-32b",
        "chat",
        "/v1",
        OpenAIProvider,
        chat_stream,
        lambda text: data(chunk({"content": text})),
        lambda message: data({"error": {"message": message, "type": "server_error", "code": 503}}),
        failure,
        failure(429, "You exceeded your current quota.", "insufficient_quota"),
        bodies.chat_read,
        bodies.chat_validated,
    ),
    "contents": Format(
        "google/gemini-3.8-flash",
        "google",
        "",
        GoogleProvider,
        contents_stream,
        lambda text: gemini.sse(gemini.chunk(gemini.text(text))),
        contents_reported,
        gemini.failed,
        gemini.failed(429, gemini.PLAN, "RESOURCE_EXHAUSTED"),
        bodies.contents_read,
        bodies.contents_validated,
    ),
}
"""By the name of the format."""
