"""The files below a directory that .gitignore does not leave out, where there is no ripgrep to list them.

As ripgrep and git do: the .gitignore of each directory on the way, from the root of the repository on, and
.git/info/exclude; a deeper file counts more, in it the later line. Links are not followed, .git is not entered. A
directory that is asked for by name is listed though a .gitignore above leaves it out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

import pathspec

_LARGEST = 1 << 20


class _Rules(NamedTuple):
    """The lines of one file, for paths below `base` (which ends in /)."""

    base: str
    spec: pathspec.GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """Whether it leaves a path out; None when it says nothing."""
        return self.spec.check_file(path[len(self.base) :]).include


def files(root: str, *, everything: bool = False) -> Iterator[str]:
    """The paths of ordinary files below the working directory, whose absolute path is `root`, relative and in order;
    `everything`: ignored ones too.
    """
    root = root.rstrip("/") + "/"
    rules = () if everything else _above(root)
    return _below(root, "", rules, everything)


def _below(root: str, directory: str, rules: tuple[_Rules, ...], everything: bool) -> Iterator[str]:
    here = root + directory
    if not everything:
        rules = (*_rules(here, ".gitignore"), *rules)
    try:
        with os.scandir(directory or ".") as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name == ".git" or entry.is_symlink():
            continue
        folder = entry.is_dir(follow_symlinks=False)
        path = directory + entry.name + "/" * folder
        if _left_out(root + path, rules):
            continue
        if folder:
            yield from _below(root, path, rules, everything)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _left_out(path: str, rules: tuple[_Rules, ...]) -> bool:
    return next((verdict for each in rules if (verdict := each.verdict(path)) is not None), False)


def _above(root: str) -> tuple[_Rules, ...]:
    """The rules of the directories above, the nearest first, up to the root of the repository."""
    found, at = list[_Rules](), root
    while True:
        if os.path.lexists(at + ".git"):
            found += _rules(at, ".git/info/exclude")
            break
        if at == "/":
            break
        at = at[: at[:-1].rfind("/") + 1]
        found += _rules(at, ".gitignore")
    return () if _left_out(root, tuple(found)) else tuple(found)


def _rules(base: str, name: str) -> tuple[_Rules, ...]:
    try:
        if not stat.S_ISREG(os.stat(base + name).st_mode):  # noqa: PTH116 - as below; a pipe would never end
            return ()
        with open(base + name, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - strings are faster here
            spec = pathspec.GitIgnoreSpec.from_lines(_lines(file.read(_LARGEST)))
    except OSError:
        return ()
    return (_Rules(base, spec),) if len(spec) else ()


def _lines(text: str) -> Iterator[str]:
    """The lines that are patterns: git passes over what is none."""
    for line in text.splitlines():
        try:
            pathspec.GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        yield line
