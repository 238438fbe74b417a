"""What a screen says without words, said in words: for readers of screens, where nothing is drawn but lines.

    question   what can be pressed to answer one
    menu       what can complete the input
    wrapped    lines as wide as the terminal
    status     what the status line would tell beside what /status tells anyway

All of it is plain text.
"""

from collections.abc import Iterator, Sequence

from prompt_toolkit.completion import Completion

from ikigai.core.sanitize import clean_line
from ikigai.core.views import usage_totals as spending
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_area import Area
from ikigai.terminal.render.text_width import wrap

MOST = 10
"""Choices of a menu that are said."""
UNWRAPPED = 1000
"""Columns for which entries are drawn: `wrapped` breaks them where the terminal would, but never within a word."""


def wrapped(text: str, columns: int) -> str:
    """Lines as they are printed: nothing in them says where words end but blanks."""
    return "\n".join(wrap(text, columns))


def question(dialog: Dialog) -> str:
    """The question, and the keys."""
    if dialog.choice:
        return f"{dialog.prompt} Enter sends it, Esc goes back."
    keys = [f"{each.key} for {each.label}" for each in dialog.question.choices]
    default = next((each.label for each in dialog.question.choices if each.key == dialog.question.default), "nothing")
    return f"{dialog.prompt}\nPress {'; '.join(keys)}; Esc for {default}."


def menu(choices: Sequence[Completion]) -> str:
    said = [
        f"{clean_line(each.display_text)}: {clean_line(each.display_meta_text)}"
        if each.display_meta_text
        else clean_line(each.display_text)
        for each in choices[:MOST]
    ]
    more = f"\nand {len(choices) - MOST} more" if len(choices) > MOST else ""
    return f"{len(choices)} choices, Tab goes through them:\n" + "\n".join(said) + more


def status(area: Area) -> str:
    """Rows like those of /status."""
    return "\n".join(f"{name:<12} {clean_line(value)}" for name, value in _status(area) if value)


def _status(area: Area) -> Iterator[tuple[str, str]]:
    spent = area.spent
    if memory := area.memory:
        yield "approval", str(memory.settings.get("approval") or "ask")
        if memory.ceiling > 0:
            yield "full", f"{100 * memory.used / memory.ceiling:.0f} % of the context"
        if memory.summary:
            yield "condensed", f"{memory.summary.turns:,} turns"
    if spent.requests:
        cost = spending.money(spent) or "nothing"
        yield "session", f"{spent.input:,} tokens in, {spent.output:,} out, cost {cost}"
    yield "background", area.others[1]
    yield "following", "another program writes this agent" if area.following else ""
    yield "queued", f"{len(area.queue) + len(area.waiting) or ''}"
    yield "trouble", "the database cannot be reached" if area.away else ""
