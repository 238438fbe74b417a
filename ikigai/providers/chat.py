"""The Chat Completions format, which many servers speak: Request → body, chunk of a stream → deltas. Pure, no SDK."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import msgspec

from ikigai.core.messages import Message, Role, StopReason, ToolResult, Usage
from ikigai.core.reply import Broke, Delta, Failure, Finished, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.request import Request
from ikigai.providers.failures import Target, reported

VENDOR = "openai-chat"
"""Who thought, in ThinkingDelta. The format has no place for sending thoughts back."""

EFFORT = {"off": "none", "min": "minimal", "med": "medium"}
"""Levels whose name here is not the format's; every other level goes by its own name."""

EMPTY = "[empty]"
"""What stands for no words at all: several servers refuse a message without content."""

STOPS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
"""finish_reason → why; whatever else a server says is an ordinary end, or tools when it called some."""

dumps = msgspec.json.encode


def wire(request: Request, official: bool = False, usage: bool = True) -> dict[str, Any]:
    """The body of a request. `official` servers (OpenAI's own) call the output limit otherwise; `usage` asks for it."""
    body: dict[str, Any] = {"model": request.model, "messages": [], "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    if request.system:
        body["messages"].append({"role": "system", "content": request.system})
    for message in request.messages:
        body["messages"] += parts(message)
    if request.tools:
        body["tools"] = [
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
    if request.level:
        body["reasoning_effort"] = EFFORT.get(request.level, request.level)
    if request.max_output:
        body["max_completion_tokens" if official else "max_tokens"] = request.max_output
    return body


def parts(message: Message) -> list[dict[str, Any]]:
    """What one message is in the body's list: one entry, or one for each tool result."""
    if message.role is Role.TOOL:
        return [
            {"role": "tool", "tool_call_id": block.call_id, "content": block.content or EMPTY}
            for block in message.blocks
            if isinstance(block, ToolResult)
        ]
    if not (calls := message.calls):
        return [{"role": message.role.value, "content": message.text or EMPTY}]
    return [
        {
            "role": message.role.value,
            "content": message.text or None,
            "tool_calls": [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ],
        }
    ]


class ChatEncoder:
    """How big things are in the body of a chat completion (`core.ports.Encoder`)."""

    def __init__(self, official: bool = False) -> None:
        self._official = official

    def envelope(self, request: Request) -> int:
        bare = wire(msgspec.structs.replace(request, messages=()), self._official)
        return len(dumps(bare)) - (not bare["messages"])

    def message(self, message: Message) -> int:
        return sum(1 + len(dumps(part)) for part in parts(message))


class _Call:
    """A call that has begun: where it stands on the wire, and what of it was passed on."""

    def __init__(self, at: int | None, id: str) -> None:
        self.at = at
        self.id = id
        self.name = ""


class Reading:
    """What has been read of one stream so far: the calls begun, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self,
        target: Target,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = lambda: f"call_{uuid4().hex[:24]}",
    ) -> None:
        self.target = target
        self.opened = False
        self.started = False
        self.finish = ""
        self.request_id = ""
        self._taken = set(taken)
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._refused = False
        self._usage = Usage()

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if the end marker came."""
        if not self.finish:
            return Broke(
                Failure.CUT,
                f"The reply of {self.target.name} ended before it was complete.",
                "Send the message again.",
                request_id=self.request_id,
            )
        stop = StopReason.REFUSED if self._refused else STOPS.get(self.finish, StopReason.END)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return Finished(stop, self._usage, self.request_id)

    def deltas(self, choice: dict[str, Any]) -> Iterator[Delta]:
        """What a choice adds; the first finish_reason ends it, and what a server says after that is not believed."""
        if self.finish:
            return
        delta = _dict(choice.get("delta"))
        if thought := _str(delta.get("reasoning_content")) or _str(delta.get("reasoning")):
            yield ThinkingDelta(thought, vendor=VENDOR)
        if said := _str(delta.get("content")):
            yield TextDelta(said)
        if refusal := _str(delta.get("refusal")):
            self._refused = True
            yield TextDelta(refusal)
        for call in _list(delta.get("tool_calls")):
            if isinstance(call, dict):
                yield self._call(call)
        self.finish = _str(choice.get("finish_reason"))

    def count(self, usage: dict[str, Any]) -> None:
        """Take the tokens as the server counted them; the last report stands."""
        if usage:
            self._usage = Usage(
                input=_count(usage.get("prompt_tokens")),
                output=_count(usage.get("completion_tokens")),
                cached=_count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
                thinking=_count(_dict(usage.get("completion_tokens_details")).get("reasoning_tokens")),
            )

    def _call(self, delta: dict[str, Any]) -> ToolCallDelta:
        at = delta.get("index") if isinstance(delta.get("index"), int) else None
        id = _str(delta.get("id"))
        function = _dict(delta.get("function"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            arguments = json.dumps(arguments)
        call, given = self._begun(at, id), ""
        if call is None:
            call = _Call(at, id)
            self._calls.append(call)
            given = id if id and id not in self._taken else self._new_id()
            self._taken.add(given)
        name = _str(function.get("name"))
        if name == call.name:  # some servers repeat it with every piece
            name = ""
        call.name += name
        return ToolCallDelta(self._calls.index(call), given, name, _str(arguments))

    def _begun(self, at: int | None, id: str) -> _Call | None:
        """The call that a piece belongs to, None if it begins one.

        Servers that leave out the index, or give the same one to all, are understood by the id.
        """
        for call in reversed(self._calls):
            same_place = at is None or call.at == at
            if same_place and (not id or not call.id or call.id == id):
                return call
        return None


def events(chunk: object, reading: Reading) -> list[Delta | Broke]:
    """What one chunk of a stream says; a Broke is the last. A chunk of an unknown shape says nothing."""
    if not isinstance(chunk, dict):
        return []
    if chunk.get("error") or chunk.get("object") == "error":
        return [reported(reading.target, chunk, reading.request_id)]
    found: list[Delta | Broke] = []
    for choice in _list(chunk.get("choices"))[:1]:
        found += reading.deltas(_dict(choice))
    reading.count(_dict(chunk.get("usage")))
    reading.started = reading.started or bool(found)
    if reading.finish == "error":
        found.append(reported(reading.target, chunk, reading.request_id))
    return found


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0
