"""The unified diff of an edit, for whoever approves it: right in its line numbers, bounded in size and time."""

from __future__ import annotations

import re

CONTEXT = 3
LINES, LINE = 2_000, 1_000
"""Lines of a diff, and characters of each, that are shown; what is left out is said."""
CUT = re.compile(r"… \[[\d,]+ more\]$|^\[([\d,]+ more lines of this|replaces a binary)", re.MULTILINE)
"""What stands where something is left out, or cannot be shown."""
_MOST_COMPARED = 4_000_000
"""Pairs of lines that difflib may have to look at, about a second; larger changes are shown as old and new."""


def unified(before: str, after: str, name: str, *, new: bool = False) -> str:
    """The diff that makes `after` of `before`; "" when they are equal. `new`: there was no file before."""
    old, now = before.split("\n"), after.split("\n")
    same = _common(old, now)
    ends = _common(old[same:][::-1], now[same:][::-1])
    if same == len(old) == len(now):
        return ""
    begin, back = max(0, same - CONTEXT), max(0, ends - CONTEXT)
    a, b = (_marked(lines)[begin : len(lines) - back] for lines in (old, now))
    name = name.replace("\n", "⏎")  # else it would be more lines of the diff
    header = ["--- /dev/null" if new else f"--- a/{name}", f"+++ b/{name}"]
    body = _hunks(a, b, begin)
    shown = [line if len(line) <= LINE else f"{line[:LINE]}… [{len(line) - LINE:,} more]" for line in body[:LINES]]
    more = [f"[{len(body) - LINES:,} more lines of this diff are not shown]"] if len(body) > LINES else []
    return "\n".join((*header, *shown, *more))


def is_whole(diff: str) -> bool:
    """Whether nothing of a diff made here was left out; of one with lines that look so, no."""
    return not CUT.search(diff)


def _common(a: list[str], b: list[str]) -> int:
    """How many lines are equal at the begin."""
    for number, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return number
    return min(len(a), len(b))


def _marked(lines: list[str]) -> list[str]:
    """The lines of a file; where the last one has no line end, that is said as diff does."""
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]
    return lines[:-1]


def _hunks(a: list[str], b: list[str], begin: int) -> list[str]:
    if len(a) * len(b) > _MOST_COMPARED:
        head = f"@@ -{begin + 1},{len(a)} +{begin + 1},{len(b)} @@"
        return [head, *(f"-{line}" for line in a), *(f"+{line}" for line in b)]
    import difflib

    made = [*difflib.unified_diff(a, b, n=CONTEXT, lineterm="")][2:]
    return [_moved(line, begin) if line.startswith("@@") else line for line in made]


def _moved(header: str, by: int) -> str:
    """The head of a hunk with line numbers of the whole file."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + by}", header)
