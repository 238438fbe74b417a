"""Draw blocks and notices as lines for the scrollback, with all foreign text cleaned.

    ❯ the user's words            → tool(argument=value)
    ● the model's words           ← the first lines of the result
    ∴ thought for 12 s: the beginning … (Ctrl+O)
    · an event of the conversation      ⚠ a warning      ✗ a turn that was stopped, and why

Every function returns lines joined by line breaks, without one at the end. Lines are no wider than `width` cells,
except code, which the terminal wraps.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ikigai.core.text.sanitize import clean, clean_line
from ikigai.core.views.call_words import count_found, describe_call
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock, source_line
from ikigai.terminal.render.markdown import MarkdownStream, render
from ikigai.terminal.render.text_width import TAB_CELLS, cell_width, cut, format_duration, wrap
from ikigai.terminal.render.theme import (
    ASSISTANT,
    CALL,
    NOTE,
    RESULT,
    STOPPED,
    THOUGHT,
    USER,
    WARNING,
    Theme,
    strip_styles,
)

if TYPE_CHECKING:
    from ikigai.core.search.snippets import MarkedText

log = logging.getLogger(__name__)

BLOCK_INDENT = 2
MAX_MESSAGE_ROWS = 40
"""Rows of a user's message that are shown; the whole of it is in the log."""
MAX_RESULT_ROWS = 6
REDRAWN_SCREENFULS = 2
"""Screenfuls of a history that are drawn anew."""
MAX_SCANNED_CHARACTERS = 1 << 16
"""Characters that are looked at where only a few rows are shown."""


def preload(columns: int) -> tuple[()]:
    """Import the modules for Markdown; draw nothing."""
    import ikigai.terminal.render.markdown_elements  # noqa: F401

    return ()


def is_long(block: TranscriptBlock, width: int) -> bool:
    """Return True if `draw_block` shows only a part of a tool's result, of a user's message, as of a !command, or of
    what a command answered, as /recall.
    """
    if block.speaker in (Speaker.USER, Speaker.NOTE):
        return _exceeds(block.text, width, MAX_MESSAGE_ROWS)
    if block.speaker is not Speaker.TOOL_RESULT:
        return False
    if block.of or block.text.rstrip("\n").count("\n") > MAX_RESULT_ROWS or block.whole:
        return True
    lines = clean(block.text[:MAX_SCANNED_CHARACTERS]).expandtabs(TAB_CELLS).rstrip("\n").split("\n")
    if any(cell_width(line) > width - BLOCK_INDENT for line in lines):
        return True
    if not block.diff:
        return False
    from ikigai.terminal.render import diff

    return diff.is_long(block.diff)


def full_text(block: TranscriptBlock) -> str:
    """Return the text that the key opens of a long result: its words, and its changes."""
    if block.whole:
        return f"{block.text}\n\n[{block.whole:,} bytes in all: ikigai history show {block.id}]"
    if not block.diff:
        return block.text
    from ikigai.terminal.render import diff

    return f"{block.text}\n\n{diff.plain_diff(block.diff)}"


def draw_block(block: TranscriptBlock, width: int, theme: Theme, opens: bool = False, links: bool = False) -> str:
    """Draw one stored event. Outside the context it is dim, and its links are plain text.

    `opens` says that a key shows the rest of it.
    """
    hint = open_hint(theme) if opens else ""
    match block.speaker:
        case Speaker.ASSISTANT:
            drawn = draw_reply(block.text, width, theme, links and block.remembered)
        case Speaker.USER:
            rows = _rows(block.text, width, MAX_MESSAGE_ROWS, hint=hint)
            drawn = hang(USER, "prompt", rows, "user", theme)
            if block.name and theme.words:  # else another agent's words would be read as the user's
                drawn = drawn.removeprefix(f"{theme.sign(USER)} ")
        case Speaker.TOOL_CALL:
            text = cut(clean_line(describe_call(block.name, block.text)), width - BLOCK_INDENT)
            drawn = hang(CALL, "call", [text], "", theme)
        case Speaker.TOOL_RESULT if block.of:
            drawn = hang(CALL, "call", [_draw_read(block, block.of, width - BLOCK_INDENT)], "", theme)
        case Speaker.TOOL_RESULT:
            size = len(block.text.rstrip("\n").split("\n"))
            ends = block.failed and (size > MAX_RESULT_ROWS + 1 or bool(block.whole))  # how it ended stands there
            rows = _rows(
                block.text, width, MAX_RESULT_ROWS, wrapped=False, whole=block.whole, hint=hint, behind=int(ends)
            )
            if ends:
                last = block.text.rstrip()[-MAX_SCANNED_CHARACTERS:].rpartition("\n")[2]
                rows.append(cut(clean_line(last), width - BLOCK_INDENT))
            drawn = hang(RESULT, "error" if block.failed else "dim", rows, "dim", theme, block.failed)
            if block.diff:
                from ikigai.terminal.render import diff

                changes = diff.draw_first_rows(block.diff, width - BLOCK_INDENT, theme, hint)
                drawn = "\n".join((drawn, *(" " * BLOCK_INDENT + row for row in changes)))
        case Speaker.STOPPED:
            style = "error" if block.failed else "warning"
            drawn = hang(STOPPED, style, _rows(block.text, width, MAX_MESSAGE_ROWS), "", theme, block.failed)
        case Speaker.SHORT:
            drawn = draw_notice(block.text, width, theme)
        case Speaker.SOURCES:
            drawn = _draw_sources(block, width, theme, links and block.remembered)
        case Speaker.NOTE:
            drawn = hang(NOTE, "dim", _rows_and_end(block.text, width, hint), "dim", theme)
    if block.remembered:
        return drawn
    return "\n".join(map(theme.dimmed, _with_exclusion(block, drawn, width, theme).split("\n")))


def _with_exclusion(block: TranscriptBlock, drawn: str, width: int, theme: Theme) -> str:
    """Put why the block is out of the context behind its sign, in a row of its own where there is no room."""
    if theme.words:
        return f"{(block.excluded or 'out of context').capitalize()}. {drawn}"
    behind_reply = block.speaker in (Speaker.SOURCES, Speaker.SHORT)
    if not block.excluded or behind_reply or not drawn:
        return drawn
    row, *more = map(strip_styles, drawn.split("\n"))
    sign, text, word = row[:1], row[BLOCK_INDENT:], f"[{block.excluded}]"
    if cell_width(row) > width or cell_width(f"{row} {word}") <= width:  # the terminal wraps rows that are too wide
        return "\n".join((f"{sign} {word} {text}".rstrip(), *more))
    return "\n".join((f"{sign} {word}", " " * BLOCK_INDENT + text, *more))


def _draw_read(result: TranscriptBlock, call: TranscriptBlock, width: int) -> str:
    """Draw the call of a tool that only reads, and how much it found."""
    found = f" ({cut(clean_line(count_found(result)), width // 2)})"
    return cut(clean_line(describe_call(call.name, call.text)), width - cell_width(found)) + found


def _draw_sources(block: TranscriptBlock, width: int, theme: Theme, links: bool) -> str:
    """Draw cited pages, each with its whole address; with `links` safe ones can be clicked."""
    from ikigai.terminal.render.links import draw_link, is_safe_target

    drawn = list[str]()
    for number, page in enumerate(block.sources, 1):
        rows = wrap(source_line(number, page), width - BLOCK_INDENT)
        linked = links and is_safe_target(page.url)
        drawn += (draw_link(theme.paint("dim", row), page.url) if linked else theme.paint("dim", row) for row in rows)
    return "\n".join(" " * BLOCK_INDENT + row for row in drawn)


class ReplyContext:
    """The state that the pieces of one reply share: link definitions so far, and `begun` once one is drawn."""

    def __init__(self) -> None:
        self.references: dict[str, Any] = {}
        self.begun = False


def draw_reply(text: str, width: int, theme: Theme, links: bool = False) -> str:
    """Draw a whole reply in Markdown. With `links` safe ones can be clicked."""
    from ikigai.terminal.render import plain_paragraphs

    room = width - BLOCK_INDENT
    if not theme.words and plain_paragraphs.is_plain(text, room):
        drawn = plain_paragraphs.draw_paragraphs(text, room if theme.wraps_prose else len(text))
        return _indented(drawn, ReplyContext(), theme)
    stream, context = MarkdownStream(), ReplyContext()
    stream.feed(text)
    stream.finish()
    return "\n\n".join(filter(None, (draw_piece(source, context, width, theme, links) for source in stream.take())))


def takes_markdown(text: str, width: int) -> bool:
    """Return True if a reply needs the modules for Markdown, which take a while to load."""
    from ikigai.terminal.render import plain_paragraphs

    return not plain_paragraphs.is_plain(text, width - BLOCK_INDENT)


def draw_piece(source: str, context: ReplyContext, width: int, theme: Theme, links: bool = False) -> str:
    """Draw one finished block of a reply; "" if it shows nothing. Only code stands at the left edge, to be copied."""
    if theme.words:  # screen readers read out the signs of Markdown
        text = clean(source).strip("\n")
        begun, context.begun = context.begun, context.begun or bool(text)
        return text if begun or not text else f"{theme.sign(ASSISTANT)} {text}"
    code = source.lstrip("\n").startswith(("```", "~~~", "    ", "\t"))
    indent = 0 if code else BLOCK_INDENT
    try:
        styles, references = theme.styles, context.references
        drawn = render(
            source,
            width - indent,
            color=not theme.plain,
            styles=styles,
            references=references,
            links=links,
            wraps_prose=theme.wraps_prose,
        ).rstrip("\n")
    except Exception:  # a failure of the drawing must not end the turn nor hide the text
        log.exception("Markdown could not be drawn")
        drawn = "\n".join(wrap(clean(source), width - indent)).strip("\n")
    return _indented(drawn, context, theme, code) if drawn else ""


def _indented(drawn: str, context: ReplyContext, theme: Theme, code: bool = False) -> str:
    """Indent drawn rows of a reply, behind its sign where they are its first."""
    indent = 0 if code else BLOCK_INDENT
    drawn = "\n".join(" " * indent * bool(line) + line for line in drawn.split("\n"))
    if not context.begun:
        context.begun = True
        sign = theme.paint("assistant", ASSISTANT)
        return f"{sign}\n{drawn}" if code else f"{sign} {drawn[BLOCK_INDENT:]}"
    return drawn


def open_hint(theme: Theme) -> str:
    """Return the words behind a cut text that name the key which shows all of it; "" if there is no such key."""
    key = theme.key("output")
    return f" ({key})" if key else ""


def draw_thought(
    text: str, seconds: float | None, width: int, theme: Theme, full: bool = False, opens: bool = False
) -> str:
    """Draw a thought: one row with its beginning, or all of it; `opens` says that a key shows the rest."""
    took = f"thought for {format_duration(seconds)}" if seconds is not None and seconds >= 1 else "thought"
    if full:
        rows = wrap(clean(text).strip("\n"), width - BLOCK_INDENT)
        return hang(THOUGHT, "dim", [f"{took}:", *rows], "thought", theme)
    words = " ".join(clean(text[:MAX_SCANNED_CHARACTERS]).replace("**", "").split())  # summaries come with headings
    width = min(width, 200) if theme.words else width  # nothing is wrapped there
    hint = open_hint(theme) if opens else ""
    key = hint if width >= 2 * len(hint) + len(took) else ""
    begins = cut(f"{took.capitalize() if theme.words else f'{THOUGHT} {took}'}: {words}", width - len(key))
    return theme.paint("thought", begins + key)


def draw_notice(text: str, width: int, theme: Theme) -> str:
    return hang(WARNING, "warning", _rows(text, width, MAX_MESSAGE_ROWS), "", theme)


def draw_note(text: str, width: int, theme: Theme) -> str:
    return hang(NOTE, "dim", _rows(text, width, MAX_MESSAGE_ROWS), "", theme)


def draw_plain(text: str, width: int) -> str:
    """Draw text of the program, set apart by its indent; a second column stays in place when it wraps."""
    rows = (row for line in clean(text).split("\n") for row in _columns(line, width - BLOCK_INDENT))
    return "\n".join(" " * BLOCK_INDENT + row if row else "" for row in rows)


def draw_aside(title: str, text: str, width: int, theme: Theme) -> str:
    """Draw foreign text set apart from the conversation, dim and behind a bar; the caller indents it."""
    bar = "" if theme.words else "│ "
    rows = (cut(clean_line(title), width - len(bar)), *wrap(clean(text).strip("\n"), width - len(bar)))
    return "\n".join(theme.paint("dim", bar + row) for row in rows)


def draw_marked(lines: "Iterable[MarkedText]", width: int, theme: Theme) -> str:
    """Draw lines with highlighted places in them, indented like `draw_plain`."""
    rows = (row for line in lines for row in _marked(line, width - BLOCK_INDENT, theme))
    return indent_lines("\n".join(rows))


def indent_lines(drawn: str) -> str:
    """Indent drawn lines like `draw_plain`."""
    return "\n".join(" " * BLOCK_INDENT + row if row else "" for row in drawn.split("\n"))


def _marked(line: "MarkedText", width: int, theme: Theme) -> Iterator[str]:
    at = 0
    for row in wrap(line.text, width):
        start = line.text.index(row, at)
        at = end = start + len(row)
        drawn, done = "", start
        for first, last in line.places:
            if first < end and last > start:
                drawn += line.text[done : max(first, start)]
                done = min(last, end)
                drawn += theme.paint("found", line.text[max(first, start) : done])
        yield drawn + line.text[done:end]


def _columns(line: str, width: int) -> Iterator[str]:
    match = re.match(r"\S+(?: \S+)* {2,}(?=\S)", line[:width])
    begin = line[: match.end()] if match else ""
    column = cell_width(begin)
    if cell_width(line) <= width or not 0 < column <= width // 2:
        yield from wrap(line, width)
        return
    first, *others = wrap(line[len(begin) :], width - column)
    yield begin + first
    yield from (" " * column + row for row in others)


def first_visible(shown: Sequence[Shown], width: int, height: int) -> int:
    """Return the index from which a few screens are filled, at the beginning of a turn if there is one before that."""
    rows = 0
    for index in range(len(shown) - 1, -1, -1):
        each = shown[index]
        if isinstance(each, ContextRule):
            continue
        cells = cell_width(each.text[:MAX_SCANNED_CHARACTERS])
        taken = each.text.count("\n") + cells // width + 2 + 2 * len(each.thoughts)
        taken = 1 if each.of else taken
        rows += taken if each.speaker is Speaker.ASSISTANT else min(taken, MAX_MESSAGE_ROWS)
        if rows > REDRAWN_SCREENFULS * height and each.speaker is Speaker.USER:
            return index
    return 0


def first_of_last_turn(shown: Sequence[Shown]) -> int:
    """Return the index of the newest message of the user or of another agent, which begins a turn or steers it."""
    users = (n for n, each in enumerate(shown) if isinstance(each, TranscriptBlock) and each.speaker is Speaker.USER)
    return max(users, default=0)


def draw_skipped(count: int, width: int, theme: Theme) -> str:
    """Draw the line for the beginning of a history that is not shown again."""
    events = "event is" if count == 1 else "events are"
    return theme.paint("dim", cut(f"{theme.sign(NOTE)} {count:,} earlier {events} not shown again", width))


def _exceeds(text: str, width: int, max_rows: int) -> bool:
    """Return True if `_rows` leaves something of a wrapped text out."""
    rows = wrap(clean(text[:MAX_SCANNED_CHARACTERS]).rstrip("\n"), width - BLOCK_INDENT)
    return len(list(islice(rows, max_rows + 2))) > max_rows + 1


def _rows(
    text: str, width: int, max_rows: int, wrapped: bool = True, whole: int = 0, hint: str = "", behind: int = 0
) -> list[str]:
    """Return the first `max_rows` rows of foreign text, and a row that says how much follows, with the `hint` behind it
    if it fits. A single further row is shown in its place. `whole` is the size of a text that this is the beginning of.
    The caller shows the last lines of it, so many as `behind` says.
    """
    width -= BLOCK_INDENT
    rows, ends, last_cut = list[str](), list[int](), -1
    for line in clean(text[:MAX_SCANNED_CHARACTERS]).rstrip("\n").split("\n"):
        if wrapped:
            rows += islice(wrap(line, width), max_rows + 2)
        else:
            line = line.expandtabs(TAB_CELLS)
            rows.append(cut(line, width))
            last_cut = len(rows) - 1 if rows[-1] != line else last_cut
        ends.append(len(rows))
        if len(rows) > max_rows + 1:
            break
    if len(rows) <= max_rows + 1 and not (whole or behind):
        if hint and last_cut >= 0:
            rows[last_cut] = cut(rows[last_cut], width - cell_width(hint)) + hint
        return rows
    lines = text.rstrip("\n").count("\n") + 1
    more = lines - behind - sum(end <= max_rows for end in ends)
    size = f"{more:,} more line{'s' * (more != 1)}" if lines > 1 else f"{len(text):,} characters in all"
    told = cut(f"… {whole:,} bytes in all" if whole else f"… {size}", width)
    return [*rows[:max_rows], told + (hint if cell_width(told + hint) <= width else "")]


def _rows_and_end(text: str, width: int, hint: str) -> list[str]:
    """Return the rows of what a command answered. If they are too many, its last line stays: /recall's names its
    sources.
    """
    last = text.rstrip("\n")[-MAX_SCANNED_CHARACTERS:].rpartition("\n")[2]
    end = list(islice(wrap(clean(last), width - BLOCK_INDENT), MAX_RESULT_ROWS + 1))
    if not _exceeds(text, width, MAX_MESSAGE_ROWS) or len(end) > MAX_RESULT_ROWS:
        return _rows(text, width, MAX_MESSAGE_ROWS, hint=hint)
    return [*_rows(text, width, MAX_MESSAGE_ROWS - len(end), hint=hint, behind=1), *end]


def hang(sign: str, sign_style: str, rows: Iterable[str], style: str, theme: Theme, failed: bool = False) -> str:
    """Hang rows on a sign: the others stand under the first."""
    head, *rest = [theme.paint(style, row) for row in rows] or [""]
    return "\n".join(
        [
            f"{theme.paint(sign_style, theme.sign(sign, failed))} {head}".rstrip(),
            *(" " * BLOCK_INDENT * bool(row) + row for row in rest),
        ]
    )
