"""Export a history as Markdown: turns as headings, questions quoted, replies as they are, the rest folded.

No text can get out of its place. Tool results and thoughts stand in fences longer than any in them. HTML in questions
and replies is shown as text, and a fence left open is closed. A picture becomes "!" and a link to it, because a viewer
would fetch it, and so tell its server that the file was opened.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from ikigai.core.events.messages import Citation
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.text.sanitize import clean_line
from ikigai.export.json_export import ExportInfo
from ikigai.export.transcript_items import ALLOWED_LINK, ItemKind, TranscriptBuilder, TranscriptItem, format_time
from ikigai.system.commonmark import build_parser, end_with_newline

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BLOCK_SEPARATOR = "<!-- -->"
MAX_MARKDOWN_NESTING = 90
"""Most levels of nesting; a list takes two for each of its own."""
_TAG = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"(?<!\\)((?:\\\\)*)!(?=\[)")
_SUSPECT = re.compile(r"<|!\[|```|~~~|^[ \t]{40}|^(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])){12}", re.MULTILINE)
"""A pattern for texts that may hold HTML, a picture, a fence, or deep nesting; parsing the others would only
take time.
"""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_SIGNS = {ItemKind.THOUGHT: "∴", ItemKind.CALL: "→", ItemKind.RESULT: "←"}


class MarkdownExport:
    """The document of one history."""

    def begin(self, about: ExportInfo) -> Iterator[str]:
        self._teller = TranscriptBuilder()
        yield f"# {escape_line(clean_line(about.agent))}\n\n{about.events:,} events, exported {format_time(about.at)}\n"

    def rows(self, page: list[RawRow]) -> Iterator[str]:
        for raw in page:
            for piece in self._teller.items(raw):
                yield "\n" + _written(piece) + "\n"

    def end(self) -> Iterator[str]:
        return iter(())


def _written(piece: TranscriptItem) -> str:
    match piece.kind:
        case ItemKind.USER:
            head = f"## {piece.turn}. {escape_line(piece.label)}\n\n" if piece.turn else ""
            return f"{head}*{format_time(piece.at)}, #{piece.id}*\n\n{contain(piece.text, '> ')}"
        case ItemKind.REPLY:
            return _standing(contain(piece.text)).rstrip("\n")
        case ItemKind.THOUGHT | ItemKind.CALL | ItemKind.RESULT:
            sign = "✗" if piece.failed else _SIGNS[piece.kind]
            summary = html.escape(f"{sign} {piece.label}")
            language = "json" if piece.kind is ItemKind.CALL and not piece.failed else "text"
            return f"<details><summary>{summary}</summary>\n\n{fence(piece.text, language)}\n\n</details>"
        case ItemKind.SOURCES:
            return "\n".join(_source(number, page) for number, page in enumerate(piece.sources, 1))
        case ItemKind.STOPPED:
            return f"**✗ {escape_line(piece.text)}**"
        case ItemKind.NOTE:
            return f"*{escape_line(piece.text)}*"


def _source(number: int, page: Citation) -> str:
    """Return a cited page as an item of a list; its address is a link only if nothing in it could end the link."""
    url = clean_line(page.url)
    address = f"<{url}>" if ALLOWED_LINK.fullmatch(url) and not re.search(r"[\s<>\\]", url) else escape_line(url)
    return f"{number}. {escape_line(clean_line(page.title))} {address}".replace("  ", " ")


def escape_line(text: str) -> str:
    """Return the text on one line, with all Markdown syntax escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fence(text: str, language: str = "") -> str:
    """Return the text in a fence that nothing in it closes."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") or not text else text + "\n"
    return f"{fence}{language}\n{body}{fence}"


def contain(text: str, before: str = "") -> str:
    """Return `text` as Markdown that ends where it ends and holds no HTML and no picture.

    Text that cannot be made so is shown as it is written.

    `before` comes before each of its lines. The text is judged as it will stand: of a tab, "> " takes columns away, and
    code before it is none then.
    """
    if not _SUSPECT.search(text):
        return _behind(before, text)
    for _ in range(3):
        tokens = _parsed(_behind(before, text))
        if tokens is None:
            break
        lines = text.split("\n")
        touched = {n for token in tokens if _is_active(token) and token.map for n in range(*token.map)}
        if not touched:
            return _behind(before, _closed(text, tokens))
        for n in touched & {*range(len(lines))}:
            lines[n] = _PICTURE.sub(r"\1\!", _TAG.sub(r"\<", lines[n]))
        text = "\n".join(lines)
    return _behind(before, fence(text, "markdown"))


def _behind(before: str, text: str) -> str:
    return "\n".join((before + line).rstrip() for line in text.split("\n")) if before else text


def _standing(text: str) -> str:
    """Return a reply that begins indented so that it stands for itself: a list before it would take it in."""
    text = re.sub(r"\A(?:[ \t]*\n)+", "", text)
    return f"{BLOCK_SEPARATOR}\n\n{text}" if text.startswith((" ", "\t")) else text


def _is_active(token: Token) -> bool:
    """Return True if a viewer would run or fetch something in `token`.

    A picture whose reference is not in this text counts: another text of the document may define it.
    """
    children = token.children or ()
    if token.type == "html_block" or any(child.type in ("html_inline", "image") for child in children):
        return True
    named = "".join(child.content if child.type == "text" else " " for child in children)
    return bool(re.search(r"!\[[^]]*\]", named)) and bool(_PICTURE.search(token.content))


def _closed(text: str, tokens: list[Token]) -> str:
    """Return the text, with its open fence closed."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence" or last.level or not last.map:
        return text
    start, end = last.map
    lines = text.split("\n")
    closing = re.compile(rf" {{0,3}}{last.markup}{last.markup[0]}*[ \t]*$")
    if end - start > 1 and closing.match(lines[end - 1]):
        return text
    return f"{text.rstrip(chr(10))}\n{last.markup}"


def _parsed(text: str) -> list[Token] | None:
    """Return the tokens of the text; None where it is nested so deep that readers give up and leave the rest out."""
    try:
        tokens = _parser().parse(end_with_newline(text))
    except RecursionError:
        return None
    return tokens if all(token.level < MAX_MARKDOWN_NESTING for token in tokens) else None


@cache
def _parser() -> MarkdownIt:
    return build_parser(MAX_MARKDOWN_NESTING + 2, prose=False)  # other programs read the file
