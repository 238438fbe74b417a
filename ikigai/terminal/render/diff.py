"""This module draws unified diffs in colors: whole in a question, a few rows after the result of an edit."""

from collections.abc import Iterator, Sequence

from ikigai.core.sanitize import clean_line
from ikigai.terminal.render.text_width import TAB_CELLS, cut, wrap
from ikigai.terminal.render.theme import Theme

MAX_DIFF_ROWS = 10
"""Rows of a change that are shown after the result of the tool that made it."""
DIFF_STYLES = {"+": "added", "-": "removed", "@": "hunk", " ": "", "\\": "dim", "": ""}
"""Styles of the lines of a unified diff, by their first character."""


def line_styles(lines: Sequence[str]) -> Iterator[str]:
    """Yield a style for each line: those of a diff begin behind its --- and +++ and end with the last of its hunks."""
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("--- ") and lines[number + 1 : number + 2] and lines[number + 1].startswith("+++ "):
            inside = True
            yield "bold"
        elif inside and line.startswith("+++ ") and lines[number - 1].startswith("--- "):
            yield "bold"
        else:
            inside = inside and line[:1] in DIFF_STYLES
            yield DIFF_STYLES[line[:1]] if inside else ""


def is_long(diff: str) -> bool:
    """Return True if a diff has more lines than a few rows show."""
    return len(_body(diff)) > MAX_DIFF_ROWS


def draw_first_rows(diff: str, width: int, theme: Theme, more: str = "") -> list[str]:
    """Draw the first rows of a diff in `width` cells, without the names of its file.

    A last row tells the number of lines if there are more, and `more` follows it.
    """
    body = _body(diff)
    lines = ((draw_line(_visible(line), style, theme), style) for line, style in body[:MAX_DIFF_ROWS])
    drawn = [theme.paint(style, cut(line, width)) for line, style in lines]
    if len(body) > MAX_DIFF_ROWS:
        drawn.append(theme.paint("dim", cut(f"… {len(body):,} lines of changes in all{more}", width)))
    return drawn


def draw_diff(diff: str, width: int, theme: Theme) -> list[str]:
    """Draw all of a diff in rows of `width` cells."""
    lines = diff.split("\n")
    styled = zip(lines, line_styles(lines), strict=True)
    return [theme.paint(style, row) for line, style in styled for row in wrap(_visible(line), width)]


def draw_line(line: str, style: str, theme: Theme) -> str:
    """Return a line with its sign, or with words for the sign."""
    if not theme.words:
        return line
    from ikigai.terminal.render import plain_words

    return plain_words.describe_change(line, style)


def plain_diff(diff: str) -> str:
    """Return all of a diff, cleaned and with nothing hidden."""
    return "\n".join(map(_visible, diff.split("\n")))


def _visible(line: str) -> str:
    """Return a line of a file: `clean` would drop what a terminal obeys, and here it belongs to the content."""
    return clean_line(line.removesuffix("\r").expandtabs(TAB_CELLS))


def _body(diff: str) -> list[tuple[str, str]]:
    """Return the lines after the names of the file, with their styles."""
    lines = diff.split("\n") if diff else []
    styled = list(zip(lines, line_styles(lines), strict=True))
    return [(line, style) for line, style in styled if style != "bold"]
