"""This module speaks the Chat Completions format of many servers: Request → body, chunk of a stream → deltas. Pure."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ikigai.core import tokens
from ikigai.core.messages import TOOL, USER, Block, Image, Message, StopReason, Text, ToolResult, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import EMPTY_TEXT, CrossModelFormat
from ikigai.core.request.reply import (
    Delta,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdate,
)
from ikigai.providers import failures
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import BodyEncoder, result_text
from ikigai.providers.failures import RequestTarget, failure_in_stream
from ikigai.providers.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.openai import terms
from ikigai.providers.openai.terms import OPENAI_EFFORT

CHAT_VENDOR = "openai-chat"
"""The vendor in ThinkingDelta. The format has no place for sending thoughts back."""

CHAT_STOPS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
"""finish_reason → why; any other is an ordinary end, or tools if the model called some."""


class ChatEncoder(BodyEncoder):
    """Bodies of chat completions.

    `official` servers (OpenAI's own) have another name for the output limit. `usage` requests the token counts. A model
    that does not think (`thinks`) gets no level, which it would refuse.
    """

    def __init__(self, official: bool = False, images: bool = True, usage: bool = True, *, thinks: bool = True) -> None:
        super().__init__(CrossModelFormat(images=images))
        self._official = official
        self._usage = usage
        self._thinks = thinks

    def head(self, request: Request) -> dict[str, Any]:
        head: dict[str, Any] = {"model": request.model, "stream": True}
        if self._usage:
            head["stream_options"] = {"include_usage": True}
        if request.tools:
            head["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": msgspec.json.decode(tool.schema),
                    },
                }
                for tool in request.tools
            ]
        if request.level and self._thinks:
            head["reasoning_effort"] = OPENAI_EFFORT.get(request.level, request.level)
        if request.max_output:
            head["max_completion_tokens" if self._official else "max_tokens"] = request.max_output
        if request.schema:
            head["response_format"] = {"type": "json_schema", "json_schema": terms.response_format(request.schema)}
        return head

    def preface(self, request: Request) -> list[Any]:
        return [{"role": "system", "content": request.system}] if request.system else []

    def entries(self, message: Message) -> list[Any]:
        if message.role is TOOL:
            results: list[dict[str, Any]] = [
                {"role": "tool", "tool_call_id": block.call_id, "content": result_text(block)}
                for block in message.blocks
                if type(block) is ToolResult
            ]
            if message.images:  # results hold text alone: their images follow right after them
                results.append({"role": "user", "content": [part for image in message.images for part in _part(image)]})
            return results
        if message.role is USER:
            content: str | list[dict[str, Any]] = message.text or EMPTY_TEXT
            if message.images:
                content = [part for block in message.blocks for part in _part(block)]
            return [{"role": "user", "content": content}]
        if not (calls := message.calls):
            return [{"role": "assistant", "content": message.text or EMPTY_TEXT}]
        return [
            {
                "role": "assistant",
                "content": message.text or None,
                "tool_calls": [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in calls
                ],
            }
        ]

    def image_tokens(self, image: Image) -> int:
        return terms.image_tokens(image) if self._official else tokens.image_tokens(image.data)


def _part(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Text(text):
            yield {"type": "text", "text": text}
        case Image(media_type, data):
            yield {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        case _:
            pass


class _Call:
    """A call that has begun: its index and id on the wire, and the name that was passed on."""

    def __init__(self, index: int | None, id: str) -> None:
        self.index = index
        self.id = id
        self.name = ""


class ChatReader:
    """The state of one stream so far (`streaming.StreamReader`): the calls begun, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self, target: RequestTarget, taken: frozenset[str] = frozenset(), new_id: Callable[[], str] = new_id
    ) -> None:
        self.request_id = ""
        self._target = target
        self._finish = ""
        self._ids = CallIds(taken, new_id)
        self._calls: list[_Call] = []
        self._refused = False
        self._usage = Usage()

    @property
    def whole(self) -> bool:
        return bool(self._finish)

    def events(self, chunk: object) -> list[Delta | UsageUpdate | StreamFailed]:
        """Return the events of one chunk; a StreamFailed is the last. A chunk of an unknown shape has none."""
        if not isinstance(chunk, dict):
            return []
        if chunk.get("error") or chunk.get("object") == "error":
            return [failure_in_stream(self._target, chunk, self.request_id)]
        events: list[Delta | UsageUpdate | StreamFailed] = []
        for choice in as_sequence(chunk.get("choices"))[:1]:
            events += self._deltas(as_mapping(choice))
        if usage := as_mapping(chunk.get("usage")):
            self._usage = _read_usage(usage)
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
        if thought := as_string(delta.get("reasoning_content")) or as_string(delta.get("reasoning")):
            yield ThinkingDelta(thought, vendor=CHAT_VENDOR)
        if text := as_string(delta.get("content")):
            yield TextDelta(text)
        if refusal := as_string(delta.get("refusal")):
            self._refused = True
            yield TextDelta(refusal)
        for call in as_sequence(delta.get("tool_calls")):
            if isinstance(call, dict):
                yield self._call(call)
        self._finish = as_string(choice.get("finish_reason"))

    def _call(self, delta: dict[str, Any]) -> ToolCallDelta:
        index = delta.get("index") if isinstance(delta.get("index"), int) else None
        id = as_string(delta.get("id"))
        function = as_mapping(delta.get("function"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            arguments = json.dumps(arguments)
        call, fresh_id = self._find_call(index, id), ""
        if call is None:
            call = _Call(index, id)
            self._calls.append(call)
            fresh_id = self._ids.own(id)
        name = as_string(function.get("name"))
        if name == call.name:  # some servers repeat it with every piece
            name = ""
        call.name += name
        return ToolCallDelta(self._calls.index(call), fresh_id, name, as_string(arguments))

    def _find_call(self, index: int | None, id: str) -> _Call | None:
        """Return the call that a piece belongs to, None if it begins one.

        Some servers leave out the index, or give the same one to all calls; there the id decides.
        """
        for call in reversed(self._calls):
            same_index = index is None or call.index == index
            if same_index and (not id or not call.id or call.id == id):
                return call
        return None


def _read_usage(usage: dict[str, Any]) -> Usage:
    prompt = as_mapping(usage.get("prompt_tokens_details"))
    return Usage(
        input=as_count(usage.get("prompt_tokens")),
        output=as_count(usage.get("completion_tokens")),
        cached=as_count(prompt.get("cached_tokens")),
        thinking=as_count(as_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        written=as_count(prompt.get("cache_write_tokens")),
    )
