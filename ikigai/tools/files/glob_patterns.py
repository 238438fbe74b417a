"""Glob patterns for paths: `*`, `?` and `[…]` within a name, `**` over directories, `{a,b}` for either.

A pattern without / is for the last name, in any directory. Matching takes time in proportion to pattern and path: a
pattern from a model may be anything.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

_ALTERNATIVES = 100
_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """Whether a path, relative and with /, is meant. ValueError for a pattern that can mean none."""

    def __init__(self, pattern: str) -> None:
        if not pattern or "\0" in pattern or len(pattern) > 1_000:
            raise ValueError("a pattern has between 1 and 1,000 characters, and no NUL.")
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise ValueError(f"the pattern {pattern!r} must be relative to path, without .. in it: give path instead.")
        self._alternatives = [_compiled(each) for each in _expanded(pattern)]
        last = pattern.rpartition("/")[2]
        self.name = last if re.fullmatch(r"[\w.*?-]+", last) and "**" not in last and "{" not in pattern else ""
        """A glob that the last name of each path that is meant matches, in every dialect; "" for none known."""

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(each, names) for each in self._alternatives)


def _expanded(pattern: str) -> list[str]:
    """The patterns without braces that are meant."""
    done, open_ = list[str](), [pattern]
    while open_:
        each = open_.pop()
        found = _BRACES.search(each)
        if not found:
            done.append(each)
        else:
            open_ += [each[: found.start()] + word + each[found.end() :] for word in found[1].split(",")]
        if len(done) + len(open_) > _ALTERNATIVES:
            raise ValueError(f"the pattern stands for more than {_ALTERNATIVES} others.")
    return done


def _compiled(pattern: str) -> list[Callable[[str], object] | None]:
    """One test for each name, None for any number of directories."""
    pattern = pattern.removeprefix("./")
    parts = [part for part in (pattern + "**" if pattern.endswith("/") else pattern).split("/") if part]
    if "/" not in pattern:
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")
    # translate writes atomic groups, so that a name is never tried over and over
    return [None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts]


def _match(tests: list[Callable[[str], object] | None], names: list[str]) -> bool:
    """Which numbers of names the tests so far can have used up, test by test."""
    reached = {0}
    for test in tests:
        if test is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and test(names[at])}
        if not reached:
            return False
    return len(names) in reached
