"""Convert HTML to Markdown in a child process: a hostile page could make this take for ever, or all memory.

Standard input is a line of JSON, {"url": …, "seconds": …}, and the HTML in UTF-8. Standard output is a line with the
title of the page and the Markdown. Links are absolute; scripts, styles and everything but text are removed.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from urllib.parse import urljoin, urlsplit

_DROPPED_TAGS = (
    *("head", "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas"),
    *("audio", "video", "select", "button"),
)
_MAX_MEMORY_BYTES = 1 << 30
_STACK_BYTES, _MAX_RECURSION = 256 << 20, 20_000
"""Stack bytes and recursion limit of the thread that converts: it descends into the page by recursive calls."""


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    signal.alarm(int(request["seconds"]) + 5)  # for a parent that died before it could end the child
    _limit_memory()
    html = sys.stdin.buffer.read().decode(errors="replace")
    threading.stack_size(_STACK_BYTES)
    sys.setrecursionlimit(_MAX_RECURSION)
    thread = threading.Thread(target=lambda: sys.stdout.buffer.write(convert_page(html, request["url"]).encode()))
    thread.start()
    thread.join()


def _limit_memory() -> None:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    except (ValueError, OSError):  # not every system takes it
        return


def convert_page(html: str, url: str) -> str:
    """Return the title, a line break, and the page as Markdown."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup(list(_DROPPED_TAGS)):
        tag.decompose()
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in soup(name):
            link = _absolute(url, str(tag.get(attribute) or ""))
            if link:
                tag[attribute] = link
            elif name == "a":
                tag.unwrap()
            else:
                tag.replace_with(str(tag.get("alt") or ""))
    try:
        text = MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False).convert_soup(soup)
    except RecursionError:
        text = soup.get_text("\n")
    text = re.sub(r"[ \t]+\n", "\n", text)
    return f"{title}\n" + re.sub(r"\n{3,}", "\n\n", text).strip()


def _absolute(url: str, link: str) -> str:
    """Return the absolute link, "" for one that cannot be fetched and for one within the page."""
    try:
        joined = urljoin(url, link.strip()) if not link.startswith("#") else ""
        return joined if urlsplit(joined).scheme in ("http", "https", "mailto") else ""
    except ValueError:
        return ""
