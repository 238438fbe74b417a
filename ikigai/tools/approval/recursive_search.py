"""Find a file that looks like keys and that a search of folders by `grep -r`, `rg` or `diff` could read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from ikigai.tools.secret_files import is_secret

MAX_WALKED_ENTRIES = 100_000
"""Maximum entries of folders that are scanned for one command line, in less than a second."""
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
"""Types of ripgrep that match hidden files only by the last ending; sh matches .env, docker .env-Dockerfile."""
_NO_TYPE = frozenset({"local", "development", "production", "staging", "test"})
"""Endings, as of .env.local, that none of these types matches."""
MAX_IGNORE_BYTES = 1 << 20
_PLAIN = re.compile(r"[A-Za-z0-9_./*?+-]+")
"""Lines of ignore files that are interpreted here as ripgrep does."""
_SIMPLE = re.compile(r"[A-Za-z0-9_.*?+-]+")
"""Patterns that grep, ripgrep and fnmatch interpret alike."""


class RecursiveSearch(NamedTuple):
    """A recursive search.

    With `hidden` it reads hidden files. Otherwise it reads those that a selected type of ripgrep may match: `types` is
    "any", or "ending" for types that go by the ending of a name. Unless `names` is empty, it reads only files whose
    names match one of these patterns. `left_out` are folders that it skips, `excluded` patterns of files that it skips.
    With `follows_links` it reads what links lead to.
    """

    hidden: bool
    types: Literal["", "ending", "any"] = ""
    names: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    excluded: tuple[str, ...] = ()
    follows_links: bool = False


def parse_search(words: Sequence[str]) -> RecursiveSearch | None:
    """Return the recursive search that a command of the allow-list makes, None if it makes none.

    Options that widen a search are found by their letters, even in the value of another: rather too many. Options that
    narrow it count only if they are written out.
    """
    options = tuple(words[1:])
    before = options[: options.index("--")] if "--" in options else options
    if words[0] == "grep" and any(_GREP_RECURSIVE.match(each) for each in options):
        names = excluded = ()
        if not any(each.partition("=")[0] == "--exclude" for each in options):
            names = _patterns(_option_values(before, "--include"))
        elif not any(each.partition("=")[0] == "--include" for each in options):  # with both, their order decides
            excluded = tuple(each for each in _option_values(before, "--exclude") if _SIMPLE.fullmatch(each))
        left_out = {each for each in _option_values(before, "--exclude-dir") if _SIMPLE.fullmatch(each)}
        return RecursiveSearch(True, "", names, frozenset(left_out - {"", ".", ".."}), excluded)
    if words[0] == "diff":
        return RecursiveSearch(True, follows_links=True)
    if words[0] == "rg" and _RG_LISTS.isdisjoint(before):
        hidden = any(_RG_HIDDEN.match(each) for each in options)
        types = _types(options, _option_values(before, "-t", "--type"))
        written = _option_values(before, "-g", "--glob")
        if len(written) < sum(_RG_GLOB.match(each) is not None for each in options):
            return RecursiveSearch(True)
        wanted = [each for each in written if not each.startswith("!")]
        return RecursiveSearch(hidden or bool(wanted), types, _patterns(wanted))  # a glob includes hidden files again
    return None


def _types(options: Sequence[str], written: Sequence[str]) -> Literal["", "ending", "any"]:
    count = sum(_RG_TYPE.match(each) is not None for each in options)
    if not count:
        return ""
    return "ending" if len(written) == count and all(map(_TYPES_BY_ENDING.fullmatch, written)) else "any"


def _option_values(options: Sequence[str], *names: str) -> list[str]:
    """Return the values of the options of these names, as --include=*.py or --include *.py."""
    values: list[str] = []
    for each, following in zip(options, (*options[1:], ""), strict=False):
        name, equals, value = each.partition("=")
        if name in names and not (equals and not name.startswith("--")):
            values.append(value if equals else following)
    return values


def _patterns(written: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns, or none (for all files) if one of them may be interpreted otherwise than here."""
    return tuple(written) if all(_SIMPLE.fullmatch(each) for each in written) else ()


class FolderWalks:
    """Walks of the recursive searches of one command line: each folder once for a search, with a limit for all."""

    def __init__(self) -> None:
        self._found: dict[tuple[RecursiveSearch, str], str] = {}
        self._scanned = 0

    def find_doubt(self, search: RecursiveSearch, root: str, folder: str) -> str:
        """Return which file that looks like keys, or link, the search of `folder` could read, as a clause; "" for none.

        Raise LookupError if the searches of the line have more entries than `MAX_WALKED_ENTRIES`.
        """
        if (search, folder) not in self._found:
            self._found[search, folder] = self._walk(search, root, folder)
        return self._found[search, folder]

    def _walk(self, search: RecursiveSearch, root: str, folder: str) -> str:
        hidden: list[str] = []
        unhidden = set[str]() if search.hidden else _unhidden_names(_ignore_files_above(folder))
        pending = [folder]
        while pending:
            current = pending.pop()
            try:
                with os.scandir(current) as entries:
                    listed = list(entries)
            except OSError:
                continue
            self._scanned += len(listed)
            if self._scanned > MAX_WALKED_ENTRIES:
                raise LookupError(folder)
            for entry in listed:
                if not search.hidden and entry.name in _IGNORE_FILES:
                    unhidden |= _unhidden_names([entry.path])
                if entry.is_symlink():  # grep and ripgrep follow none below their start
                    if search.follows_links:
                        return f"{os.path.relpath(entry.path, root)!r}, which is a link"
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in search.left_out:
                        continue
                    pending.append(entry.path)
                elif _is_wanted(search, entry.name) and is_secret(root, entry.path):
                    if search.hidden or not _is_hidden(search, os.path.relpath(entry.path, folder)):
                        return _describe_secret(root, entry.path)
                    hidden.append(entry.path)
        for path in hidden:
            parts = [part for part in os.path.relpath(path, folder).split("/") if part.startswith(".")]
            if any(fnmatchcase(part, pattern) for part in parts for pattern in unhidden):
                return _describe_secret(root, path)
        return ""


def _describe_secret(root: str, path: str) -> str:
    return f"{os.path.relpath(path, root)!r}, which looks like a file with keys or passwords"


def _is_wanted(search: RecursiveSearch, name: str) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in search.excluded if name[0] != "." or pattern[0] not in "*?"):
        return False
    return not search.names or any(fnmatchcase(name, pattern) for pattern in search.names)


def _is_hidden(search: RecursiveSearch, path: str) -> bool:
    """Return True if ripgrep skips this path because a part of it is hidden."""
    *folders, name = path.split("/")
    if any(part.startswith(".") for part in folders):
        return True
    if not name.startswith(".") or search.types == "any":
        return False
    _, dot, ending = name[1:].rpartition(".")
    return not (search.types and dot and ending not in _NO_TYPE)


def _ignore_files_above(folder: str) -> Iterator[str]:
    """Yield the ignore files of the folders above, which apply to the folders below them as well."""
    yield os.path.join(folder, ".git", "info", "exclude")  # noqa: PTH118
    while folder != "/":
        folder = os.path.dirname(folder)  # noqa: PTH120
        for name in (*_IGNORE_FILES, ".git/info/exclude"):
            yield os.path.join(folder, name)  # noqa: PTH118


def _unhidden_names(files: Iterable[str]) -> set[str]:
    """Return the names in the lines of ignore files that begin with !, by which ripgrep also reads hidden files."""
    names: set[str] = set()
    for path in files:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  (a FIFO must not block)
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    continue
                text = file.read(MAX_IGNORE_BYTES + 1)
        except OSError:
            continue
        lines = text.decode(errors="replace").removeprefix("\ufeff").split("\n")
        negated = [line[1:].strip() for line in lines if line.startswith("!")]
        # fnmatch agrees with ripgrep on plain patterns alone.
        if len(text) > MAX_IGNORE_BYTES or not all(_PLAIN.fullmatch(each) for each in negated):
            return {"*"}
        names.update(part for each in negated for part in each.split("/") if part)
    return names
