"""The rule where the context begins, as a line for the scrollback: loaded with the first that is drawn."""

from collections.abc import Iterator

from ikigai.core import tokens
from ikigai.core.sanitize import clean_line
from ikigai.core.views.transcript import Rule
from ikigai.terminal.render.text_width import columns, cut
from ikigai.terminal.render.theme import Theme


def rule(rule: Rule, width: int, theme: Theme) -> str:
    """The line where the context begins: as wide as the terminal, its label in the middle, as much of it as fits."""
    if theme.words:
        from ikigai.terminal.render import plain_words as words

        return words.rule(rule)
    label = next((label for label in _labels(rule) if columns(label) + 6 <= width), "")
    if not label:
        return theme.paint("dim", "─" * width)
    line = width - columns(label) - 2
    left, right = "─" * (line // 2), "─" * (line - line // 2)
    return f"{theme.paint('dim', left)} {label} {theme.paint('dim', right)}"


def _labels(rule: Rule) -> Iterator[str]:
    """What the rule can say, the fullest first."""
    if rule.cleared:
        yield "context begins here"
        yield "context"
        return
    out = f"{rule.turns:,} turn{'s' * (rule.turns != 1)} out"
    if rule.summarised:
        condensed = f"{rule.summarised:,} turn{'s' * (rule.summarised != 1)} condensed"
        out = f"{condensed}, {rule.turns:,} out" if rule.turns else condensed
    if rule.left:
        yield from _report(rule, out)
    words = clean_line(rule.words)
    for longest in (60, 40, 24, 12):
        if words:
            yield f'{out} · context begins: "{cut(words, longest)}"'
    yield f"{out} · context begins here"
    yield out


def _report(rule: Rule, out: str) -> Iterator[str]:
    """The same with what has just left, as long as there is room for that."""
    short = f"{rule.turns:,} out, {rule.left:,} now"
    sizes = f"{tokens.short(rule.used_before)} → {tokens.short(rule.used)}"
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
