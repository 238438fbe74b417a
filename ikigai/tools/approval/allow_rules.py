"""The rules of the allow-list: their form in TOML, what is wrong with one, and whether a command follows one.

A rule is a command as text, or a table:

    "npm test"                      exactly these words
    "make *"                        these words, and then operands: no options, no NAME=VALUE, only paths inside
    {command = "pytest", options = ["-q", "-x", "-k=", "--maxfail=", "--color=?"], operands = "path..."}

    command          the program and, if wanted, its first words: "npm run"
    options          the options it may have, all spelled out, for none is taken abbreviated:
                     "-q" takes no value, "-k=" takes one, "--rootdir=path" a path inside the working directory,
                     "--color=?" may have one attached; "-#" is a number (head -5), "--" the end of options
    operands         what else it may have, in order: kinds divided by blanks, the last with ... for any number of it.
                     "path" lies inside the working directory, "file" too and is no folder, "text" is anything,
                     "number", "+text" and "lines" (sed's 1,20p) look so; "" is none, "path..." the default
    style            "letters" (the default): one dash, then letters in bundles; two dashes, then a word
                     "words": -name, as find and go have it; "text": nothing is an option, as with echo
    first_given_by   options that say what else the first operand would say, as grep's -e
    signs            words with a meaning of their own that may stand among the operands, as find's "!"

A wildcard never begins a word: a file with the name of an option would become that option. The files that are there
now do not matter, as others may be there when the command runs. `./*` passes, `*` behind the option `--`, and in the
style "text", with which any option passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.record import Record
from ikigai.tools.approval import shell_parser as shell_words
from ikigai.tools.approval.shell_parser import Unclear, Word

_OPTION = {
    "letters": re.compile(r"(-[A-Za-z0-9]|--[a-z0-9][A-Za-z0-9-]*)(=|=path|=\?)?|-#|--"),
    "words": re.compile(r"(--?[A-Za-z0-9][A-Za-z0-9._-]*)(=|=path|=\?)?|--"),
    "text": re.compile("(?!)"),
}
_KIND = r"(path|file|text|number|\+text|lines)"
_OPERANDS = re.compile(rf"({_KIND}( {_KIND})*(\.\.\.)?)?")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?[A-Za-z]{0,3}")
_SHAPES = {"number": _NUMBER, "+text": re.compile(r"\+.*"), "lines": re.compile(r"[0-9]+(,([0-9]+|\$))?p|\$p")}
_NEVER = re.compile(r"!|\[\[|case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while")
"""Words with which the shell begins something else than a command."""


class Rule(Record, frozen=True, forbid_unknown_fields=True):
    """A rule written as a table."""

    command: str
    options: tuple[str, ...] = ()
    operands: str = "path..."
    style: Literal["letters", "words", "text"] = "letters"
    first_given_by: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()


class Exactly(Record, frozen=True):
    """A rule written as text: these words, and if it is `open` operands behind them."""

    words: tuple[str, ...]
    open: bool = False


class Operand(NamedTuple):
    """A word that is a path, or has wildcards that stand for some; as a `file` it must not be a folder."""

    word: Word
    file: bool = False


class Unlike(Exception):
    """The command does not follow the rule, for this reason: a clause without a full stop."""


def parsed(rules: Iterable[str | dict[str, Any]], place: str) -> tuple[Rule | Exactly, ...]:
    """Rules as they were written. Raises ConfigError that names `place` ("FILE:LINE: tools.allow"), rule and remedy."""
    return tuple(_parsed(rule, f"{place}: rule {number}") for number, rule in enumerate(rules, 1))


def _parsed(rule: str | dict[str, Any], place: str) -> Rule | Exactly:
    if isinstance(rule, str):
        return _text(rule, place)
    try:
        made = msgspec.convert(rule, Rule)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{place} is no rule: {error}.", f"Its keys are {', '.join(Rule.__struct_fields__)}."
        ) from None
    _named(made.command, place)
    for option in made.options:
        if not _OPTION[made.style].fullmatch(option):
            remedy = 'Write "-q", "-k=", "--file=path" or "--color=?"; style = "words" has options like -name.'
            raise ConfigError(f"{place}, {made.command}: {option!r} is no option of this style.", remedy)
    if not _OPERANDS.fullmatch(made.operands):
        remedy = 'Write kinds divided by blanks, as "text path...": path, file, text, number, +text, lines.'
        raise ConfigError(f"{place}, {made.command}: operands cannot be {made.operands!r}.", remedy)
    for option in made.first_given_by:
        if option not in dict(_values(made.options)):
            raise ConfigError(f"{place}, {made.command}: {option!r} is not among its options.", "Add it to them.")
    return made


def _text(rule: str, place: str) -> Exactly:
    words = _named(rule.removesuffix(" *"), place)
    return Exactly(words, open=rule.endswith(" *"))


def _named(command: str, place: str) -> tuple[str, ...]:
    try:
        words = shell_words.words(command)
    except Unclear as error:
        remedy = "Write the words of one command, without wildcards, variables, redirections and operators."
        raise ConfigError(f"{place}, {command!r}, is no plain command: {error}.", remedy) from None
    if _NEVER.fullmatch(words[0]) or "=" in words[0] or any(sign in word for word in words for sign in "*?"):
        raise ConfigError(
            f"{place}, {command!r}, is no plain command.",
            'Write its words; a * may stand as the last, behind a blank: "make *".',
        )
    return words


def program(rule: Rule | Exactly) -> str:
    """The name that a command must begin with to be meant by the rule."""
    return _words(rule)[0]


def _words(rule: Rule | Exactly) -> tuple[str, ...]:
    return rule.words if isinstance(rule, Exactly) else shell_words.words(rule.command)


def follow(rule: Rule | Exactly, words: Sequence[Word]) -> list[Operand]:
    """The words of a command that need a look at their paths, if it follows the rule. Raises Unlike."""
    own = _words(rule)
    if tuple(word.text for word in words[: len(own)]) != own or any(word.wildcards for word in words[: len(own)]):
        raise Unlike(f"only {' '.join(own)} is allowed")
    rest = words[len(own) :]
    if isinstance(rule, Exactly):
        return _open(rule, rest)
    return _Reading(rule).read(rest)


def _open(rule: Exactly, rest: Sequence[Word]) -> list[Operand]:
    if rest and not rule.open:
        raise Unlike(f"only {' '.join(rule.words)} is allowed, with nothing behind it")
    for word in rest:
        if word.text[:1] in ("-", "") or may_be_option(word) or "=" in word.text:
            raise Unlike(f"{word.text!r} is more than an operand")
    return [Operand(word) for word in rest]


class _Reading:
    """One command read by a rule: options in their style, operands by their kinds."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._values = dict(_values(rule.options))
        self._seen: set[str] = set()
        self._found: list[Operand] = []
        self._operands: list[tuple[Word, bool]] = []  # and whether options have ended before it

    def read(self, words: Sequence[Word]) -> list[Operand]:
        rest = iter(words)
        ended = False
        for word in rest:
            if ended or self._rule.style == "text" or not word.text.startswith("-") or word.text == "-":
                self._operands.append((word, ended))
            elif word.text == "--":
                if "--" not in self._values:
                    raise Unlike("-- is not among the options allowed")
                ended = True
            elif self._rule.style == "words" or word.text.startswith("--"):
                self._long(word, rest)
            else:
                self._bundle(word, rest)
        self._by_kinds()
        return self._found

    def _long(self, word: Word, rest: Iterator[Word]) -> None:
        name, equals, value = word.text.partition("=")
        kind = self._kind(name)
        if word.wildcards and not (equals and kind in ("=", "=?") and not set("*?") & set(name)):
            raise Unlike(f"the wildcard in {word.text!r} may stand for an option")
        if equals and not kind:
            raise Unlike(f"{name} takes no value")
        if equals:
            self._value(kind, Word(value, bare=word.bare))
        elif kind not in ("", "=?"):
            self._value(kind, self._next(name, rest))

    def _bundle(self, word: Word, rest: Iterator[Word]) -> None:
        if word.wildcards:
            raise Unlike(f"the wildcard in {word.text!r} may stand for an option")
        if "-#" in self._values and word.text[1:].isdigit():
            return
        for place, letter in enumerate(word.text[1:], 2):
            kind = self._kind(f"-{letter}")
            if kind == "=?" or (kind and word.text[place:]):
                if word.text[place:]:
                    self._value(kind, Word(word.text[place:], bare=word.bare))
                return
            if kind:
                self._value(kind, self._next(f"-{letter}", rest))

    def _kind(self, name: str) -> str:
        if name not in self._values or name in ("--", "-#"):
            raise Unlike(f"{name} is not among the options allowed")
        self._seen.add(name)
        return self._values[name]

    def _next(self, name: str, rest: Iterator[Word]) -> Word:
        """The next word as an option's value. It never looks like an option: should another version of the program
        take no value here, it would be one."""
        word = next(rest, None)
        if word is None:
            raise Unlike(f"{name} has no value")
        if word.wildcards or (word.text.startswith("-") and word.text != "-" and not _NUMBER.fullmatch(word.text)):
            raise Unlike(f"{word.text!r} behind {name} may be an option")
        return word

    def _value(self, kind: str, word: Word) -> None:
        if kind == "=path":
            self._found.append(Operand(word))

    def _by_kinds(self) -> None:
        rule = self._rule
        kinds = rule.operands.removesuffix("...").split()
        if not self._seen.isdisjoint(rule.first_given_by):
            kinds = kinds[1:] or kinds
        many = rule.operands.endswith("...")
        for place, (word, ended) in enumerate(pair for pair in self._operands if pair[0].text not in rule.signs):
            if place >= len(kinds) and not (many and kinds):
                raise Unlike(f"{word.text!r} is one word too many")
            last = place >= len(kinds) - 1
            self._operand(kinds[min(place, len(kinds) - 1)], word, repeated=many and last, ended=ended)

    def _operand(self, kind: str, word: Word, *, repeated: bool, ended: bool) -> None:
        if word.wildcards:
            if not repeated or kind not in ("path", "file", "text"):
                raise Unlike(f"{word.text!r} may stand for more than one word")
            if not ended and self._rule.style != "text" and may_be_option(word):
                raise Unlike(f"{word.text!r} may stand for a file that is called like an option; write ./{word.text}")
        if kind in _SHAPES and not _SHAPES[kind].fullmatch(word.text):
            raise Unlike(f"{word.text!r} is not allowed here")
        if kind in ("path", "file") or word.wildcards:
            self._found.append(Operand(word, kind == "file"))


def may_be_option(word: Word) -> bool:
    """Return if the shell may put a name with a leading dash in its place. The parser refuses [, {, ~ and $ before."""
    return word.wildcards and word.text[0] in "*?"


def _values(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each option's name with what it takes: "" nothing, "=" text, "=path", "=?" an attached text or nothing."""
    for option in options:
        name, equals, kind = option.partition("=")
        yield name, equals + kind
