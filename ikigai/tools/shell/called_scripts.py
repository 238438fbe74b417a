"""Find the scripts that a command runs: a lasting approval holds only for their present content.

Found are the files that the command names: programs called by a path, and arguments of interpreters. Files that a
script itself loads are ignored. In doubt more files are found rather than fewer. If an interpreter runs input from a
pipe or files from `find` and `xargs`, and no file is named, no approval lasts.
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

from ikigai.core.text.sanitize import storable

MAX_HASHED_BYTES = 1024 * 1024
"""Larger files are identified by inode, size and times: the time of change cannot be set back."""
MAX_SHLEX_CHARACTERS = 20_000
"""Longer commands are only split at blanks and operators: shlex takes 1 ms for 1,000 characters."""
MAX_FILES = 200
MAX_FOLDERS = 8
MAX_MATCHED_ENTRIES = 10_000
"""Entries of folders that the wildcards of a command are matched with."""
MAX_NESTED_COMMANDS = 3  # of commands in the words of commands: bash -c "sh -c …"

_INTERPRETER = re.compile(
    r"(ba|da|z|k|mk|a|fi|c|tc|rba|pw)?sh|(python|pypy|perl|ruby|php|lua)[0-9.]*|node|nodejs|deno|bun|tsx|ts-node|luajit"
    r"|Rscript|julia|tclsh|expect|osascript|java|groovy|busybox|[gmn]?awk|sed|g?make"
)
_BY_OPTION = re.compile(r"(^|/)([gmn]?awk|sed|g?make)$")  # their scripts follow -f; other operands are data
_FILE_OPTION = re.compile(r"-[A-Za-z]*f|--file|--makefile")
_OPERATORS = "();<>|&\n"
_BEFORE_PROGRAM = re.compile(r"\w+=.*|[!{]|if|then|elif|else|while|until|do|time", re.DOTALL)
_EXPANSIONS = re.compile(r"[$`*?\[{]|[<>]\(|<<")
"""Expansions, with which the words of a command differ from its arguments."""


UNNAMED_SCRIPTS = "files that the command finds itself"
"""Stand-in for scripts without a name. Its digest is always new, so that no lasting approval holds for them."""
_FEEDERS = re.compile(r"(.*/)?(xargs|parallel)|-(exec|ok)(dir)?")
_INLINE = re.compile(r"-[A-Za-z]*[cem]")
"""Option that is followed by the program itself, or by a module."""


def find_scripts(command: str, directory: str) -> tuple[tuple[str, str], ...]:
    """Return the real paths of the scripts of a bash command that runs in `directory`, each with a digest, sorted."""
    digests: dict[str, str] = {}
    for path in sorted(islice(_ScriptSearch(directory).files(command), MAX_FILES)):
        key = storable(path)
        digests[key] = hashlib.sha256((digests.get(key, "") + _digest(path)).encode()).hexdigest()
    if not digests and any(_runs_unnamed(operator, words) for operator, words in _commands(_words(command))):
        digests[UNNAMED_SCRIPTS] = os.urandom(16).hex()
    return tuple(digests.items())


def _runs_unnamed(operator: str, command: Sequence[str]) -> bool:
    """Return True if an interpreter runs input from a pipe, or files that another program finds."""
    for index, word in enumerate(command):
        if (
            _is_interpreter(word)
            and not _BY_OPTION.search(word)
            and not _INLINE.match("".join(command[index + 1 : index + 2]))
        ):
            return operator == "|" or any(map(_FEEDERS.fullmatch, command[:index]))
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


class _ScriptSearch:
    """Search for the scripts of one command line. A part of it may run in any of `_folders`."""

    def __init__(self, directory: str) -> None:
        self._folders = [directory]
        self._cache: dict[tuple[str, int], frozenset[str]] = {}
        self._scanned = 0

    def files(self, text: str, depth: int = 0) -> set[str]:
        words = _words(text)
        parts = list(_commands(words))
        found: set[str] = set()
        runs = False
        piped: set[str] = set()  # files named since the pipeline began
        for operator, part in parts:
            self._follow_cd(part)
            direct, named = self._direct_files(part), self._all_files(part)
            interpreted = _is_source(part) or any(
                _is_interpreter(word) and not _BY_OPTION.search(word) for word in part
            )
            runs = runs or interpreted or bool(direct) or "$" in part[0]
            if operator != "|":
                piped = set()
            elif interpreted:
                found |= piped
            piped |= named
            found |= direct | self._interpreter_files(part)
            if depth < MAX_NESTED_COMMANDS:
                for word in part:
                    if re.search(r"\s|[;|&]", word):
                        found |= self.files(word, depth + 1)
        return found | self._all_files(words) if runs and _EXPANSIONS.search(text) else found

    def _all_files(self, words: Sequence[str]) -> set[str]:
        return {file for word in words for file in self._existing_files(word)}

    def _follow_cd(self, command: Sequence[str]) -> None:
        if command[0] in ("cd", "pushd") and len(command) > 1:
            entered = [os.path.join(each, _expand_home(command[-1])) for each in self._folders]  # noqa: PTH118
            folders = self._folders
            self._folders = [*folders, *(each for each in entered if os.path.isdir(each))][:MAX_FOLDERS]  # noqa: PTH112

    def _direct_files(self, command: Sequence[str]) -> set[str]:
        """Return files called by a path: the first word, and executables after programs like env."""
        first = _program_index(command)
        return {
            file
            for index, word in enumerate(command)
            if "/" in word
            for file in self._existing_files(word)
            if index == first or os.access(file, os.X_OK)
        }

    def _interpreter_files(self, command: Sequence[str]) -> set[str]:
        """Return the files that interpreters get: up to the first that is no value of an option, and modules."""
        found: set[str] = set()
        running, by_option = _is_source(command), False
        has_interpreter = any(map(_is_interpreter, command))
        for before, word in zip(("", *command), command, strict=False):
            if _is_interpreter(word):
                running, by_option = True, _BY_OPTION.search(word) is not None
            elif running or (has_interpreter and before.startswith("<")):
                files = self._existing_files(word)
                if before == "-m" or word.startswith("-m"):
                    module = (word if before == "-m" else word[2:]).replace(".", "/")
                    files |= self._existing_files(f"{module}.py") | self._existing_files(f"{module}/__main__.py")
                if not by_option or _FILE_OPTION.fullmatch(before) or word.startswith("-"):
                    found |= files
                    running = running and not (files and not before.startswith("-"))
        return found

    def _existing_files(self, word: str) -> frozenset[str]:
        """Return the real paths of the regular files that a word, or the value of an option in it, may mean."""
        key = word, len(self._folders)
        if key not in self._cache:
            self._cache[key] = frozenset(self._look_up(word))
        return self._cache[key]

    def _look_up(self, word: str) -> set[str]:
        found: set[str] = set()
        expanded = _expand_home(word)
        for name in {expanded, expanded.partition("=")[2], expanded[2:] if expanded.startswith("-") else ""} - {""}:
            for folder in self._folders:
                path = os.path.join(folder, name)  # noqa: PTH118
                try:
                    paths = self._match_pattern(path) if glob.has_magic(name) else (path,)
                    found |= {os.path.realpath(each) for each in paths if _is_regular(each)}
                except (OSError, ValueError):
                    continue
        return found

    def _match_pattern(self, pattern: str) -> Iterator[str]:
        """Yield the paths that a pattern may mean, up to a limit on scanned entries.

        A pattern for folders would walk through the machine, in a thread that cannot be ended.
        """
        folder, name = os.path.split(pattern)
        if glob.has_magic(folder) or self._scanned > MAX_MATCHED_ENTRIES:
            return
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_MATCHED_ENTRIES):
                self._scanned += 1
                if fnmatchcase(entry.name, name):
                    yield entry.path


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except (OSError, ValueError):
        return False


def _is_interpreter(word: str) -> bool:
    return _INTERPRETER.fullmatch(word.rpartition("/")[2]) is not None


def _program_index(command: Sequence[str]) -> int:
    """Return the index of the program in a simple command."""
    return next((index for index, word in enumerate(command) if not _BEFORE_PROGRAM.fullmatch(word)), 0)


def _is_source(command: Sequence[str]) -> bool:
    return command[_program_index(command)] in (".", "source")


def _expand_home(word: str) -> str:
    """Return the word with the home folder expanded, as bash does; PWD is the folder of the command anyway."""
    word = re.sub(r"^\$(PWD|\{PWD\})/", "", word)
    return os.path.expanduser(re.sub(r"^\$(HOME|\{HOME\})/", "~/", word))  # noqa: PTH111


def _words(text: str) -> list[str]:
    """Return the words and operators of a command, even of an invalid one."""
    if len(text) <= MAX_SHLEX_CHARACTERS:
        lexer = shlex.shlex(re.sub(r"\\\n|\$(?=['\"])", "", text), posix=True, punctuation_chars=_OPERATORS)
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
        try:
            return list(lexer)
        except ValueError:  # a quotation that does not end, as in a here-document
            pass
    return [word for word in re.split(r"[\s'\"]+|([();<>|&]+)", text) if word]


def _commands(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands between operators, each with the operator before it; redirections stay within."""
    before, part = "", list[str]()
    for word in (*words, ";"):
        if word and set(word) <= set(_OPERATORS) and not (set(word) & set("<>") and set(word) <= set("<>&")):
            if part:
                yield before, part
            before, part = word.strip("\n"), []
        else:
            part.append(word)
