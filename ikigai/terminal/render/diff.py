"""Unified diffs in colours: whole where a question is about one, in a few rows behind the result of an edit."""

from collections.abc import Iterator, Sequence

from ikigai.core.sanitize import clean_line
from ikigai.terminal.render.text_width import TAB, cut, wrap
from ikigai.terminal.render.theme import Theme

FEW = 10
"""Rows of a change that stand behind the result of the tool that made it."""
DIFF = {"+": "added", "-": "removed", "@": "hunk", " ": "", "\\": "dim", "": ""}
"""Styles of the lines of a unified diff, by their first character."""


def styles(lines: Sequence[str]) -> Iterator[str]:
    """A style for each line: those of a diff begin behind its --- and +++ and end with the last of its hunks."""
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("--- ") and lines[number + 1 : number + 2] and lines[number + 1].startswith("+++ "):
            inside = True
            yield "bold"
        elif inside and line.startswith("+++ ") and lines[number - 1].startswith("--- "):
            yield "bold"
        else:
            inside = inside and line[:1] in DIFF
            yield DIFF[line[:1]] if inside else ""


def is_long(diff: str) -> bool:
    """Whether more was changed than a few rows show."""
    return len(_body(diff)) > FEW


def few(diff: str, width: int, theme: Theme, more: str = "") -> list[str]:
    """The first rows of a diff in `width` cells, without the names of its file, and how many there are if that is more;
    `more` stands behind that."""
    body = _body(diff)
    drawn = [theme.paint(style, cut(told(_visible(line), style, theme), width)) for line, style in body[:FEW]]
    if len(body) > FEW:
        drawn.append(theme.paint("dim", cut(f"… {len(body):,} lines of changes in all{more}", width)))
    return drawn


def whole(diff: str, width: int, theme: Theme) -> list[str]:
    """All of a diff in rows of `width` cells."""
    lines = diff.split("\n")
    styled = zip(lines, styles(lines), strict=True)
    return [theme.paint(style, row) for line, style in styled for row in wrap(_visible(line), width)]


def told(line: str, style: str, theme: Theme) -> str:
    """A line with its sign, or with words for that."""
    if not theme.words:
        return line
    from ikigai.terminal.render import plain_words as words

    return words.changed(line, style)


def plain(diff: str) -> str:
    """All of a diff, safe and with nothing hidden."""
    return "\n".join(map(_visible, diff.split("\n")))


def _visible(line: str) -> str:
    """A line of a file: `clean` would drop what a terminal obeys, and here it is what was written."""
    return clean_line(line.removesuffix("\r").expandtabs(TAB))


def _body(diff: str) -> list[tuple[str, str]]:
    """The lines behind the names of the file, with their styles."""
    lines = diff.split("\n") if diff else []
    styled = list(zip(lines, styles(lines), strict=True))
    return [(line, style) for line, style in styled if style != "bold"]
