"""Make the web tools of an agent."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ikigai.tools.base import Tool
from ikigai.tools.files.read_file import Picture
from ikigai.tools.web.fetch import WebFetch
from ikigai.tools.web.http import Fetcher
from ikigai.tools.web.search import BRAVE_URL, WebSearch


def web_tools(
    directory: Path,
    *,
    private: Collection[str] = (),
    picture: Picture | None = None,
    brave_key: str = "",
    brave_url: str = BRAVE_URL,
) -> tuple[Tool, ...]:
    """Return the web tools.

    `private` are hosts off the public internet that may be fetched. Without `brave_key` there is no search.
    """
    fetch = WebFetch(directory, Fetcher(private), picture)
    return (fetch, WebSearch(directory, brave_key, brave_url)) if brave_key else (fetch,)
