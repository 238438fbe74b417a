"""Decides which shell commands run without a question: those that follow a rule, as far as can be known for certain.

A command passes when it is plain (see `shell_parser`), each of its programs follows a rule (see `allow_rules`), and
each file it names lies inside the working directory, links resolved, and does not look like one with keys. `cd` passes
into a folder inside; what follows must then be right in either folder, for a `cd` may fail.

What is judged is the text and the files as they are now, so judge right before running; and it holds for
`bash --noprofile --norc -c` with an environment in which nothing else decides what a command is: no BASH_ENV, BASHOPTS,
SHELLOPTS, exported functions, CDPATH, GLOBIGNORE or RIPGREP_CONFIG_PATH. Where a program searches a folder (`grep -r`,
`rg`), no file in it that it could read looks like one with keys; no link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ikigai.tools.approval import allow_rules as rules
from ikigai.tools.approval import shell_parser as shell_words
from ikigai.tools.approval.allow_rules import Exactly, Operand, Rule, Unlike
from ikigai.tools.approval.path_policy import Place, inside, matches, meets, resolved
from ikigai.tools.approval.recursive_search import Walks, search_of
from ikigai.tools.approval.shell_parser import Command, Unclear, Word
from ikigai.tools.secret_files import secret

SHIPPED = Path(__file__).parent / "rules.toml"
MOST_FILES = 5_000
"""Files looked at for the wildcards of one word."""
_MOST_FOLDERS = 8  # in which a command may find itself after some `cd`
_BUILTINS = frozenset({"echo", "pwd", "test", "[", "true", "false", "type"})


class Judgement(NamedTuple):
    """Whether a command runs without a question, and why or why not: a clause. `programs` are those that passed."""

    approved: bool
    why: str
    programs: tuple[str, ...] = ()


class Allowlist:
    """ikigai's own rules and the user's, which go together: one that a command follows is enough."""

    def __init__(self, own: Iterable[Rule | Exactly] = ()) -> None:
        self._own = tuple(own)

    def judge(self, command: str, place: Place, folder: str) -> Judgement:
        """May `command` run in `folder` (a real path)? Looks at the disk, changes nothing, raises nothing."""
        try:
            found = shell_words.commands(command)
            self._walk(found, place, folder)
        except (Unclear, Unlike) as refusal:
            return Judgement(False, str(refusal))
        except ImportError as error:  # a broken installation asks about everything
            return Judgement(False, f"the parser for shell commands is missing ({error})")
        names = tuple(dict.fromkeys(each.words[0].text for each in found))
        return Judgement(True, f"allow-list: {', '.join(names)}", names)

    def _walk(self, found: Sequence[Command], place: Place, folder: str) -> None:
        if not inside(place.root, folder):
            raise Unlike("it runs outside the working directory")
        folders, walks = {folder}, Walks()
        for command in found:
            if command.words[0].text == "cd":
                if command.piped:
                    raise Unlike("cd in a pipeline goes nowhere")
                folders |= {_entered(command.words, place, each) for each in folders}
                if len(folders) > _MOST_FOLDERS:
                    raise Unlike("it changes the folder too often")
            else:
                operands = self._follow(command.words, place)
                for each in folders:
                    _look_at(".", Operand(Word(".")), place, each)  # what a program without operands may read
                    for operand in operands:
                        _look(operand, place, each)
                    _look_below(command.words, operands, place, each, walks)

    def _follow(self, words: Sequence[Word], place: Place) -> list[Operand]:
        """The operands of the first rule that the words follow; the user's own rules come first."""
        name = words[0].text
        closed = _without_bracket(words)
        refusal = Unlike(f"{name} is not in the allow-list")
        for rule in (*self._own, *_shipped().get(closed[0].text, ())):
            if rules.program(rule) != closed[0].text:
                continue
            try:
                operands = rules.follow(rule, closed)
            except Unlike as unlike:
                refusal = Unlike(f"{name}: {unlike}")
                continue
            if rule not in self._own:
                _check_program(name, place)
            return operands
        raise refusal


@cache
def _shipped() -> dict[str, tuple[Rule | Exactly, ...]]:
    found: dict[str, tuple[Rule | Exactly, ...]] = {}
    for rule in rules.parsed(tomllib.loads(SHIPPED.read_text("utf-8"))["allow"], str(SHIPPED)):
        found[rules.program(rule)] = (*found.get(rules.program(rule), ()), rule)
    return found


def _without_bracket(words: Sequence[Word]) -> Sequence[Word]:
    """[ … ] as `test …`, which it is."""
    if words[0].text != "[":
        return words
    if words[-1].text != "]":
        raise Unlike("[ has no ] at its end")
    return (Word("test"), *words[1:-1])


def _check_program(name: str, place: Place) -> None:
    """Raises Unlike unless the name means what the rule means: a builtin, or a program from outside the project."""
    if name in _BUILTINS:
        return
    if any(not entry.startswith("/") for entry in place.path.split(":")):
        raise Unlike("PATH has an entry that depends on the folder")
    found = shutil.which(name, path=place.path)
    if found is None:
        raise Unlike(f"{name} is not installed")
    if inside(place.root, os.path.normpath(found)) or inside(place.root, os.path.realpath(found)):
        raise Unlike(f"{name} is a program of the working directory")


def _entered(words: Sequence[Word], place: Place, folder: str) -> str:
    if len(words) != 2 or words[1].wildcards or words[1].text.startswith(("-", "+")) or not words[1].text:
        raise Unlike("cd: only one folder, spelled out, is allowed")
    entered = resolved(place.root, folder, words[1].text)
    # Behind a link the shell's idea of `..` is another than the programs'.
    if entered is None or entered != os.path.normpath(os.path.join(folder, words[1].text)):  # noqa: PTH118
        raise Unlike(f"cd: {words[1].text!r} leads outside the working directory, or through a link")
    return entered


def _look(operand: Operand, place: Place, folder: str) -> None:
    """Raises Unlike unless every file that the operand means may be read without a question."""
    word = operand.word
    if not word.wildcards:
        _look_at(word.text, operand, place, folder)
        return
    start, slash, _ = re.split("[*?]", word.text)[0].rpartition("/")
    _look_at(start + slash or ".", Operand(word), place, folder)
    if ".." in word.text.split("/"):
        raise Unlike(f"{word.text!r} goes up behind a wildcard")
    try:
        for name in matches(folder, word.text, MOST_FILES):
            _look_at(name, operand, place, folder)
    except LookupError:
        raise Unlike(f"{word.text!r} stands for too much") from None


def _look_below(words: Sequence[Word], operands: Sequence[Operand], place: Place, folder: str, walks: Walks) -> None:
    """Raises Unlike if a recursive search could read a file that looks like one with keys."""
    search = search_of([word.text for word in words])
    if search is None:
        return
    named = [name for each in operands for name in _names(each.word, folder)]
    for name in named or ["."]:
        real = os.path.realpath(os.path.join(folder, name))  # noqa: PTH118
        try:
            found = walks.reached(search, place.root, real)
        except LookupError:
            raise Unlike(f"{name!r} holds too many files to look whether one has keys or passwords") from None
        if found:
            raise Unlike(f"it could read {found!r}, which looks like a file with keys or passwords")


def _names(word: Word, folder: str) -> Iterable[str]:
    return matches(folder, word.text, MOST_FILES) if word.wildcards else (word.text,)


def _look_at(name: str, operand: Operand, place: Place, folder: str) -> None:
    if name == "-":
        return
    real = resolved(place.root, folder, name) if name else None
    if real is None:
        raise Unlike(f"{name!r} is outside the working directory")
    if meets(place.own, real):
        raise Unlike(f"{name!r} belongs to ikigai itself, or holds what does")
    written = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118
    if secret(place.root, real) or secret(place.root, written):
        raise Unlike(f"{name!r} looks like a file with keys or passwords")
    if operand.file and Path(real).is_dir():
        raise Unlike(f"{name!r} is a folder")
