"""Write the Chat Completions format of many servers: Request → body. Pure."""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from ikigai.core.events.messages import TOOL, USER, Block, Document, Image, Message, Role, Text, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import EMPTY_TEXT, CrossModelFormat
from ikigai.core.text import tokens
from ikigai.core.vendors import ChatDemand
from ikigai.providers.encoding import BodyEncoder, dumps, result_text, tool_parameters
from ikigai.providers.openai import terms
from ikigai.providers.openai.chat_thinking import REASONING_FIELDS, ReturnedThinking
from ikigai.providers.openai.terms import OPENAI_EFFORT

WantedThinking: TypeAlias = Literal["", "calls", "all"]
"""The messages of the model that its server refuses without thinking: none, those with calls, or all."""

EMPTY_REPLY = {"role": "assistant", "content": EMPTY_TEXT}
"""Stands before a message of the user for a server that wants a reply there."""


class ChatEncoder(BodyEncoder):
    """Bodies of chat completions.

    `official` servers (OpenAI's own) have another name for the output limit, and a key for their cache. `usage`
    requests the token counts. A model that does not think (`thinks`) gets no level, which it would refuse. `thinking`
    is the vendor of the thinking that goes back with messages that hold calls; `wanted` names the messages that must
    have some, even an empty one.
    `effort` is the form of a level (`core.vendors.ServerPreset`). `pdfs` says that the server takes PDFs. `demands` are
    the forms that it insists on.
    """

    pdf_rule = "openai"

    def __init__(
        self,
        official: bool = False,
        images: bool = True,
        usage: bool = True,
        *,
        thinks: bool = True,
        thinking: str = "",
        wanted: WantedThinking = "",
        effort: str = "effort",
        pdfs: bool = False,
        demands: frozenset[ChatDemand] = frozenset(),
    ) -> None:
        super().__init__(CrossModelFormat(thinking, images, pdfs, "short_ids" in demands))
        self._official = official
        self._usage = usage
        self._thinks = thinks
        self._wanted = wanted
        self._effort = effort
        is_newer = official or "max_completion_tokens" in demands
        replied = {"alternating_roles": {USER, TOOL}, "reply_after_results": {TOOL}}
        self._replied = set[Role]().union(*(replied.get(demand, ()) for demand in demands))
        self._limit_name = "max_completion_tokens" if is_newer else "max_tokens"

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
                        "parameters": tool_parameters(tool.schema),
                    },
                }
                for tool in request.tools
            ]
        if request.level and self._thinks:
            head |= self._level(request.level)
        if request.max_output:
            head[self._limit_name] = request.max_output
        if request.schema:
            head["response_format"] = {"type": "json_schema", "json_schema": terms.response_format(request.schema)}
        if self._official:
            head["prompt_cache_key"] = terms.cache_key(request)
        return head

    def _level(self, level: str) -> dict[str, Any]:
        name = OPENAI_EFFORT.get(level, level)
        match self._effort:
            case "reasoning":
                return {"reasoning": {"effort": name}}
            case "switch" if level == "off":
                return {"thinking": {"type": "disabled"}}
            case "extremes":
                return {"reasoning_effort": name if level == "off" else "high"}
            case _:
                return {"reasoning_effort": name}

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
                results += [EMPTY_REPLY] * (TOOL in self._replied)
                results.append({"role": "user", "content": [part for image in message.images for part in _part(image)]})
            return results
        if message.role is USER:
            content: str | list[dict[str, Any]] = message.text or EMPTY_TEXT
            if message.images or message.pdfs:
                content = [part for block in message.blocks for part in _part(block)]
            return [{"role": "user", "content": content}]
        return [self._reply(message)]

    def marked(self, request: Request, pieces: list[bytes]) -> list[bytes]:
        """Return the messages, with an empty reply before one of the user where the server wants any: a turn that was
        interrupted has none, say. It is not measured.
        """
        if not self._replied:
            return pieces
        roles = [message.role for message in request.messages]
        marked = pieces[:1]
        for before, role, piece in zip(roles, roles[1:], pieces[1:], strict=False):
            marked += [dumps(EMPTY_REPLY)] * (role is USER and before in self._replied) + [piece]
        return marked

    def _reply(self, message: Message) -> dict[str, Any]:
        calls = message.calls
        reply: dict[str, Any] = {"role": "assistant", "content": message.text or (None if calls else EMPTY_TEXT)}
        returned: dict[int, dict[str, Any]] = {}
        if calls or self._wanted == "all":
            thinking = ReturnedThinking(message)
            if thinking.content is not None:
                reply["content"] = thinking.content
            reply |= thinking.entry
            if self._wanted and not thinking.is_known:
                reply[REASONING_FIELDS[0]] = ""
            returned = thinking.calls
        if calls:
            reply["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                | returned.get(number, {})
                for number, call in enumerate(calls)
            ]
        return reply

    def image_tokens(self, image: Image) -> int:
        return terms.image_tokens(image) if self._official else tokens.image_tokens(image.data)


def _part(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Text(text):
            yield {"type": "text", "text": text}
        case Image(media_type, data):
            yield {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        case Document(name, data=data):
            yield {"type": "file", "file": terms.file_fields(name, data)}
        case _:
            pass
