"""Read streams in the Responses format: event → deltas. Pure, no SDK.

A reply is a row of outputs (reasoning, messages, calls). They are passed on in their order, so that thinking precedes
its result. Parts that a server leaves out of the pieces are taken from the whole item that ends them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ikigai.core.events.messages import Citation, StopReason, ToolCall, ToolResult, Usage
from ikigai.core.request.reply import (
    CitationDelta,
    Delta,
    FailureKind,
    HostedDelta,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.tools.vendor_search import VENDOR_SEARCH, find_pages
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.http import failures
from ikigai.providers.http.failures import RequestTarget, failure_in_stream
from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.openai.responses_api import PHASE_SUFFIX, reasoning_signature
from ikigai.providers.openai.responses_outputs import ResponseOutput, ResponseOutputs

DELTA_KINDS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
"""Type of an event with a piece → kind of the output that it belongs to."""

PART_SEPARATOR = "\n\n"
"""Separator of two parts of thinking, and of two messages."""

REFUSAL_CODES = frozenset(
    {
        "bio_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "image_content_policy_violation",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "invalid_prompt",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    }
)
"""Codes of refusals that a retry cannot change (the SDK's `ResponseError`); its other codes may pass."""


class ResponsesReader:
    """The state of one stream so far (`open_stream.StreamReader`): the outputs, the end marker, the usage.

    `vendor` signs the model's thoughts, `taken` are ids of earlier calls. A call without an id of its own, or with one
    that is taken, gets a new one. With `diagnoses` the server says why its cache missed. With `plain` thinking that is
    not encrypted also goes back.
    """

    def __init__(
        self,
        target: RequestTarget,
        vendor: str,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = new_id,
        diagnoses: bool = False,
        plain: bool = False,
    ) -> None:
        self.request_id = ""
        self._target = target
        self._vendor = vendor
        self._plain = plain
        self._ids = CallIds(taken, new_id)
        self._outputs = ResponseOutputs()
        self._current_message: ResponseOutput | None = None
        self._has_output = False
        self._refused = False
        self._cut = False  # within a call, which then must not run
        self._stop: StopReason | None = None
        self._usage = Usage()
        self._diagnoses = diagnoses
        self._searches = 0

    @property
    def whole(self) -> bool:
        return self._stop is not None

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. A chunk of an unknown shape has none."""
        event = as_mapping(chunk)
        kind = as_string(event.get("type"))
        response = as_mapping(event.get("response"))
        if self.whole:
            return []  # everything after the end is ignored
        if event.get("object") == "response" and not kind:  # of servers that do not stream
            return self.events({"type": f"response.{event.get('status')}", "response": event})
        if kind == "response.failed":
            return [*self._store_counts(response), self._failure(as_mapping(response.get("error")))]
        if kind == "error" or event.get("error"):
            error = event.get("error")
            return [self._failure(error if isinstance(error, dict) else {"message": error} if error else event)]
        failure = None
        if kind in DELTA_KINDS:
            self._piece(kind, event)
        elif kind == "response.output_item.added":
            self._start_output(self._outputs.output_of(event), as_mapping(event.get("item")))
        elif kind == "response.output_item.done":
            failure = self._finish_output(self._outputs.output_of(event), as_mapping(event.get("item")))
        elif kind in ("response.completed", "response.incomplete"):
            failure = self._store_response(response, kind)
        return [*self._release_outputs(), failure] if failure else list(self._release_outputs())

    def end(self) -> StreamFinished | StreamFailed:
        """Return the last event of a stream that has ended: whole only if the end marker came."""
        if self._stop is None:
            return failures.cut(self._target, self.request_id)
        return StreamFinished(self._stop, self._usage, self.request_id)

    def _piece(self, type: str, event: dict[str, Any]) -> None:
        output = self._outputs.output_of(event, DELTA_KINDS[type])
        piece = as_string(event.get("delta"))
        if output.done or output.kind != DELTA_KINDS[type] or not piece:
            return
        if output.kind == "reasoning":
            part = (type, event.get("summary_index", event.get("content_index")))
            if output.pieces and part != output.part:
                self._add(output, PART_SEPARATOR)
            output.part = part
        self._refused = self._refused or type == "response.refusal.delta"
        self._add(output, piece)

    def _add(self, output: ResponseOutput, piece: str) -> None:
        if not piece:
            return
        match output.kind:
            case "message":
                if output.phase and not output.pieces:
                    output.waiting.append(ThinkingDelta("", output.phase, self._vendor + PHASE_SUFFIX))
                output.waiting.append(TextDelta(piece))
            case "reasoning":
                output.waiting.append(ThinkingDelta(piece, vendor=self._vendor))
            case _:
                output.waiting.append(ToolCallDelta(output.call, arguments=piece))
        output.pieces.append(piece)

    def _start_output(self, output: ResponseOutput, item: dict[str, Any]) -> None:
        """Take what an output is called."""
        if output.kind == "reasoning" and not output.known and self._has_output:
            output.waiting.append(ThinkingDelta("", vendor=self._vendor))  # from here on silence is patience
        output.phase = output.phase or as_string(item.get("phase"))
        if output.kind == "function_call":
            id = "" if output.known else self._ids.own(as_string(item.get("call_id")) or as_string(item.get("id")))
            name = "" if output.name else as_string(item.get("name"))
            if id or name:
                output.waiting.append(ToolCallDelta(output.call, id, name))
            output.name = output.name or name
        output.known = True

    def _finish_output(self, output: ResponseOutput, item: dict[str, Any]) -> StreamFailed | None:
        """Fill gaps in a streamed output from its final version."""
        if output.done or output.kind != item.get("type"):
            return None
        self._start_output(output, item)
        output.done = True
        came, whole, signature = "".join(output.pieces), "", ""
        citations: tuple[Citation, ...] = ()
        match output.kind:
            case "message":
                parts = [as_mapping(part) for part in as_sequence(item.get("content"))]
                whole = "".join(as_string(part.get("text")) or as_string(part.get("refusal")) for part in parts)
                self._refused = self._refused or any(as_string(part.get("refusal")) for part in parts)
                cited = [as_mapping(each) for part in parts for each in as_sequence(part.get("annotations"))]
                citations = tuple(filter(None, map(_citation, cited)))
            case "reasoning":
                parts = as_sequence(item.get("summary")) or as_sequence(item.get("content"))
                texts = tuple(as_string(as_mapping(part).get("text")) for part in parts)
                whole = PART_SEPARATOR.join(texts)
                signature = reasoning_signature(item, self._plain)
                output.unsigned = {} if item.get("encrypted_content") else item
            case "function_call":
                whole = as_string(item.get("arguments"))
                self._cut = self._cut or item.get("status") == "incomplete"
                if whole and not whole.startswith(came) and not _same(came, whole):
                    text = f"{self._target.name} sent two versions of one tool call."
                    return StreamFailed(FailureKind.CUT, text, "Send the message again.", request_id=self.request_id)
            case "web_search_call":
                output.waiting += self._search(item)
            case _:
                return None
        if whole.startswith(came):
            self._add(output, whole[len(came) :])
        if signature:
            output.waiting.append(ThinkingDelta("", signature, self._vendor))
        if citations:
            output.waiting.append(CitationDelta(citations))
        return None

    def _search(self, item: dict[str, Any]) -> list[HostedDelta]:
        """Return a web search as call and result: the server tells its action, and the addresses that it found."""
        action = as_mapping(item.get("action"))
        kind = as_string(action.get("type"))
        asked = {name: action[name] for name in ("query", "queries", "url", "pattern") if action.get(name)}
        if "query" in asked:
            asked.pop("queries", None)
        if kind in ("search", ""):
            self._searches += 1  # only these are charged for
        pages = (("", as_string(as_mapping(source).get("url"))) for source in as_sequence(action.get("sources")))
        bare = {key: value for key, value in action.items() if key != "sources"}
        failed = item.get("status") == "failed"
        id = self._ids.own(as_string(item.get("id")))
        sent_back = {"type": "web_search_call", "id": id, "status": item.get("status") or "completed", "action": bare}
        opaque = msgspec.json.encode(sent_back).decode() if bare else ""
        text = "The search failed." if failed else find_pages(pages) if kind == "search" else "The page was read."
        call = ToolCall(id, VENDOR_SEARCH, msgspec.json.encode(asked).decode(), hosted=self._vendor)
        result = ToolResult(id, text, failed, VENDOR_SEARCH, hosted=self._vendor, opaque=opaque)
        return [HostedDelta(call), HostedDelta(result)]

    def _store_response(self, response: dict[str, Any], kind: str) -> StreamFailed | None:
        if not self._outputs.in_order():  # a server that sends no pieces
            for item in as_sequence(response.get("output")):
                event = {"item": item}
                if failure := self._finish_output(self._outputs.output_of(event), as_mapping(item)):
                    return failure
        for output in self._outputs.in_order():
            output.done = True
        self._sign_late(as_sequence(response.get("output")))
        self._store_counts(response)
        reason = as_string(as_mapping(response.get("incomplete_details")).get("reason"))
        if self._refused or (reason == "content_filter" and not self._cut):
            self._stop = StopReason.REFUSED
        elif reason or kind == "response.incomplete":
            self._stop = StopReason.LENGTH
        else:
            self._stop = StopReason.TOOLS if self._outputs.calls else StopReason.END
        return None

    def _sign_late(self, items: Iterable[object]) -> None:
        """Take the encrypted content of thinking that stands in the whole response alone, as at LiteLLM."""
        unsigned = self._outputs.without_signature()
        for item in map(as_mapping, items):
            output = unsigned.get(as_string(item.get("id")))
            if output and (encrypted := item.get("encrypted_content")):
                whole = output.unsigned | {"encrypted_content": encrypted}
                output.waiting.append(ThinkingDelta("", reasoning_signature(whole, self._plain), self._vendor))

    def _release_outputs(self) -> Iterator[Delta]:
        """Yield the waiting deltas of the outputs up to the first that is not done."""
        for output in self._outputs.in_order():
            for delta in output.waiting:
                if isinstance(delta, CitationDelta):
                    yield delta
                    continue
                if isinstance(delta, TextDelta):
                    if self._current_message not in (None, output):
                        yield TextDelta(PART_SEPARATOR)
                    self._current_message = output
                else:
                    self._current_message = None
                self._has_output = True
                yield delta
            output.waiting = []
            if not output.done:
                return

    def _store_counts(self, response: dict[str, Any]) -> list[UsageUpdate]:
        if not (usage := as_mapping(response.get("usage"))):
            return []
        inputs, outputs = (
            as_mapping(usage.get("input_tokens_details")),
            as_mapping(usage.get("output_tokens_details")),
        )
        self._usage = Usage(
            input=as_count(usage.get("input_tokens")),
            output=as_count(usage.get("output_tokens")),
            cached=as_count(inputs.get("cached_tokens")),
            thinking=as_count(outputs.get("reasoning_tokens")),
            written=as_count(inputs.get("cache_write_tokens")),
            searches=self._searches,
            reply=as_string(response.get("id")) if self._diagnoses else "",
            diagnosis=as_string(as_mapping(response.get("prompt_cache_diagnostics")).get("reason")),
        )
        return [UsageUpdate(self._usage, self.request_id)]

    def _failure(self, error: dict[str, Any]) -> StreamFailed:
        if as_string(error.get("code")) in REFUSAL_CODES:
            error = error | {"type": "invalid_request_error"}
        return failure_in_stream(self._target, {"error": error} if error else {}, self.request_id)


def _citation(annotation: dict[str, Any]) -> Citation | None:
    url = as_string(annotation.get("url"))
    if annotation.get("type") != "url_citation" or not url:
        return None
    return Citation(url, as_string(annotation.get("title")))


def _same(one: str, other: str) -> bool:
    """Return True if two texts are the same JSON."""
    try:
        return msgspec.json.decode(one) == msgspec.json.decode(other)
    except (ValueError, RecursionError):
        return False
