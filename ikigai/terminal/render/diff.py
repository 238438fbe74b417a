"""Draw unified diffs with line numbers, in colors: whole in a question, a few rows after the result of an edit.

     1   def f():
     2 -     return 1
     2 +     return 2

The hunks are read by the numbers in their headers, so that no line of a file passes for a header. The names of the file
are left out: the call stands above. What is not a line of a hunk is a note about the diff and is drawn as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ikigai.core.text.sanitize import clean_line
from ikigai.terminal.render.text_width import TAB_CELLS, cut, wrap
from ikigai.terminal.render.theme import Theme

MAX_DIFF_ROWS = 10
"""Rows of a change that are shown after the result of the tool that made it."""
MAX_COMPARED_CHARACTERS = 400
"""Characters of a line up to which its changed words are found."""
MAX_COMPARED_LINES = 200
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES = {"+": "added", "-": "removed", " ": "", "\\": "dim", "": "dim"}

Span = tuple[int, int, str]
"""A stretch of a line, from and up to a character, and its style."""


class DiffLine(NamedTuple):
    """A line of a diff. `sign` is + - or a blank for a line of the file, numbered in its new state, a removed one in
    its old; @ for the gap before a hunk, which begins at `number`; \\ or "" for a note.
    """

    sign: str
    number: int
    text: str
    spans: tuple[Span, ...] = ()


def parse_diff(lines: Sequence[str]) -> list[DiffLine]:
    """Return the lines of a unified diff without the names of its file."""
    parsed, old, new, old_left, new_left = list[DiffLine](), 0, 0, 0, 0
    names = next((n for n, line in enumerate(lines[:2]) if line.startswith("--- ")), -2)  # a note may stand before
    for place, line in enumerate(lines):
        sign = line[:1]
        if place in (names, names + 1) and line.startswith(("--- ", "+++ ")):
            continue
        if (old_left or new_left) and sign in ("+", "-", " "):
            parsed.append(DiffLine(sign, old if sign == "-" else new, line[1:]))
            old, old_left = old + (sign != "+"), old_left - (sign != "+")
            new, new_left = new + (sign != "-"), new_left - (sign != "-")
        elif match := _HUNK.match(line):  # no line of a file begins so
            old, new = int(match[1]), int(match[3])
            old_left, new_left = (int(each) if each else 1 for each in (match[2], match[4]))
            parsed.append(DiffLine("@", new, line))
        else:
            parsed.append(DiffLine("\\" if sign == "\\" else "", 0, line))
    return parsed


def is_long(diff: str) -> bool:
    """Return True if a diff has more lines than a few rows show."""
    return len(_body(diff)) > MAX_DIFF_ROWS + 1


def draw_first_rows(diff: str, width: int, theme: Theme, more: str = "") -> list[str]:
    """Draw the first rows of a diff in `width` cells, and a row with the number of the other lines and `more`."""
    body = _body(diff, theme)
    shown = body if len(body) <= MAX_DIFF_ROWS + 1 else body[:MAX_DIFF_ROWS]
    drawn = [row for line in _draw(shown, diff, width, theme, is_cut=True) for row in line]
    if len(body) > len(shown):
        drawn.append(theme.paint("dim", cut(f"… {len(body) - len(shown):,} more lines of changes{more}", width)))
    return drawn


def draw_diff(diff: str, width: int, theme: Theme) -> list[str]:
    """Draw all of a diff in rows of `width` cells."""
    return [row for line in _draw(_body(diff, theme), diff, width, theme, is_cut=False) for row in line]


def plain_diff(diff: str) -> str:
    """Return all of a diff, cleaned and with nothing hidden."""
    return "\n".join(map(_visible, diff.split("\n")))


def _visible(line: str) -> str:
    """Return a line of a file: `clean` would drop what a terminal obeys, and here it belongs to the content."""
    return clean_line(line.removesuffix("\r").expandtabs(TAB_CELLS))


def _body(diff: str, theme: Theme | None = None) -> list[DiffLine]:
    """Return the lines of a diff, safe for a terminal. Nothing stands before the first hunk if lines have numbers."""
    lines = [line._replace(text=_visible(line.text)) for line in parse_diff(diff.split("\n") if diff else [])]
    first = next((n for n, line in enumerate(lines) if line.sign == "@"), -1)
    return [line for n, line in enumerate(lines) if n != first or (theme and theme.words)]


def _draw(lines: Sequence[DiffLine], diff: str, width: int, theme: Theme, *, is_cut: bool) -> Iterator[list[str]]:
    """Yield the rows of each line: one if it `is_cut`, else as many as it takes."""
    if theme.words:
        yield from ([*wrap(row, width)] for row in map(_in_words, lines))
        return
    digits = len(str(max((line.number for line in lines), default=0)))
    begin = digits + 3
    for line in _styled(lines, diff) if not theme.plain else lines:
        style = _STYLES.get(line.sign, "dim")
        if line.sign == "@":
            yield [theme.paint("hunk", f"{'…':>{digits}}")]
        elif line.sign not in ("+", "-", " "):
            rows = [cut(line.text, width)] if is_cut else wrap(line.text, width)
            yield [theme.paint(style, row) for row in rows]
        else:
            head = theme.paint(style or "hunk", f"{line.number:>{digits}} {line.sign}".rstrip())
            head += " " * (begin - len(f"{line.number:>{digits}} {line.sign}".rstrip()))
            room = max(width - begin, 2)
            rows = [cut(line.text, room)] if is_cut else list(wrap(line.text, room))
            painted = [_painted(row, line, at, theme) for row, at in _places(rows, line.text)]
            yield [((" " * begin if n else head) + row).rstrip(" ") for n, row in enumerate(painted)]


def _places(rows: Sequence[str], text: str) -> Iterator[tuple[str, int]]:
    """Yield each row of a wrapped or cut line with its place in it."""
    end = 0
    for row in rows:
        place = text.find(row, end)
        place = end if place < 0 else place  # a cut one ends with …
        end = place + len(row)
        yield row, place


def _painted(row: str, line: DiffLine, place: int, theme: Theme) -> str:
    """Paint a row of a line that begins with the character `place` of it."""
    base, drawn, done = _STYLES[line.sign], "", 0
    for first, end, style in line.spans:
        first, end = max(first - place, done), min(end - place, len(row))
        if first < end:
            drawn += theme.paint(base, row[done:first]) + theme.paint(style or base, row[first:end])
            done = end
    return drawn + theme.paint(base, row[done:])


def _in_words(line: DiffLine) -> str:
    """Return a line in words, for screen readers."""
    from ikigai.terminal.render import plain_words

    return plain_words.describe_change(line.sign, line.number, line.text)


def _styled(lines: Sequence[DiffLine], diff: str) -> list[DiffLine]:
    """Return the lines with the spans of their code and of their changed words."""
    coded = _colored(lines, _name(diff))
    styled, place = list[DiffLine](), 0
    compared = 0
    while place < len(coded):
        removed = _run(coded, place, "-")
        added = _run(coded, place + len(removed), "+")
        if (pairs := min(len(removed), len(added))) and compared + pairs <= MAX_COMPARED_LINES:
            compared += pairs
            for n in range(pairs):
                removed[n], added[n] = _with_changed_words(removed[n], added[n])
        run = [*removed, *added] or [coded[place]]
        styled += run
        place += len(run)
    return styled


def _run(lines: Sequence[DiffLine], first: int, sign: str) -> list[DiffLine]:
    end = first
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return list(lines[first:end])


def _with_changed_words(old: DiffLine, new: DiffLine) -> tuple[DiffLine, DiffLine]:
    """Return a line and the one in its place with their changed words marked, if they have most words in common."""
    if max(len(old.text), len(new.text)) > MAX_COMPARED_CHARACTERS:
        return old, new
    import difflib

    words = [re.findall(r"\w+|\s+|[^\w\s]", line.text) for line in (old, new)]
    matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
    kept = sum(len("".join(words[0][a : a + size]).strip()) for a, _, size in matcher.get_matching_blocks())
    if 4 * kept < len("".join(old.text.split())) + len("".join(new.text.split())):
        return old, new
    changes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    starts = [[sum(map(len, each[:n])) for n in range(len(each) + 1)] for each in words]
    before = [(starts[0][a], starts[0][b]) for _, a, b, _, _ in changes if a < b]
    after = [(starts[1][a], starts[1][b]) for _, _, _, a, b in changes if a < b]
    return _over(old, before, "removed_word"), _over(new, after, "added_word")


def _over(line: DiffLine, places: Sequence[tuple[int, int]], style: str) -> DiffLine:
    """Return the line with this style at the places, over the spans that it has."""
    spans = list[Span]()
    for first, end, own in line.spans:
        for start, stop in places:  # keep what lies before each
            if first < start < end:
                spans.append((first, start, own))
            if start < end and stop > first:
                first = max(first, stop)
        if first < end:
            spans.append((first, end, own))
    return line._replace(spans=tuple(sorted((*spans, *((start, stop, style) for start, stop in places)))))


def _colored(lines: Sequence[DiffLine], name: str) -> list[DiffLine]:
    """Return the lines with the spans of their code, each hunk colored by itself as it is after the change. A removed
    line has none: strings in the color of added lines would be read as added. Comments that are added are not faint.
    """
    from ikigai.terminal.render import code_colors

    colored, start = list(lines), 0
    if not (language := code_colors.language_of(name) if name else ""):
        return colored
    for stop in (*(n for n, line in enumerate(lines) if line.sign == "@"), len(lines)):
        after = [n for n in range(start, stop) if lines[n].sign in ("+", " ")]
        code = "\n".join(lines[n].text for n in after)
        for n, pieces in zip(after, code_colors.color_lines(code, language), strict=False):
            faint = "code_comment" if lines[n].sign == "+" else ""
            spans = ((first, end, element) for first, end, element in _spans(pieces) if element != faint)
            colored[n] = lines[n]._replace(spans=tuple(spans))
        start = stop
    return colored


def _spans(pieces: Sequence[tuple[str, str]]) -> Iterator[Span]:
    at = 0
    for text, element in pieces:
        if element:
            yield at, at + len(text), element
        at += len(text)


def _name(diff: str) -> str:
    """Return the name of the file of a diff; "" if it has none."""
    match = re.search(r"^--- .*\n\+\+\+ b/(.*)$", diff[: diff.find("\n@@ ")], re.MULTILINE)
    return match[1] if match else ""
