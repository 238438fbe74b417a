"""This module defines the looks and the terminal's abilities, a record for each table: [terminal] and [themes.NAME].
`config.key_table` makes each field a key.
"""

from typing import Annotated

from ikigai.config.value_types import (
    Base,
    ColorText,
    Editing,
    Links,
    Notice,
    Seconds,
    StatusParts,
    Switch,
    ThemeName,
    Thoughts,
    Url,
    help_meta,
)
from ikigai.core.record import Record


class TerminalSettings(Record, frozen=True):
    """[terminal]"""

    color: Annotated[
        ColorText,
        help_meta(
            '"never" leaves bold, dim and reverse, and no colours. NO_COLOR and FORCE_COLOR go before this key, '
            "IKIGAI_TERMINAL_COLOR before both."
        ),
    ] = "auto"
    theme: Annotated[
        ThemeName,
        help_meta(
            "How things look, on a light or a dark background, or as a table [themes.NAME] says. "
            '"auto" asks the terminal for its background; where it does not answer, colours are the sixteen it defines.'
        ),
    ] = "auto"
    status: Annotated[
        StatusParts,
        help_meta(
            'The parts of the status line in their order: "agent" is its name and approval mode, "background" what '
            'other agents are about, "out" what has left the context. With [] there is none but for what you must know.'
        ),
    ] = ("agent", "background", "model", "context", "out", "cost", "database")
    screen_reader: Annotated[
        Switch,
        help_meta(
            "Whether everything is printed once, in words instead of signs: no spinner, no status line (/status says "
            "what it would), nothing redrawn but the line you type. --screen-reader does the same."
        ),
    ] = False
    thinking: Annotated[
        Thoughts,
        help_meta('What a model thinks: "fold" it to a row that Ctrl+O opens, show it in "full", or "hide" it.'),
    ] = "fold"
    title: Annotated[
        Switch,
        help_meta("Whether the terminal's title says which agent is there and what it does; the old comes back."),
    ] = True
    notify: Annotated[
        Notice,
        help_meta(
            "How you are called while the terminal is not in front, and says so: by its own notification in the way of "
            '"osc9" (iTerm2, kitty, WezTerm) or "osc777" (foot, rxvt), by its "bell", or not at all with "off".'
        ),
    ] = "auto"
    notify_after: Annotated[
        Seconds,
        help_meta("How long a turn has to take until you are called at its end; 0: never. Questions call in any case."),
    ] = 10
    links: Annotated[
        Links,
        help_meta(
            'Whether links in answers can be clicked, their targets unseen where the words are honest; "auto" does it '
            "in terminals known to understand them."
        ),
    ] = "auto"
    prompt_marks: Annotated[
        Switch, help_meta("Whether your messages are marked for terminals that jump from prompt to prompt (OSC 133).")
    ] = True
    suggestions: Annotated[
        Switch,
        help_meta("Whether the newest message that begins as you type is suggested behind the cursor; Right takes it."),
    ] = True
    editing: Annotated[
        Editing, help_meta('The keys that edit the input: those of "emacs", or of "vi", where Esc leaves insert mode.')
    ] = "emacs"
    update_notice: Annotated[
        Switch,
        help_meta(
            "Whether the package index is asked once a day, after the start and in the background, if there is a newer "
            "version of ikigai."
        ),
    ] = False
    update_index: Annotated[
        Url, help_meta('The simple index that is asked; "" is that of PIP_INDEX_URL, else the public one.')
    ] = ""


class ThemeSettings(Record, frozen=True):
    """[themes.NAME]: its further keys are ELEMENT_HELP."""

    base: Annotated[Base, help_meta("The theme that this one changes.")] = "dark"


THEME_NAMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Themes there are without a table, and the word for that of the terminal's background."""
ELEMENT_HELP = {
    "user": "What you said.",
    "prompt": "The signs of what you said and of the input.",
    "assistant": "The sign of a model's words.",
    "call": "The sign of a tool call.",
    "dim": "What stands back: results, notes, the status line, what is out of the context.",
    "warning": "Warnings and questions.",
    "error": "What failed.",
    "bold": "What is set off in lists.",
    "found": "What was searched for.",
    "selected": "What is chosen in a menu, and the first row of the browser.",
    "thought": "What a model thought.",
    "added": "Lines that an edit added.",
    "removed": "Lines that it removed.",
    "hunk": "Where in the file they stand.",
    "heading": "Headings, which are bold or italic besides.",
    "link": "The text of links.",
    "quote": "Quotes.",
    "border": "Lines of tables, and between paragraphs.",
    "code": "Code within a sentence.",
    "code_keyword": "Keywords.",
    "code_name": "Names that a language brings, decorators, attributes.",
    "code_definition": "The names of functions and classes where they are defined.",
    "code_string": "Strings.",
    "code_number": "Numbers.",
    "code_comment": "Comments.",
}
"""The elements that a theme gives a look, with their help; "" leaves the look to the base."""
