"""Put into words, for screen readers, the rows that other terminals show around the input.

    speak_question   the keys that answer a question
    speak_menu       the completions of the input
    wrap_lines       lines as wide as the terminal
    speak_status     the parts of the status line that memory does not tell

All of it is plain text.
"""

from collections.abc import Iterator, Sequence

from prompt_toolkit.completion import Completion

from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.views import usage_totals
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import Theme

MAX_SPOKEN_CHOICES = 10
"""Choices of a menu that are spoken."""
UNWRAPPED_COLUMNS = 1000
"""Columns for which entries are drawn: `wrap_lines` breaks them where the terminal would, but never within a word."""


def wrap_lines(text: str, columns: int) -> str:
    """Wrap `text` as it is printed: only blanks in it tell where words end."""
    return "\n".join(wrap(text, columns))


def speak_question(dialog: Dialog, theme: Theme) -> str:
    """Return the question and its keys."""
    if dialog.choice:
        return f"{dialog.prompt} {theme.key('send')} sends it, {theme.stop_key} goes back."
    keys = [f"{each.key} for {each.label}" for each in dialog.question.choices]
    default = next((each.label for each in dialog.question.choices if each.key == dialog.question.default), "nothing")
    return f"{dialog.prompt}\nPress {'; '.join(keys)}; {theme.stop_key} for {default}."


def speak_menu(choices: Sequence[Completion]) -> str:
    lines = [
        f"{clean_line(each.display_text)}: {clean_line(each.display_meta_text)}"
        if each.display_meta_text
        else clean_line(each.display_text)
        for each in choices[:MAX_SPOKEN_CHOICES]
    ]
    more = f"\nand {len(choices) - MAX_SPOKEN_CHOICES} more" if len(choices) > MAX_SPOKEN_CHOICES else ""
    return f"{len(choices)} choices, Tab goes through them:\n" + "\n".join(lines) + more


def speak_status(area: LiveArea) -> str:
    """Return rows like /status."""
    return "\n".join(f"{name:<12} {clean_line(value)}" for name, value in _status(area) if value)


def _status(area: LiveArea) -> Iterator[tuple[str, str]]:
    spent = area.spent
    if memory := area.counted:
        yield "approval", ApprovalMode.of(memory.settings).value
        if memory.ceiling > 0:
            yield "full", f"{100 * memory.used / memory.ceiling:.0f} %"
        if memory.summary:
            yield "condensed", f"{memory.summary.turns:,} turns"
    if spent.requests:
        money = usage_totals.format_money(spent) or "$0.00"
        cost = money if money == usage_totals.NO_PRICE else f"cost {money}"
        yield "session", f"{spent.input:,} tokens in, {spent.output:,} out, {cost}"
    yield "background", area.others[1]
    yield "following", "this agent is open in another ikigai" if area.following else ""
    yield "queued", f"{len(area.live.waiting) or ''}"
    yield "trouble", "the database cannot be reached" if area.live.database_unreachable else ""
