"""The scripts that a command runs, with their content: a lasting approval holds for these alone.

Found are files that the command names: a program called by its path, and what an interpreter is given. What a script
itself loads is not looked at. Doubt finds more files rather than fewer. Where an interpreter runs what comes by a pipe
or from `find` and `xargs`, and no file is named, no approval lasts.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from ikigai.core.sanitize import storable

MAX_HASHED_BYTES = 1024 * 1024
"""Larger files count by inode, size and times: a time of change cannot be set back."""
MAX_SHLEX_CHARACTERS = 20_000
"""Longer commands are only cut at blanks and signs: shlex takes 1 ms for 1,000 characters."""
MAX_FILES = 200
MAX_FOLDERS = 8
MAX_ENTRIES = 10_000
"""Entries of folders that wildcards of a command are compared with."""
MAX_DEPTH = 3  # of commands in the words of commands: bash -c "sh -c …"

_INTERPRETER = re.compile(
    r"(ba|da|z|k|mk|a|fi|c|tc|rba|pw)?sh|(python|pypy|perl|ruby|php|lua)[0-9.]*|node|nodejs|deno|bun|tsx|ts-node|luajit"
    r"|Rscript|julia|tclsh|expect|osascript|java|groovy|busybox|[gmn]?awk|sed|g?make"
)
_BY_OPTION = re.compile(r"(^|/)([gmn]?awk|sed|g?make)$")  # their scripts stand behind -f; other operands are data
_FILE_OPTION = re.compile(r"-[A-Za-z]*f|--file|--makefile")
_SIGNS = "();<>|&\n"
_BEFORE_PROGRAM = re.compile(r"\w+=.*|[!{]|if|then|elif|else|while|until|do|time", re.DOTALL)
_REPLACED = re.compile(r"[$`*?\[{]|[<>]\(|<<")
"""With these the words of a command are not its arguments."""


UNNAMED = "files that the command finds by itself"
"""Stands for scripts that nobody can name; they are never the same, so that no lasting approval holds for them."""
_FEEDS = re.compile(r"(.*/)?(xargs|parallel)|-(exec|ok)(dir)?")
_INLINE = re.compile(r"-[A-Za-z]*[cem]")
"""Behind it stands the program itself, or a module."""


def scripts(command: str, directory: str) -> tuple[tuple[str, str], ...]:
    """Return the real paths of the scripts of a bash command that runs in `directory`, each with a digest, sorted."""
    found: dict[str, str] = {}
    for path in sorted(islice(_Search(directory).files(command), MAX_FILES)):
        key = storable(path)
        found[key] = hashlib.sha256((found.get(key, "") + _digest(path)).encode()).hexdigest()
    if not found and any(_runs_what_comes(before, part) for before, part in _parts(_words(command))):
        found[UNNAMED] = os.urandom(16).hex()
    return tuple(found.items())


def _runs_what_comes(before: str, part: Sequence[str]) -> bool:
    """Return True if an interpreter runs what a pipe brings, or files that another program finds."""
    for place, word in enumerate(part):
        if (
            _interprets(word)
            and not _BY_OPTION.search(word)
            and not _INLINE.match("".join(part[place + 1 : place + 2]))
        ):
            return before == "|" or any(map(_FEEDS.fullmatch, part[:place]))
    return False


def _digest(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  (a FIFO must not block)
            status = os.fstat(file.fileno())
            if status.st_size <= MAX_HASHED_BYTES:
                return hashlib.sha256(file.read(MAX_HASHED_BYTES + 1)).hexdigest()
    except OSError:
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return "gone"
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


class _Search:
    """`folders` are those in which a part of the command may run."""

    def __init__(self, directory: str) -> None:
        self._folders = [directory]
        self._known: dict[tuple[str, int], frozenset[str]] = {}
        self._looked = 0

    def files(self, text: str, depth: int = 0) -> set[str]:
        words = _words(text)
        parts = list(_parts(words))
        found: set[str] = set()
        runs = False
        piped: set[str] = set()  # files named since the pipeline began
        for before, part in parts:
            self._enter(part)
            direct, named = self._direct(part), self._all(part)
            interpreted = _sources(part) or any(_interprets(word) and not _BY_OPTION.search(word) for word in part)
            runs = runs or interpreted or bool(direct) or "$" in part[0]
            if before != "|":
                piped = set()
            elif interpreted:
                found |= piped
            piped |= named
            found |= direct | self._given(part)
            if depth < MAX_DEPTH:
                for word in part:
                    if re.search(r"\s|[;|&]", word):
                        found |= self.files(word, depth + 1)
        return found | self._all(words) if runs and _REPLACED.search(text) else found

    def _all(self, words: Sequence[str]) -> set[str]:
        return {file for word in words for file in self._existing(word)}

    def _enter(self, part: Sequence[str]) -> None:
        if part[0] in ("cd", "pushd") and len(part) > 1:
            entered = [os.path.join(each, _spelled(part[-1])) for each in self._folders]  # noqa: PTH118
            known = self._folders
            self._folders = [*known, *(each for each in entered if os.path.isdir(each))][:MAX_FOLDERS]  # noqa: PTH112

    def _direct(self, part: Sequence[str]) -> set[str]:
        """Files that are called by their path: the first word, and behind programs like env what can be executed."""
        first = _program(part)
        return {
            file
            for place, word in enumerate(part)
            if "/" in word
            for file in self._existing(word)
            if place == first or os.access(file, os.X_OK)
        }

    def _given(self, part: Sequence[str]) -> set[str]:
        """What interpreters are given: files up to the first that cannot be the value of an option, and modules."""
        found: set[str] = set()
        running, by_option = _sources(part), False
        fed = any(map(_interprets, part))
        for before, word in zip(("", *part), part, strict=False):
            if _interprets(word):
                running, by_option = True, _BY_OPTION.search(word) is not None
            elif running or (fed and before.startswith("<")):
                files = self._existing(word)
                if before == "-m" or word.startswith("-m"):
                    module = (word if before == "-m" else word[2:]).replace(".", "/")
                    files |= self._existing(f"{module}.py") | self._existing(f"{module}/__main__.py")
                if not by_option or _FILE_OPTION.fullmatch(before) or word.startswith("-"):
                    found |= files
                    running = running and not (files and not before.startswith("-"))
        return found

    def _existing(self, word: str) -> frozenset[str]:
        """The real paths of the regular files that a word, or what stands behind an option in it, may mean."""
        key = word, len(self._folders)
        if key not in self._known:
            self._known[key] = frozenset(self._looked_up(word))
        return self._known[key]

    def _looked_up(self, word: str) -> set[str]:
        found: set[str] = set()
        spelled = _spelled(word)
        for name in {spelled, spelled.partition("=")[2], spelled[2:] if spelled.startswith("-") else ""} - {""}:
            for folder in self._folders:
                path = os.path.join(folder, name)  # noqa: PTH118
                try:
                    paths = self._matching(path) if glob.has_magic(name) else (path,)
                    found |= {os.path.realpath(each) for each in paths if _regular(each)}
                except (OSError, ValueError):
                    continue
        return found

    def _matching(self, pattern: str) -> Iterator[str]:
        """Yield the paths that a pattern may mean, while few enough entries have been looked at.

        A pattern for folders would walk through the machine, in a thread that nothing can end.
        """
        folder, name = os.path.split(pattern)
        if glob.has_magic(folder) or self._looked > MAX_ENTRIES:
            return
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                self._looked += 1
                if fnmatchcase(entry.name, name):
                    yield entry.path


def _regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except (OSError, ValueError):
        return False


def _interprets(word: str) -> bool:
    return _INTERPRETER.fullmatch(word.rpartition("/")[2]) is not None


def _program(part: Sequence[str]) -> int:
    """Where the program stands in a simple command."""
    return next((place for place, word in enumerate(part) if not _BEFORE_PROGRAM.fullmatch(word)), 0)


def _sources(part: Sequence[str]) -> bool:
    return part[_program(part)] in (".", "source")


def _spelled(word: str) -> str:
    """The word with the home folder, which bash puts in; PWD is the folder in which it runs anyway."""
    word = re.sub(r"^\$(PWD|\{PWD\})/", "", word)
    return os.path.expanduser(re.sub(r"^\$(HOME|\{HOME\})/", "~/", word))  # noqa: PTH111


def _words(text: str) -> list[str]:
    """The words and signs of a command, also where it is no valid one."""
    if len(text) <= MAX_SHLEX_CHARACTERS:
        lexer = shlex.shlex(re.sub(r"\\\n|\$(?=['\"])", "", text), posix=True, punctuation_chars=_SIGNS)
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
        try:
            return list(lexer)
        except ValueError:  # a quotation that does not end, as in a here-document
            pass
    return [word for word in re.split(r"[\s'\"]+|([();<>|&]+)", text) if word]


def _parts(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The commands between operators, each with the operator before it; redirections stay within."""
    before, part = "", list[str]()
    for word in (*words, ";"):
        if word and set(word) <= set(_SIGNS) and not (set(word) & set("<>") and set(word) <= set("<>&")):
            if part:
                yield before, part
            before, part = word.strip("\n"), []
        else:
            part.append(word)
