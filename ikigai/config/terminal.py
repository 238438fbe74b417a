"""This module defines the looks and the terminal's abilities, a record for each table: [terminal] and [themes.NAME].
`config.key_table` makes each field a key.
"""

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
)
from ikigai.core.record import Record


class TerminalSettings(Record, frozen=True):
    """[terminal]"""

    color: ColorText = "auto"
    theme: ThemeName = "auto"
    status: StatusParts = ("agent", "background", "model", "context", "out", "cost", "database")
    screen_reader: Switch = False
    thinking: Thoughts = "fold"
    wrap: Wrap = "words"
    title: Switch = True
    notify: Notice = "auto"
    notify_after: Seconds = 10
    links: Links = "auto"
    prompt_marks: Switch = True
    suggestions: Switch = True
    editing: Editing = "emacs"
    find_servers: Switch = True
    update_notice: Switch = False
    update_index: Url = ""


class ThemeSettings(Record, frozen=True):
    """[themes.NAME]: its further keys are ELEMENTS."""

    base: Base = "dark"


THEME_NAMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Themes there are without a table, and the word for that of the terminal's background."""
ELEMENTS = (
    "user",
    "prompt",
    "assistant",
    "call",
    "dim",
    "warning",
    "error",
    "bold",
    "found",
    "selected",
    "thought",
    "added",
    "removed",
    "added_word",
    "removed_word",
    "hunk",
    "heading",
    "link",
    "quote",
    "border",
    "code",
    "code_keyword",
    "code_name",
    "code_definition",
    "code_string",
    "code_number",
    "code_comment",
)
"""The elements that a theme gives a look; "" leaves the look to the base."""
