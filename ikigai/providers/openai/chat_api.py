"""The Chat Completions format, which many servers speak: Request → body, chunk of a stream → deltas. Pure, no SDK."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ikigai.core import tokens
from ikigai.core.messages import TOOL, USER, Block, Image, Message, StopReason, Text, ToolResult, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import EMPTY, Dialect
from ikigai.core.request.reply import Broke, Counted, Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.providers import failures
from ikigai.providers.call_ids import CallIds, new_id
from ikigai.providers.encoding import BodyEncoder, told
from ikigai.providers.failures import Target, reported
from ikigai.providers.json_shape import mapping, number, sequence, string
from ikigai.providers.openai import terms as openai_terms
from ikigai.providers.openai.terms import EFFORT

VENDOR = "openai-chat"
"""Who thought, in ThinkingDelta. The format has no place for sending thoughts back."""

STOPS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
"""finish_reason → why; whatever else a server says is an ordinary end, or tools when it called some."""


class ChatEncoder(BodyEncoder):
    """Bodies of chat completions.

    `official` servers (OpenAI's own) call the output limit otherwise; `usage` asks for the counts of tokens; a model
    that does not think (`thinks`) is told no level, which it would refuse.
    """

    def __init__(self, official: bool = False, images: bool = True, usage: bool = True, *, thinks: bool = True) -> None:
        super().__init__(Dialect(images=images))
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
            head["reasoning_effort"] = EFFORT.get(request.level, request.level)
        if request.max_output:
            head["max_completion_tokens" if self._official else "max_tokens"] = request.max_output
        if request.schema:
            head["response_format"] = {"type": "json_schema", "json_schema": openai_terms.form(request.schema)}
        return head

    def preface(self, request: Request) -> list[Any]:
        return [{"role": "system", "content": request.system}] if request.system else []

    def entries(self, message: Message) -> list[Any]:
        if message.role is TOOL:
            results: list[dict[str, Any]] = [
                {"role": "tool", "tool_call_id": block.call_id, "content": told(block)}
                for block in message.blocks
                if type(block) is ToolResult
            ]
            if message.images:  # results hold words alone: what they show comes right behind them
                results.append({"role": "user", "content": [part for image in message.images for part in _part(image)]})
            return results
        if message.role is USER:
            content: str | list[dict[str, Any]] = message.text or EMPTY
            if message.images:
                content = [part for block in message.blocks for part in _part(block)]
            return [{"role": "user", "content": content}]
        if not (calls := message.calls):
            return [{"role": "assistant", "content": message.text or EMPTY}]
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
        return openai_terms.image_tokens(image) if self._official else tokens.image(image.data)


def _part(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Text(text):
            yield {"type": "text", "text": text}
        case Image(media_type, data):
            yield {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        case _:
            pass


class _Call:
    """A call that has begun: where it stands on the wire, and what of it was passed on."""

    def __init__(self, at: int | None, id: str) -> None:
        self.at = at
        self.id = id
        self.name = ""


class ChatReader:
    """What has been read of one stream so far (`streaming.Reader`): the calls begun, the end marker, the usage.

    `taken` are ids of earlier calls. A call without an id of its own, or with one that is taken, gets a new one.
    """

    def __init__(
        self,
        target: Target,
        taken: frozenset[str] = frozenset(),
        new_id: Callable[[], str] = new_id,
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

    def events(self, chunk: object) -> list[Delta | Counted | Broke]:
        """What one chunk of a stream says; a Broke is the last. A chunk of an unknown shape says nothing."""
        if not isinstance(chunk, dict):
            return []
        if chunk.get("error") or chunk.get("object") == "error":
            return [reported(self._target, chunk, self.request_id)]
        found: list[Delta | Counted | Broke] = []
        for choice in sequence(chunk.get("choices"))[:1]:
            found += self._deltas(mapping(choice))
        if usage := mapping(chunk.get("usage")):
            self._usage = _counted(usage)
            if not self._finish:
                found.append(Counted(self._usage, self.request_id))
        if self._finish == "error":
            found.append(reported(self._target, chunk, self.request_id))
        return found

    def end(self) -> Finished | Broke:
        """The last event of a stream that has ended: whole only if the end marker came."""
        if not self._finish:
            return failures.cut(self._target, self.request_id)
        stop = StopReason.REFUSED if self._refused else STOPS.get(self._finish, StopReason.END)
        if self._calls and stop is StopReason.END:
            stop = StopReason.TOOLS
        return Finished(stop, self._usage, self.request_id)

    def _deltas(self, choice: dict[str, Any]) -> Iterator[Delta]:
        """What a choice adds; the first finish_reason ends it, and what a server says after that is not believed."""
        if self._finish:
            return
        delta = mapping(choice.get("delta"))
        if thought := string(delta.get("reasoning_content")) or string(delta.get("reasoning")):
            yield ThinkingDelta(thought, vendor=VENDOR)
        if said := string(delta.get("content")):
            yield TextDelta(said)
        if refusal := string(delta.get("refusal")):
            self._refused = True
            yield TextDelta(refusal)
        for call in sequence(delta.get("tool_calls")):
            if isinstance(call, dict):
                yield self._call(call)
        self._finish = string(choice.get("finish_reason"))

    def _call(self, delta: dict[str, Any]) -> ToolCallDelta:
        at = delta.get("index") if isinstance(delta.get("index"), int) else None
        id = string(delta.get("id"))
        function = mapping(delta.get("function"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            arguments = json.dumps(arguments)
        call, given = self._begun(at, id), ""
        if call is None:
            call = _Call(at, id)
            self._calls.append(call)
            given = self._ids.own(id)
        name = string(function.get("name"))
        if name == call.name:  # some servers repeat it with every piece
            name = ""
        call.name += name
        return ToolCallDelta(self._calls.index(call), given, name, string(arguments))

    def _begun(self, at: int | None, id: str) -> _Call | None:
        """The call that a piece belongs to, None if it begins one.

        Servers that leave out the index, or give the same one to all, are understood by the id.
        """
        for call in reversed(self._calls):
            same_place = at is None or call.at == at
            if same_place and (not id or not call.id or call.id == id):
                return call
        return None


def _counted(usage: dict[str, Any]) -> Usage:
    prompt = mapping(usage.get("prompt_tokens_details"))
    return Usage(
        input=number(usage.get("prompt_tokens")),
        output=number(usage.get("completion_tokens")),
        cached=number(prompt.get("cached_tokens")),
        thinking=number(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        written=number(prompt.get("cache_write_tokens")),
    )
