"""Cut streaming Markdown into finished blocks, show the rest plain, and draw a block for the terminal.

Text grows at its end only, so a block that another one follows stays as it is for ever: it can be drawn once and leave
the live area. markdown-it says where blocks end. It reads only the text after the last finished block, and only when a
line arrived that may end one. It never reads more than twice the input (three times with the end of the text). Inside a
fence lines are merely compared with the closing one.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ikigai.core.text.sanitize import Cleaner, clean
from ikigai.terminal.render.styles import Styles, theme_styles

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

log = logging.getLogger(__name__)

DEFAULT_STYLES = theme_styles(0)
_MAX_NESTING = 20  # lists and quotes within one another; deeper, or with fewer columns, the source is shown instead
_MIN_COLUMNS = 8
_MAX_INDENT_COLUMNS = 4  # columns that a list or a quote takes at most
_PARSED_PER_CHARACTER = 2  # characters that may be parsed for each that came in
_OPENER = re.compile(r" {0,3}(?:#{1,6}[ \t]|```|~~~|[><]|[-+*][ \t]|1[.)][ \t]|[-=*_]{3,}[ \t]*$)")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")


class MarkdownStream:
    """One reply, cut into top-level blocks as it comes; the cuts do not depend on the sizes of the deltas.

    `feed` the deltas, `take` the finished blocks, show `tail` below them, `finish` at the end and take the rest. The
    sources taken, joined, are the cleaned text; only blank lines at its very end are left out.
    """

    def __init__(self) -> None:
        self.fed = 0  # characters given to feed()
        self.parsed = 0  # characters given to the parser: the work done
        self._cleaner = Cleaner()
        self._unread: list[str] = []  # deltas of the line still growing, as they came: most of it ends nothing
        # The sources of blocks, with blank lines and link definitions before each, and `fed` as each ended.
        self._finished: deque[tuple[str, int]] = deque()
        self._lines: list[str] = []  # complete, since the last finished block
        self._partial: list[str] = []  # the line still growing, in pieces
        self._size = 0  # of the lines, in characters
        self._credit = 0
        self._open = ""  # what markdown-it called the last block, when last asked
        self._fence: re.Pattern[str] | None = None  # matches the end of the fence we are in
        self._blank = True  # the last line was

    def feed(self, delta: str) -> None:
        """Add the next piece of the reply, of any length."""
        self.fed += len(delta)
        self._unread.append(delta)
        if "\n" in delta or "\r" in delta:
            self._read()

    def finish(self) -> None:
        """Finish the reply: the remaining lines become finished blocks."""
        self._read()
        self._add(self._cleaner.flush())
        if self._partial:
            self._lines.append("".join(self._partial))
            self._partial.clear()
        if self._lines:
            self._cut(ended=True)
        if any(self._lines):  # link definitions
            self._commit([len(self._lines)])

    def take(self, upto: int | None = None) -> list[str]:
        """Return the sources of the blocks finished and not taken yet, in order, each for `render`.

        With `upto`, return only blocks that were finished when `fed` was `upto`. A caller that has saved so many
        characters of the reply then shows nothing that a crash could take back.
        """
        taken: list[str] = []
        while self._finished and (upto is None or self._finished[0][1] <= upto):
            taken.append(self._finished.popleft()[0])
        return taken

    def tail(self, width: int, rows: int) -> list[str]:
        """Return the last `rows` rows not taken yet, as plain text wrapped at `width` cells; parse no line twice."""
        self._read()
        shown: list[str] = []
        for line in self._backwards():
            if len(shown) >= rows:
                break
            if line or shown:
                shown[:0] = _wrap(line, width, rows)
        while shown and not shown[0]:
            del shown[0]
        return shown[max(0, len(shown) - rows) :]

    def _backwards(self) -> Iterator[str]:
        """Yield the lines that are not taken, the last one first."""
        self._partial = ["".join(self._partial)] if self._partial else []
        yield from self._partial
        yield from reversed(self._lines)
        for source, _ in reversed(self._finished):
            yield from reversed(source.split("\n")[:-1])

    def _read(self) -> None:
        if self._unread:
            text = "".join(self._unread)
            self._unread.clear()
            self._add(self._cleaner.feed(text))

    def _add(self, text: str) -> None:
        self._credit += _PARSED_PER_CHARACTER * len(text)
        if "\n" not in text:
            if text:
                self._partial.append(text)
            return
        *lines, rest = ("".join(self._partial) + text).split("\n")
        self._partial = [rest] if rest else []
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1
        if self._fence:
            if self._fence.match(line):
                self._commit([len(self._lines)])
                self._opened(None)
            return
        blank = not line.strip(" \t")
        may_end, self._blank = self._may_end(line, blank), blank
        if may_end and self._credit >= self._size:
            self._cut()

    def _may_end(self, line: str, blank: bool) -> bool:
        """Return True if a call of the parser may find an end; a wrong answer costs time, never a wrong cut."""
        match self._open:
            case "bullet_list_open" | "ordered_list_open":
                outdented = line[:1] not in ("", " ", "\t")
                return outdented and not _ITEM.match(line) and (self._blank or bool(_OPENER.match(line)))
            case "code_block":
                return self._blank and not blank
            case "blockquote_open" if line.startswith(">"):
                return False
        return not self._blank if blank else bool(_OPENER.match(line))

    def _cut(self, ended: bool = False) -> None:
        """Let markdown-it find the blocks in the lines at hand, and commit those that nothing can change."""
        source = self._source(0, len(self._lines))
        self.parsed += len(source)
        self._credit -= len(source)
        tokens: list[Token] = []
        try:
            _parser().block.parse(source, _parser(), {}, tokens)
        except Exception:  # a failure must not end the turn: the text goes up as one block, in the end
            log.exception("Markdown could not be read")
            tokens.clear()
        blocks = [token for token in tokens if token.level == 0 and token.map]
        ends = [self._end(block) for block in blocks]
        final = len(blocks)
        while final and not (ended or self._final(blocks, ends, final - 1)):
            final -= 1
        self._commit(ends[:final])
        self._opened(blocks[-1] if final < len(blocks) else None)

    def _opened(self, block: Token | None) -> None:
        """Remember the block in which the lines at hand end; None: one that no line can end."""
        self._open = block.type if block else ""
        self._fence = _closing(block) if block and block.type == "fence" else None
        self._blank = self._blank or block is None

    def _end(self, block: Token) -> int:
        """Return the line after the block's last one that is not blank; a list's map extends to the next block."""
        end = _span(block)[1]
        while not self._lines[end - 1].strip(" \t"):
            end -= 1
        return end

    def _final(self, blocks: list[Token], ends: list[int], index: int) -> bool:
        """Return True if no line to come can change where this block ends.

        A seeming block may yet become part of a link definition (`[a]: /url "title over several lines"`), also one
        inside the list or quote before it. Only a blank line and blocks that interrupt every paragraph rule it out.
        """
        block, end = blocks[index], ends[index]
        follower = blocks[index + 1] if index + 1 < len(blocks) else None
        settled = (end < len(self._lines) and not self._lines[end].strip(" \t")) or _interrupts(follower)
        match block.type:
            case "paragraph_open" | "table_open" | "blockquote_open":
                return settled
            case "heading_open" | "hr":
                return settled or _interrupts(block)
            case "fence" if follower is None:
                return end - _span(block)[0] > 1 and bool(_closing(block).match(self._lines[end - 1]))
            case "fence":
                return True
            case "html_block":
                return follower is not None or _span(block)[1] < len(self._lines)
        return settled and follower is not None  # lists and indented code go on after a blank line

    def _commit(self, ends: list[int]) -> None:
        start = 0
        for end in ends:
            self._finished.append((self._source(start, end), self.fed))
            start = end
        del self._lines[:start]
        self._size = sum(map(len, self._lines)) + len(self._lines)

    def _source(self, start: int, end: int) -> str:
        return "".join(line + "\n" for line in self._lines[start:end])


def render(
    source: str,
    width: int,
    *,
    color: bool,
    styles: Styles | None = None,
    references: dict[str, Any] | None = None,
    links: bool = False,
    wraps_prose: bool = True,
) -> str:
    """Draw Markdown for a terminal of `width` columns, one blank line between blocks, every line ended.

    Without `color` and `links` the text holds no escape sequence; `styles` are the theme's. Only top-level code lines,
    and without `wraps_prose` top-level paragraphs, may be longer than `width`: the terminal wraps them and copies them
    whole. To draw a document block by block, put a
    blank line between drawn blocks that are not empty. Give all blocks the same `references`: it collects the link
    definitions met so far. The first call loads rich.
    """
    from ikigai.terminal.render import markdown_elements

    source = clean(source)
    tokens = _parse(source, {} if references is None else {"references": references})
    lines = source.split("\n")
    drawn: list[str] = []
    start = 0
    for index, token in enumerate(tokens, 1):
        if token.level == 0 and token.nesting <= 0:
            block, start = tokens[start:index], index
            if _too_deep(block, width):
                first, last = _span(block[0])
                block = [type(token)("html_block", "", 0, content="\n".join(lines[first:last]))]
            room = width if wraps_prose or block[0].type != "paragraph_open" else max(width, _unwrapped(source))
            drawn.append(markdown_elements.draw(block, max(room, 2), color, styles or DEFAULT_STYLES, links))
    return "\n".join(filter(None, drawn))


@lru_cache(maxsize=1)
def code_blocks(source: str) -> tuple[str, ...]:
    """Return the code of each code block in `source`, wherever it stands, cleaned and without the last line break."""
    tokens = _parse(clean(source), {})
    return tuple(clean(token.content).removesuffix("\n") for token in tokens if token.type in ("fence", "code_block"))


def _parse(source: str, references: dict[str, Any]) -> list[Token]:
    from ikigai.system.commonmark import end_with_newline

    return _parser().parse(end_with_newline(source), references)


@cache
def _parser() -> MarkdownIt:
    from ikigai.system.commonmark import build_parser

    # Where it reaches this depth it drops the rest; a list counts twice. What is too deep for us must get through.
    return build_parser(2 * _MAX_NESTING + 2)


def _unwrapped(source: str) -> int:
    """Return columns in which no line of the source wraps; powers of two, because each width has a console."""
    return 1 << (2 * len(source)).bit_length()  # a character takes two columns at most


def _too_deep(block: list[Token], width: int) -> bool:
    depth = deepest = 0
    for token in block:
        if token.type.startswith(("list_item_", "blockquote_")):
            depth += token.nesting
            deepest = max(deepest, depth)
    return deepest > max(1, min(_MAX_NESTING, (width - _MIN_COLUMNS) // _MAX_INDENT_COLUMNS))


def _span(block: Token) -> list[int]:
    assert block.map is not None  # every block has one
    return block.map


def _closing(fence: Token) -> re.Pattern[str]:
    return re.compile(rf" {{0,3}}{fence.markup}{fence.markup[0]}*[ \t]*$")


def _interrupts(block: Token | None) -> bool:
    """Return True if such a block ends any paragraph before it.

    An underlined heading is a paragraph first, and a quote may go on with one that began in an earlier quote.
    """
    match block and block.type:
        case "fence" | "hr" | "bullet_list_open" | "ordered_list_open":
            return True
        case "heading_open":
            return block is not None and block.markup.startswith("#")
    return False


def _wrap(line: str, width: int, rows: int) -> Sequence[str]:
    """Return the last rows of a line, broken between words. Only the end of a very long line is looked at."""
    width = max(width, 2)
    # Begun at a multiple of what fits, so that the rows stand still while the line grows.
    step = width * (rows + 1)
    return _rows(line[max(0, len(line) // step - 1) * step :], width)


@lru_cache(maxsize=64)
def _rows(line: str, width: int) -> Sequence[str]:
    """Return the rows of a line. They are cached: most lines in sight stand still from one frame to the next."""
    from ikigai.terminal.render.text_width import wrap

    return tuple(wrap(line, width))
