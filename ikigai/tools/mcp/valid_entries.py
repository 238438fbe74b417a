"""Leave invalid entries out of the lists and results that an MCP server sends.

The SDK refuses a whole list, or a whole result, for one entry that does not follow the protocol. The messages pass here
before it sees them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import parse_server_result
from pydantic import ValidationError

from ikigai.tools.mcp.host_messages import InvalidEntry

LISTS = {
    "tools/list": ("tools", "tool"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "resource"),
    "prompts/list": ("prompts", "prompt"),
}
"""The methods that list something: the field with the list, and the kind of its entries."""
RESULTS = {"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}
"""The methods with a result: the field with its parts."""
MAX_INVALID_ENTRIES = 1_000
MAX_NAME_CHARACTERS = 200


class ValidEntries:
    """The filter of one connection. `version` returns the version of the protocol that is spoken."""

    def __init__(self, version: Callable[[], str]) -> None:
        self._version = version
        self._asked = dict[str, str]()  # the methods of the requests under way, by their ids
        self._left_out = dict[str, list[InvalidEntry]]()

    @property
    def left_out(self) -> tuple[InvalidEntry, ...]:
        """The entries that were left out of the lists as they were sent last."""
        return tuple(each for found in self._left_out.values() for each in found)[:MAX_INVALID_ENTRIES]

    @contextlib.asynccontextmanager
    async def around(self, transport: AbstractAsyncContextManager[tuple[Any, Any]]) -> AsyncGenerator[tuple[Any, Any]]:
        """Connect by the transport, with the filter between it and the session."""
        async with transport as (incoming, outgoing):
            yield _Incoming(incoming, self), _Outgoing(outgoing, self)

    def on_sent(self, sent: SessionMessage) -> None:
        """Remember a request for a list or a result."""
        message = sent.message
        if isinstance(message, JSONRPCRequest) and (message.method in LISTS or message.method in RESULTS):
            self._asked[str(message.id)] = message.method
            if message.method in LISTS and not (message.params or {}).get("cursor"):
                self._left_out[message.method] = []

    def filter(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the message without the invalid entries of a list, or the invalid parts of a result."""
        if isinstance(received, Exception) or not isinstance(answer := received.message, JSONRPCResponse):
            return received
        method = self._asked.pop(str(answer.id), None)
        if method is None:
            return received
        if method == "tools/list" and isinstance(tools := answer.result.get("tools"), list):
            # The SDK drops a whole result that does not match it, or where it is wrong itself; models get texts.
            tools = [_without_output_schema(each) for each in tools]
            received.message = answer = answer.model_copy(update={"result": {**answer.result, "tools": tools}})
        if self._error_of(method, answer.result) is None:
            return received
        if method in RESULTS:
            usable = self._usable_result(method, answer.result)
            if self._error_of(method, usable) is None:  # else more is wrong than a part
                received.message = answer.model_copy(update={"result": usable})
            return received
        field, kind = LISTS[method]
        entries = answer.result.get(field)
        if not isinstance(entries, list) or self._error_of(method, {**answer.result, field: []}) is not None:
            return received  # more is wrong than an entry
        valid = list[object]()
        for number, entry in enumerate(entries, 1):
            if (error := self._error_of(method, {**answer.result, field: [entry]})) is None:
                valid.append(entry)
            elif len(left_out := self._left_out[method]) < MAX_INVALID_ENTRIES:
                left_out.append(InvalidEntry(kind, _name(entry) or f"number {number}", error))
        received.message = answer.model_copy(update={"result": {**answer.result, field: valid}})
        return received

    def _usable_result(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result with a text in the place of each invalid part: its own text, or what was left out."""
        field, usable = RESULTS[method], dict(result)
        parts: Any = usable.get(field)
        parts = parts if isinstance(parts, list) else [] if parts is None else [parts]
        if method == "tools/call":
            usable["isError"] = bool(usable.get("isError"))
            structured = usable.get("structuredContent")
            if not isinstance(structured, dict):
                usable.pop("structuredContent", None)
                if structured is not None and not parts:
                    parts = [json.dumps(structured, ensure_ascii=False, indent=1)]
        rest = {key: value for key, value in usable.items() if key != field}
        usable[field] = []
        for part in parts:
            error = self._error_of(method, {**rest, field: [part]})
            usable[field].append(part if error is None else _text_part(method, part, error))
        return usable

    def _error_of(self, method: str, result: dict[str, Any]) -> str | None:
        """Return the first error of a result; None for a valid one."""
        try:
            parse_server_result(method, self._version(), result)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][2:])
            return f"{where}: {first['msg']}".removeprefix(": ")[:MAX_NAME_CHARACTERS]
        except (KeyError, ValueError):
            return None  # the SDK knows better
        return None


def _without_output_schema(tool: Any) -> Any:
    return {key: value for key, value in tool.items() if key != "outputSchema"} if isinstance(tool, dict) else tool


def _text_part(method: str, part: Any, error: str) -> dict[str, Any]:
    """Return a part of a result that holds the text of an invalid one, or says that it was left out."""
    fields: dict[str, Any] = part if isinstance(part, dict) else {"text": part}
    content = fields.get("content")
    inner: dict[str, Any] = content if isinstance(content, dict) else {"text": content, **fields}
    kind = str(inner.get("type") or "")[:MAX_NAME_CHARACTERS]
    text = inner.get("text")
    if not isinstance(text, str):
        text = f"[content of the type {kind!r} left out]" if kind else f"[content left out: {error}]"
    match method:
        case "resources/read":
            return {"uri": str(fields.get("uri") or "unknown:")[:MAX_NAME_CHARACTERS], "text": text}
        case "prompts/get":
            return {"role": "user", "content": {"type": "text", "text": text}}
        case _:
            return {"type": "text", "text": text}


def _name(entry: object) -> str:
    """Return the name of an entry; "" if it has none."""
    name: object = ""
    if isinstance(entry, dict):
        fields: dict[str, object] = entry
        name = fields.get("name") or fields.get("uri") or fields.get("uriTemplate") or ""
    return str(name)[:MAX_NAME_CHARACTERS] if isinstance(name, str | int | float) else ""


class _Stream:
    """One direction of a connection, as the SDK uses it."""

    def __init__(self, stream: Any, entries: ValidEntries) -> None:
        self._stream, self._entries = stream, entries

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Incoming(_Stream):
    @property
    def last_context(self) -> Any:
        """The context in which the message was sent, where the transport of the SDK keeps it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._entries.filter(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._entries.filter(await self._stream.__anext__())


class _Outgoing(_Stream):
    async def send(self, message: SessionMessage) -> None:
        self._entries.on_sent(message)
        await self._stream.send(message)
