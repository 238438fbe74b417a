"""The tool that searches the web, by the Brave Search API; offered only where there is a key for it.

The API, its bounds and its fields: https://api-dashboard.search.brave.com/api-reference/web/search/get
"""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch

BRAVE = "https://api.search.brave.com/res/v1"
_SECONDS, _LARGEST = 20.0, 4_000_000
_WORDS = 50
"""Of a query; the API takes no more, nor more than 400 characters."""
_FAILURES = {
    401: "the search key was not accepted; the user has to configure another",
    403: "the search key may not do this; the user has to look at its plan",
    422: "the query, or the search key, was not accepted",
    429: "too many searches for now, or for this month; try again in a while",
}


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    query: Annotated[str, Meta(min_length=1, max_length=400, description="At most 50 words.")]
    count: Annotated[int, Meta(ge=1, le=20, description="How many results.")] = 10
    page: Annotated[int, Meta(ge=1, le=10, description="The page of results, counted from 1.")] = 1


class _Result(msgspec.Struct):
    title: str = ""
    url: str = ""
    description: str = ""
    age: str | None = None
    extra_snippets: list[str] | None = None


class _Web(msgspec.Struct):
    results: list[_Result] = []


class _Answer(msgspec.Struct):
    web: _Web | None = None


class WebSearch:
    """`key` is the subscription token; it goes to `base_url` only, in a header."""

    name = "web_search"
    set = "web"
    description = "Searches the web: titles, addresses and a few words of pages; web_fetch gets one of them."
    arguments = Arguments

    def __init__(self, directory: Path, key: str, base_url: str = BRAVE) -> None:
        self._directory, self._key, self._url = directory, key, f"{base_url.rstrip('/')}/web/search"

    async def look(self, arguments: Arguments) -> Touch:
        told = f"{arguments.query} (at {urlsplit(self._url).hostname})"
        return Touch(Kind.NETWORK, told, directory=str(self._directory), inside=False)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        if len(arguments.query.split()) > _WORDS:
            raise ValueError(f"a query has {_WORDS} words at most.")
        body = await self._asked(arguments)
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise OSError("the search answered with what is no list of results.") from None
        results = [each for each in (answer.web.results if answer.web else []) if each.url]
        first = (arguments.page - 1) * arguments.count + 1
        told = [_told(number, each) for number, each in enumerate(results[: arguments.count], first)]
        return Output("\n\n".join(told) if told else "[nothing was found]")

    async def _asked(self, arguments: Arguments) -> bytes:
        import httpx

        asked = {"q": arguments.query, "count": arguments.count, "offset": arguments.page - 1}
        headers = {"Accept": "application/json", "X-Subscription-Token": self._key}
        host = urlsplit(self._url).hostname
        try:
            async with (
                asyncio.timeout(_SECONDS),
                # a redirect could carry the key elsewhere
                httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client,
                client.stream("GET", self._url, params=asked, headers=headers) as response,
            ):
                if response.status_code != 200:
                    why = _FAILURES.get(response.status_code, "the search failed")
                    raise OSError(f"{why} (HTTP {response.status_code}).")
                body = bytearray()
                async for piece in response.aiter_bytes(1 << 16):
                    body += piece
                    if len(body) > _LARGEST:
                        raise OSError(f"the answer of {host} is larger than {_LARGEST:,} bytes.")
                return bytes(body)
        except TimeoutError:
            raise TimeoutError(f"{host} did not answer within {_SECONDS:g} s.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"{host} cannot be reached: {type(error).__name__}.") from None


def _told(number: int, result: _Result) -> str:
    age = f" ({_plain(result.age)})" if result.age else ""
    lines = [f"{number}. {_plain(result.title) or result.url}{age}", f"   {_plain(result.url)}"]
    lines += [f"   {words}" for words in map(_plain, (result.description, *(result.extra_snippets or ()))) if words]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Without tags and entities, on one line."""
    return " ".join(html.unescape(re.sub(r"</?\w{1,10}>", "", text)).split())
