"""Export a history as one HTML page that needs nothing else: no scripts, nothing from the network, an outline of the
turns.

Words of the user and of tools are escaped. Markdown of replies is rendered, without HTML, and with links that lead to
http, https or mailto alone. The page forbids the browser all but its own styles and the pictures in it, whatever got
through.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ikigai.core.events.messages import Citation, Image
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.text.sanitize import clean_line
from ikigai.export.json_export import ExportInfo
from ikigai.export.transcript_items import ALLOWED_LINK, ItemKind, TranscriptBuilder, TranscriptItem, format_time
from ikigai.system.commonmark import build_parser, end_with_newline

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

STYLE_FILE = Path(__file__).with_name("page.css")
"""The style of the page: the reader's own fonts, light or dark as the browser is."""
MAX_HTML_NESTING = 100
"""Levels of Markdown that are rendered; deeper, the source is shown."""
SHOWN_IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SIGNS = {ItemKind.THOUGHT: "∴", ItemKind.CALL: "→", ItemKind.RESULT: "←"}
MAX_OUTLINE_CHARACTERS = 1_000_000
"""Characters of the outline that are kept in memory until the end of the page."""


class HtmlExport:
    """The page of one history. The outline stands behind the turns and is drawn before them."""

    def begin(self, about: ExportInfo) -> Iterator[str]:
        self._teller = TranscriptBuilder()
        self._outline = tempfile.SpooledTemporaryFile(MAX_OUTLINE_CHARACTERS, "w+", encoding="utf-8", newline="\n")  # noqa: SIM115
        self._in_turn = False
        title = escape(clean_line(about.agent))
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        style = STYLE_FILE.read_text(encoding="utf-8")
        yield (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
            f"<header><h1>{title}</h1><p>{about.events:,} events, exported {format_time(about.at)}</p></header>\n"
        )

    def rows(self, page: list[RawRow]) -> Iterator[str]:
        for raw in page:
            for piece in self._teller.items(raw):
                if piece.turn:
                    yield from self._turn(piece)
                yield _drawn(piece)

    def _turn(self, piece: TranscriptItem) -> Iterator[str]:
        if self._in_turn:
            yield "</section>\n"
        self._in_turn = True
        label = escape(piece.label) or "…"
        self._outline.write(f'<li><a href="#turn-{piece.turn}">{label}</a></li>\n')
        yield f'<section id="turn-{piece.turn}">\n'

    def end(self) -> Iterator[str]:
        yield "</section>\n" * self._in_turn + "</main>\n<nav>\n<details open>\n<summary>Turns</summary>\n<ol>\n"
        with self._outline as outline:
            outline.seek(0)
            while part := outline.read(MAX_OUTLINE_CHARACTERS):
                yield part
        yield "</ol>\n</details>\n</nav>\n</body>\n</html>\n"


def _drawn(piece: TranscriptItem) -> str:
    match piece.kind:
        case ItemKind.USER:
            pictures = "".join(map(_picture, piece.images))
            head = f"<header>❯ {_time(piece)}</header>"
            return f'<article class="user" id="e{piece.id}">{head}{pictures}<p>{escape(piece.text)}</p></article>\n'
        case ItemKind.REPLY:
            return f'<article class="reply">\n{render_markdown(piece.text)}</article>\n'
        case ItemKind.THOUGHT | ItemKind.CALL | ItemKind.RESULT:
            sign = "✗" if piece.failed else _SIGNS[piece.kind]
            failed = " failed" * piece.failed
            head = f"<summary>{sign} {escape(piece.label)}</summary>"
            # A line break right behind <pre> would be lost.
            return f'<details class="{piece.kind}{failed}">{head}<pre>\n{escape(piece.text)}</pre></details>\n'
        case ItemKind.SOURCES:
            return f'<ol class="sources">{"".join(map(_source, piece.sources))}</ol>\n'
        case ItemKind.STOPPED:
            return f'<p class="stopped">✗ {escape(piece.text)}</p>\n'
        case ItemKind.NOTE:
            return f'<p class="note">· {escape(piece.text)}</p>\n'


def _time(piece: TranscriptItem) -> str:
    exact = datetime.fromtimestamp(piece.at, UTC).isoformat(timespec="seconds")
    return f'<a href="#e{piece.id}">#{piece.id}</a> <time datetime="{exact}">{format_time(piece.at)}</time>'


def _source(page: Citation) -> str:
    """Return a cited page as an item of a list, its address as a link if it is allowed."""
    url, title = escape(clean_line(page.url)), escape(clean_line(page.title))
    link = f'<a href="{url}" rel="noopener noreferrer nofollow">{url}</a>' if ALLOWED_LINK.fullmatch(page.url) else url
    return f"<li>{title} {link}</li>"


def _picture(image: Image) -> str:
    """Return the picture itself; "" for a damaged one, or one that was left out."""
    if image.media_type not in SHOWN_IMAGE_TYPES or not image.data or not _BASE64.fullmatch(image.data):
        return ""
    name = escape(clean_line(image.name))
    return f'<img alt="{name}" src="data:{image.media_type};base64,{image.data}">'


def render_markdown(text: str) -> str:
    """Render Markdown as HTML; where it is nested too deep, as it is written."""
    reader = _parser()
    try:
        tokens = reader.parse(end_with_newline(text))
        if all(token.level < MAX_HTML_NESTING - 1 for token in tokens):  # deeper the parser would drop it
            return reader.renderer.render(tokens, reader.options, {})
    except RecursionError:
        pass
    return f"<pre>\n{escape(text)}</pre>\n"


@cache
def _parser() -> MarkdownIt:
    made = build_parser(MAX_HTML_NESTING, html=False)
    made.validateLink = lambda url: bool(ALLOWED_LINK.fullmatch(url))
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    return made


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a linked picture as its address: fetching it would tell its owner who opens the page."""
    return f"<em>[image {escape(tokens[index].content)}: {escape(str(tokens[index].attrs.get('src', '')))}]</em>"


def _link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return self.renderToken(tokens, index, options, env)
