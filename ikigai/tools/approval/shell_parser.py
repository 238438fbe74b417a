"""Takes a shell command apart into plain programs and their words, and refuses whatever is not plain.

Plain are simple commands joined by `&&`, `||`, `|`, `;` and line breaks, made of printable ASCII. Their words are
letters, quoted text without anything the shell would replace, and at most the wildcards * and ?. Comments pass, and so
do the redirections that write nothing: `2>&1`, `>&2`, `>/dev/null`, `2>/dev/null`, `&>/dev/null`. Everything else is
refused, and so is every doubt: two parsers read the command, the lexer here, which knows nothing but the above, and
tree-sitter-bash, and both must find the same words, operators and redirections at the same places.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 4_000
"""Characters of a command that are looked at; nobody reads more before saying yes."""
MOST = 20
"""Programs in one command, for the same reason."""


class Unclear(Exception):
    """The command is not plain, for this reason: a clause without a full stop."""


class Word(NamedTuple):
    """One argument as the program gets it; if it has `wildcards`, as the shell gets it, and nothing in it is quoted.

    `bare` says that it stands there without any quoting.
    """

    text: str
    wildcards: bool = False
    bare: bool = True


class Command(NamedTuple):
    """One program with its arguments; `piped` when it is part of a pipeline, where `cd` moves nothing."""

    words: tuple[Word, ...]
    piped: bool = False


class _Token(NamedTuple):
    kind: str  # "word", "operator", "newline", "redirect" or "comment"
    start: int
    end: int
    word: Word


_BLANK = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\|(?!\|)|\|(?![|&])|;(?![;&|])")
_REDIRECT = re.compile(r"(?:(?:[12]?>|&>)[ \t]*/dev/null|2>&1|1?>&2)(?=[ \t\n;|]|\Z)")
_ALONE = re.compile(r"[!\[\]](?=[ \t\n;|&]|\Z)")
_BARE = re.compile(r"[A-Za-z0-9_./:,@%+=^*?-]+")
_SINGLE = re.compile(r"'([\t -&(-~]*)'")
_DOUBLE = re.compile(r'"((?:[\t #%-\[\]-_a-~]|\\[\t -~]|\$(?=["|)]))*)"')
_ESCAPED = re.compile(r"\\([ -~])")
_PROGRAM = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*|\[")
_REASONS = (
    (re.compile(r"[$`]"), "the shell would replace something in it"),
    (re.compile(r"[<>]"), "it redirects"),
    (re.compile(r"[(){}]"), "it groups, expands braces or makes a subshell or a function"),
    (re.compile(r"&"), "it runs something in the background"),
    (re.compile(r"[~\[\]!#]"), "it has a ~, a [, a ! or a # that is not quoted"),
    (re.compile(r"['\"]"), "a quotation in it does not end, or holds what the shell may replace"),
    (re.compile(r"\\"), "a backslash in it hides a line break or the end"),
)


def commands(text: str) -> tuple[Command, ...]:
    """The programs that a shell would run, in their order. Raises Unclear."""
    if len(text) > LONGEST:
        raise Unclear(f"it is longer than {LONGEST:,} characters")
    if strange := re.search(r"[^\t\n -~]", text):
        raise Unclear(f"it holds U+{ord(strange[0]):04X}, and only plain ASCII is taken")
    tokens = _tokens(text)
    found = _grouped(tokens)
    if len(found) > MOST:
        raise Unclear(f"it runs more than {MOST} programs")
    _agree(text, tokens)
    return found


def words(text: str) -> tuple[str, ...]:
    """The words of one plain command, as a rule is written. Raises Unclear."""
    tokens = _tokens(text)
    if not tokens or any(token.kind != "word" for token in tokens):
        raise Unclear("it is not the words of one command")
    return tuple(token.word.text for token in tokens)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, blank = 0, True  # whether a blank, an operator or the start is right before
    while at < len(text):
        if found := _BLANK.match(text, at):
            at, blank = found.end(), True
            continue
        kind, end, word = _next(text, at, blank)
        tokens.append(_Token(kind, at, end, word))
        at, blank = end, kind in ("operator", "newline")
    return tokens


def _next(text: str, at: int, blank: bool) -> tuple[str, int, Word]:
    """The kind of the token that begins here, its end, and its text: a word's as the program gets it."""
    if text[at] == "\n":
        return "newline", at + 1, Word("\n")
    if blank:
        for kind, pattern in (("comment", _COMMENT), ("redirect", _REDIRECT), ("word", _ALONE)):
            if found := pattern.match(text, at):
                return kind, found.end(), Word(found[0])
    if found := _OPERATOR.match(text, at):
        return "operator", found.end(), Word(found[0])
    end, word = _word(text, at)
    if text[end : end + 1] in ("<", ">"):  # digits right before it would be a file descriptor
        raise Unclear("it redirects")
    return "word", end, word


def _word(text: str, at: int) -> tuple[int, Word]:
    pieces: list[str] = []
    wildcards, bare, start = False, True, at
    while at < len(text) and text[at] not in " \t\n;|&<>":
        if found := _BARE.match(text, at):
            piece = found[0]
            wildcards |= "*" in piece or "?" in piece
        elif found := _SINGLE.match(text, at) or _ESCAPED.match(text, at):
            piece, bare = found[1], False
        elif found := _DOUBLE.match(text, at):
            piece, bare = re.sub(r'\\([$`"\\])', r"\1", found[0][1:-1]), False
        else:
            break
        pieces.append(piece)
        at = found.end()
    if at == start or (at < len(text) and text[at] not in " \t\n;|&<>"):
        raise Unclear(next((why for pattern, why in _REASONS if pattern.match(text, at)), "it is not plain"))
    if wildcards and not bare:
        raise Unclear("a word of it mixes wildcards and quotation")
    return at, Word("".join(pieces), wildcards, bare)


def _grouped(tokens: list[_Token]) -> tuple[Command, ...]:
    """The commands between the operators. Each operator stands behind a command; all but `;` want another."""
    done: list[Command] = []
    current: list[Word] = []
    before = ""  # the operator before the current command

    def end(operator: str) -> None:
        nonlocal before
        if not (current[0].bare and _PROGRAM.fullmatch(current[0].text)):
            raise Unclear("the name of a program in it is not plain")
        done.append(Command(tuple(current), "|" in (before, operator)))
        current.clear()
        before = operator

    for token in tokens:
        match token.kind:
            case "word":
                current.append(token.word)
            case "operator" | "redirect" if not current:
                raise Unclear("an operator in it stands before a command")
            case "operator":
                end(token.word.text)
            case "newline" if current:
                end("")
    if current:
        end("")
    if before not in ("", ";"):
        raise Unclear("an operator in it ends it")
    if not done:
        raise Unclear("it runs nothing")
    return tuple(done)


_STRUCTURE = frozenset({"program", "list", "pipeline", "redirected_statement", "command", "command_name"})
_TEST = frozenset({"unary_expression", "binary_expression"})
_WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation", "test_operator"})
_WITHIN = frozenset({"word", "number", "raw_string", "string", "string_content", '"', "$"})
_TEST_SIGNS = frozenset({"[", "]", "!", "=", "==", "!="})
_OPERATORS = frozenset({"&&", "||", "|", ";"})


def _agree(text: str, tokens: list[_Token]) -> None:
    """Raises Unclear unless tree-sitter-bash sees the same tokens at the same places, and nothing else."""
    tree = _parser().parse(text.encode("ascii"))
    if tree.root_node.has_error:
        raise Unclear("it is no valid shell command")
    theirs: list[tuple[str, int, int]] = []
    _gather(tree.root_node, theirs)
    ours = [(token.kind, token.start, token.end) for token in tokens if token.kind != "newline"]
    if theirs != ours:
        raise Unclear("its parts are not clear")


def _gather(node: Node, found: list[tuple[str, int, int]], *, testing: bool = False) -> None:
    if node.is_missing:
        raise Unclear("it is no valid shell command")
    kind = node.type
    if kind in _STRUCTURE or kind == "test_command" or (testing and kind in _TEST):
        for child in node.children:
            _gather(child, found, testing=testing or kind == "test_command")
        return
    if kind in _WORDS or (testing and kind in _TEST_SIGNS):
        _check_word(node)
        name = "word"
    elif kind in _OPERATORS and not testing:
        name = "operator"
    elif kind == "file_redirect":
        name = "redirect"
    elif kind == "comment":
        name = "comment"
    else:
        raise Unclear("it is more than programs and their arguments")
    found.append((name, node.start_byte, node.end_byte))


def _check_word(node: Node) -> None:
    for child in node.children:
        if child.type not in _WITHIN:
            raise Unclear("the shell would replace something in it")
        _check_word(child)


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
