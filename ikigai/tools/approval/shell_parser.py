"""Parse a shell command into plain programs and their words, and refuse a command that is not plain.

A plain command is simple commands joined by `&&`, `||`, `|`, `;` and line breaks, made of printable ASCII. Their words
are letters, quoted text without expansions, and at most the wildcards * and ?. Comments pass, and so do redirections
that write nothing: `2>&1`, `>&2`, `>/dev/null`, `2>/dev/null`, `&>/dev/null`, and `< FILE` after a blank. Everything
else is refused, and so is every doubt. Two parsers read the command: the lexer here, which knows only the above, and
tree-sitter-bash. Both must find the same words, operators and redirections at the same places.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_COMMAND_CHARACTERS = 4_000
"""Maximum characters of a command; nobody reads more before saying yes."""
MAX_PROGRAMS = 20
"""Maximum programs in one command, for the same reason."""


class NotPlain(Exception):
    """The command is not plain, for this reason: a clause without a full stop."""


class Word(NamedTuple):
    """One argument as the program gets it. With `wildcards` it is as the shell gets it, and no part of it is quoted.

    `bare` is True if it has no quoting.
    """

    text: str
    wildcards: bool = False
    bare: bool = True


class SimpleCommand(NamedTuple):
    """One program with its arguments.

    `inputs` are the files after `<`. `after` is the operator before the program: "&&", "||", "|" or "". `piped` is True
    in a pipeline, where `cd` has no effect.
    """

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()
    after: str = ""
    piped: bool = False


class _Token(NamedTuple):
    kind: str  # "word", "operator", "newline", "redirect", "input" or "comment"
    start: int
    end: int
    word: Word


_BLANK = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\|(?!\|)|\|(?![|&])|;(?![;&|])")
_REDIRECT = re.compile(r"(?:(?:[12]?>|&>)[ \t]*/dev/null|2>&1|1?>&2)(?=[ \t\n;|]|\Z)")
_INPUT = re.compile(r"<[ \t]*(?=[^ \t\n<>&|;(])")
_ALONE = re.compile(r"[!\[\]](?=[ \t\n;|&]|\Z)")
_BARE = re.compile(r"[A-Za-z0-9_./:,@%+=^*?-]+")
_SINGLE = re.compile(r"'([\t -&(-~]*)'")
_DOUBLE = re.compile(r'"((?:[\t #%-\[\]-_a-~]|\\[\t -~]|\$(?=["|)]))*)"')
_ESCAPED = re.compile(r"\\([ -~])")
_PROGRAM = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*|\[")
_REASONS = (
    (re.compile(r"[$`]"), "it has something that the shell expands"),
    (re.compile(r"[<>]"), "it has a redirection"),
    (re.compile(r"[(){}]"), "it has a group, braces, a subshell or a function"),
    (re.compile(r"&"), "it runs a command in the background"),
    (re.compile(r"[~\[\]!#]"), "it has an unquoted ~, [, ! or #"),
    (re.compile(r"['\"]"), "it has a quotation without an end, or with something that the shell may expand"),
    (re.compile(r"\\"), "it has a backslash before a line break or at the end"),
)


def parse_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the programs that a shell would run, in their order. Raise NotPlain."""
    if len(text) > MAX_COMMAND_CHARACTERS:
        raise NotPlain(f"it is longer than {MAX_COMMAND_CHARACTERS:,} characters")
    if invalid := re.search(r"[^\t\n -~]", text):
        raise NotPlain(f"it contains U+{ord(invalid[0]):04X}, and only plain ASCII is accepted")
    tokens = _tokenize(text)
    commands = _group_commands(tokens)
    if len(commands) > MAX_PROGRAMS:
        raise NotPlain(f"it runs more than {MAX_PROGRAMS} programs")
    _check_with_tree_sitter(text, tokens)
    return commands


def parse_program(text: str) -> tuple[Word, ...]:
    """Return the words of a text that runs one program and does nothing else. Raise NotPlain."""
    commands = parse_commands(text)
    if any(token.kind != "word" for token in _tokenize(text)):
        raise NotPlain("it is more than one simple command")
    return commands[0].words


def parse_words(text: str) -> tuple[str, ...]:
    """Return the words of one plain command, as in a rule. Raise NotPlain."""
    tokens = _tokenize(text)
    if not tokens or any(token.kind != "word" for token in tokens):
        raise NotPlain("it is not one simple command")
    return tuple(token.word.text for token in tokens)


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, blank = 0, True  # True after a blank, an operator or the start
    while at < len(text):
        if match := _BLANK.match(text, at):
            at, blank = match.end(), True
            continue
        kind, end, word = _next_token(text, at, blank)
        tokens.append(_Token(kind, at, end, word))
        at, blank = end, kind in ("operator", "newline")
    return tokens


def _next_token(text: str, at: int, blank: bool) -> tuple[str, int, Word]:
    """Return kind, end and text of the token that begins here; the text of a word is as the program gets it."""
    if text[at] == "\n":
        return "newline", at + 1, Word("\n")
    if blank:
        for kind, pattern in (("comment", _COMMENT), ("redirect", _REDIRECT), ("word", _ALONE)):
            if match := pattern.match(text, at):
                return kind, match.end(), Word(match[0])
    if match := _OPERATOR.match(text, at):
        return "operator", match.end(), Word(match[0])
    redirected = _INPUT.match(text, at) if blank else None
    end, word = _read_word(text, redirected.end() if redirected else at)
    if text[end : end + 1] in ("<", ">"):  # digits right before it would be a file descriptor
        raise NotPlain("it has a redirection")
    if redirected and word.wildcards:
        raise NotPlain("it has a redirection with a wildcard")
    return "input" if redirected else "word", end, word


def _read_word(text: str, at: int) -> tuple[int, Word]:
    pieces: list[str] = []
    wildcards, bare, start = False, True, at
    while at < len(text) and text[at] not in " \t\n;|&<>":
        if match := _BARE.match(text, at):
            piece = match[0]
            wildcards |= "*" in piece or "?" in piece
        elif match := _SINGLE.match(text, at) or _ESCAPED.match(text, at):
            piece, bare = match[1], False
        elif match := _DOUBLE.match(text, at):
            piece, bare = re.sub(r'\\([$`"\\])', r"\1", match[0][1:-1]), False
        else:
            break
        pieces.append(piece)
        at = match.end()
    if at == start or (at < len(text) and text[at] not in " \t\n;|&<>"):
        raise NotPlain(next((why for pattern, why in _REASONS if pattern.match(text, at)), "it is not plain"))
    if wildcards and not bare:
        raise NotPlain("one of its words mixes wildcards and quotes")
    return at, Word("".join(pieces), wildcards, bare)


def _group_commands(tokens: list[_Token]) -> tuple[SimpleCommand, ...]:
    """Return the commands between the operators. Each operator follows a command; all but `;` need another."""
    commands: list[SimpleCommand] = []
    current: list[Word] = []
    inputs: list[Word] = []
    before = ""  # the operator before the current command

    def end(operator: str) -> None:
        nonlocal before
        if not (current[0].bare and _PROGRAM.fullmatch(current[0].text)):
            raise NotPlain("it has a program name that is not plain text")
        commands.append(SimpleCommand(tuple(current), tuple(inputs), before.strip(";"), "|" in (before, operator)))
        current.clear()
        inputs.clear()
        before = operator

    for token in tokens:
        match token.kind:
            case "word":
                current.append(token.word)
            case "operator" | "redirect" | "input" if not current:
                raise NotPlain("it has an operator before a command")
            case "input":
                inputs.append(token.word)
            case "operator":
                end(token.word.text)
            case "newline" if current:
                end("")
    if current:
        end("")
    if before not in ("", ";"):
        raise NotPlain("it ends with an operator")
    if not commands:
        raise NotPlain("it runs no program")
    return tuple(commands)


_STRUCTURE = frozenset({"program", "list", "pipeline", "redirected_statement", "command", "command_name"})
_TEST = frozenset({"unary_expression", "binary_expression"})
_WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation", "test_operator"})
_WITHIN = frozenset({"word", "number", "raw_string", "string", "string_content", '"', "$"})
_TEST_SIGNS = frozenset({"[", "]", "!", "=", "==", "!="})
_OPERATORS = frozenset({"&&", "||", "|", ";"})


def _check_with_tree_sitter(text: str, tokens: list[_Token]) -> None:
    """Raise NotPlain unless tree-sitter-bash finds the same tokens at the same places, and no others."""
    tree = _parser().parse(text.encode("ascii"))
    if tree.root_node.has_error:
        raise NotPlain("it is not a valid shell command")
    theirs: list[tuple[str, int, int]] = []
    _collect_tokens(tree.root_node, theirs)
    ours = [(token.kind, token.start, token.end) for token in tokens if token.kind != "newline"]
    if theirs != ours:
        raise NotPlain("its parts are ambiguous")


def _collect_tokens(node: Node, tokens: list[tuple[str, int, int]], *, testing: bool = False) -> None:
    if node.is_missing:
        raise NotPlain("it is not a valid shell command")
    kind = node.type
    if kind in _STRUCTURE or kind == "test_command" or (testing and kind in _TEST):
        for child in node.children:
            _collect_tokens(child, tokens, testing=testing or kind == "test_command")
        return
    if kind in _WORDS or (testing and kind in _TEST_SIGNS):
        _check_word(node)
        name = "word"
    elif kind in _OPERATORS and not testing:
        name = "operator"
    elif kind == "file_redirect":
        for child in node.named_children:
            _check_word(child)
        name = "input" if node.children[0].type == "<" else "redirect"
    elif kind == "comment":
        name = "comment"
    else:
        raise NotPlain("it has more than programs and their arguments")
    tokens.append((name, node.start_byte, node.end_byte))


def _check_word(node: Node) -> None:
    for child in node.children:
        if child.type not in _WITHIN:
            raise NotPlain("it has something that the shell expands")
        _check_word(child)


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
