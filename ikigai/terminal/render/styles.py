"""Table of elements and themes: the style of each in words."""

from collections.abc import Mapping
from typing import TypeAlias

STYLE_THEMES = ("dark", "light", "dark-high-contrast", "light-high-contrast")
"""Names of the themes, in the order of the table's columns after the first."""
ELEMENT_STYLES = {
    # element          any background   dark            light          dark, high contrast  light, high contrast
    "user":            ("bold",         "bold",         "bold",        "bold",              "bold"),
    "prompt":          ("bold cyan",    "bold 80",      "bold 23",     "bold 87",           "bold 18"),
    "assistant":       ("bold green",   "bold 114",     "bold 22",     "bold 120",          "bold 22"),
    "call":            ("blue",         "111",          "25",          "153",               "19"),
    "dim":             ("dim",          "247",          "242",         "252",               "238"),
    "warning":         ("yellow",       "221",          "94",          "228",               "52"),
    "error":           ("red",          "210",          "124",         "bold 217",          "bold 88"),
    "bold":            ("bold",         "bold",         "bold",        "bold",              "bold"),
    "found":           ("bold yellow",  "bold 221",     "bold 94",     "reverse",           "reverse"),
    "selected":        ("reverse",      "reverse",      "reverse",     "reverse",           "reverse"),
    "thought":         ("dim italic",   "italic 247",   "italic 242",  "italic 252",        "italic 238"),
    "added":           ("green",        "114",          "22",          "120",               "22"),
    "removed":         ("red",          "210",          "124",         "217",               "88"),
    "added_word":      ("reverse green", "reverse 114", "reverse 22",  "reverse 120",       "reverse 22"),
    "removed_word":    ("reverse red",  "reverse 210",  "reverse 124", "reverse 217",       "reverse 88"),
    "hunk":            ("dim",          "247",          "242",         "252",               "238"),
    "heading":         ("",             "",             "",            "",                  ""),
    "link":            ("underline",    "underline",    "underline",   "underline",         "underline"),
    "quote":           ("italic",       "italic",       "italic",      "italic",            "italic"),
    "border":          ("dim",          "247",          "242",         "252",               "238"),
    "code":            ("cyan",         "116",          "24",          "123",               "18"),
    "code_keyword":    ("magenta",      "176",          "90",          "219",               "53"),
    "code_name":       ("cyan",         "116",          "24",          "123",               "18"),
    "code_definition": ("bold",         "bold",         "bold",        "bold",              "bold"),
    "code_string":     ("green",        "114",          "22",          "120",               "22"),
    "code_number":     ("cyan",         "116",          "24",          "123",               "18"),
    "code_comment":    ("dim italic",   "italic 247",   "italic 242",  "italic 252",        "italic 238"),
}  # fmt: skip

ANSI_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Colors that every terminal defines itself, each also as bright_…"""
TEXT_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}

FOLLOWING_STYLES = {
    "added_word": ("added", "reverse"),
    "removed_word": ("removed", "reverse"),
    "hunk": ("dim", ""),
    "border": ("dim", ""),
    "thought": ("dim", "italic"),
}
"""Elements that take the look of another one, and an attribute, in a theme that changes it: they stand side by side."""

Styles: TypeAlias = Mapping[str, str]
"""Elements, each with its style in words."""


def theme_styles(column: int) -> Styles:
    """Return a column of the table: 0 for any background, else one more than the theme's place in STYLE_THEMES."""
    return {element: row[column] for element, row in ELEMENT_STYLES.items()}
