"""Read streams of the Chat Completions format, as many servers speak it: chunk → deltas. Pure."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from ikigai.core.events.messages import StopReason, Usage
from ikigai.core.request.reply import (
    Delta,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.core.vendors import CostField
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.http import failures
from ikigai.providers.http.failures import RequestTarget, failure_in_stream
from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.openai.chat_call import ChatCall
from ikigai.providers.openai.chat_thinking import (
    CHAT_VENDOR,
    CONTENT_FIELD,
    REASONING_FIELDS,
    ReturnedFields,
    chat_vendor,
    join_details,
    undefined_fields,
)
from ikigai.providers.openai.think_tags import ThinkTags

CHAT_STOPS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
"""finish_reason → why; any other is an ordinary end, or tools if the model called some."""


SEPARATORS = " \t\r\n,;"
"""Characters between the arguments of two calls that come in one text."""


class ChatReader:
    """The state of one stream so far (`open_stream.StreamReader`): the calls begun, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one. The
    usage names the cost in `cost_field`. `tools` are the names of the tools that the request offers.
    """

    def __init__(
        self,
        target: RequestTarget,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = new_id,
        *,
        cost_field: CostField = "",
        tools: frozenset[str] = frozenset(),
    ) -> None:
        self.request_id = ""
        self._target = target
        self._finish = ""
        self._ids = CallIds(taken, new_id)
        self._tools = tools
        self._calls: list[ChatCall] = []
        self._refused = False
        self._cost_field: CostField = cost_field
        self._usage = Usage()
        self._vendor = chat_vendor(target.name, target.model)
        self._tags = ThinkTags()
        self._field = ""  # the place of the thinking under way
        self._empty_field = ""  # the place of thinking without words
        self._details: list[dict[str, Any]] = []
        self._has_content = False

    @property
    def whole(self) -> bool:
        return bool(self._finish)

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. A chunk of an unknown shape has none."""
        if not isinstance(chunk, dict):
            return []
        if chunk.get("error") or "error" in (chunk.get("object"), chunk.get("type")):
            return [failure_in_stream(self._target, chunk, self.request_id)]
        events: list[Delta | UsageUpdate | StreamFailed] = []
        for choice in as_sequence(chunk.get("choices"))[:1]:
            events += self._deltas(as_mapping(choice))
        if usage := _find_usage(chunk):
            self._usage = _read_usage(usage, self._cost_field)
            if not self._finish:
                events.append(UsageUpdate(self._usage, self.request_id))
        if self._finish == "error":
            events.append(failure_in_stream(self._target, chunk, self.request_id))
        return events

    def end(self) -> StreamFinished | StreamFailed:
        """Return the last event of a stream that has ended: whole only if the end marker came."""
        if not self._finish:
            return failures.cut(self._target, self.request_id)
        stop = StopReason.REFUSED if self._refused else CHAT_STOPS.get(self._finish, StopReason.END)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return StreamFinished(stop, self._usage, self.request_id)

    def _deltas(self, choice: dict[str, Any]) -> Iterator[Delta]:
        """Yield the deltas of a choice; the first finish_reason ends it, and everything after it is ignored."""
        if self._finish:
            return
        delta = as_mapping(choice.get("delta"))
        if not delta and not self._has_content:  # of servers that do not stream
            delta = as_mapping(choice.get("message"))
        content, calls = delta.get("content"), as_sequence(delta.get("tool_calls"))
        if isinstance(function := delta.get("function_call"), dict):  # the form before tool_calls
            calls = [*calls, {"index": 0, "function": function}]
        self._has_content = self._has_content or bool(content or calls)
        yield from self._reasoning(delta)
        if text := as_string(content):
            yield from self._text(text)
        for part in as_sequence(content):
            yield from self._part(as_mapping(part))
        if refusal := as_string(delta.get("refusal")):
            self._refused = True
            yield from self._end_thinking()
            yield TextDelta(refusal)
        begun = len(self._calls)
        for call in calls:
            if isinstance(call, dict):
                yield from self._call(call, self._calls[begun:])
        self._finish = as_string(choice.get("finish_reason"))
        if self._finish:
            yield from self._end_thinking()

    def _reasoning(self, delta: dict[str, Any]) -> Iterator[Delta]:
        join_details(self._details, map(as_mapping, as_sequence(delta.get("reasoning_details"))))
        for field in REASONING_FIELDS:
            if isinstance(thought := delta.get(field), str):
                self._empty_field = self._empty_field or field
                if thought:
                    self._field = field
                    yield ThinkingDelta(thought, vendor=self._vendor)
                    return

    def _part(self, part: dict[str, Any]) -> Iterator[Delta]:
        """Yield the deltas of one part of a content that is a list."""
        if part.get("type") != "thinking":
            if text := as_string(part.get("text")):
                yield from self._text(text)
            return
        inner = part.get("thinking")
        texts = [as_string(as_mapping(one).get("text")) for one in as_sequence(inner)] or [as_string(inner)]
        if thought := "".join(texts):
            self._field = CONTENT_FIELD
            yield ThinkingDelta(thought, vendor=self._vendor)

    def _text(self, text: str) -> Iterator[Delta]:
        for is_thinking, piece in self._tags.feed(text):
            if is_thinking:  # not sent back: templates of such models take it out of earlier replies
                yield ThinkingDelta(piece, vendor=CHAT_VENDOR)
            else:
                yield from self._sign_thinking()
                yield TextDelta(piece)

    def _end_thinking(self, is_call: bool = False) -> Iterator[Delta]:
        """Yield the rest of text and thinking, before something else; before a call even thinking without words."""
        for is_thinking, piece in self._tags.finish():
            yield ThinkingDelta(piece, vendor=CHAT_VENDOR) if is_thinking else TextDelta(piece)
        if is_call and not self._field:
            self._field = self._empty_field
        yield from self._sign_thinking()

    def _sign_thinking(self) -> Iterator[Delta]:
        """Yield the end of the thinking so far, with what its server wants back."""
        if self._details:
            yield self._returned(ReturnedFields(details=tuple(self._details)))
        elif self._field:
            yield self._returned(ReturnedFields(self._field))
        self._field, self._details = "", []

    def _returned(self, fields: ReturnedFields) -> ThinkingDelta:
        self._empty_field = ""
        return ThinkingDelta("", fields.signature, self._vendor)

    def _call(self, delta: dict[str, Any], together: list[ChatCall]) -> Iterator[Delta]:
        """Yield the deltas of one entry; `together` are the calls that the same chunk began before it."""
        index = delta.get("index") if isinstance(delta.get("index"), int) else None
        id = as_string(delta.get("id"))
        function = as_mapping(delta.get("function"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            arguments = json.dumps(arguments)
        name, arguments = as_string(function.get("name")), as_string(arguments)
        call = self._find_call(index, id)
        if call and self._is_another(call, id, name, together):
            call = None
        elif call and id and call.is_complete and arguments == call.arguments:
            return  # some servers repeat a whole call in the end
        fields = undefined_fields(delta)
        while True:
            fresh_id = ""
            following = arguments.lstrip(SEPARATORS)
            if call is None or (call.is_complete and following.startswith("{")):
                arguments = following if call else arguments
                yield from self._end_thinking(is_call=not self._calls)
                name = name or (call.name if call else "")
                call, fresh_id = ChatCall(index, id), self._ids.own(id)
                self._calls.append(call)
            number = self._calls.index(call)
            if (joined := call.fields | fields) != call.fields:
                call.fields = joined
                yield self._returned(ReturnedFields(call=number, fields=joined))
            name = "" if name == call.name else name  # some servers repeat it with every piece
            call.name += name
            piece = call.take(arguments)
            yield ToolCallDelta(number, fresh_id, name, piece)
            name, id, fields, arguments = "", "", {}, arguments[len(piece) :]
            if not arguments.strip():
                return

    def _is_another(self, call: ChatCall, id: str, name: str, together: list[ChatCall]) -> bool:
        """Return True if a piece that goes by its index to a call begins another one: some servers give all calls the
        same index and no id.

        A name begins a call behind arguments, and behind a name that is a tool's. Else it may be the rest of a name.
        """
        if not name:
            return False
        if name == call.name:
            return call in together and not id and (call.is_complete or not call.arguments)
        return bool(call.arguments) or {name, call.name} <= self._tools

    def _find_call(self, index: int | None, id: str) -> ChatCall | None:
        """Return the call that a piece belongs to, None if it begins one.

        Some servers leave out the index, or give the same one to all calls; there the id decides.
        """
        found = [call for call in reversed(self._calls) if index is None or call.index == index]
        same = (call for call in found if id and call.id == id)
        return next(same, None) or next((call for call in found if not id or not call.id), None)


def _find_usage(chunk: dict[str, Any]) -> dict[str, Any]:
    """Return the usage in a chunk: at its usual place, at Moonshot's in the choice, or at Groq's in `x_groq`."""
    choice = as_mapping(next(iter(as_sequence(chunk.get("choices"))), None))
    places = (chunk, choice, as_mapping(chunk.get("x_groq")))
    return next((usage for place in places if (usage := as_mapping(place.get("usage")))), {})


def _read_usage(usage: dict[str, Any], cost_field: CostField) -> Usage:
    """Return the usage. xAI counts thinking beside the reply, within the total alone."""
    prompt = as_mapping(usage.get("prompt_tokens_details"))
    cached = (prompt.get("cached_tokens"), *(usage.get(name) for name in CACHED_FIELDS))
    input, output = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
    thinking = as_count(as_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if as_count(usage.get("total_tokens")) == input + output + thinking:
        output += thinking
    return Usage(
        input=input,
        output=output,
        cached=max(map(as_count, cached)),
        thinking=thinking,
        written=as_count(prompt.get("cache_write_tokens")),
        cost=_read_cost(usage, cost_field),
    )


CACHED_FIELDS = ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens")
"""Places of the cached tokens besides the usual one: of Moonshot and Together, of DeepSeek, of Mistral."""


def _read_cost(usage: dict[str, Any], field: CostField) -> float | None:
    """Return the cost in dollars. With a key of the user's own, OpenRouter names its fee and the vendor's price."""
    parts: list[Any] = [usage.get(field)]
    if usage.get("is_byok") is True:
        parts.append(as_mapping(usage.get("cost_details")).get("upstream_inference_cost"))
    if not field or any(type(part) not in (int, float) for part in parts):
        return None
    cost = sum(parts) / (TICKS_PER_DOLLAR if field == "cost_in_usd_ticks" else 1)
    return cost if 0 <= cost < MAX_COST else None


TICKS_PER_DOLLAR = 10_000_000_000
MAX_COST = 1e6
"""Dollars from which a figure is no cost of one request."""
