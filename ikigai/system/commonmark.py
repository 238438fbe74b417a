"""This module parses Markdown in one way for the screen and for exports: CommonMark with tables and strikethrough.

markdown-it takes a while to load, so that happens with the first parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def build_parser(deepest: int, html: bool = True) -> MarkdownIt:
    """Return a parser that drops deeper levels than `deepest`; without `html`, tags are text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": deepest, "html": html}).enable(["strikethrough", "table"])


def end_with_newline(text: str) -> str:
    """Return the text with a line break at its end: without one markdown-it raises IndexError on some lists in
    quotes.
    """
    return text if text.endswith("\n") else text + "\n"
