"""The child program that makes Markdown of HTML: pages can be built so that this takes for ever, or all memory.

Standard input brings a line of JSON, {"url": …, "seconds": …}, and the HTML in UTF-8; standard output gives a line with
the page's title and the Markdown. Links are absolute; scripts, styles and what is not text are gone.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from urllib.parse import urljoin, urlsplit

_DROPPED = (
    *("head", "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas"),
    *("audio", "video", "select", "button"),
)
_MEMORY = 1 << 30
_STACK, _DEPTH = 256 << 20, 20_000
"""Of the thread that converts, which goes down into the page by calls."""


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    signal.alarm(int(order["seconds"]) + 5)  # when the parent, which should have ended the child, is no more
    _bounded()
    html = sys.stdin.buffer.read().decode(errors="replace")
    threading.stack_size(_STACK)
    sys.setrecursionlimit(_DEPTH)
    thread = threading.Thread(target=lambda: sys.stdout.buffer.write(converted(html, order["url"]).encode()))
    thread.start()
    thread.join()


def _bounded() -> None:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ValueError, OSError):  # not every system takes it
        return


def converted(html: str, url: str) -> str:
    """The title, a line break, and the page as Markdown."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup(list(_DROPPED)):
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
    """A link that can be fetched, "" for any other and for one within the page."""
    try:
        found = urljoin(url, link.strip()) if not link.startswith("#") else ""
        return found if urlsplit(found).scheme in ("http", "https", "mailto") else ""
    except ValueError:
        return ""
