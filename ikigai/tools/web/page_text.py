"""Turn a fetched page into text for a model: decoded as declared, HTML as Markdown."""

from __future__ import annotations

import asyncio
import json
import re

from ikigai.tools.files.encodings import Encoding, encoding_of_mark, python_encoding, recognize_encoding
from ikigai.tools.shell.child import ChildProcess, child_command
from ikigai.tools.web.http import FetchedPage

CONVERSION_TIMEOUT = 30.0
"""Seconds for a conversion to Markdown; a page that takes longer is returned as HTML."""
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/.*|application/(json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-sh|sql|graphql|x-ndjson|rtf)|[^;]*\+(json|xml)"
)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,500}?charset\s*=\s*["']?([\w-]{1,40})|<\?xml[^>]{0,200}?encoding=["']([\w-]{1,40})""", re.I
)
_SNIFFED_BYTES = 4_096
_MAX_TEXT_CHARACTERS = 4_000_000


class NoText(ValueError):
    """The page is not text."""


def page_media_type(page: FetchedPage) -> str:
    """Return the media type in lower case, without its parameters; "" if the server names none."""
    return page.type.partition(";")[0].strip().lower()


async def page_text(page: FetchedPage) -> str:
    """Return the text of a page, after its title if it has one. Raise NoText for other content."""
    media_type = page_media_type(page)
    head = page.body[:_SNIFFED_BYTES]
    if media_type in ("", "text/plain", "application/octet-stream"):
        if b"\0" in head and not encoding_of_mark(head):
            raise NoText(_binary_message(page))
        if not media_type and re.match(rb"\s*<(!doctype\s+html|html|head|body)\b", head, re.I):
            media_type = _HTML[0]
    elif not _TEXT.fullmatch(media_type) and media_type not in _HTML:
        raise NoText(_binary_message(page))
    text = await asyncio.to_thread(decode_page, page)
    return await _convert_html(text, page.url) if media_type in _HTML else text


def decode_page(page: FetchedPage) -> str:
    """Decode a page by its byte order mark, else as the server declares, else as the page does, else by its bytes."""
    mark = encoding_of_mark(page.body)
    if mark:
        return page.body[len(mark.mark) :].decode(mark.name, "replace")
    header = re.search(r"""charset\s*=\s*["']?([\w.:-]+)""", page.type, re.I)
    declared = _DECLARED.search(page.body[:_SNIFFED_BYTES])
    labels = (header[1] if header else "", (declared[1] or declared[2]).decode() if declared else "")
    name = next((found for label in labels if label and (found := python_encoding(label))), "")
    if not name:
        name = (recognize_encoding(page.body, whole=not page.cut) or Encoding("cp1252")).name
    # as browsers read them (WHATWG Encoding)
    return page.body.decode("cp1252" if name in ("iso8859-1", "ascii") else name, "replace")


async def _convert_html(html: str, url: str) -> str:
    """Convert HTML to Markdown in a child process, which can be stopped."""
    feed = json.dumps({"url": url, "seconds": CONVERSION_TIMEOUT}).encode() + b"\n" + html.encode(errors="replace")
    output = bytearray()
    async with ChildProcess(child_command("ikigai.tools.web.markdown_child"), CONVERSION_TIMEOUT, feed=feed) as child:
        while len(output) < _MAX_TEXT_CHARACTERS and (piece := await child.read()):
            output += piece
    title, end, body = output[:_MAX_TEXT_CHARACTERS].decode(errors="replace").partition("\n")
    if not end or child.is_late:
        return f"[the page could not be converted to Markdown; this is its HTML]\n{html}"
    more = "\n[the page is longer]" if len(output) >= _MAX_TEXT_CHARACTERS else ""
    return (f"Title: {title}\n\n" if title else "") + body + more


def _binary_message(page: FetchedPage) -> str:
    size = f"{len(page.body):,} bytes{' or more' if page.cut else ''}"
    return f"{page.url} is not text: {page_media_type(page) or 'no type'}, {size}."
