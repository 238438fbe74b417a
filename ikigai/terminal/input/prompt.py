"""Layout of the input line: its text, and the suggestion of an earlier prompt behind it."""

import re
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout import BufferControl, ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput, Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from ikigai.core.text.sanitize import clean, clean_line
from ikigai.terminal.input.sent_prompts import PromptHistory
from ikigai.terminal.output.live_area import max_rows
from ikigai.terminal.render.text_width import TAB_CELLS, cell_width, cut
from ikigai.terminal.render.theme import USER
from ikigai.terminal.tty import Tty

MIN_SUGGESTION_CELLS = 4
"""Fewest cells in which a suggestion is shown."""


class VisibleControls(Processor):
    """A processor that shows characters in the input that a terminal would obey or hide, and tabs as blanks.

    The text itself stays as it is.
    """

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        line = fragment_list_to_text(fragments)
        if "\t" not in line and clean(line) == line:
            return Transformation(fragments)
        starts = [0]  # of each source character on the screen
        shown: StyleAndTextTuples = []
        for style, char, *_ in explode_text_fragments(fragments):
            text = " " * TAB_CELLS if char == "\t" else clean(char).replace("\n", "⏎")
            shown.append((style if text == char else f"{style} class:control-character", text))
            starts.append(starts[-1] + len(text))
        return Transformation(
            shown,
            source_to_display=lambda at: starts[min(at, len(starts) - 1)],
            display_to_source=lambda at: sum(start <= at for start in starts) - 1,
        )


class GhostSuggestion(Processor):
    """A processor that shows, dim behind the cursor, the rest of the newest prompt that begins with the input.

    The rest is not part of the text until it is taken. It takes one row, never further than the row goes. There is none
    where there is no room, or `allowed` returns False.
    """

    def __init__(
        self, buffer: Buffer, prompts: PromptHistory, allowed: Callable[[], bool], columns: Callable[[], int]
    ) -> None:
        self._buffer, self._prompts, self._allowed, self._columns = buffer, prompts, allowed, columns

    @property
    def rest(self) -> str:
        """The suggestion; "" for none."""
        text = self._buffer.text
        at_end = self._buffer.document.is_cursor_at_the_end
        if (
            not (at_end and text.strip() and self._allowed())
            or self._buffer.complete_state
            or self._room() < MIN_SUGGESTION_CELLS
        ):
            return ""
        return self._prompts.rest_of(text)

    @property
    def word(self) -> str:
        """The next word of the suggestion."""
        match = re.match(r"\s*\S+", self.rest)
        return match[0] if match else ""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        if transformation_input.lineno != transformation_input.document.line_count - 1 or not (rest := self.rest):
            return Transformation(fragments)
        shown = cut(clean_line(rest.replace("\n", "⏎").replace("\t", " ")), self._room())
        return Transformation([*fragments, ("class:dim", shown)])

    def _room(self) -> int:
        """Return the cells after the cursor in its row, less the one that the cursor needs at the end."""
        row = self._columns() - len(f"{USER} ")
        return row - cell_width(clean(self._buffer.document.current_line)) % row - 1 if row > 0 else 0


def build_layout(
    buffer: Buffer, field: Buffer, label: Callable[[], str], ghost: GhostSuggestion, tty: Tty, prompt: str = USER
) -> Layout:
    """Return the layout: the search field, while it is in use, above the input."""
    control = BufferControl(buffer, [VisibleControls(), ghost])
    sign: StyleAndTextTuples = [("class:prompt", prompt), ("", " ")]
    window = Window(
        control,
        height=lambda: Dimension(min=1, max=max(1, max_rows(tty.size()[1]) - 2)),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrapped: sign if line == wrapped == 0 else [("", "  ")],
    )
    search = Window(BufferControl(field, [VisibleControls(), BeforeInput(label, "class:dim")]), height=1)
    field_row = ConditionalContainer(search, Condition(lambda: layout.current_buffer is field))
    layout = Layout(HSplit([field_row, window]), focused_element=window)
    return layout
