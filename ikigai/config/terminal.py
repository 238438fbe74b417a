"""Looks and abilities of the terminal, a record for each table: [terminal] and [themes.NAME]. `config.key_table` makes
each field a key.
"""

from ikigai.config.value_types import (
    Base,
    ColorText,
    Editing,
    Notice,
    StatusParts,
    Switch,
    ThemeName,
    Thoughts,
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
    editing: Editing = "emacs"
    find_servers: Switch = True
    update_notice: Switch = False


class ThemeSettings(Record, frozen=True):
    """[themes.NAME]: its further keys are ELEMENTS."""

    base: Base = "dark"


THEME_NAMES = ("auto", "light", "dark", "light-high-contrast", "dark-high-contrast")
"""Built-in themes, and the word for the theme that fits the terminal's background."""
ELEMENTS = ("user", "dim", "warning", "error", "added", "removed")
"""The elements that a theme gives a look; "" leaves the look to the base. The other elements follow these or the base:
people change a theme for the contrast of text, and to tell red from green.
"""
