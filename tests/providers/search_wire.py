"""Replies in which a vendor searched the web, as its server streams them, and what is stored of each.

The parts that belong to a search are checked against the SDKs' own types; Anthropic's by `check_claude`, since a module
that makes such a stream is not to load the SDK with it.
"""

import json
from typing import Any, NamedTuple

from ikigai.core.events.messages import Citation, ReplyBlock, Text, Thinking, ToolCall, ToolResult
from ikigai.core.tools.vendor_search import VENDOR_SEARCH
from tests.providers.anthropic import messages_wire as wire
from tests.providers.google import gemini
from tests.support.wire_server import sse as data

PAGE, TITLE = "https://example.org/köln?a=1", 'Köln "today"'
CLAUDE, GPT, GEMINI = "anthropic/claude-sonnet-5-5", "openai/gpt-6.1-sol", "google/gemini-3.8-flash"


class SearchReply(NamedTuple):
    """The bytes of a stream, its blocks as they are stored, and the parts that have to go back as they came."""

    stream: bytes
    blocks: tuple[ReplyBlock, ...]
    returned: tuple[dict[str, Any], ...]


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# ── Anthropic ──

FOUND = [
    {"type": "web_search_result", "url": PAGE, "title": TITLE, "encrypted_content": "EqgfCioI+/==", "page_age": None},
    {"type": "web_search_result", "url": "https://example.org/2", "title": "", "encrypted_content": "Eq2"},
]
CITED = {"type": "web_search_result_location", "url": PAGE, "title": TITLE}
CITED |= {"encrypted_index": "Eo8BCioI==", "cited_text": "It is new."}
SEARCH_ERROR = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}


def claude_events(found: Any = FOUND, stop: str = "end_turn") -> list[dict[str, Any]]:
    asked = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": found}
    usage: dict[str, Any] = {
        "output_tokens": 20,
        "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    }
    return [
        wire.start(),
        wire.block(0, "thinking", thinking="", signature=""),
        wire.delta(0, "thinking_delta", thinking="I look."),
        wire.delta(0, "signature_delta", signature="c2ln"),
        wire.stop(0),
        wire.block(1, "text", text=""),
        wire.said(1, "I search."),
        wire.stop(1),
        {"type": "content_block_start", "index": 2, "content_block": asked},
        wire.delta(2, "input_json_delta", partial_json='{"query": '),
        wire.delta(2, "input_json_delta", partial_json='"news of Köln"}'),
        wire.stop(2),
        {"type": "content_block_start", "index": 3, "content_block": result},
        wire.stop(3),
        wire.block(4, "text", text="", citations=[]),
        wire.delta(4, "citations_delta", citation=CITED),
        wire.said(4, "It is "),
        wire.said(4, "new."),
        wire.stop(4),
        wire.block(5, "text", text=""),
        wire.said(5, " Good."),
        wire.stop(5),
        wire.finish(stop, **usage),
        wire.END,
    ]


def check_claude(events: list[dict[str, Any]]) -> None:
    """Raise an exception if a part of a search is not of the SDK's type."""
    from anthropic.types import CitationsDelta, ServerToolUseBlock, WebSearchToolResultBlock

    types = {"server_tool_use": ServerToolUseBlock, "web_search_tool_result": WebSearchToolResultBlock}
    types["citations_delta"] = CitationsDelta
    parts = [event.get("content_block") or event.get("delta") or {} for event in events]
    checked = [types[part["type"]].model_validate(part) for part in parts if part.get("type") in types]
    assert len(checked) == 3


def claude_reply() -> SearchReply:
    arguments = '{"query": "news of Köln"}'
    opaque = compact(FOUND)
    text = f"{TITLE} {PAGE}\nhttps://example.org/2"
    blocks = (
        Thinking("I look.", "c2ln", CLAUDE),
        Text("I search."),
        ToolCall("srvtoolu_01", VENDOR_SEARCH, arguments, hosted=CLAUDE),
        ToolResult("srvtoolu_01", text, name=VENDOR_SEARCH, hosted=CLAUDE, opaque=opaque),
        Text("It is new.", (Citation(PAGE, TITLE, compact(CITED_IN_ORDER), CLAUDE),)),
        Text(" Good."),
    )
    returned = (
        {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "news of Köln"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": FOUND},
        {"type": "text", "text": "It is new.", "citations": [CITED]},
        {"type": "text", "text": " Good."},
    )
    return SearchReply(wire.sse(*claude_events()), blocks, returned)


CITED_IN_ORDER = {key: CITED[key] for key in ("type", "url", "title", "encrypted_index", "cited_text")}


# ── OpenAI ──


def gpt_reply() -> SearchReply:
    from openai.types.responses import ResponseFunctionWebSearch, ResponseOutputMessage

    action = {"type": "search", "query": "news of Köln", "queries": ["news of Köln"]}
    sources = [{"type": "url", "url": PAGE}, {"type": "url", "url": "https://example.org/2"}]
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]}
    thought |= {"encrypted_content": "c2ln"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action | {"sources": sources}}
    opened = {"type": "web_search_call", "id": "ws_2", "status": "completed"}
    opened |= {"action": {"type": "open_page", "url": PAGE}}
    annotation = {"type": "url_citation", "url": PAGE, "title": TITLE, "start_index": 0, "end_index": 10}
    content = [{"type": "output_text", "text": "It is new. Good.", "annotations": [annotation]}]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    for item in (search, opened):
        ResponseFunctionWebSearch.model_validate(item)
    ResponseOutputMessage.model_validate(message)
    items = [thought, search, opened, message]
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}]
    for index, item in enumerate(items):
        begun = {key: value for key, value in item.items() if key != "action"} | {"status": "in_progress"}
        begun |= {"content": []} if "content" in item else {}
        begun |= {"summary": []} if "summary" in item else {}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "web_search_call":
            events += [
                {"type": f"response.web_search_call.{state}", "output_index": index, "item_id": item["id"]}
                for state in ("in_progress", "searching", "completed")
            ]
        if item is message:
            for piece in ("It is ", "new. ", "Good."):
                place = {"output_index": index, "item_id": "msg_1", "content_index": 0}
                events.append({"type": "response.output_text.delta", "delta": piece, **place})
            events.append({"type": "response.output_text.annotation.added", "annotation": annotation, **place})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 10, "output_tokens": 20}
    events.append({"type": "response.completed", "response": {"status": "completed", "output": items, "usage": usage}})
    signature = compact({"id": "rs_1", "summary": ["I look."], "encrypted_content": "c2ln"})
    sent = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    blocks = (
        Thinking("I look.", signature, GPT),
        ToolCall("ws_1", VENDOR_SEARCH, compact({"query": "news of Köln"}), hosted=GPT),
        ToolResult("ws_1", f"{PAGE}\nhttps://example.org/2", name=VENDOR_SEARCH, hosted=GPT, opaque=compact(sent)),
        ToolCall("ws_2", VENDOR_SEARCH, compact({"url": PAGE}), hosted=GPT),
        ToolResult("ws_2", "The page was read.", name=VENDOR_SEARCH, hosted=GPT, opaque=compact(opened)),
        Text("It is new. Good.", (Citation(PAGE, TITLE),)),
    )
    named = [f"event: {event['type']}\n".encode() + data(event) for event in events]
    return SearchReply(b"".join(named), blocks, (sent, opened))


# ── Google ──


def gemini_chunks(shows_calls: bool = True) -> list[dict[str, Any]]:
    from google.genai.types import GenerateContentResponse

    call = {"toolType": "GOOGLE_SEARCH_WEB", "id": "g1", "args": {"queries": ["news of Köln"]}}
    response = {"toolType": "GOOGLE_SEARCH_WEB", "id": "g1", "response": {"search_suggestions": "<div>"}}
    grounding = {
        "webSearchQueries": ["news of Köln"],
        "groundingChunks": [
            {"web": {"uri": "https://other.org", "title": "no"}},
            {"web": {"uri": PAGE, "title": TITLE}},
        ],
        "groundingSupports": [{"segment": {"endIndex": 10, "text": "It is new."}, "groundingChunkIndices": [1]}],
    }
    parts: list[dict[str, Any]] = [{"toolCall": call, "thoughtSignature": "c2ln"}, {"toolResponse": response}]
    ends = {"content": {"role": "model", "parts": [{"text": "Good."}]}, "finishReason": "STOP"}
    chunks = [
        *({"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts if shows_calls),
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "It is new. "}]}}]},
        {
            "candidates": [ends | {"groundingMetadata": grounding}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 20},
        },
    ]
    for chunk in chunks:
        GenerateContentResponse.model_validate(chunk)
    return chunks


def gemini_reply() -> SearchReply:
    blocks = (
        Thinking("", "c2ln", GEMINI),
        ToolCall("g1", VENDOR_SEARCH, compact({"queries": ["news of Köln"]}), hosted=GEMINI),
        ToolResult(
            "g1",
            "Google names the pages with the answer.",
            name=VENDOR_SEARCH,
            hosted=GEMINI,
            opaque=compact({"search_suggestions": "<div>"}),
        ),
        Text("It is new. Good.", (Citation(PAGE, TITLE),)),
    )
    call = {"id": "g1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["news of Köln"]}}
    response = {"id": "g1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"search_suggestions": "<div>"}}
    returned = ({"toolCall": call, "thoughtSignature": "c2ln"}, {"toolResponse": response})
    return SearchReply(gemini.sse(*gemini_chunks()), blocks, returned)


REPLIES = {"messages": claude_reply, "responses": gpt_reply, "contents": gemini_reply}
"""By the name of the format (`formats.FORMATS`); Chat Completions have no search."""
