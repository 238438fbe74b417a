"""Offer and match rules for later: a command as it was approved, with a star for its operands.

    git status *        git log --oneline -5 *        ls -la *

A rule is program, subcommand and options, word for word. A command follows it if

    it is one plain program               no pipe, list, redirection, comment, substitution, variable, assignment
    it begins with the rule's words       as the parser finds them, none with a wildcard
    all other words are plain operands    letters, digits and . / _ , + -: no option, wildcard, @file or NAME=VALUE
    a shape in the tables takes it whole  rules.toml (programs that only look) or star_rules.toml
    its program is not a file of the project, and it runs in the folder that the rule belongs to
    no operand is protected, secret, ikigai's own or outside the working directory, links resolved
    a recursive search in it could read no file that looks like one with keys

The tables are the policy: a program that stands in neither has no rule, and neither has one whose option takes the next
word, for then an operand could become a value. A rule is judged anew for every command, right before it runs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ikigai.tools.approval import allow_rules, shell_parser
from ikigai.tools.approval.allow_rules import AllowRule, Operand, RuleMismatch
from ikigai.tools.approval.allowlist import SHIPPED_RULES, check_operands, check_program
from ikigai.tools.approval.path_policy import PathScope, is_below, protection_reason
from ikigai.tools.approval.shell_parser import NotPlain, Word

STAR_RULES = Path(__file__).parent / "star_rules.toml"
_OPERAND = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./,+-]*")
_OPTION = re.compile(r"-[A-Za-z0-9]+|--[a-z][a-z0-9-]*(=[A-Za-z0-9_.,/%-]+)?")


def offer_rule(command: str, scope: PathScope, folder: str) -> str:
    """Return the rule that the command would follow in `folder` (a real path); "" if there is no safe one."""
    try:
        words = shell_parser.parse_program(command)
        for shape in _shapes(words):
            fixed = _fixed_words(shape, words)
            if fixed and shape.operands and follows_rule(rule := " ".join((*fixed, "*")), command, scope, folder):
                return rule
    except (NotPlain, ImportError):
        pass
    return ""


def find_rule(rules: Iterable[str], command: str, scope: PathScope, folder: str) -> str:
    """Return the first of the rules that the command follows; "" for none."""
    return next((rule for rule in rules if follows_rule(rule, command, scope, folder)), "")


def follows_rule(rule: str, command: str, scope: PathScope, folder: str) -> bool:
    """Return True if the command follows the rule in `folder`. Read the disk, change nothing, raise nothing."""
    *fixed, star = rule.split(" ")
    try:
        words = shell_parser.parse_program(command)
        if star != "*" or [word.text for word in words[: len(fixed)]] != fixed or not is_below(scope.root, folder):
            return False
        if any(word.wildcards for word in words) or not all(
            _OPERAND.fullmatch(word.text) for word in words[len(fixed) :]
        ):
            return False
        return any(
            _fixed_words(shape, words) == tuple(fixed) and _is_allowed(shape, words, len(fixed), scope, folder)
            for shape in _shapes(words)
        )
    except (NotPlain, ImportError):
        return False


def _is_allowed(shape: AllowRule, words: Sequence[Word], fixed: int, scope: PathScope, folder: str) -> bool:
    try:
        operands = [*allow_rules.match_rule(shape, words), *map(Operand, words[fixed:])]
        check_program(words[0].text, scope)
        check_operands(words, operands, scope, folder)
    except RuleMismatch:
        return False
    paths = (os.path.realpath(os.path.join(folder, each.word.text)) for each in operands)  # noqa: PTH118
    return not any(os.path.lexists(path) and protection_reason(scope, path) for path in paths)


def _fixed_words(shape: AllowRule, words: Sequence[Word]) -> tuple[str, ...]:
    """Return the words that the star does not stand for: the program and its options; () if there is no safe rule."""
    fixed = shell_parser.parse_words(shape.command)
    for word in words[len(fixed) :]:
        if not word.text.startswith("-"):
            break
        if not _stands_alone(shape, word.text):
            return ()
        fixed = (*fixed, word.text)
    return fixed


def _stands_alone(shape: AllowRule, option: str) -> bool:
    """Return True if the shape has this option, and no word after it can become its value."""
    kinds = dict(allow_rules.option_kinds(shape.options))
    if not _OPTION.fullmatch(option):
        return False
    if option.startswith("--") or shape.style == "words":
        name, equals, _ = option.partition("=")
        return name in kinds and (bool(equals) if kinds[name] in ("=", "=path") else True)
    if "-#" in kinds and option[1:].isdigit():
        return True
    return all(kinds.get(f"-{letter}") == "" for letter in option[1:])


def _shapes(words: Sequence[Word]) -> list[AllowRule]:
    """Return the shapes of the tables that begin as the words do."""
    texts = tuple(word.text for word in words)
    return [shape for own, shape in _table() if texts[: len(own)] == own]


@cache
def _table() -> tuple[tuple[tuple[str, ...], AllowRule], ...]:
    files = (SHIPPED_RULES, STAR_RULES)
    tables = [(str(file), tomllib.loads(file.read_text("utf-8"))["allow"]) for file in files]
    shapes = [shape for place, written in tables for shape in allow_rules.parse_rules(written, place)]
    return tuple((shell_parser.parse_words(shape.command), shape) for shape in shapes if isinstance(shape, AllowRule))
