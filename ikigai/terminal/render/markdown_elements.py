"""Draw each Markdown block: rich's elements, redrawn for light and dark screens, narrow ones, and copying.

Colors come from the theme (`render.theme`). Nothing is padded: a line ends where its text does. Links are text followed
by their target. Where the terminal makes links of text, a safe target is hidden behind words that are honest about it.
"""

import io
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import markdown_it  # noqa: F401  before a part of it: another thread may be loading it, and wait for that part
from markdown_it.token import Token
from rich import box, markdown
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.containers import Renderables
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from ikigai.core.text.sanitize import clean
from ikigai.terminal.render import links
from ikigai.terminal.render.code_colors import CODE_ELEMENTS, MAX_COLORED_CHARACTERS, find_lexer
from ikigai.terminal.render.styles import Styles
from ikigai.terminal.render.text_width import is_ideograph, wrap

_MIN_COLUMN_CELLS = 6
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,16}")  # any other text there may hold what a terminal obeys
_CODE_RULE = 24  # columns of the rules above and below code

_MARKDOWN = {
    "h1": "bold underline {heading}",
    "h2": "bold {heading}",
    "h3": "bold italic {heading}",
    "h4": "italic {heading}",
    "h5": "italic {heading}",
    "h6": "italic {heading}",
    "code": "{code}",
    "block_quote": "{quote}",
    "item.bullet": "none",
    "item.number": "none",
    "link": "{link}",
    "link_url": "{link}",
    "table.border": "{border}",
    "table.header": "bold",
}
"""rich's styles, after its prefix, made of the theme's styles."""


def draw(block: Iterable[Token], width: int, color: bool, styles: Styles, linked: bool = False) -> str:
    """Draw one top-level block as lines, each with its line break; with `linked` safe links can be clicked."""
    console = _console(width, color, tuple(styles.items()))
    drawn: list[str] = []
    tokens = list(_terminal(block, linked))
    if color and not styles.get("code"):  # nothing else sets code off where there are no colors
        for token in tokens:
            token.content = f"`{token.content}`" if token.type == "code_inline" else token.content
    for line in Segment.split_lines(console.render(_Document(tokens))):
        while line and not line[-1].text.rstrip(" "):
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
        for text, style, _ in Segment.simplify(line):
            drawn.append(_painted(text, style, color) if style else text)
        drawn.append("\n")
    return "".join(drawn)


def _painted(text: str, style: Style, color: bool) -> str:
    """Return the text in its style, with our own links: rich's have a random id."""
    target, system = style.link, ColorSystem.TRUECOLOR if color else None
    if target is None:
        return style.render(text, color_system=system)
    return links.draw_link(style.update_link(None).render(text, color_system=system), target)


class _Paper(Console):
    """The console that is drawn on, and the styles of code there."""

    code: ANSISyntaxTheme


@lru_cache(maxsize=4)
def _console(width: int, color: bool, styles: tuple[tuple[str, str], ...]) -> _Paper:
    words = {element: re.sub(r"(?<!\S)\d+", r"color(\g<0>)", style) for element, style in styles}  # as rich has them
    console = _Paper(
        file=io.StringIO(),
        width=width,
        height=100,  # else it asks the real terminal
        color_system="truecolor" if color else None,
        force_terminal=color,
        legacy_windows=False,
        theme=Theme({f"markdown.{name}": style.format(**words).strip() or "none" for name, style in _MARKDOWN.items()}),
        _environ={},
    )
    console.code = ANSISyntaxTheme(
        {kind: Style.parse(words[element] or "none") for kind, element in CODE_ELEMENTS.items()}
    )
    return console


def _terminal(tokens: Iterable[Token], linked: bool) -> Iterator[Token]:
    """Yield the tokens, with text in place of those that rich would hide or drop.

    It is cleaned again, because an entity (`&#x202e;`) becomes a character only in the parser. A line break in the
    source stays one: models write verse and addresses that way.
    """
    for token in tokens:
        if token.type == "inline":
            if token.children:
                yield from _inline(token.children, linked)
        else:
            yield token


def _inline(tokens: Iterable[Token], linked: bool) -> Iterator[Token]:
    targets: list[tuple[str, list[str]]] = []  # of the link we are in: where to, and its text so far
    for token in tokens:
        match token.type:
            case "softbreak":
                yield Token("hardbreak", "br", 0)
            case "link_open":
                targets.append((clean(str(token.attrs.get("href", ""))), []))
                yield _ends_of_link(targets[-1][0], linked)[0]
            case "link_close":
                target, texts = targets.pop()
                yield _ends_of_link(target, linked)[1]
                words = "".join(texts)
                hidden = linked and links.is_safe_target(target) and links.is_honest_link(words, target)
                if not hidden and target.removeprefix("mailto:") != words:
                    yield _text(f" ({target})")
            case "image":
                picture = _text(f"[image: {clean(token.content)}] ({clean(str(token.attrs.get('src', '')))})")
                if targets:
                    targets[-1][1].append(picture.content)
                yield picture
            case "html_inline" if re.fullmatch(r"<br\s*/?>", token.content, re.IGNORECASE):
                yield Token("hardbreak", "br", 0)
            case "text" | "code_inline" | "html_inline":
                safe = Token("code_inline" if token.type == "code_inline" else "text", token.tag, 0)
                safe.content = clean(token.content)
                if targets:
                    targets[-1][1].append(safe.content)
                yield safe
            case _:
                yield token


def _ends_of_link(target: str, linked: bool) -> tuple[Token, Token]:
    """Return the tokens around a link for rich, or around text that is only underlined."""
    if linked and links.is_safe_target(target):
        return Token("link_open", "a", 1, attrs={"href": target}), Token("link_close", "a", -1)
    return Token("target_open", "link", 1), Token("target_close", "link", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


class _Document(markdown.Markdown):
    """rich's walk through the tokens, with our elements and a parser's result instead of a source."""

    def __init__(self, tokens: list[Token]) -> None:
        self.parsed = tokens
        self.markup = self.code_theme = ""
        self.style = "none"
        self.justify = self.inline_code_lexer = None
        self.hyperlinks = True
        self.inline_code_theme = ""


class _Heading(markdown.Heading):
    LEVEL_ALIGN = dict.fromkeys(markdown.Heading.LEVEL_ALIGN, "left")


class _Paragraph(markdown.Paragraph):
    """Prose; where it has no spaces, as Chinese and Japanese have none, it breaks between characters."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = self.text.plain
        if "\t" in plain or not any(map(is_ideograph, plain)):
            yield from super().__rich_console__(console, options)
            return
        starts, at = list[int](), 0
        for row in wrap(plain, options.max_width):
            at = plain.index(row, at)
            starts.append(at)
            at += len(row)
        rows = self.text.divide(starts[1:])
        for row in rows:
            row.rstrip()
        yield Text("\n").join(rows)


class _Rule(markdown.HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * min(20, options.max_width), style="markdown.table.border")


class _Verbatim(markdown.TextElement):
    """HTML, shown as it was written."""

    style_name = "none"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain.rstrip(), overflow="fold")


class _Code(markdown.CodeBlock):
    """Code between two rules; nothing stands before its lines, so that they can be copied.

    At the top level its lines are whole; inside a list or quote they are wrapped.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        assert isinstance(console, _Paper)
        pieces = _highlight(self.text.plain.expandtabs(4).rstrip() + "\n", self.lexer_name, console.code)
        width = min(_CODE_RULE, options.max_width)
        named = _LANGUAGE.fullmatch(self.lexer_name) and self.lexer_name != "text"  # rich's name for none
        name = f"── {self.lexer_name} " if named else ""
        yield Text(f"{name if len(name) < width else '':─<{width}}", style="markdown.table.border")
        if options.max_width == console.width:
            yield from (Segment(text, style) for text, style in pieces)
        else:
            yield Text.assemble(*pieces, overflow="fold", end="")
        yield Text("─" * width, style="markdown.table.border")


def _highlight(code: str, language: str, theme: ANSISyntaxTheme) -> Iterator[tuple[str, Style]]:
    lexer = find_lexer(language.lower()) if len(code) <= MAX_COLORED_CHARACTERS else None
    if lexer is None:
        yield code, Style.null()
    else:
        styled = ((theme.get_style_for_token(kind), text) for kind, text in lexer.get_tokens(code))
        for style, pieces in groupby(styled, itemgetter(0)):  # blanks and names look alike, and every piece costs time
            yield "".join(text for _, text in pieces), style


class _Stacked:
    """The common part of a quote and a list item: their blocks stay apart, but a list belongs to its introduction."""

    elements: Renderables
    _begun = False
    _last: markdown.MarkdownElement | None = None

    def on_child_close(self, context: markdown.MarkdownContext, child: markdown.MarkdownElement) -> bool:
        if self._begun and not isinstance(child, markdown.ListElement):
            self.elements.append(Text())
        self._begun, self._last = True, child
        self.elements.append(child)
        return False


class _Quote(_Stacked, markdown.BlockQuote):
    pass


class _Item(_Stacked, markdown.ListItem):
    def on_leave(self, context: markdown.MarkdownContext) -> None:
        if not self._begun or isinstance(self._last, markdown.CodeBlock):  # an empty item has its marker
            self.elements.append(Text())
        super().on_leave(context)

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._hang(console, options, " • ")

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        return self._hang(console, options, f"{number}. ".rjust(len(f" {last_number - 1}. ")))

    def _hang(self, console: Console, options: ConsoleOptions, marker: str) -> RenderResult:
        inner = options.update(width=options.max_width - len(marker))
        for line in console.render_lines(self.elements, inner, style=self.style):
            yield Segment(marker)
            yield from line
            yield Segment.line()
            marker = " " * len(marker)


class _Table(markdown.TableElement):
    """A grid; where the columns would be too narrow to read, each row is a list of `header: cell`."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = _cells(self.header.row if self.header else None)
        rows = [_cells(row) for row in self.body.rows] if self.body else []
        if len(head) * _MIN_COLUMN_CELLS > options.max_width:
            for index, row in enumerate(rows or [[Text() for _ in head]]):
                if index:
                    yield Text()
                for name, cell in zip(head, row, strict=False):
                    yield Text.assemble((name.plain, "markdown.table.header"), ": ", cell, overflow="fold")
            return
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, style="markdown.table.border")
        for name in head:
            name.stylize("markdown.table.header")
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*row)
        yield table


def _cells(row: markdown.TableRowElement | None) -> list[Text]:
    return [cell.content for cell in row.cells] if row else []


_ELEMENTS: dict[str, type[markdown.MarkdownElement]] = {
    **markdown.Markdown.elements,
    "heading_open": _Heading,
    "paragraph_open": _Paragraph,
    "hr": _Rule,
    "html_block": _Verbatim,
    "fence": _Code,
    "code_block": _Code,
    "blockquote_open": _Quote,
    "list_item_open": _Item,
    "table_open": _Table,
}
# The blank lines are ours to place: rich would put one before a block that has others inside.
_Document.elements = {kind: type(base.__name__, (base,), {"new_line": False}) for kind, base in _ELEMENTS.items()}
_Document.inlines = {*markdown.Markdown.inlines, "link"}
