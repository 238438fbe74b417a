"""Applies stored rows to a memory and a view: folds and shows them, and draws the context rule where it is now."""

from __future__ import annotations

from collections.abc import Sequence

from ikigai.core import tokens
from ikigai.core.events import StoredEvent
from ikigai.core.ports import View
from ikigai.core.state.fold import evolve
from ikigai.core.state.memory import Memory, replace
from ikigai.core.views.context_rule import ContextRule, context_rule, redraws_rule
from ikigai.core.views.transcript import event_blocks


def show_rows(view: View, memory: Memory, rows: Sequence[StoredEvent], loaded: Memory | None) -> Memory:
    """Fold the rows into `memory` and show them. Return the memory behind them, `loaded` if it was loaded anew."""
    before, used = context_rule(memory), memory.used
    for row in rows:
        before_row, memory = memory, evolve(memory, row)
        if memory.window.older.turns > before_row.window.older.turns:
            used = _tokens_without_pruning(before_row, memory)
        view.stored(row)
        for shown in event_blocks(row):
            view.show(shown)
    memory = loaded or memory
    show_rule(view, memory, before, used, again=any(redraws_rule(row.event) for row in rows))
    return memory


def show_rule(view: View, memory: Memory, before: ContextRule | None, used: int = 0, again: bool = False) -> None:
    """Draw the context rule if it moved, or unconditionally with `again`; the context had `used` tokens before."""
    now = context_rule(memory)
    if now and ((again and not now.cleared) or before is None or now.before != before.before):
        left = 0 if again else now.turns - (before.turns if before and not before.cleared else 0)
        view.rule(replace(now, left=left, used_before=used, used=memory.used) if left > 0 else now)
    elif before and not now:
        view.note("Everything is in the context again.")


def _tokens_without_pruning(before_row: Memory, now: Memory) -> int:
    """Return the tokens that the request of `now` would take if no turn had left the window of `before_row`."""
    opened = before_row.open.size if before_row.open else 0
    grown = now.open.size - opened if now.open else 0
    return tokens.count_tokens(now.provider, now.model, before_row.size + grown)
