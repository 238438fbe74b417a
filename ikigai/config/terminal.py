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
    Wrap,
    help_meta,
)
from ikigai.core.record import Record


class TerminalSettings(Record, frozen=True):
    """[terminal]"""

    color: Annotated[
        ColorText,
        help_meta(
            '"never" uses no colours, only bold, dim and reverse. NO_COLOR and FORCE_COLOR '
            "override this key, IKIGAI_TERMINAL_COLOR overrides both."
        ),
    ] = "auto"
    theme: Annotated[
        ThemeName,
        help_meta(
            "The theme, for a light or a dark background, or the name of a table [themes.NAME]. "
            '"auto" asks the terminal for its background; without an answer its own sixteen '
            "colours are used."
        ),
    ] = "auto"
    status: Annotated[
        StatusParts,
        help_meta(
            'The parts of the status line in their order: "agent" is its name and approval mode, '
            '"background" the state of other agents, "out" the turns out of the context. With [] '
            "it shows only what you must know."
        ),
    ] = ("agent", "background", "model", "context", "out", "cost", "database")
    screen_reader: Annotated[
        Switch,
        help_meta(
            "Print everything once, in words instead of signs: no spinner, no status line "
            "(/status shows the same), nothing redrawn except the input line. --screen-reader "
            "does the same."
        ),
    ] = False
    thinking: Annotated[
        Thoughts,
        help_meta('The thinking of a model: "fold" it to one row that a key opens, show it in "full", or "hide" it.'),
    ] = "fold"
    wrap: Annotated[
        Wrap,
        help_meta(
            'The line breaks in paragraphs of answers: between "words", or by the "terminal" at its edge. With '
            '"terminal" paragraphs are copied without line breaks and fit again after a resize.'
        ),
    ] = "words"
    title: Annotated[
        Switch,
        help_meta("Show the agent and its state in the title of the terminal; the old title is restored at exit."),
    ] = True
    notify: Annotated[
        Notice,
        help_meta(
            'The notification while the terminal is not in front, if it reports that: "osc9" '
            '(iTerm2, kitty, WezTerm), "osc777" (foot, rxvt), its "bell", or none with "off".'
        ),
    ] = "auto"
    notify_after: Annotated[
        Seconds,
        help_meta(
            "The shortest turn, in seconds, that sends a notification at its end; 0: never. Questions always send one."
        ),
    ] = 10
    links: Annotated[
        Links,
        help_meta(
            "Make links in answers clickable, with their targets hidden where the text is honest; "
            '"auto" does so in terminals known to support it.'
        ),
    ] = "auto"
    prompt_marks: Annotated[
        Switch, help_meta("Mark your messages for terminals that jump from prompt to prompt (OSC 133).")
    ] = True
    suggestions: Annotated[
        Switch,
        help_meta("Suggest the newest message that begins as you type, after the cursor; Right accepts it."),
    ] = True
    editing: Annotated[
        Editing, help_meta('The editing keys of the input: "emacs", or "vi", where Esc leaves insert mode.')
    ] = "emacs"
    find_servers: Annotated[
        Switch,
        help_meta(
            "Look for Ollama, LM Studio, llama.cpp and vLLM on this machine after the start, while no model of a "
            "provider is chosen."
        ),
    ] = True
    update_notice: Annotated[
        Switch,
        help_meta(
            "Ask the package index once a day, in the background after the start, for a newer version of ikigai."
        ),
    ] = False
    update_index: Annotated[
        Url, help_meta('The simple index to ask; "" is that of PIP_INDEX_URL, otherwise the public one.')
    ] = ""


class ThemeSettings(Record, frozen=True):
    """[themes.NAME]: its further keys are ELEMENT_HELP."""

    base: Annotated[Base, help_meta("The theme that this one inherits from.")] = "dark"


THEME_NAMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Themes there are without a table, and the word for that of the terminal's background."""
ELEMENT_HELP = {
    "user": "Your messages.",
    "prompt": "The signs of your messages and of the input.",
    "assistant": "The sign of a model's replies.",
    "call": "The sign of a tool call.",
    "dim": "Less important text: results, notes, the status line, turns out of the context.",
    "warning": "Warnings and questions.",
    "error": "Errors.",
    "bold": "Highlighted text in lists.",
    "found": "Search matches.",
    "selected": "The selected entry of a menu, and the first row of the browser.",
    "thought": "The thinking of a model.",
    "added": "Lines added by an edit.",
    "removed": "Lines removed by an edit.",
    "hunk": "Line numbers of an edit.",
    "heading": "Headings; they are also bold or italic.",
    "link": "The text of links.",
    "quote": "Quotes.",
    "border": "Lines in tables and between paragraphs.",
    "code": "Code within a sentence.",
    "code_keyword": "Keywords.",
    "code_name": "Built-in names, decorators and attributes.",
    "code_definition": "Names of functions and classes in their definitions.",
    "code_string": "Strings.",
    "code_number": "Numbers.",
    "code_comment": "Comments.",
}
"""The elements that a theme gives a look, with their help; "" leaves the look to the base."""
