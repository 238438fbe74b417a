"""Draw the lines of a question for the scrollback: the call, its diff in colors, and what the question is about."""

from collections.abc import Iterator

from ikigai.core.text.sanitize import clean, clean_line
from ikigai.core.views.questions import Question
from ikigai.terminal.render import diff
from ikigai.terminal.render.blocks import BLOCK_INDENT, hang
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import CALL, Theme

SUBJECT_BAR = "▌"


def draw_question(question: Question, width: int, theme: Theme) -> str:
    """Draw the lines of a question in `width` cells: the sign of a call before its heading, and a bar before every row
    of what the question is about.
    """
    return "\n".join(_rows(question, width, theme))


def _rows(question: Question, width: int, theme: Theme) -> Iterator[str]:
    indent, room = " " * BLOCK_INDENT, width - BLOCK_INDENT
    bar, diffs, end = "" if theme.words else f"{SUBJECT_BAR} ", dict(question.diffs), 0
    for number, line in enumerate(question.lines):
        if number < end:
            continue
        if end := diffs.get(number, 0):
            rows = iter(diff.draw_diff("\n".join(question.lines[number:end]), room, theme))
        elif number in question.headings:
            yield hang(CALL, "call", wrap(clean_line(line), room), "", theme)
            continue
        elif number in question.subject:
            rows = (theme.paint("prompt", bar + row) for row in wrap(clean(line), room - len(bar)))
        else:
            rows = wrap(clean(line), room)
        yield from (indent + row if row else "" for row in rows)
