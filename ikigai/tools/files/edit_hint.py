"""Find the part of a file that is most like the text of a failed edit, so that a model can correct it."""

from __future__ import annotations

from collections import Counter

from ikigai.core.text.lookalikes import describe_difference, fold

SHOWN_LINES, SHOWN_LINE_CHARACTERS = 12, 200
"""Lines of the nearest place, and characters of each, that are shown."""
MAX_NAMED_DIFFERENCES = 3
"""Lines whose difference is named by code points."""
_MAX_CANDIDATES, _MAX_ANCHORS = 3_000, 200
"""Lines of the file that are compared letter by letter, and lines of the text that are searched for as a whole."""


def nearest_place(text: str, old: str) -> str:
    """Return one or two sentences about the place in `text` that is most like `old`; both have \\n as line ends."""
    lines, old_lines = text.split("\n"), old.strip("\n").split("\n")
    start, equal = _find_place([fold(line).strip() for line in lines], [fold(line).strip() for line in old_lines])
    if start is None:
        return "No line of the file is similar."
    nearest, differs = lines[start : start + len(old_lines)], list[tuple[int, str, str]]()
    if equal == len(old_lines):
        differs = [
            (n, *pair) for n, pair in enumerate(zip(nearest, old_lines, strict=True), start + 1) if pair[0] != pair[1]
        ]
        if not differs:
            why = "differs only in the empty lines around it"
        elif all(line.split() == old_line.split() for _, line, old_line in differs):
            why = "differs only in whitespace"
        else:
            why = "differs only in characters that look alike"
    else:
        why = "is nearest"
    numbers = f"line {start + 1}" if len(nearest) == 1 else f"lines {start + 1} to {start + len(nearest)}"
    shown = "\n".join(f"{start + n:6}\t{_short(line)}" for n, line in enumerate(nearest[:SHOWN_LINES], 1))
    more = f"\n[{len(nearest) - SHOWN_LINES:,} more lines]" if len(nearest) > SHOWN_LINES else ""
    named = "".join(
        f"\nLine {number}: {describe_difference(line, old_line, 'the file', 'old')}."
        for number, line, old_line in differs[:MAX_NAMED_DIFFERENCES]
    )
    return f"The text in {numbers} {why}:\n{shown}{more}{named}"


def _find_place(lines: list[str], old_lines: list[str]) -> tuple[int | None, int]:
    """Return the index of the line where most of `old_lines` would be equal, None for none, and their number."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(old_lines[:_MAX_ANCHORS]):
        if line:
            offsets.setdefault(line, []).append(offset)
    votes = Counter[int]()
    for number, line in enumerate(lines):
        for offset in offsets.get(line, ())[:20]:
            if number >= offset:
                votes[number - offset] += 1
    blank = sum(not line for line in old_lines[:_MAX_ANCHORS])
    if votes:
        start, count = min(votes.items(), key=lambda each: (-each[1], each[0]))
        whole = count + blank == len(old_lines) and lines[start : start + len(old_lines)] == old_lines
        return start, len(old_lines) if whole else count
    return _find_similar_line(lines, old_lines), 0


def _find_similar_line(lines: list[str], old_lines: list[str]) -> int | None:
    """Return where `old_lines` would begin if their longest line were the most similar line of the file."""
    longest = max(range(len(old_lines)), key=lambda n: len(old_lines[n]))
    import difflib

    matcher = difflib.SequenceMatcher(b=old_lines[longest][:SHOWN_LINE_CHARACTERS], autojunk=False)
    best, start = 0.5, None
    for number, line in enumerate(lines[:_MAX_CANDIDATES]):
        matcher.set_seq1(line[:SHOWN_LINE_CHARACTERS])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, start = ratio, max(0, number - longest)
    return start


def _short(line: str) -> str:
    return line if len(line) <= SHOWN_LINE_CHARACTERS else f"{line[:SHOWN_LINE_CHARACTERS]}…"
