"""Match paths with globs: `*`, `?` and `[…]` within a name, `**` over directories, `{a,b}` for either.

A pattern without / matches the last name, in any directory. Matching takes time in proportion to pattern and path, as a
model can send any pattern.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

_MAX_ALTERNATIVES = 100
_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """Pattern for relative paths with /. Raise ValueError for an invalid one."""

    def __init__(self, pattern: str) -> None:
        if not pattern or "\0" in pattern or len(pattern) > 1_000:
            raise ValueError("a pattern has between 1 and 1,000 characters, and no NUL.")
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise ValueError(f"the pattern {pattern!r} must be relative to path, without ..; set path instead.")
        self._alternatives = [_compile(each) for each in _expand_braces(pattern)]
        last = pattern.rpartition("/")[2]
        self.name = last if re.fullmatch(r"[\w.*?-]+", last) and "**" not in last and "{" not in pattern else ""
        """Glob for the last name of each matching path, valid in every dialect of globs, or ""."""

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(each, names) for each in self._alternatives)


def _expand_braces(pattern: str) -> list[str]:
    """Return the patterns without braces that `pattern` stands for."""
    done, pending = list[str](), [pattern]
    while pending:
        each = pending.pop()
        braces = _BRACES.search(each)
        if not braces:
            done.append(each)
        else:
            pending += [each[: braces.start()] + word + each[braces.end() :] for word in braces[1].split(",")]
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise ValueError(f"the pattern expands to more than {_MAX_ALTERNATIVES} patterns.")
    return done


def _compile(pattern: str) -> list[Callable[[str], object] | None]:
    """Return one test for each name, None for any number of directories."""
    pattern = pattern.removeprefix("./")
    parts = [part for part in (pattern + "**" if pattern.endswith("/") else pattern).split("/") if part]
    if "/" not in pattern:
        parts = ["**", *parts]
    if parts[-1] == "**":
        parts.append("*")
    # translate writes atomic groups, so that a name is never tried over and over
    return [None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts]


def _match(tests: list[Callable[[str], object] | None], names: list[str]) -> bool:
    """Return True if the tests match all names; `reached` are the numbers of names that the tests so far can match."""
    reached = {0}
    for test in tests:
        if test is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and test(names[at])}
        if not reached:
            return False
    return len(names) in reached
