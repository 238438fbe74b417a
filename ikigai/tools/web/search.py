"""Tool `web_search`, which uses the Brave Search API; it is offered only with a key.

The API, its limits and its fields: https://api-dashboard.search.brave.com/api-reference/web/search/get
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

from ikigai.core.errors import ConfigError
from ikigai.system.proxies import client_options
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput

BRAVE_URL = "https://api.search.brave.com/res/v1"
_TIMEOUT_SECONDS, _MAX_BYTES = 20.0, 4_000_000
_MAX_WORDS = 50
"""Maximum words of a query, a limit of the API, as are 400 characters."""
_FAILURES = {
    401: "the search key was not accepted; the user must configure another one",
    403: "the search key does not allow this; the user must check its plan",
    422: "the query, or the search key, was not accepted",
    429: "too many searches for now or for this month; try again later",
}


class WebSearchArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
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


class _SearchAnswer(msgspec.Struct):
    web: _Web | None = None


class WebSearch:
    """Tool that searches the web. `key` is the subscription token; it goes to `base_url` only, in a header."""

    name = "web_search"
    set = "web"
    description = "Searches the web: titles, addresses and excerpts of pages; web_fetch gets one of them."
    arguments = WebSearchArguments

    def __init__(self, directory: Path, key: str, base_url: str = BRAVE_URL) -> None:
        self._directory, self._key, self._url = directory, key, f"{base_url.rstrip('/')}/web/search"

    async def preview(self, arguments: WebSearchArguments) -> Effect:
        shown = f"{arguments.query} (at {urlsplit(self._url).hostname})"
        return Effect(EffectKind.NETWORK, shown, directory=str(self._directory), inside=False)

    async def run(self, arguments: WebSearchArguments, progress: OnOutput) -> ToolOutput:
        if len(arguments.query.split()) > _MAX_WORDS:
            raise ValueError(f"a query can have at most {_MAX_WORDS} words.")
        body = await self._request(arguments)
        try:
            answer = msgspec.json.decode(body, type=_SearchAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise OSError("the search did not answer with a list of results.") from None
        results = [each for each in (answer.web.results if answer.web else []) if each.url]
        first = (arguments.page - 1) * arguments.count + 1
        lines = [_format_result(number, each) for number, each in enumerate(results[: arguments.count], first)]
        return ToolOutput("\n\n".join(lines) if lines else "[nothing was found]")

    async def _request(self, arguments: WebSearchArguments) -> bytes:
        import httpx

        params = {"q": arguments.query, "count": arguments.count, "offset": arguments.page - 1}
        headers = {"Accept": "application/json", "X-Subscription-Token": self._key}
        host = urlsplit(self._url).hostname
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                # a redirect could carry the key elsewhere
                httpx.AsyncClient(
                    timeout=_TIMEOUT_SECONDS, follow_redirects=False, **client_options(self._url)
                ) as client,
                client.stream("GET", self._url, params=params, headers=headers) as response,
            ):
                if response.status_code != 200:
                    why = _FAILURES.get(response.status_code, "the search failed")
                    raise OSError(f"{why} (HTTP {response.status_code}).")
                body = bytearray()
                async for piece in response.aiter_bytes(1 << 16):
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise OSError(f"the answer of {host} is larger than {_MAX_BYTES:,} bytes.")
                return bytes(body)
        except ConfigError as error:
            raise OSError(str(error)) from None
        except TimeoutError:
            raise TimeoutError(f"{host} did not answer within {_TIMEOUT_SECONDS:g} s.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"{host} cannot be reached: {type(error).__name__}.") from None


def _format_result(number: int, result: _Result) -> str:
    age = f" ({_plain(result.age)})" if result.age else ""
    lines = [f"{number}. {_plain(result.title) or result.url}{age}", f"   {_plain(result.url)}"]
    lines += [f"   {words}" for words in map(_plain, (result.description, *(result.extra_snippets or ()))) if words]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return the text without tags and entities, on one line."""
    return " ".join(html.unescape(re.sub(r"</?\w{1,10}>", "", text)).split())
