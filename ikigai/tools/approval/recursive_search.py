"""Which file that looks like keys a recursive search by `grep -r` or `rg` could read, by the files as they are now."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from ikigai.tools.secret_files import secret

MAX_ENTRIES = 100_000
"""Entries of folders that are looked at for one search, in 0.5 s."""
_IGNORE_FILES = frozenset({".gitignore", ".ignore", ".rgignore"})
_GREP_RECURSIVE = re.compile(r"-[A-Za-z0-9]*[rRd]|--(dereference-)?rec|--dir")
_RG_HIDDEN = re.compile(r"-[A-Za-z0-9.]*[u.]|--(unr|hid|no-ig)")
_RG_GLOB = re.compile(r"-[A-Za-z0-9.]*g|--i?gl")
_RG_TYPE = re.compile(r"-[A-Za-z0-9.]*t|--type(?!-)")
_RG_LISTS = frozenset({"--files", "--type-list"})
"""Options with which ripgrep prints names alone."""
_TYPES_BY_ENDING = re.compile(
    r"c|cpp|cs|css|dart|elixir|go|graphql|html|java|js|jsonl?|kotlin|lua|markdown|md|php|protobuf|py|python|ruby|rust"
    r"|scala|sql|svelte|swift|toml|ts|txt|vue|xml|yaml"
)
"""Types of ripgrep that have hidden files only by what is behind the last dot; sh has .env, docker .env-Dockerfile."""
_NO_TYPE = frozenset({"local", "development", "production", "staging", "test"})
"""Endings, as of .env.local, that none of these types has."""
MAX_IGNORE_BYTES = 1 << 20
_PLAIN = re.compile(r"[A-Za-z0-9_./*?+-]+")
"""Lines of ignore files that are read here as ripgrep reads them."""
_SIMPLE = re.compile(r"[A-Za-z0-9_.*?+-]+")
"""Patterns that grep, ripgrep and fnmatch read alike."""


class Search(NamedTuple):
    """A recursive search.

    `hidden` files are read, too; otherwise those with a type of ripgrep that `types` allows for: any one, or one that
    goes by the "ending" of a name. Unless `names` is empty only files are read whose names match one of them.
    `left_out` are folders.
    """

    hidden: bool
    types: Literal["", "ending", "any"] = ""
    names: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()


def search_of(words: Sequence[str]) -> Search | None:
    """Return the recursive search that a command of the allow-list makes, None if it makes none.

    Options that widen a search are found by their letters, also where these are the value of another: rather too many.
    Those that narrow it count only when they are written out.
    """
    options = tuple(words[1:])
    before = options[: options.index("--")] if "--" in options else options
    if words[0] == "grep" and any(_GREP_RECURSIVE.match(each) for each in options):
        contrary = any(each.partition("=")[0] == "--exclude" for each in options)  # the last that matches would decide
        names = () if contrary else _patterns(_values(before, "--include"))
        left_out = {each for each in _values(before, "--exclude-dir") if _SIMPLE.fullmatch(each)}
        return Search(True, names=names, left_out=frozenset(left_out - {"", ".", ".."}))
    if words[0] == "rg" and _RG_LISTS.isdisjoint(before):
        hidden = any(_RG_HIDDEN.match(each) for each in options)
        types = _types(options, _values(before, "-t", "--type"))
        written = _values(before, "-g", "--glob")
        if len(written) < sum(_RG_GLOB.match(each) is not None for each in options):
            return Search(True)
        wanted = [each for each in written if not each.startswith("!")]
        return Search(hidden or bool(wanted), types, _patterns(wanted))  # a glob brings hidden files back
    return None


def _types(options: Sequence[str], written: Sequence[str]) -> Literal["", "ending", "any"]:
    asked = sum(_RG_TYPE.match(each) is not None for each in options)
    if not asked:
        return ""
    return "ending" if len(written) == asked and all(map(_TYPES_BY_ENDING.fullmatch, written)) else "any"


def _values(options: Sequence[str], *names: str) -> list[str]:
    """The values of the options of these names, as --include=*.py or --include *.py."""
    found: list[str] = []
    for each, following in zip(options, (*options[1:], ""), strict=False):
        name, equals, value = each.partition("=")
        if name in names and not (equals and not name.startswith("--")):
            found.append(value if equals else following)
    return found


def _patterns(written: Sequence[str]) -> tuple[str, ...]:
    """The patterns, none (which stands for all files) if one of them may be read otherwise than here."""
    return tuple(written) if all(_SIMPLE.fullmatch(each) for each in written) else ()


class Walks:
    """The walks of the recursive searches of one command line: each folder once for a search, and a limit for all."""

    def __init__(self) -> None:
        self._found: dict[tuple[Search, str], str] = {}
        self._looked = 0

    def reached(self, search: Search, root: str, folder: str) -> str:
        """Return the path, below `root`, of a file that looks like keys and that the search of `folder` could read.

        "" for none. Raises LookupError where the searches of the line have more to look at than `MAX_ENTRIES`.
        """
        if (search, folder) not in self._found:
            self._found[search, folder] = self._walked(search, root, folder)
        return self._found[search, folder]

    def _walked(self, search: Search, root: str, folder: str) -> str:
        hidden: list[str] = []
        shown_again = set[str]() if search.hidden else _shown_again(_ignore_files_above(folder))
        pending = [folder]
        while pending:
            at = pending.pop()
            try:
                with os.scandir(at) as entries:
                    found = list(entries)
            except OSError:
                continue
            self._looked += len(found)
            if self._looked > MAX_ENTRIES:
                raise LookupError(folder)
            for entry in found:
                if not search.hidden and entry.name in _IGNORE_FILES:
                    shown_again |= _shown_again([entry.path])
                if entry.is_symlink():  # neither program follows those that it comes upon
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in search.left_out:
                        continue
                    pending.append(entry.path)
                elif _is_wanted(search, entry.name) and secret(root, entry.path):
                    if search.hidden or not _is_hidden(search, os.path.relpath(entry.path, folder)):
                        return os.path.relpath(entry.path, root)
                    hidden.append(entry.path)
        for path in hidden:
            parts = [part for part in os.path.relpath(path, folder).split("/") if part.startswith(".")]
            if any(fnmatchcase(part, pattern) for part in parts for pattern in shown_again):
                return os.path.relpath(path, root)
        return ""


def _is_wanted(search: Search, name: str) -> bool:
    return not search.names or any(fnmatchcase(name, pattern) for pattern in search.names)


def _is_hidden(search: Search, path: str) -> bool:
    """Return True if ripgrep passes over this path because a part of it is hidden."""
    *folders, name = path.split("/")
    if any(part.startswith(".") for part in folders):
        return True
    if not name.startswith(".") or search.types == "any":
        return False
    _, dot, ending = name[1:].rpartition(".")
    return not (search.types and dot and ending not in _NO_TYPE)


def _ignore_files_above(folder: str) -> Iterator[str]:
    """The ignore files of the folders above, which hold below them, too."""
    yield os.path.join(folder, ".git", "info", "exclude")  # noqa: PTH118
    while folder != "/":
        folder = os.path.dirname(folder)  # noqa: PTH120
        for name in (*_IGNORE_FILES, ".git/info/exclude"):
            yield os.path.join(folder, name)  # noqa: PTH118


def _shown_again(files: Iterable[str]) -> set[str]:
    """The names in the lines of ignore files that begin with !, by which ripgrep reads hidden files, too."""
    found: set[str] = set()
    for path in files:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  (a FIFO must not block)
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    continue
                text = file.read(MAX_IGNORE_BYTES + 1)
        except OSError:
            continue
        lines = text.decode(errors="replace").removeprefix("\ufeff").split("\n")
        brought = [line[1:].strip() for line in lines if line.startswith("!")]
        # fnmatch reads plain patterns alone as ripgrep does.
        if len(text) > MAX_IGNORE_BYTES or not all(_PLAIN.fullmatch(each) for each in brought):
            return {"*"}
        found.update(part for each in brought for part in each.split("/") if part)
    return found
