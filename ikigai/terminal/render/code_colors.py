"""Find the elements of the theme that color a piece of code, by the lexers of pygments, whose import takes a while."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

MAX_COLORED_CHARACTERS = 1 << 16
"""Characters of code that are colored; a lexer manages about a million a second."""
CODE_ELEMENTS = {
    Comment: "code_comment",
    Comment.Preproc: "code_name",
    Keyword: "code_keyword",
    Operator.Word: "code_keyword",
    Name.Builtin: "code_name",
    Name.Function: "code_definition",
    Name.Class: "code_definition",
    Name.Decorator: "code_name",
    Name.Tag: "code_keyword",
    Name.Attribute: "code_name",
    String: "code_string",
    Number: "code_number",
    Generic.Deleted: "removed",
    Generic.Inserted: "added",
    Generic.Heading: "code_definition",
    Generic.Subheading: "code_keyword",
}
"""Elements of the theme by the token types of pygments."""


@cache
def _lexers() -> frozenset[str]:
    """Return the names of the lexers pygments ships; for another one it would search every installed package."""
    return frozenset(alias for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)


@lru_cache(maxsize=32)
def find_lexer(language: str) -> Lexer | None:
    return get_lexer_by_name(language, stripnl=False) if language in _lexers() else None


@lru_cache(maxsize=64)
def language_of(name: str) -> str:
    """Return the language of a file by its name; "" if it is not known."""
    file = name.rpartition("/")[2]
    found = [
        (len(pattern), aliases[0])
        for _, aliases, patterns, _ in get_all_lexers(plugins=False)
        for pattern in patterns
        if aliases and fnmatch.fnmatchcase(file, pattern)
    ]
    return max(found, key=lambda each: (each[0], each[1] in _USUAL), default=(0, ""))[1]


_USUAL = frozenset(
    {"c", "cpp", "css", "html", "java", "js", "make", "perl", "php", "rust", "sql", "text", "typescript"}
)
"""Languages to choose where several have the same pattern."""


def color_lines(code: str, language: str) -> Iterator[list[tuple[str, str]]]:
    """Yield for each line of `code` its pieces with their elements, "" for plain ones; nothing if it is not colored."""
    lexer = find_lexer(language) if len(code) <= MAX_COLORED_CHARACTERS else None
    if lexer is None:
        return
    tokens = list(lexer.get_tokens(code + "\n"))
    if "".join(text for _, text in tokens) != code + "\n":  # it has changed the text
        return
    line = list[tuple[str, str]]()
    for kind, text in tokens:
        while kind not in CODE_ELEMENTS and kind.parent is not None:
            kind = kind.parent
        first, *rest = text.split("\n")
        element = CODE_ELEMENTS.get(kind, "")
        line += [(first, element)] if first else []
        for each in rest:
            yield line
            line = [(each, element)] if each else []
