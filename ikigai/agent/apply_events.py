"""What stored rows do to a memory and to a view: folded, shown, and the rule drawn where the context begins now."""

from __future__ import annotations

from collections.abc import Sequence

from ikigai.core import tokens
from ikigai.core.events import StoredEvent
from ikigai.core.ports import View
from ikigai.core.state.fold import evolve
from ikigai.core.state.memory import Memory, replace
from ikigai.core.views.transcript import Rule, blocks, redraws, rule


def show_rows(view: View, memory: Memory, rows: Sequence[StoredEvent], loaded: Memory | None) -> Memory:
    """Fold the rows and show them; the memory behind them, which is `loaded` where that was loaded anew."""
    before, used = rule(memory), memory.used
    for row in rows:
        past, memory = memory, evolve(memory, row)
        if memory.window.older.turns > past.window.older.turns:
            used = _unpruned(past, memory)
        view.stored(row)
        for shown in blocks(row):
            view.show(shown)
    memory = loaded or memory
    show_rule(view, memory, before, used, again=any(redraws(row.event) for row in rows))
    return memory


def show_rule(view: View, memory: Memory, before: Rule | None, used: int = 0, again: bool = False) -> None:
    """Draw the rule where it is now, if it moved or is asked for `again`; `used` tokens there were before."""
    now = rule(memory)
    if now and ((again and not now.cleared) or before is None or now.before != before.before):
        left = 0 if again else now.turns - (before.turns if before and not before.cleared else 0)
        view.rule(replace(now, left=left, used_before=used, used=memory.used) if left > 0 else now)
    elif before and not now:
        view.notice("Everything is in the context again.")


def _unpruned(past: Memory, now: Memory) -> int:
    """Tokens that the request of `now` would take, had no turn left the window of `past`."""
    opened = past.open.size if past.open else 0
    grown = now.open.size - opened if now.open else 0
    return tokens.count(now.provider, now.model, past.size + grown)
