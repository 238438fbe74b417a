"""List the tools, prompts and resources that an MCP server offers, up to limits that no honest server reaches."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client

from ikigai.tools.mcp.host_messages import ListedPrompt, ListedResource, ListedTool

MAX_PAGES = 100
MAX_ENTRIES = 1_000
MAX_TEXT_CHARACTERS = 20_000


async def list_tools(client: Client) -> tuple[ListedTool, ...]:
    found = await _pages(lambda cursor: client.list_tools(cursor=cursor), "tools")
    return tuple(
        ListedTool(
            each.name,
            _text(each.description) or _text(each.title),
            json.dumps(each.input_schema, ensure_ascii=False),
        )
        for each in found
    )


async def list_resources(client: Client) -> tuple[ListedResource, ...]:
    found = await _pages(lambda cursor: client.list_resources(cursor=cursor), "resources")
    listed = [ListedResource(str(each.uri), each.name, _text(each.description), each.mime_type or "") for each in found]
    try:
        patterns = await _pages(lambda cursor: client.list_resource_templates(cursor=cursor), "resource_templates")
    except Exception:  # a server may have resources and no patterns
        patterns = []
    listed += [
        ListedResource(each.uri_template, each.name, _text(each.description), each.mime_type or "", template=True)
        for each in patterns
    ]
    return tuple(listed)


async def list_prompts(client: Client) -> tuple[ListedPrompt, ...]:
    found = await _pages(lambda cursor: client.list_prompts(cursor=cursor), "prompts")
    return tuple(
        ListedPrompt(
            each.name,
            _text(each.description),
            tuple((argument.name, bool(argument.required)) for argument in each.arguments or ()),
        )
        for each in found
    )


async def _pages(page: Callable[[str | None], Awaitable[Any]], field: str) -> list[Any]:
    found, cursor, seen = list[Any](), None, set[str]()
    for _ in range(MAX_PAGES):
        result = await page(cursor)
        found += getattr(result, field)
        cursor = result.next_cursor
        if not cursor or cursor in seen or len(found) >= MAX_ENTRIES:
            break
        seen.add(cursor)
    return found[:MAX_ENTRIES]


def _text(text: str | None) -> str:
    return (text or "")[:MAX_TEXT_CHARACTERS]
