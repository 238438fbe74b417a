"""Make the unified diff of an edit for approval: with correct line numbers, limited in size and time."""

from __future__ import annotations

import re

CONTEXT_LINES = 3
MAX_DIFF_LINES, MAX_LINE_CHARACTERS = 2_000, 1_000
"""Lines of a diff, and characters of each, that are shown; a note says how much is left out."""
CUT_MARKER = re.compile(r"… \[[\d,]+ more\]$|^\[([\d,]+ more lines of this|replaces a binary)", re.MULTILINE)
"""Notes in a diff about text that is left out or cannot be shown."""
_MAX_COMPARED_PAIRS = 4_000_000
"""Pairs of lines that difflib may have to compare, in about a second; larger changes are shown as old and new."""


def unified_diff(before: str, after: str, name: str, *, new: bool = False) -> str:
    """Return the diff from `before` to `after`, "" if they are equal. `new` is True if there was no file before."""
    old_lines, new_lines = before.split("\n"), after.split("\n")
    head = _common_start(old_lines, new_lines)
    tail = _common_start(old_lines[head:][::-1], new_lines[head:][::-1])
    if head == len(old_lines) == len(new_lines):
        return ""
    begin, rest = max(0, head - CONTEXT_LINES), max(0, tail - CONTEXT_LINES)
    a, b = (_mark_last_line(lines)[begin : len(lines) - rest] for lines in (old_lines, new_lines))
    name = name.replace("\n", "⏎")  # a line break would start another line of the diff
    header = ["--- /dev/null" if new else f"--- a/{name}", f"+++ b/{name}"]
    body = _hunks(a, b, begin)
    shown = map(_cut_line, body[:MAX_DIFF_LINES])
    more = (
        [f"[{len(body) - MAX_DIFF_LINES:,} more lines of this diff are not shown]"]
        if len(body) > MAX_DIFF_LINES
        else []
    )
    return "\n".join((*header, *shown, *more))


def _cut_line(line: str) -> str:
    more = len(line) - MAX_LINE_CHARACTERS
    return line if more <= 0 else f"{line[:MAX_LINE_CHARACTERS]}… [{more:,} more]"


def is_whole(diff: str) -> bool:
    """Return True if the diff is complete; False also for one with lines that look like such a note."""
    return not CUT_MARKER.search(diff)


def _common_start(a: list[str], b: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    for number, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return number
    return min(len(a), len(b))


def _mark_last_line(lines: list[str]) -> list[str]:
    """Return the lines of a file; mark a missing line end of the last one as diff does."""
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]
    return lines[:-1]


def _hunks(a: list[str], b: list[str], begin: int) -> list[str]:
    if len(a) * len(b) > _MAX_COMPARED_PAIRS:
        head = f"@@ -{begin + 1},{len(a)} +{begin + 1},{len(b)} @@"
        return [head, *(f"-{line}" for line in a), *(f"+{line}" for line in b)]
    import difflib

    lines = [*difflib.unified_diff(a, b, n=CONTEXT_LINES, lineterm="")][2:]
    return [_shift_hunk(line, begin) if line.startswith("@@") else line for line in lines]


def _shift_hunk(header: str, by: int) -> str:
    """Return the header of a hunk with the line numbers of the whole file."""
    return re.sub(r"([-+])(\d+)", lambda match: f"{match[1]}{int(match[2]) + by}", header)
