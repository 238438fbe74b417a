"""Blocks and notices as lines for the scrollback; nothing foreign leaves here unclean.

    ❯ what the user said          → tool(argument=value)
    ● what the model said         ← the first lines of what came of it
    ∴ thought for 12 s: how it began … (Ctrl+O)
    · what happened to the conversation      ⚠ a warning      ✗ a turn that was stopped, and why

Every function returns lines joined by line breaks, without one at the end, no wider than `width` cells (code, which the
terminal wraps, excepted).
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core.sanitize import clean, clean_line
from ikigai.core.views.transcript import Block, Rule, Shown, Speaker
from ikigai.terminal.render import diff as changes
from ikigai.terminal.render import theme as glyph
from ikigai.terminal.render.markdown import MarkdownStream, render
from ikigai.terminal.render.text_width import TAB, columns, cut, lasting, wrap
from ikigai.terminal.render.theme import Theme

if TYPE_CHECKING:
    from ikigai.core.search.snippets import Marked

log = logging.getLogger(__name__)

INDENT = 2
LONGEST_MESSAGE = 40
"""Rows of a user's message that are shown; the whole of it is in the log."""
LONGEST_RESULT = 3
SCREENFULS = 2
"""How much of a history is drawn anew."""
OPENS = " (Ctrl+O)"
MUCH = 1 << 16
"""Characters that are looked at where only a few rows are shown."""


def warm(columns: int) -> tuple[()]:
    """Import what drawing takes; draws nothing."""
    import ikigai.terminal.render.markdown_elements  # noqa: F401

    return ()


def is_long(block: Block) -> bool:
    """Whether more came of a tool call than is shown, or a user's message, as of a !command, has more lines."""
    lines = block.text.rstrip("\n").count("\n")
    if block.speaker is Speaker.USER:
        return lines >= LONGEST_MESSAGE
    long = lines >= LONGEST_RESULT or block.whole
    return block.speaker is Speaker.TOOL_RESULT and (bool(long) or changes.is_long(block.diff))


def all_of(block: Block) -> str:
    """What the key opens of a long result: the words, and what was changed."""
    if block.whole:
        return f"{block.text}\n\n[{block.whole:,} bytes in all: ikigai history show {block.id}]"
    return f"{block.text}\n\n{changes.plain(block.diff)}" if block.diff else block.text


def block(block: Block, width: int, theme: Theme, opens: bool = False, links: bool = False) -> str:
    """One stored event. What is out of the context is dim, and its links only text; `opens` says that a key shows the
    rest of it.
    """
    match block.speaker:
        case Speaker.ASSISTANT:
            drawn = reply(block.text, width, theme, links and block.remembered)
        case Speaker.USER:
            rows = _rows(block.text, width, LONGEST_MESSAGE)
            if opens and len(rows) > LONGEST_MESSAGE and columns(rows[-1] + OPENS) <= width - INDENT:
                rows[-1] += OPENS
            drawn = _hung(glyph.USER, "prompt", rows, "user", theme)
        case Speaker.TOOL_CALL:
            text = cut(clean_line(_call(block)), width - INDENT)
            drawn = _hung(glyph.CALL, "call", [text], "", theme)
        case Speaker.TOOL_RESULT:
            rows = _rows(block.text, width, LONGEST_RESULT, wrapped=False, whole=block.whole)
            if opens and len(rows) > LONGEST_RESULT and columns(rows[-1] + OPENS) <= width - INDENT:
                rows[-1] += OPENS
            if block.failed and len(rows) > LONGEST_RESULT:  # how it ended stands at the end
                rows.append(cut(clean_line(block.text.rstrip()[-MUCH:].rpartition("\n")[2]), width - INDENT))
            drawn = _hung(glyph.RESULT, "error" if block.failed else "dim", rows, "dim", theme, block.failed)
            changed = changes.few(block.diff, width - INDENT, theme, OPENS * opens)
            drawn = "\n".join((drawn, *(" " * INDENT + row for row in changed)))
        case Speaker.STOPPED:
            style = "error" if block.failed else "warning"
            drawn = _hung(glyph.STOPPED, style, _rows(block.text, width, LONGEST_MESSAGE), "", theme, block.failed)
        case Speaker.SHORT:
            drawn = notice(block.text, width, theme)
        case Speaker.NOTE:
            drawn = _hung(glyph.NOTE, "dim", _rows(block.text, width, LONGEST_MESSAGE), "dim", theme)
    if block.remembered:
        return drawn
    return "\n".join(map(theme.dimmed, ("Out of context. " * theme.words + drawn).split("\n")))


class Voice:
    """What the pieces of one reply share: the link definitions met so far, and whether any of it has been drawn."""

    def __init__(self) -> None:
        self.references: dict[str, Any] = {}
        self.begun = False


def reply(text: str, width: int, theme: Theme, links: bool = False) -> str:
    """A whole reply in Markdown. With `links` those that are safe can be clicked."""
    from ikigai.terminal.render import plain_paragraphs as unmarked

    if not theme.words and unmarked.is_plain(text, width - INDENT):
        return _indented(unmarked.drawn(text, width - INDENT), Voice(), theme)
    stream, voice = MarkdownStream(), Voice()
    stream.feed(text)
    stream.finish()
    return "\n\n".join(filter(None, (piece(source, voice, width, theme, links) for source in stream.take())))


def takes_markdown(text: str, width: int) -> bool:
    """Whether a reply can be drawn only by what draws Markdown, which takes a while to load."""
    from ikigai.terminal.render import plain_paragraphs as unmarked

    return not unmarked.is_plain(text, width - INDENT)


def piece(source: str, voice: Voice, width: int, theme: Theme, links: bool = False) -> str:
    """One finished block of a reply; empty if it shows nothing. Only code stands at the left edge, to be copied."""
    if theme.words:  # Markdown says in signs that are read out what it is
        said = clean(source).strip("\n")
        begun, voice.begun = voice.begun, voice.begun or bool(said)
        return said if begun or not said else f"{theme.sign(glyph.ASSISTANT)} {said}"
    code = source.lstrip("\n").startswith(("```", "~~~"))
    indent = 0 if code else INDENT
    try:
        styles, references = theme.styles, voice.references
        drawn = render(
            source, width - indent, color=not theme.plain, styles=styles, references=references, links=links
        ).rstrip("\n")
    except Exception:  # no text is worth a turn, and no look is worth a text
        log.exception("Markdown could not be drawn")
        drawn = "\n".join(wrap(clean(source), width - indent)).strip("\n")
    return _indented(drawn, voice, theme, code) if drawn else ""


def _indented(drawn: str, voice: Voice, theme: Theme, code: bool = False) -> str:
    """Drawn rows of a reply at their place, behind its sign where they are its first."""
    indent = 0 if code else INDENT
    drawn = "\n".join(" " * indent * bool(line) + line for line in drawn.split("\n"))
    if not voice.begun:
        voice.begun = True
        sign = theme.paint("assistant", glyph.ASSISTANT)
        return f"{sign}\n{drawn}" if code else f"{sign} {drawn[INDENT:]}"
    return drawn


def thought(text: str, seconds: float | None, width: int, theme: Theme, full: bool = False, opens: bool = False) -> str:
    """What was thought: one row with how it begins, or all of it; `opens` says that a key shows the rest."""
    took = f"thought for {lasting(seconds)}" if seconds is not None and seconds >= 1 else "thought"
    if full:
        rows = wrap(clean(text).strip("\n"), width - INDENT)
        return _hung(glyph.THOUGHT, "dim", [f"{took}:", *rows], "thought", theme)
    words = " ".join(clean(text[:MUCH]).replace("**", "").split())  # summaries come with headings
    width = min(width, 200) if theme.words else width  # nothing is wrapped there
    key = OPENS if opens and width >= 2 * len(OPENS) + len(took) else ""
    begins = cut(f"{took.capitalize() if theme.words else f'{glyph.THOUGHT} {took}'}: {words}", width - len(key))
    return theme.paint("thought", begins + key)


def notice(text: str, width: int, theme: Theme) -> str:
    return _hung(glyph.WARNING, "warning", _rows(text, width, LONGEST_MESSAGE), "", theme)


def plain(text: str, width: int) -> str:
    """Text of our own making, set apart by its indent; what stands in a second column stays there when it wraps."""
    rows = (row for line in clean(text).split("\n") for row in _columns(line, width - INDENT))
    return "\n".join(" " * INDENT + row if row else "" for row in rows)


def proposed(lines: Sequence[str], width: int, theme: Theme) -> str:
    """What a question is about, set apart like `plain` text; a unified diff in it in colours."""
    drawn = list[str]()
    for line, style in zip(lines, changes.styles(lines), strict=True):
        line = changes.told(clean(line), style, theme)
        drawn += (theme.paint(style, row) for row in wrap(line, width - INDENT))
    return "\n".join(" " * INDENT + row if row else "" for row in drawn)


def marked(lines: "Iterable[Marked]", width: int, theme: Theme) -> str:
    """Lines with places in them that stand out, set apart like `plain` ones."""
    return "\n".join(
        " " * INDENT + row if row else "" for line in lines for row in _marked(line, width - INDENT, theme)
    )


def shifted(drawn: str) -> str:
    """Drawn lines, set apart like `plain` ones."""
    return "\n".join(" " * INDENT + row if row else "" for row in drawn.split("\n"))


def _marked(line: "Marked", width: int, theme: Theme) -> Iterator[str]:
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
    found = re.match(r"\S+(?: \S+)* {2,}(?=\S)", line[:width])
    column = found.end() if found else 0
    if columns(line) <= width or not 0 < column <= width // 2:
        yield from wrap(line, width)
        return
    first, *others = wrap(line[column:], width - column)
    yield line[:column] + first
    yield from (" " * column + row for row in others)


def last_screenfuls(shown: Sequence[Shown], width: int, height: int) -> int:
    """Where to begin so that a few screens are filled, at the beginning of a turn if there is one before that."""
    rows = 0
    for index in range(len(shown) - 1, -1, -1):
        each = shown[index]
        if isinstance(each, Rule):
            continue
        taken = each.text.count("\n") + len(each.text) // width + 2 + 2 * len(each.thoughts)
        rows += taken if each.speaker is Speaker.ASSISTANT else min(taken, LONGEST_MESSAGE)
        if rows > SCREENFULS * height and each.speaker is Speaker.USER:
            return index
    return 0


def another(name: str, width: int, theme: Theme) -> str:
    """What stands above the history of an agent that comes behind another one's."""
    return theme.paint("dim", cut(f"{theme.sign(glyph.NOTE)} Agent {clean_line(name)}", width))


def skipped(count: int, width: int, theme: Theme) -> str:
    """What stands for the beginning of a history that is not shown again."""
    events = "event is" if count == 1 else "events are"
    return theme.paint("dim", cut(f"{theme.sign(glyph.NOTE)} {count:,} earlier {events} not shown again", width))


def _rows(text: str, width: int, most: int, wrapped: bool = True, whole: int = 0) -> list[str]:
    """The first `most` rows of foreign text, and how much there is in all if that is more: `whole` bytes, if any."""
    head = clean(text[:MUCH]).rstrip("\n")
    width -= INDENT
    lines = wrap(head, width) if wrapped else (cut(line.expandtabs(TAB), width) for line in head.split("\n"))
    rows = list(islice(lines, most + 1))
    if len(rows) > most:
        lines = text.rstrip("\n").count("\n") + 1
        much = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        rows[most] = cut(f"… {f'{whole:,} bytes' if whole else much} in all", width)
    return rows


def _hung(sign: str, sign_style: str, rows: Iterable[str], style: str, theme: Theme, failed: bool = False) -> str:
    """Rows behind a sign, those after the first under the first."""
    head, *rest = [theme.paint(style, row) for row in rows] or [""]
    return "\n".join(
        [
            f"{theme.paint(sign_style, theme.sign(sign, failed))} {head}".rstrip(),
            *(" " * INDENT * bool(row) + row for row in rest),
        ]
    )


def _call(block: Block) -> str:
    """A tool call as people write one."""
    try:
        arguments = msgspec.json.decode(block.text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return f"{block.name}({block.text})"
    return f"{block.name}({', '.join(f'{key}={_value(value)}' for key, value in arguments.items())})"


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
