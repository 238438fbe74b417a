"""Put the context rule and the lines of a diff into plain words, for screen readers."""

from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.context_rule import ContextRule


def describe_rule(rule: ContextRule) -> str:
    if rule.cleared:
        return "The context begins here."
    turns = f"{rule.turns:,} turn{'s' * (rule.turns != 1)} out of context"
    if rule.summarized:
        condensed = f"{rule.summarized:,} turn{'s' * (rule.summarized != 1)} condensed"
        turns = f"{condensed}, {turns}" if rule.turns else condensed
    if rule.left:
        turns += f", {rule.left:,} just now"
    words = f': "{clean_line(rule.words)}"' if rule.words else ""
    return f"The context begins here, {turns}{words}."


def describe_change(sign: str, number: int, text: str) -> str:
    """Return a line of a diff in words, by its sign and number; @ is the gap before a hunk."""
    if sign == "@":
        return f"At line {number}:"
    return f"{ {'+': 'Added', '-': 'Removed'}[sign] }: {text}" if sign in ("+", "-") else text
