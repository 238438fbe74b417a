"""Turn the results of MCP servers into text and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

from ikigai.tools.mcp.host_messages import CallResult, ResultPicture

MAX_PICTURES = 20


def tool_result(id: str, result: types.CallToolResult) -> CallResult:
    """Return the result of a call. Structured content stands for missing text."""
    text, pictures = _read_blocks(result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False, indent=1)
    return CallResult(id, text, pictures, bool(result.is_error))


def resource_result(id: str, result: types.ReadResourceResult) -> CallResult:
    text, pictures = _read_contents(result.contents)
    return CallResult(id, "\n\n".join(text), tuple(pictures[:MAX_PICTURES]))


def prompt_result(id: str, result: types.GetPromptResult) -> CallResult:
    """Return the messages of a prompt as one text; messages of another role than the user's are headed by the role."""
    parts, pictures = list[str](), list[ResultPicture]()
    for message in result.messages:
        text, more = _read_blocks([message.content])
        parts.append(text if message.role == "user" else f"[{message.role}]\n{text}")
        pictures += more
    return CallResult(id, "\n\n".join(parts), tuple(pictures[:MAX_PICTURES]))


def _read_blocks(blocks: Iterable[Any]) -> tuple[str, tuple[ResultPicture, ...]]:
    parts, pictures = list[str](), list[ResultPicture]()
    for block in blocks:
        match block:
            case types.TextContent():
                parts.append(block.text)
            case types.ImageContent():
                pictures.append(ResultPicture(block.data, block.mime_type))
            case types.AudioContent():
                parts.append(f"[audio, {block.mime_type}, left out]")
            case types.EmbeddedResource():
                text, more = _read_contents([block.resource])
                parts += text
                pictures += more
            case types.ResourceLink():
                parts.append(f"[resource {block.uri}: {block.name}]")
            case _:
                parts.append("[content of an unknown kind left out]")
    return "\n".join(parts), tuple(pictures[:MAX_PICTURES])


def _read_contents(contents: Iterable[Any]) -> tuple[list[str], list[ResultPicture]]:
    parts, pictures = list[str](), list[ResultPicture]()
    for each in contents:
        if isinstance(each, types.TextResourceContents):
            parts.append(each.text)
        elif (each.mime_type or "").startswith("image/"):
            pictures.append(ResultPicture(each.blob, each.mime_type or ""))
        else:
            parts.append(f"[{each.mime_type or 'binary data'} of {len(each.blob) * 3 // 4:,} bytes left out]")
    return parts, pictures
