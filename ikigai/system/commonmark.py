r"""Parse Markdown in one way for the screen and for exports: CommonMark with tables and strikethrough.

Prose about code has characters that CommonMark takes for markup, and they would be lost: 2*3*4, src/*.py, __init__,
C:\.config, \d+\.\d+. With `prose` they stay, by rules that ordinary Markdown does not meet.

markdown-it takes a while to load, so that happens with the first parser.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

    InlineRule: TypeAlias = Callable[[StateInline, bool], bool]

_MAX_WORD_CHARACTERS = 300
_LITERAL_BACKSLASH = r"""\\[A-Za-z0-9]|\A[(\[{<"'“‘]*(?:[A-Za-z]:|\.{1,2}|~|%\w+%)\\"""
r"""A word whose backslashes escape nothing: it has some before letters, or begins as a path: C:\, ..\, %TEMP%\."""
_IDENTIFIER = re.compile(r"__[A-Za-z0-9_]*[A-Za-z0-9]__(?![A-Za-z0-9_])")
_UNSPACED_SCRIPTS = "\u2e80"
"""First character of the scripts, such as Chinese, in which emphasis stands within text without spaces."""
_LITERAL_STAR = re.compile(r"/\*+[\w./{\[]|\(\*\)|[)\]]\*[\w(]|\s\*[,;)\]]|[\s_.-]\*\.\w")
"""Stars with the characters around them that are globs, factors, or stand for everything."""


def build_parser(deepest: int, html: bool = True, *, prose: bool = True) -> MarkdownIt:
    """Return a parser that drops deeper levels than `deepest`; without `html`, tags are text, and without `prose` the
    characters of code in prose are markup, as in other programs.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": deepest, "html": html}).enable(["strikethrough", "table"])
    if prose:
        parser.inline.ruler.before("escape", "code_backslash", _keep_backslash)
        rules = parser.inline.ruler.getRules("")
        emphasis = next(rule for rule in rules if rule.__module__.endswith(".emphasis"))
        parser.inline.ruler.before("emphasis", "code_emphasis", partial(_keep_markers, emphasis))
    return parser


def end_with_newline(text: str) -> str:
    """Return the text with a line break at its end: without one markdown-it raises IndexError on some lists in
    quotes.
    """
    return text if text.endswith("\n") else text + "\n"


def _keep_backslash(state: StateInline, silent: bool) -> bool:
    """Take a backslash as text in a word that is a path or a pattern."""
    source, at = state.src, state.pos
    if source[at] != "\\" or source[at + 1 : at + 2] in ("", "\n"):  # a line break
        return False
    before = re.search(r"\S*\Z", source[max(0, at - _MAX_WORD_CHARACTERS) : at])
    behind = re.match(r"\S*", source[at : at + _MAX_WORD_CHARACTERS])
    if not before or not behind or not re.search(_LITERAL_BACKSLASH, before[0] + behind[0]):
        return False
    if not silent:
        state.pending += "\\"
    state.pos += 1
    return True


def _keep_markers(emphasis: InlineRule, state: StateInline, silent: bool) -> bool:
    """Take * and _ of code as text. Between letters more than one * may end emphasis, but not begin it."""
    source, at = state.src, state.pos
    marker = source[at]
    if silent or marker not in "*_":
        return False
    end = at
    while source[end : end + 1] == marker:
        end += 1
    if marker == "_":
        found = _IDENTIFIER.match(source, at)
        end = found.end() if found and not _is_letter(source[at - 1 : at]) else at
    elif not _LITERAL_STAR.match(f"{source[at - 1 : at] or ' '}{source[at : end + 2]}"):
        if not (_is_letter(source[at - 1 : at]) and _is_letter(source[end : end + 1])):
            return False
        if end - at > 1:
            return _end_only(emphasis, state)
    if end == at:
        return False
    state.pending += source[at:end]
    state.pos = end
    return True


def _end_only(emphasis: InlineRule, state: StateInline) -> bool:
    """Take the markers as ones that may end emphasis; `emphasis` is the rule of CommonMark."""
    count = len(state.delimiters)
    done = emphasis(state, False)
    for delimiter in state.delimiters[count:]:
        delimiter.open = False
    return done


def _is_letter(sign: str) -> bool:
    return sign.isalnum() and sign < _UNSPACED_SCRIPTS
