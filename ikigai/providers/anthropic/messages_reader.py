"""Read the streams of Anthropic's Messages format: chunk → deltas. Pure, no SDK."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ikigai.core.events.messages import Citation, StopReason, ToolCall, ToolResult, Usage
from ikigai.core.request.reply import (
    CitationDelta,
    Delta,
    HostedDelta,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.tools.vendor_search import VENDOR_SEARCH, find_pages
from ikigai.providers.anthropic.messages_api import ANTHROPIC_VENDOR, REDACTED_SUFFIX, WEB_SEARCH_TOOL
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import dumps, is_json_object
from ikigai.providers.http import failures
from ikigai.providers.http.failures import RequestTarget, failure_in_stream
from ikigai.providers.http.json_shape import as_mapping, as_sequence, as_string

MESSAGES_STOPS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
    "pause_turn": StopReason.PAUSED,
}
"""stop_reason → why; any other is an ordinary end, or tools if the model called some."""

CITATION_FIELDS = ("type", "url", "title", "encrypted_index", "cited_text")
"""The fields of a citation that the API wants back (the SDK's `CitationWebSearchResultLocationParam`)."""

MAX_DIAGNOSIS_CHARACTERS = 60
"""Characters of the server's word for the miss of a cache that are kept."""

USAGE_FIELDS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class _OpenBlock(msgspec.Struct):
    """A content block that has begun: the number of its call (-1 for none), and what remains to be passed on when it
    ends. `hosted` is the id of a hosted call, `pieces` are the pieces of its arguments, `citations` the citations of a
    text.
    """

    call: int = -1
    arguments: str = ""
    signature: str = ""
    hosted: str = ""
    citations: list[Citation] | None = None
    pieces: list[str] = []


class MessagesReader:
    """The state of one stream so far: the blocks begun, the stop reason, the usage (`open_stream.StreamReader`).

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one. With
    `diagnoses` the server says why its cache missed.
    """

    def __init__(
        self,
        target: RequestTarget,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = lambda: new_id("toolu"),
        diagnoses: bool = False,
    ) -> None:
        self._diagnoses = diagnoses
        self.target = target
        self.request_id = ""
        self.whole = False
        self._vendor = f"{ANTHROPIC_VENDOR}/{target.model}"
        self._ids = CallIds(taken, new_id)
        self._blocks: dict[object, _OpenBlock] = {}
        self._calls = 0
        self._has_output = self._has_searched = False
        self._stop = ""
        self._tokens = dict.fromkeys((*USAGE_FIELDS, "thinking", "written_1h", "searches"), 0)
        self._id = self._diagnosis = ""

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. After a stop_reason only counts and the end are
        accepted.
        """
        if not isinstance(chunk, dict) or self.whole:
            return []
        kind = chunk.get("type")
        if kind == "message":  # of servers that do not stream
            return [event for part in _as_stream(chunk) for event in self.events(part)]
        if kind == "error" or chunk.get("error"):
            return [failure_in_stream(self.target, chunk, self.request_id)]
        if kind == "message_start":
            message = as_mapping(chunk.get("message"))
            self._id = as_string(message.get("id")) if self._diagnoses else ""
            miss = as_mapping(as_mapping(message.get("diagnostics")).get("cache_miss_reason"))
            self._diagnosis = as_string(miss.get("type"))[:MAX_DIAGNOSIS_CHARACTERS]
            return [*self._store_counts(as_mapping(message.get("usage")))]
        if kind == "message_delta":
            return [
                *self._store_stop(as_mapping(chunk.get("delta"))),
                *self._store_counts(as_mapping(chunk.get("usage"))),
            ]
        if kind == "message_stop":
            self.whole = bool(self._stop)
        deltas: list[Delta] = []
        if not self._stop:
            if kind == "content_block_start":
                deltas = self._start(chunk.get("index"), as_mapping(chunk.get("content_block")))
            elif kind == "content_block_delta":
                deltas = self._delta(chunk.get("index"), as_mapping(chunk.get("delta")))
            elif kind == "content_block_stop":
                deltas = self._close_blocks(chunk.get("index"))
        self._has_output = self._has_output or any(isinstance(event, TextDelta | ToolCallDelta) for event in deltas)
        return [*deltas]

    def end(self) -> StreamFinished | StreamFailed:
        """Return the last event of a stream that has ended: whole only if message_stop came, and a stop_reason before
        it.
        """
        if not self.whole:
            return failures.cut(self.target, self.request_id)
        stop = MESSAGES_STOPS.get(self._stop, StopReason.END)
        if stop is StopReason.PAUSED and not self._has_searched:
            stop = StopReason.END  # there is nothing to go on with
        if self._calls and stop in (StopReason.END, StopReason.PAUSED):
            stop = StopReason.TOOLS
        return StreamFinished(stop, self._usage(), self.request_id)

    def _start(self, index: object, block: dict[str, Any]) -> list[Delta]:
        thoughts = [key for key, open_block in self._blocks.items() if open_block.call < 0]
        deltas = self._close_blocks(*thoughts)  # a signature must precede the blocks after it
        for key in thoughts:
            del self._blocks[key]
        match block.get("type"):
            case "text":
                cited = [self._citation(as_mapping(each)) for each in as_sequence(block.get("citations"))]
                self._blocks[_key(index)] = _OpenBlock(citations=list(filter(None, cited)))
                return [*deltas, *_text_delta(block)]
            case "thinking":
                self._blocks[_key(index)] = _OpenBlock(signature=as_string(block.get("signature")))
                # Passed on even when it is empty: thinking may be silent for minutes.
                return [*deltas, ThinkingDelta(as_string(block.get("thinking")), vendor=self._vendor)]
            case "redacted_thinking" if data := as_string(block.get("data")):
                return [*deltas, ThinkingDelta("", data, self._vendor + REDACTED_SUFFIX)]
            case "tool_use":
                id, input = self._ids.own(as_string(block.get("id"))), block.get("input")
                arguments = json.dumps(input) if isinstance(input, dict) and input else as_string(input)
                self._blocks[_key(index)] = _OpenBlock(self._calls, arguments)
                self._calls += 1
                return [*deltas, ToolCallDelta(self._calls - 1, id, as_string(block.get("name")))]
            case "server_tool_use" if block.get("name") == WEB_SEARCH_TOOL["name"]:
                arguments = dumps(block.get("input") or {}).decode()
                self._blocks[_key(index)] = _OpenBlock(-1, arguments, hosted=as_string(block.get("id")) or "call")
                self._has_searched = True
            case "web_search_tool_result":
                self._has_searched = True
                return [*deltas, HostedDelta(self._found(as_string(block.get("tool_use_id")), block.get("content")))]
        return deltas

    def _found(self, call_id: str, content: object) -> ToolResult:
        """Return the result of a search: a list of pages, or an error."""
        opaque = dumps(content).decode()
        if not isinstance(content, list):
            text = f"The search failed: {as_string(as_mapping(content).get('error_code')) or 'no reason is given'}."
            return ToolResult(call_id, text, True, VENDOR_SEARCH, hosted=self._vendor, opaque=opaque)
        pages = map(as_mapping, content)
        text = find_pages((as_string(page.get("title")), as_string(page.get("url"))) for page in pages)
        return ToolResult(call_id, text, False, VENDOR_SEARCH, hosted=self._vendor, opaque=opaque)

    def _citation(self, citation: dict[str, Any]) -> Citation | None:
        """Return a citation of a page that was found; None for any other."""
        url, index = as_string(citation.get("url")), as_string(citation.get("encrypted_index"))
        if citation.get("type") != "web_search_result_location" or not url:
            return None
        opaque = dumps({key: citation.get(key) for key in CITATION_FIELDS}).decode() if index else ""
        return Citation(url, as_string(citation.get("title")), opaque, self._vendor)

    def _delta(self, index: object, delta: dict[str, Any]) -> list[Delta]:
        block = self._blocks.get(_key(index))
        match delta.get("type"):
            case "text_delta":
                return _text_delta(delta)
            case "thinking_delta" if thought := as_string(delta.get("thinking")):
                return [ThinkingDelta(thought, vendor=self._vendor)]
            case "signature_delta" if block:
                block.signature = as_string(delta.get("signature"))
            case "citations_delta" if block and block.citations is not None:
                block.citations += filter(None, (self._citation(as_mapping(delta.get("citation"))),))
            case "input_json_delta" if block and block.hosted:
                block.pieces.append(as_string(delta.get("partial_json")))
            case "input_json_delta" if block and block.call >= 0 and (piece := as_string(delta.get("partial_json"))):
                block.arguments = ""  #  the first value was a placeholder
                return [ToolCallDelta(block.call, arguments=piece)]
        return []

    def _close_blocks(self, *indexes: object) -> list[Delta]:
        """Return the remaining deltas of blocks that end: a whole signature, arguments that came all at once."""
        deltas: list[Delta] = []
        for open_block in [self._blocks[_key(index)] for index in indexes if _key(index) in self._blocks]:
            if open_block.hosted:
                arguments = "".join(open_block.pieces) or open_block.arguments
                if is_json_object(arguments):  # else its reply was cut off
                    call = ToolCall(open_block.hosted, VENDOR_SEARCH, arguments, hosted=self._vendor)
                    deltas.append(HostedDelta(call))
                open_block.hosted = open_block.arguments = ""
            if open_block.citations is not None and (open_block.citations or self._has_searched):
                deltas.append(CitationDelta(tuple(open_block.citations)))  # it goes back as a block of its own
            open_block.citations = None
            if open_block.signature:
                deltas.append(ThinkingDelta("", open_block.signature, self._vendor))
            if open_block.arguments:
                deltas.append(ToolCallDelta(open_block.call, arguments=open_block.arguments))
            open_block.signature = open_block.arguments = ""
        return deltas

    def _store_stop(self, delta: dict[str, Any]) -> list[Delta]:
        if self._stop or not as_string(delta.get("stop_reason")):
            return []
        deltas = self._close_blocks(*self._blocks)
        self._stop = as_string(delta.get("stop_reason"))
        why = as_string(as_mapping(delta.get("stop_details")).get("explanation"))
        if self._stop == "refusal" and why and not self._has_output:
            deltas.append(TextDelta(why))
        return deltas

    def _store_counts(self, usage: dict[str, Any]) -> list[UsageUpdate]:
        """Store the server's token counts: the last report of each figure counts."""
        details = as_mapping(usage.get("output_tokens_details"))
        hour = as_mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")
        searches = as_mapping(usage.get("server_tool_use")).get("web_search_requests")
        more = ("thinking", details.get("thinking_tokens")), ("written_1h", hour), ("searches", searches)
        for name, value in (*usage.items(), *more):
            if name in self._tokens and isinstance(value, int) and 0 <= value < 2**53:
                self._tokens[name] = value
        return [UsageUpdate(self._usage(), self.request_id)] if usage else []

    def _usage(self) -> Usage:
        fresh, cached, written, output = (self._tokens[name] for name in USAGE_FIELDS)
        whole, hour = fresh + cached + written, self._tokens["written_1h"]
        more = {"written_1h": hour, "searches": self._tokens["searches"]}
        thinking = self._tokens["thinking"]
        return Usage(whole, output, cached, thinking, written, **more, reply=self._id, diagnosis=self._diagnosis)


def _as_stream(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events that a whole reply would have come in."""
    yield {"type": "message_start", "message": {key: message.get(key) for key in ("id", "usage", "diagnostics")}}
    for index, block in enumerate(map(as_mapping, as_sequence(message.get("content")))):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": message.get("stop_reason")}}
    yield {"type": "message_stop"}


def _text_delta(part: dict[str, Any]) -> list[Delta]:
    text = as_string(part.get("text"))
    return [TextDelta(text)] if text else []


def _key(index: object) -> object:
    """Return an index as a key: an integer, None for anything else."""
    return index if isinstance(index, int) else None
