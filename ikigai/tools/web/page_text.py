"""What was fetched, as text for a model: decoded as it says it is, HTML as Markdown."""

from __future__ import annotations

import asyncio
import json
import re

from ikigai.tools.files.encodings import Encoding, known, marked, recognised
from ikigai.tools.shell.child import Child, python
from ikigai.tools.web.http import Fetched

SECONDS = 30.0
"""For making Markdown; what takes longer is given as it is."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-sh|sql|graphql|x-ndjson|rtf)|[^;]*\+(json|xml)"
)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,500}?charset\s*=\s*["']?([\w-]{1,40})|<\?xml[^>]{0,200}?encoding=["']([\w-]{1,40})""", re.I
)
_LOOKED_AT = 4_096
_MOST = 4_000_000


class NoText(ValueError):
    """What was fetched is no text."""


def media_type(fetched: Fetched) -> str:
    """Without its parameters, in small letters; "" when the server names none."""
    return fetched.type.partition(";")[0].strip().lower()


async def text(fetched: Fetched) -> str:
    """The text of a page, a title before it where it has one. NoText for what is none."""
    kind = media_type(fetched)
    head = fetched.body[:_LOOKED_AT]
    if kind in ("", "text/plain", "application/octet-stream"):
        if b"\0" in head and not marked(head):
            raise NoText(_binary(fetched))
        if not kind and re.match(rb"\s*<(!doctype\s+html|html|head|body)\b", head, re.I):
            kind = _HTML[0]
    elif not _TEXT.fullmatch(kind) and kind not in _HTML:
        raise NoText(_binary(fetched))
    words = await asyncio.to_thread(decoded, fetched)
    return await _markdown(words, fetched.url) if kind in _HTML else words


def decoded(fetched: Fetched) -> str:
    """By the byte order mark, else as the server declares, else as the page does, else as it looks."""
    mark = marked(fetched.body)
    if mark:
        return fetched.body[len(mark.mark) :].decode(mark.name, "replace")
    header = re.search(r"""charset\s*=\s*["']?([\w.:-]+)""", fetched.type, re.I)
    page = _DECLARED.search(fetched.body[:_LOOKED_AT])
    labels = (header[1] if header else "", (page[1] or page[2]).decode() if page else "")
    name = next((found for label in labels if label and (found := known(label))), "")
    if not name:
        name = (recognised(fetched.body, whole=not fetched.cut) or Encoding("cp1252")).name
    # as browsers read them (WHATWG Encoding)
    return fetched.body.decode("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")


async def _markdown(html: str, url: str) -> str:
    """By a child, which can be stopped."""
    feed = json.dumps({"url": url, "seconds": SECONDS}).encode() + b"\n" + html.encode(errors="replace")
    made = bytearray()
    async with Child(python("ikigai.tools.web.markdown_child"), SECONDS, feed=feed) as child:
        while len(made) < _MOST and (piece := await child.read()):
            made += piece
    title, end, body = made[:_MOST].decode(errors="replace").partition("\n")
    if not end or child.late:
        return f"[the page could not be made into Markdown; this is its HTML]\n{html}"
    more = "\n[the page is longer]" if len(made) >= _MOST else ""
    return (f"Title: {title}\n\n" if title else "") + body + more


def _binary(fetched: Fetched) -> str:
    size = f"{len(fetched.body):,} bytes{' or more' if fetched.cut else ''}"
    return f"{fetched.url} is no text: {media_type(fetched) or 'of no type'}, {size}."
