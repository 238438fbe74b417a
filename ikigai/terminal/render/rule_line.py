"""Draw the context rule, and the rule above the turn of another agent, as lines for the scrollback; loaded with the
first one.
"""

from collections.abc import Iterator

from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.context_rule import ContextRule
from ikigai.terminal.render.text_width import cell_width, cut
from ikigai.terminal.render.theme import NOTE, Theme


def draw_context_rule(rule: ContextRule, width: int, theme: Theme) -> str:
    """Draw the line where the context begins: as wide as the terminal, with its label in the middle."""
    if theme.words:
        from ikigai.terminal.render import plain_words

        return plain_words.describe_rule(rule)
    label = next((label for label in _labels(rule) if cell_width(label) + 6 <= width), "")
    if not label:
        return theme.paint("dim", "─" * width)
    line = width - cell_width(label) - 2
    left, right = "─" * (line // 2), "─" * (line - line // 2)
    return f"{theme.paint('dim', left)} {label} {theme.paint('dim', right)}"


def draw_agent_heading(name: str, width: int, theme: Theme) -> str:
    """Draw the rule above the last turn of an agent that follows another one on the screen."""
    text = f"Agent {clean_line(name)}"
    if theme.words:
        return cut(f"{theme.sign(NOTE)} {text}", width)
    text = cut(text, width - 6)
    return theme.paint("dim", f"── {text} {'─' * max(0, width - cell_width(text) - 4)}")


def _labels(rule: ContextRule) -> Iterator[str]:
    """Yield the labels of the rule, the fullest first."""
    if rule.cleared:
        yield "context begins here"
        yield "context"
        return
    out = f"{rule.turns:,} turn{'s' * (rule.turns != 1)} out"
    if rule.summarized:
        condensed = f"{rule.summarized:,} turn{'s' * (rule.summarized != 1)} condensed"
        out = f"{condensed}, {rule.turns:,} out" if rule.turns else condensed
    if rule.left:
        yield from _report(rule, out)
    words = clean_line(rule.words)
    for longest in (60, 40, 24, 12):
        if words:
            yield f'{out} · context begins: "{cut(words, longest)}"'
    yield f"{out} · context begins here"
    yield out


def _report(rule: ContextRule, out: str) -> Iterator[str]:
    """Yield labels with the turns that have just left the context, the fullest first."""
    short = f"{rule.turns:,} out, {rule.left:,} now"
    sizes = f"{tokens.format_tokens(rule.used_before)} → {tokens.format_tokens(rule.used)}"
    now = f"{out}, {rule.left:,} just now ({sizes} tokens)"
    words = clean_line(rule.words)
    if words:
        for longest in (60, 40, 24):
            yield f'{now} · context begins: "{cut(words, longest)}"'
        for longest in (40, 24, 16):
            yield f'{short} ({sizes}) · "{cut(words, longest)}"'
    yield now
    yield f"{short} ({sizes})"
    yield short
