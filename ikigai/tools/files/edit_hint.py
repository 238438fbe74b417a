"""Where in a file the text is that an edit did not find: what a model needs to see to write the edit anew."""

from __future__ import annotations

from collections import Counter

SHOWN, LINE = 12, 200
"""Lines of the nearest place, and characters of each, that are shown."""
_CANDIDATES, _ANCHORS = 3_000, 200
"""Lines of the file that are compared letter by letter, and lines of the text that are looked for as they are."""


def nearest(text: str, old: str) -> str:
    """A sentence or two about the place in `text` that is most like `old`; both have \\n as line ends."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    start, alike = _place([line.strip() for line in lines], [line.strip() for line in wanted])
    if start is None:
        return "No line of the file is like it."
    found = lines[start : start + len(wanted)]
    if alike == len(wanted):
        why = "differs only in white space" if found != wanted else "differs only in the empty lines around it"
    else:
        why = "is nearest"
    numbers = f"line {start + 1}" if len(found) == 1 else f"lines {start + 1} to {start + len(found)}"
    shown = "\n".join(f"{start + n:6}\t{_short(line)}" for n, line in enumerate(found[:SHOWN], 1))
    more = f"\n[{len(found) - SHOWN:,} more lines]" if len(found) > SHOWN else ""
    return f"The text in {numbers} {why}:\n{shown}{more}"


def _place(lines: list[str], wanted: list[str]) -> tuple[int | None, int]:
    """The line where a text of these lines would begin with the most of them equal, and how many are."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted[:_ANCHORS]):
        if line:
            offsets.setdefault(line, []).append(offset)
    votes = Counter[int]()
    for number, line in enumerate(lines):
        for offset in offsets.get(line, ())[:20]:
            if number >= offset:
                votes[number - offset] += 1
    blank = sum(not line for line in wanted[:_ANCHORS])
    if votes:
        start, count = min(votes.items(), key=lambda each: (-each[1], each[0]))
        whole = count + blank == len(wanted) and lines[start : start + len(wanted)] == wanted
        return start, len(wanted) if whole else count
    return _like(lines, wanted), 0


def _like(lines: list[str], wanted: list[str]) -> int | None:
    """The line that is most like the longest line that is wanted, less its distance from the first."""
    longest = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    import difflib

    matcher = difflib.SequenceMatcher(b=wanted[longest][:LINE], autojunk=False)
    best, found = 0.5, None
    for number, line in enumerate(lines[:_CANDIDATES]):
        matcher.set_seq1(line[:LINE])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, found = ratio, max(0, number - longest)
    return found


def _short(line: str) -> str:
    return line if len(line) <= LINE else f"{line[:LINE]}…"
