"""What is shown, as entries of the scrollback: stored events, what rises from a reply; and what is folded in them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ikigai.core.views.transcript import Block, Rule, Shown, Speaker, Thought
from ikigai.terminal.output.live_reply import Folded, Rising
from ikigai.terminal.output.scrollback import Entry
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render.theme import Theme

if TYPE_CHECKING:
    from ikigai.terminal.output.prompt_marks import PromptMarks

STEPS = "steps"
"""The group of what a model does on its way to an answer: thoughts in a row, tool calls and their results."""


class Entries:
    """Draws in `theme`. `thinking` says how a model's thoughts are shown: "fold" (in a row), "full" or "hide".

    `folded` is all of the newest thought, long result of a tool or long message, `folded_in` the event that holds it,
    0 while it is not stored; whoever shows one says so to `fold` first. `links` says whether links may be made of text;
    `marks` sets marks for prompts, where they are wanted: then everything has to be drawn in its order.
    """

    def __init__(self, theme: Theme, thinking: str) -> None:
        self._theme, self._thinking = theme, thinking
        self.folded = ""
        self.folded_in = 0
        self.links = False
        self.words = theme.words  # of plain text alone
        self.marks: PromptMarks | None = None

    def fold(self, shown: Shown | Rising) -> None:
        """Remember the newest of what is going to be shown in part."""
        if isinstance(shown, Block) and shown.thoughts:
            self.folded, self.folded_in = shown.thoughts[-1].text, shown.id
        elif isinstance(shown, Folded):
            self.folded, self.folded_in = shown.text, 0
        elif isinstance(shown, Block) and render.is_long(shown):
            self.folded, self.folded_in = render.all_of(shown), shown.id

    def stored(self, block: Block) -> None:
        """What rose of a reply is in the log now."""
        if block.thoughts and not self.folded_in:
            self.folded_in = block.id

    def takes_markdown(self, shown: Sequence[Shown], columns: int, rows: int) -> bool:
        """Whether anything that `history` draws takes what draws Markdown."""
        drawn = shown[render.last_screenfuls(shown, columns, rows) :]
        said = [each for each in drawn if isinstance(each, Block) and each.speaker is Speaker.ASSISTANT]
        return any(
            isinstance(part, str) and render.takes_markdown(part, columns) for each in said for part in each.parts
        )

    def history(self, shown: Sequence[Shown], skipped: int, columns: int, rows: int) -> Iterator[Entry]:
        """The last screenfuls of it; `skipped` events lie before it."""
        first = render.last_screenfuls(shown, columns, rows)
        for each in shown[:first]:
            if isinstance(each, Rule):
                yield from self.of(each, columns)
        if skipped + first:
            yield Entry(render.skipped(skipped + first, columns, self._theme))
        for each in shown[first:]:
            yield from self.of(each, columns)

    def of(self, shown: Shown, columns: int) -> Iterator[Entry]:
        made = self._of(shown, columns)
        return (self.marks.on(shown, entry) for entry in made) if self.marks else made

    def ended(self) -> Iterator[Entry]:
        """No turn is open any more."""
        if self.marks and (mark := self.marks.ended()):
            yield Entry(mark, bare=True)

    def _of(self, shown: Shown, columns: int) -> Iterator[Entry]:
        if isinstance(shown, Rule):
            from ikigai.terminal.render.context_rule import rule

            yield Entry(rule(shown, columns, self._theme))
        elif shown.speaker is Speaker.ASSISTANT:
            for part in shown.parts:
                if isinstance(part, Thought):
                    yield from self._thought(part.text, None, columns)
                else:
                    words = Block(shown.id, shown.speaker, part, remembered=shown.remembered)
                    yield Entry(render.block(words, columns, self._theme, links=self.links))
        else:
            tools = shown.speaker in (Speaker.TOOL_CALL, Speaker.TOOL_RESULT)
            drawn = render.block(
                shown, columns, self._theme, opens=bool(self.folded) and render.all_of(shown) == self.folded
            )
            yield Entry(drawn, STEPS if tools else "")

    def risen(self, piece: Rising, columns: int) -> Iterator[Entry]:
        made = self._risen(piece, columns)
        return (self.marks.on(None, entry) for entry in made) if self.marks else made

    def _risen(self, piece: Rising, columns: int) -> Iterator[Entry]:
        if isinstance(piece, Folded):
            yield from self._thought(piece.text, piece.seconds, columns)
        elif drawn := render.piece(piece.source, piece.voice, columns, self._theme, self.links):
            yield Entry(drawn)

    def _thought(self, text: str, seconds: float | None, columns: int) -> Iterator[Entry]:
        if self._thinking != "hide":
            full, opens = self._thinking == "full", text is self.folded
            yield Entry(render.thought(text, seconds, columns, self._theme, full, opens), "" if full else STEPS)
