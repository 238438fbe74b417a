"""Markdown as it is read everywhere here, on the screen and in exports: CommonMark with tables and strikethrough.

markdown-it takes a while to load, so that happens with the first parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def parser(deepest: int, html: bool = True) -> MarkdownIt:
    """A parser that drops what is nested deeper; where `html` is none, tags are text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": deepest, "html": html}).enable(["strikethrough", "table"])


def ended(text: str) -> str:
    """The text with a line break at its end: without one markdown-it raises IndexError on some lists in quotes."""
    return text if text.endswith("\n") else text + "\n"
