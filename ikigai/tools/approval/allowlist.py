"""Decide which shell commands run without a question: those that certainly follow a rule.

A command passes when it is plain (see `shell_parser`), each of its programs follows a rule (see `allow_rules`), and
each file it names lies inside the working directory, links resolved, and does not look like one with keys. `cd` passes
into a folder inside. It may fail: after `cd x &&` the commands must pass in x, after `cd x ||` in the folder before it,
and after `cd x;` in both.

The verdict is about the text and the present files, so judge right before running. It holds for
`bash --noprofile --norc -c` with an environment in which nothing else decides what a command is: no BASH_ENV, BASHOPTS,
SHELLOPTS, exported functions, CDPATH, GLOBIGNORE or RIPGREP_CONFIG_PATH. If a program searches a folder (`grep -r`,
`rg`), no file that it could read there looks like one with keys; no link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ikigai.tools.approval import allow_rules, shell_parser
from ikigai.tools.approval.allow_rules import AllowRule, ExactRule, Operand, RuleMismatch
from ikigai.tools.approval.path_policy import PathScope, expand_wildcards, is_below, overlaps, resolve_name
from ikigai.tools.approval.recursive_search import FolderWalks, parse_search
from ikigai.tools.approval.shell_parser import NotPlain, SimpleCommand, Word
from ikigai.tools.secret_files import is_secret

SHIPPED_RULES = Path(__file__).parent / "rules.toml"
MAX_WILDCARD_FILES = 5_000
"""Maximum files that are matched with the wildcards of one word."""
_MAX_FOLDERS = 8  # in which a command may run after some `cd`
_BUILTINS = frozenset({"echo", "pwd", "test", "[", "true", "false", "type", "command"})


class AllowVerdict(NamedTuple):
    """Verdict about a command: `approved`, and the reason as a clause. `programs` are those that passed."""

    approved: bool
    why: str
    programs: tuple[str, ...] = ()


class Allowlist:
    """Rules of ikigai and of the user: a command must follow any one of them."""

    def __init__(self, own_rules: Iterable[AllowRule | ExactRule] = ()) -> None:
        self._own_rules = tuple(own_rules)

    def extended(self, rules: Iterable[AllowRule | ExactRule]) -> Allowlist:
        """Return the list with further rules of the user."""
        return Allowlist((*self._own_rules, *rules))

    def judge(self, command: str, scope: PathScope, folder: str) -> AllowVerdict:
        """Judge if `command` may run in `folder` (a real path). Read the disk, change nothing, raise nothing."""
        try:
            commands = shell_parser.parse_commands(command)
            self._check_commands(commands, scope, folder)
        except (NotPlain, RuleMismatch) as refusal:
            return AllowVerdict(False, str(refusal))
        except ImportError as error:  # with a broken installation every command needs approval
            return AllowVerdict(False, f"the parser for shell commands is missing ({error})")
        names = tuple(dict.fromkeys(each.words[0].text for each in commands))
        return AllowVerdict(True, f"allow-list: {', '.join(names)}", names)

    def _check_commands(self, commands: Sequence[SimpleCommand], scope: PathScope, folder: str) -> None:
        if not is_below(scope.root, folder):
            raise RuleMismatch("it runs outside the working directory")
        places, walks = _Places(folder), FolderWalks()
        own_programs, wildcards = set[str](), list[str]()
        for command in commands:
            folders = places.before(command)
            for word, each in product(command.inputs, folders):
                _check_input(word.text, scope, each)
            if command.words[0].text == "cd":
                if command.piped:
                    raise RuleMismatch("cd in a pipeline has no effect")
                places.enter({_cd_target(command.words, scope, each) for each in folders})
                continue
            operands, is_own = self._match_rule(command.words, scope)
            for each in folders:
                check_operands(command.words, operands, scope, each, walks)
            if is_own and command.inputs:
                raise RuleMismatch("a redirection is not part of your rule")
            own_programs |= {command.words[0].text} if is_own else set()
            wildcards += (operand.word.text for operand in operands if operand.may_be_option)
            if own_programs and wildcards:
                made_by = ", ".join(sorted(own_programs))
                raise RuleMismatch(f"{made_by} may make a file named like an option; write ./{wildcards[0]}")

    def _match_rule(self, words: Sequence[Word], scope: PathScope) -> tuple[list[Operand], bool]:
        """Return the operands by the first rule that the words follow, and if it is the user's; these come first."""
        name = words[0].text
        test_words = _bracket_as_test(words)
        refusal = RuleMismatch(f"{name} is not in the allow-list")
        for rule in (*self._own_rules, *_shipped_rules().get(test_words[0].text, ())):
            if allow_rules.rule_program(rule) != test_words[0].text:
                continue
            try:
                operands = allow_rules.match_rule(rule, test_words)
            except RuleMismatch as mismatch:
                refusal = RuleMismatch(f"{name}: {mismatch}")
                continue
            is_own = rule in self._own_rules
            if not is_own:
                check_program(name, scope)
            return operands, is_own
        raise refusal


class _Places:
    """Folders in which the next command of a line may run: after success of the command before, and after failure."""

    def __init__(self, folder: str) -> None:
        self._succeeded = self._failed = self._here = frozenset({folder})
        self._skipped = frozenset[str]()  # folders in which the line goes on without the command

    def before(self, command: SimpleCommand) -> frozenset[str]:
        """Return the folders in which the command may run, and take it for one that stays there."""
        match command.after:
            case "&&":
                self._here, self._skipped = self._succeeded, frozenset()
                self._failed |= self._here
            case "||":
                self._here, self._skipped = self._failed, self._succeeded
                self._succeeded |= self._here
            case "|":
                pass
            case _:
                self._here = self._succeeded = self._failed = self._succeeded | self._failed
                self._skipped = frozenset()
        return self._here

    def enter(self, folders: set[str]) -> None:
        """Take the command for a `cd` that leads into one of the folders, or fails."""
        self._succeeded = frozenset(folders) | self._skipped
        if len(self._succeeded | self._failed) > _MAX_FOLDERS:
            raise RuleMismatch("it changes the folder too many times")


@cache
def _shipped_rules() -> dict[str, tuple[AllowRule | ExactRule, ...]]:
    rules: dict[str, tuple[AllowRule | ExactRule, ...]] = {}
    for rule in allow_rules.parse_rules(tomllib.loads(SHIPPED_RULES.read_text("utf-8"))["allow"], str(SHIPPED_RULES)):
        rules[allow_rules.rule_program(rule)] = (*rules.get(allow_rules.rule_program(rule), ()), rule)
    return rules


def _bracket_as_test(words: Sequence[Word]) -> Sequence[Word]:
    """Return `test …` for [ … ], which means the same."""
    if words[0].text != "[":
        return words
    if words[-1].text != "]":
        raise RuleMismatch("[ has no closing ]")
    return (Word("test"), *words[1:-1])


def check_operands(
    words: Sequence[Word], operands: Sequence[Operand], scope: PathScope, folder: str, walks: FolderWalks | None = None
) -> None:
    """Raise RuleMismatch unless every file that the command means in `folder` may be read without a question."""
    _check_path(".", Operand(Word(".")), scope, folder)  # a program without operands may read it
    for operand in operands:
        _check_operand(operand, scope, folder)
    _check_search(words, operands, scope, folder, walks or FolderWalks())


def check_program(name: str, scope: PathScope) -> None:
    """Raise RuleMismatch unless the name is a builtin, or a program from outside the project, as the rule means."""
    if name in _BUILTINS:
        return
    if any(not entry.startswith("/") for entry in scope.path.split(":")):
        raise RuleMismatch("PATH has an entry that depends on the folder")
    program = shutil.which(name, path=scope.path)
    if program is None:
        raise RuleMismatch(f"{name} is not installed")
    if is_below(scope.root, os.path.normpath(program)) or is_below(scope.root, os.path.realpath(program)):
        raise RuleMismatch(f"{name} is a program in the working directory")


def _cd_target(words: Sequence[Word], scope: PathScope, folder: str) -> str:
    if len(words) != 2 or words[1].wildcards or words[1].text.startswith(("-", "+")) or not words[1].text:
        raise RuleMismatch("cd: only one literal folder is allowed")
    target = resolve_name(scope.root, folder, words[1].text)
    # After a link the shell resolves `..` otherwise than programs do.
    if target is None or target != os.path.normpath(os.path.join(folder, words[1].text)):  # noqa: PTH118
        raise RuleMismatch(f"cd: {words[1].text!r} leads outside the working directory, or through a link")
    return target


def _check_operand(operand: Operand, scope: PathScope, folder: str) -> None:
    """Raise RuleMismatch unless every file that the operand means may be read without a question."""
    word = operand.word
    if not word.wildcards:
        _check_path(word.text, operand, scope, folder)
        return
    start, slash, _ = re.split("[*?]", word.text)[0].rpartition("/")
    _check_path(start + slash or ".", Operand(word), scope, folder)
    if ".." in word.text.split("/"):
        raise RuleMismatch(f"{word.text!r} has .. after a wildcard")
    try:
        names = list(expand_wildcards(folder, word.text, MAX_WILDCARD_FILES))
    except LookupError:
        raise RuleMismatch(f"{word.text!r} matches too many files") from None
    found = (os.path.lexists(os.path.join(folder, name)) for name in names)  # noqa: PTH118
    if operand.may_be_option and not any(found):  # so there is nothing to judge
        raise RuleMismatch(f"{word.text!r} matches nothing")
    for name in names:
        if operand.may_be_option and name.startswith("-"):
            raise RuleMismatch(f"{word.text!r} matches a file named like an option; write ./{word.text}")
        _check_path(name, operand, scope, folder)


def _check_input(name: str, scope: PathScope, folder: str) -> None:
    """Raise RuleMismatch unless a command may read this file as its input. Nothing but a file: a pipe does not end."""
    if name != "/dev/null":
        _check_path(name, Operand(Word(name)), scope, folder)
        if not Path(folder, name).is_file():
            raise RuleMismatch(f"{name!r} is not a file")


def _check_search(
    words: Sequence[Word], operands: Sequence[Operand], scope: PathScope, folder: str, walks: FolderWalks
) -> None:
    """Raise RuleMismatch if a recursive search could read a file that looks like one with keys."""
    search = parse_search([word.text for word in words])
    if search is None:
        return
    names = [name for each in operands for name in _names(each.word, folder)]
    for name in names or ["."]:
        real = os.path.realpath(os.path.join(folder, name))  # noqa: PTH118
        try:
            doubt = walks.find_doubt(search, scope.root, real)
        except LookupError:
            raise RuleMismatch(f"{name!r} has too many files to check them for keys or passwords") from None
        if doubt:
            raise RuleMismatch(f"it could read {doubt}")


def _names(word: Word, folder: str) -> Iterable[str]:
    return expand_wildcards(folder, word.text, MAX_WILDCARD_FILES) if word.wildcards else (word.text,)


def _check_path(name: str, operand: Operand, scope: PathScope, folder: str) -> None:
    if name == "-" and not os.path.lexists(os.path.join(folder, name)):  # noqa: PTH118
        return
    real = resolve_name(scope.root, folder, name) if name else None
    if real is None:
        raise RuleMismatch(f"{name!r} is outside the working directory")
    if overlaps(scope.own, real):
        raise RuleMismatch(f"{name!r} is or contains a file of ikigai itself")
    written = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118
    if is_secret(scope.root, real) or is_secret(scope.root, written):
        raise RuleMismatch(f"{name!r} looks like a file with keys or passwords")
    if operand.file and Path(real).is_dir():
        raise RuleMismatch(f"{name!r} is a folder")
