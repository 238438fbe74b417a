"""Streams in the Responses format: event → deltas. Pure, no SDK.

A reply is a row of outputs (reasoning, messages, calls). They are passed on in their order, so that thinking stays in
front of what it led to; what a server leaves out of the pieces is taken from the whole that ends them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ikigai.core.messages import StopReason, Usage
from ikigai.core.request.reply import (
    Broke,
    Counted,
    Delta,
    Failure,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from ikigai.providers import failures
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.failures import Target, reported
from ikigai.providers.json_shape import mapping, number, sequence, string
from ikigai.providers.openai.responses_api import PHASE, Reasoning
from ikigai.providers.openai.responses_outputs import Output, Outputs

PIECES = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
"""Type of an event that brings a piece → what kind of output it is a piece of."""

BREAK = "\n\n"
"""Between two parts of thinking, and between two messages."""

REFUSALS = frozenset(
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
"""Codes with which a request will fail again (the SDK's `ResponseError`); its other codes may pass."""


class ResponsesReader:
    """What has been read of one stream so far (`streaming.Reader`): the outputs, the end marker, the usage.

    `vendor` is what the model's thoughts are signed with, `taken` are ids of earlier calls. A call without an id of its
    own, or with one that is taken, gets a new one.
    """

    def __init__(
        self,
        target: Target,
        vendor: str,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self.request_id = ""
        self._target = target
        self._vendor = vendor
        self._ids = CallIds(taken, new_id)
        self._outputs = Outputs()
        self._speaking: Output | None = None
        self._shown = False
        self._refused = False
        self._cut = False  # within a call, which then must not run
        self._stop: StopReason | None = None
        self._usage = Usage()

    @property
    def whole(self) -> bool:
        return self._stop is not None

    def events(self, chunk: object) -> list[Delta | Counted | Broke]:
        """What one event of a stream says; a Broke is the last. An event of an unknown shape says nothing."""
        event = mapping(chunk)
        kind = string(event.get("type"))
        response = mapping(event.get("response"))
        if self.whole:
            return []  # what a server says after the end is not believed
        if kind == "response.failed":
            return [*self._counted(response), self._failed(mapping(response.get("error")))]
        if kind == "error" or event.get("error"):
            error = event.get("error")
            return [self._failed(error if isinstance(error, dict) else {"message": error} if error else event)]
        broke = None
        if kind in PIECES:
            self._piece(kind, event)
        elif kind == "response.output_item.added":
            self._begun(self._outputs.about(event), mapping(event.get("item")))
        elif kind == "response.output_item.done":
            broke = self._ended(self._outputs.about(event), mapping(event.get("item")))
        elif kind in ("response.completed", "response.incomplete"):
            broke = self._completed(response, kind)
        return [*self._through(), broke] if broke else list(self._through())

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if the end marker came."""
        if self._stop is None:
            return failures.cut(self._target, self.request_id)
        return Finished(self._stop, self._usage, self.request_id)

    def _piece(self, type: str, event: dict[str, Any]) -> None:
        output = self._outputs.about(event, PIECES[type])
        piece = string(event.get("delta"))
        if output.done or output.kind != PIECES[type] or not piece:
            return
        if output.kind == "reasoning":
            part = (type, event.get("summary_index", event.get("content_index")))
            if output.came and part != output.part:
                self._add(output, BREAK)
            output.part = part
        self._refused = self._refused or type == "response.refusal.delta"
        self._add(output, piece)

    def _add(self, output: Output, piece: str) -> None:
        if not piece:
            return
        match output.kind:
            case "message":
                if output.phase and not output.came:
                    output.waiting.append(ThinkingDelta("", output.phase, self._vendor + PHASE))
                output.waiting.append(TextDelta(piece))
            case "reasoning":
                output.waiting.append(ThinkingDelta(piece, vendor=self._vendor))
            case _:
                output.waiting.append(ToolCallDelta(output.call, arguments=piece))
        output.came.append(piece)

    def _begun(self, output: Output, item: dict[str, Any]) -> None:
        """Take what an output is called."""
        if output.kind == "reasoning" and not output.known and self._shown:
            output.waiting.append(ThinkingDelta("", vendor=self._vendor))  # from here on silence is patience
        output.phase = output.phase or string(item.get("phase"))
        if output.kind == "function_call":
            id = "" if output.known else self._ids.own(string(item.get("call_id")) or string(item.get("id")))
            name = "" if output.name else string(item.get("name"))
            if id or name:
                output.waiting.append(ToolCallDelta(output.call, id, name))
            output.name = output.name or name
        output.known = True

    def _ended(self, output: Output, item: dict[str, Any]) -> Broke | None:
        """Take what is missing of an output from the whole of it."""
        if output.done or output.kind != item.get("type"):
            return None
        self._begun(output, item)
        output.done = True
        came, whole, signature = "".join(output.came), "", ""
        match output.kind:
            case "message":
                parts = [mapping(part) for part in sequence(item.get("content"))]
                whole = "".join(string(part.get("text")) or string(part.get("refusal")) for part in parts)
                self._refused = self._refused or any(string(part.get("refusal")) for part in parts)
            case "reasoning":
                parts = sequence(item.get("summary")) or sequence(item.get("content"))
                texts = tuple(string(mapping(part).get("text")) for part in parts)
                whole = BREAK.join(texts)
                signature = _signature(item)
            case "function_call":
                whole = string(item.get("arguments"))
                self._cut = self._cut or item.get("status") == "incomplete"
                if whole and not whole.startswith(came) and not _same(came, whole):
                    text = f"{self._target.name} sent a call in two versions."
                    return Broke(Failure.CUT, text, "Send the message again.", request_id=self.request_id)
            case _:
                return None
        if whole.startswith(came):
            self._add(output, whole[len(came) :])
        if signature:
            output.waiting.append(ThinkingDelta("", signature, self._vendor))
        return None

    def _completed(self, response: dict[str, Any], kind: str) -> Broke | None:
        if not self._outputs.in_order():  # a server that sends no pieces
            for item in sequence(response.get("output")):
                event = {"item": item}
                if broke := self._ended(self._outputs.about(event), mapping(item)):
                    return broke
        for output in self._outputs.in_order():
            output.done = True
        self._counted(response)
        reason = string(mapping(response.get("incomplete_details")).get("reason"))
        if self._refused or (reason == "content_filter" and not self._cut):
            self._stop = StopReason.REFUSED
        elif reason or kind == "response.incomplete":
            self._stop = StopReason.LENGTH
        else:
            self._stop = StopReason.TOOLS if self._outputs.calls else StopReason.END
        return None

    def _through(self) -> Iterator[Delta]:
        """What waits of the outputs up to the first that is not done."""
        for output in self._outputs.in_order():
            for delta in output.waiting:
                if isinstance(delta, TextDelta):
                    if self._speaking not in (None, output):
                        yield TextDelta(BREAK)
                    self._speaking = output
                else:
                    self._speaking = None
                self._shown = True
                yield delta
            output.waiting = []
            if not output.done:
                return

    def _counted(self, response: dict[str, Any]) -> list[Counted]:
        if not (usage := mapping(response.get("usage"))):
            return []
        given, made = mapping(usage.get("input_tokens_details")), mapping(usage.get("output_tokens_details"))
        self._usage = Usage(
            input=number(usage.get("input_tokens")),
            output=number(usage.get("output_tokens")),
            cached=number(given.get("cached_tokens")),
            thinking=number(made.get("reasoning_tokens")),
            written=number(given.get("cache_write_tokens")),
        )
        return [Counted(self._usage, self.request_id)]

    def _failed(self, error: dict[str, Any]) -> Broke:
        if string(error.get("code")) in REFUSALS:
            error = error | {"type": "invalid_request_error"}
        return reported(self._target, {"error": error} if error else {}, self.request_id)


def _signature(item: dict[str, Any]) -> str:
    """All that the API wants back of a reasoning item; "" where the server gave nothing to send back."""
    encrypted = string(item.get("encrypted_content"))
    if not encrypted:
        return ""
    summary = tuple(string(mapping(part).get("text")) for part in sequence(item.get("summary")))
    return msgspec.json.encode(Reasoning(string(item.get("id")), summary, encrypted)).decode()


def _same(one: str, other: str) -> bool:
    """Whether two texts are the same JSON."""
    try:
        return msgspec.json.decode(one) == msgspec.json.decode(other)
    except (ValueError, RecursionError):
        return False
