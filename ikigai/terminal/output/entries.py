"""Draw stored events and pieces of a streaming reply as scrollback entries, and keep folded texts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Shown, Speaker, Thought, TranscriptBlock, hosted_block
from ikigai.terminal.output.live_reply import FinishedPiece, FoldedThinking
from ikigai.terminal.output.scrollback import ScrollbackEntry
from ikigai.terminal.render import blocks
from ikigai.terminal.render.theme import Theme

if TYPE_CHECKING:
    from ikigai.terminal.output.prompt_marks import PromptMarks

STEPS_GROUP = "steps"
"""The group of a model's steps to an answer: thoughts in a row, tool calls and their results."""


class Entries:
    """The entries, drawn in `theme`. `thinking` says how a model's thoughts are shown: "fold" (in a row), "full" or
    "hide".

    `folded` is the whole text of the newest thought, or of an entry longer than its shown rows. `folded_in` is the
    event that holds it, 0 while it is not stored. A caller that shows one calls `fold` first. `links` says if text may
    become a link. `marks` sets marks for prompts, where they are wanted: then everything has to be drawn in its order.
    """

    def __init__(self, theme: Theme, thinking: str) -> None:
        self._theme, self._thinking = theme, thinking
        self.folded = ""
        self.folded_in = 0
        self.links = False
        self.words = theme.words  # plain text alone is drawn
        self.marks: PromptMarks | None = None
        self._denied = ""  # together with other calls, as the last result says

    def fold(self, shown: Shown | FinishedPiece, columns: int) -> None:
        """Remember the full text of the newest block that will be folded at this width."""
        if isinstance(shown, TranscriptBlock) and shown.thoughts:
            self.folded, self.folded_in = shown.thoughts[-1].text, shown.id
        elif isinstance(shown, FoldedThinking):
            self.folded, self.folded_in = shown.text, 0
        elif isinstance(shown, ToolCall | ToolResult):
            self.fold(hosted_block(shown), columns)
        elif isinstance(shown, TranscriptBlock) and blocks.is_long(shown, columns):
            self.folded, self.folded_in = blocks.full_text(shown), shown.id

    def fold_newest(self, shown: Sequence[Shown], columns: int) -> None:
        """Remember the newest text of a stretch of history that is shown in part."""
        self.folded, self.folded_in = "", 0
        for each in reversed(shown):
            self.fold(each, columns)
            if self.folded_in:
                break

    def stored(self, block: TranscriptBlock) -> None:
        """Note that the printed pieces of a reply are in the log now."""
        if block.thoughts and not self.folded_in:
            self.folded_in = block.id

    def takes_markdown(self, shown: Sequence[Shown], columns: int) -> bool:
        """Return True if any reply in `shown` needs the modules for Markdown."""
        replies = [each for each in shown if isinstance(each, TranscriptBlock) and each.speaker is Speaker.ASSISTANT]
        parts = (part for each in replies for part in each.parts)
        return any(isinstance(part, str) and blocks.takes_markdown(part, columns) for part in parts)

    def history(self, shown: Sequence[Shown], skipped: int, first: int, columns: int) -> Iterator[ScrollbackEntry]:
        """Draw the history from its item `first` on; `skipped` events lie before it."""
        for each in shown[:first]:
            if isinstance(each, ContextRule):
                yield from self.draw(each, columns)
        if skipped + first:
            yield ScrollbackEntry(blocks.draw_skipped(skipped + first, columns, self._theme))
        for each in shown[first:]:
            yield from self.draw(each, columns)

    def draw(self, shown: Shown, columns: int) -> Iterator[ScrollbackEntry]:
        entries = self._draw(shown, columns)
        return (self.marks.on(shown, entry) for entry in entries) if self.marks else entries

    def ended(self) -> Iterator[ScrollbackEntry]:
        """Mark the end of a turn: none is open any more."""
        if self.marks and (mark := self.marks.ended()):
            yield ScrollbackEntry(mark, bare=True)

    def _draw(self, shown: Shown, columns: int) -> Iterator[ScrollbackEntry]:
        if isinstance(shown, ContextRule):
            from ikigai.terminal.render.rule_line import draw_context_rule

            yield ScrollbackEntry(draw_context_rule(shown, columns, self._theme))
        elif shown.speaker is Speaker.ASSISTANT:
            for part in shown.parts:
                if isinstance(part, Thought):
                    yield from self._thought(part.text, None, columns)
                else:
                    words = replace(shown, text=part, thoughts=(), sources=())
                    yield ScrollbackEntry(blocks.draw_block(words, columns, self._theme, links=self.links))
        else:
            tools = shown.speaker in (Speaker.TOOL_CALL, Speaker.TOOL_RESULT)
            denied = shown.text if shown.speaker is Speaker.TOOL_RESULT and shown.name else ""
            if denied and denied == self._denied:  # one answer is told once
                return
            self._denied = denied
            opens = bool(self.folded) and blocks.full_text(shown) == self.folded
            drawn = blocks.draw_block(shown, columns, self._theme, opens, self.links)
            yield ScrollbackEntry(drawn, STEPS_GROUP if tools else "")

    def draw_piece(self, piece: FinishedPiece, columns: int) -> Iterator[ScrollbackEntry]:
        entries = self._draw_piece(piece, columns)
        return (self.marks.on(None, entry) for entry in entries) if self.marks else entries

    def _draw_piece(self, piece: FinishedPiece, columns: int) -> Iterator[ScrollbackEntry]:
        if isinstance(piece, FoldedThinking):
            yield from self._thought(piece.text, piece.seconds, columns)
        elif isinstance(piece, ToolCall | ToolResult):
            yield from self._draw(hosted_block(piece), columns)
        elif drawn := blocks.draw_piece(piece.source, piece.context, columns, self._theme, self.links):
            yield ScrollbackEntry(drawn)

    def _thought(self, text: str, seconds: float | None, columns: int) -> Iterator[ScrollbackEntry]:
        if self._thinking != "hide":
            full, opens = self._thinking == "full", text is self.folded
            drawn = blocks.draw_thought(text, seconds, columns, self._theme, full, opens)
            yield ScrollbackEntry(drawn, "" if full else STEPS_GROUP)
