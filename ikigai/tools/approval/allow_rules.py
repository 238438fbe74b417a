"""Parse the rules of the allow-list from TOML, and match commands with them.

A rule is a command as text, or a table:

    "npm test"                      exactly these words
    "make *"                        these words, and then operands: no options, no NAME=VALUE, only paths inside
    {command = "pytest", options = ["-q", "-x", "-k=", "--maxfail=", "--color=?"], operands = "path..."}

    command          the program and, if wanted, its first words: "npm run"
    options          the options it may have, all spelled out, as abbreviations are refused:
                     "-q" takes no value, "-k=" takes one, "--rootdir=path" a path inside the working directory,
                     "--color=?" may have one attached; "-#" is a number (head -5), "--" the end of options
    operands         its other arguments, in order: kinds divided by blanks, the last with ... for any number of it.
                     "path" lies inside the working directory, "file" too and is not a folder, "text" is anything,
                     "name" is a program, or a path inside if it has a /; "number", "+text" and "lines" (sed's 1,20p)
                     look so; "" is none, "path..." the default
    style            "letters" (the default): one dash, then letters in bundles; two dashes, then a word
                     "words": -name, as find and go have it; "text": nothing is an option, as with echo
    first_given_by   options that replace the first operand, as grep's -e
    signs            words with a meaning of their own that may stand among the operands, as find's "!"
    leading_wildcards = true   an operand may begin with a wildcard (see below)

A wildcard at the beginning of a word can make a file's name an option. `./*` passes, `*` behind the option `--`, and in
the style "text", with which any option passes. Otherwise it passes with `leading_wildcards` alone, and only while it
matches names of which none begins with a dash. Such a name may still appear between the verdict and the run:

    the command line itself    no command that passes makes a file; beside a program of the user's rules, which may make
                               some, the wildcard is refused
    other calls and agents     tools that write files ask before they make a name with a dash (see `path_policy`)
    the user's own programs    may make any name; so only programs whose options write, run and send nothing have
                               `leading_wildcards`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.events.record import Record
from ikigai.tools.approval import shell_parser
from ikigai.tools.approval.shell_parser import NotPlain, Word

_OPTION = {
    "letters": re.compile(r"(-[A-Za-z0-9]|--[a-z0-9][A-Za-z0-9-]*)(=|=path|=\?)?|-#|--"),
    "words": re.compile(r"(--?[A-Za-z0-9][A-Za-z0-9._-]*)(=|=path|=\?)?|--"),
    "text": re.compile("(?!)"),
}
_KIND = r"(path|file|name|text|number|\+text|lines)"
_OPERANDS = re.compile(rf"({_KIND}( {_KIND})*(\.\.\.)?)?")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?[A-Za-z]{0,3}")
_LINES = r"([0-9]+|\$)(,([0-9]+|\$))?[p=]"
_OPERAND_SHAPES = {
    "number": _NUMBER,
    "+text": re.compile(r"\+.*"),
    "lines": re.compile(rf"{_LINES}( *; *{_LINES})*"),
    "name": re.compile(r"[A-Za-z0-9_./+@:-]+"),
}
_KEYWORDS = re.compile(r"!|\[\[|case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while")
"""Keywords of the shell, which do not begin a simple command."""


class AllowRule(Record, frozen=True, forbid_unknown_fields=True):
    """A rule written as a table."""

    command: str
    options: tuple[str, ...] = ()
    operands: str = "path..."
    style: Literal["letters", "words", "text"] = "letters"
    first_given_by: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    leading_wildcards: bool = False


class ExactRule(Record, frozen=True):
    """A rule written as text: these words, followed by operands if it `is_open`."""

    words: tuple[str, ...]
    is_open: bool = False


class Operand(NamedTuple):
    """A word that is a path, or has wildcards that stand for paths; as a `file` it must not be a folder.

    With `may_be_option` none of the paths may begin with a dash.
    """

    word: Word
    file: bool = False
    may_be_option: bool = False


class RuleMismatch(Exception):
    """The command does not follow the rule, for this reason: a clause without a full stop."""


def parse_rules(rules: Iterable[str | dict[str, Any]], place: str) -> tuple[AllowRule | ExactRule, ...]:
    """Parse rules. Raise ConfigError that names `place` ("FILE:LINE: tools.allow"), rule and remedy."""
    return tuple(_parse_rule(rule, f"{place}: rule {number}") for number, rule in enumerate(rules, 1))


def _parse_rule(rule: str | dict[str, Any], place: str) -> AllowRule | ExactRule:
    if isinstance(rule, str):
        return _parse_exact(rule, place)
    try:
        parsed = msgspec.convert(rule, AllowRule)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{place} is not a valid rule: {error}.", f"A rule has the keys {', '.join(AllowRule.__struct_fields__)}."
        ) from None
    _parse_command(parsed.command, place)
    for option in parsed.options:
        if not _OPTION[parsed.style].fullmatch(option):
            remedy = 'Write "-q", "-k=", "--file=path" or "--color=?"; style = "words" has options like -name.'
            raise ConfigError(f"{place}, {parsed.command}: {option!r} is not an option of this style.", remedy)
    if not _OPERANDS.fullmatch(parsed.operands):
        remedy = 'Write kinds separated by spaces, as "text path...": path, file, name, text, number, +text, lines.'
        raise ConfigError(f"{place}, {parsed.command}: operands cannot be {parsed.operands!r}.", remedy)
    for option in parsed.first_given_by:
        if option not in dict(option_kinds(parsed.options)):
            raise ConfigError(f"{place}, {parsed.command}: {option!r} is not among its options.", "Add it to them.")
    return parsed


def _parse_exact(rule: str, place: str) -> ExactRule:
    words = _parse_command(rule.removesuffix(" *"), place)
    return ExactRule(words, is_open=rule.endswith(" *"))


def _parse_command(command: str, place: str) -> tuple[str, ...]:
    try:
        words = shell_parser.parse_words(command)
    except NotPlain as error:
        remedy = "Write the words of one command, without wildcards, variables, redirections or operators."
        raise ConfigError(f"{place}: {command!r} is not a plain command: {error}.", remedy) from None
    if _KEYWORDS.fullmatch(words[0]) or "=" in words[0] or any(sign in word for word in words for sign in "*?"):
        raise ConfigError(
            f"{place}: {command!r} is not a plain command.",
            'Write its words. A * may be the last one, after a space: "make *".',
        )
    return words


def rule_program(rule: AllowRule | ExactRule) -> str:
    """Return the name with which a command must begin for the rule to apply."""
    return _words(rule)[0]


def _words(rule: AllowRule | ExactRule) -> tuple[str, ...]:
    return rule.words if isinstance(rule, ExactRule) else shell_parser.parse_words(rule.command)


def match_rule(rule: AllowRule | ExactRule, words: Sequence[Word]) -> list[Operand]:
    """Return the operands of a command whose paths have to be checked. Raise RuleMismatch if it breaks the rule."""
    own = _words(rule)
    if tuple(word.text for word in words[: len(own)]) != own or any(word.wildcards for word in words[: len(own)]):
        raise RuleMismatch(f"only {' '.join(own)} is allowed")
    rest = words[len(own) :]
    if isinstance(rule, ExactRule):
        return _check_operands(rule, rest)
    return _CommandReader(rule).read(rest)


def _check_operands(rule: ExactRule, rest: Sequence[Word]) -> list[Operand]:
    if rest and not rule.is_open:
        raise RuleMismatch(f"only {' '.join(rule.words)} is allowed, with nothing after it")
    for word in rest:
        if word.text[:1] in ("-", "") or may_be_option(word) or "=" in word.text:
            raise RuleMismatch(f"{word.text!r} is not a plain operand")
    return [Operand(word) for word in rest]


class _CommandReader:
    """Reader of one command by a rule: options in their style, operands by their kinds."""

    def __init__(self, rule: AllowRule) -> None:
        self._rule = rule
        self._option_kinds = dict(option_kinds(rule.options))
        self._seen: set[str] = set()
        self._paths: list[Operand] = []
        self._operands: list[tuple[Word, bool]] = []  # True for one after --

    def read(self, words: Sequence[Word]) -> list[Operand]:
        rest = iter(words)
        dashed = False
        for word in rest:
            if dashed or self._rule.style == "text" or not word.text.startswith("-") or word.text == "-":
                self._operands.append((word, dashed))
            elif word.text == "--":
                if "--" not in self._option_kinds:
                    raise RuleMismatch("the option -- is not allowed")
                dashed = True
            elif self._rule.style == "words" or word.text.startswith("--"):
                self._long(word, rest)
            else:
                self._bundle(word, rest)
        self._check_kinds()
        return self._paths

    def _long(self, word: Word, rest: Iterator[Word]) -> None:
        name, equals, value = word.text.partition("=")
        kind = self._kind(name)
        if word.wildcards and not (equals and kind in ("=", "=?") and not set("*?") & set(name)):
            raise RuleMismatch(f"the wildcard in {word.text!r} may match an option")
        if equals and not kind:
            raise RuleMismatch(f"{name} takes no value")
        if equals:
            self._add_value(kind, Word(value, bare=word.bare))
        elif kind not in ("", "=?"):
            self._add_value(kind, self._next_value(name, rest))

    def _bundle(self, word: Word, rest: Iterator[Word]) -> None:
        if word.wildcards:
            raise RuleMismatch(f"the wildcard in {word.text!r} may match an option")
        if "-#" in self._option_kinds and word.text[1:].isdigit():
            return
        for index, letter in enumerate(word.text[1:], 2):
            kind = self._kind(f"-{letter}")
            if kind == "=?" or (kind and word.text[index:]):
                if word.text[index:]:
                    self._add_value(kind, Word(word.text[index:], bare=word.bare))
                return
            if kind:
                self._add_value(kind, self._next_value(f"-{letter}", rest))

    def _kind(self, name: str) -> str:
        if name not in self._option_kinds or name in ("--", "-#"):
            raise RuleMismatch(f"the option {name} is not allowed")
        self._seen.add(name)
        return self._option_kinds[name]

    def _next_value(self, name: str, rest: Iterator[Word]) -> Word:
        """Return the next word as the value of an option. Raise RuleMismatch if it looks like an option.

        If another version of the program takes no value here, it would be one.
        """
        word = next(rest, None)
        if word is None:
            raise RuleMismatch(f"{name} needs a value")
        if word.wildcards or (word.text.startswith("-") and word.text != "-" and not _NUMBER.fullmatch(word.text)):
            raise RuleMismatch(f"{word.text!r} after {name} may be an option")
        return word

    def _add_value(self, kind: str, word: Word) -> None:
        if kind == "=path":
            self._paths.append(Operand(word))

    def _check_kinds(self) -> None:
        rule = self._rule
        kinds = rule.operands.removesuffix("...").split()
        if not self._seen.isdisjoint(rule.first_given_by):
            kinds = kinds[1:] or kinds
        many = rule.operands.endswith("...")
        for index, (word, dashed) in enumerate(pair for pair in self._operands if pair[0].text not in rule.signs):
            if index >= len(kinds) and not (many and kinds):
                raise RuleMismatch(f"{word.text!r} is one word too many")
            is_last = index >= len(kinds) - 1
            self._operand(kinds[min(index, len(kinds) - 1)], word, repeated=many and is_last, dashed=dashed)

    def _operand(self, kind: str, word: Word, *, repeated: bool, dashed: bool) -> None:
        leads = not dashed and self._rule.style != "text" and may_be_option(word)
        if word.wildcards and (not repeated or kind not in ("path", "file", "text")):
            raise RuleMismatch(f"{word.text!r} may match more than one file")
        if leads and not self._rule.leading_wildcards:
            raise RuleMismatch(f"{word.text!r} may match a file named like an option; write ./{word.text}")
        if kind in _OPERAND_SHAPES and not _OPERAND_SHAPES[kind].fullmatch(word.text):
            raise RuleMismatch(f"{word.text!r} is not allowed here")
        if kind in ("path", "file") or word.wildcards or (kind == "name" and "/" in word.text):
            self._paths.append(Operand(word, kind == "file", leads))


def may_be_option(word: Word) -> bool:
    """Return True if the shell may expand it to a name with a leading dash. The parser has refused [, {, ~ and $."""
    return word.wildcards and word.text[0] in "*?"


def option_kinds(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each option and its value: "" none, "=" text, "=path", "=?" an attached text or none."""
    for option in options:
        name, equals, kind = option.partition("=")
        yield name, equals + kind
