"""Apply stored rows to a memory and a view: fold and show them, and draw the context rule at its present place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ikigai.core.events.events import StoredEvent
from ikigai.core.ports import View
from ikigai.core.state.decisions.redacted_inputs import TYPED_EVENTS, key_notice
from ikigai.core.state.fold import evolve
from ikigai.core.state.memory import Memory, replace
from ikigai.core.text import tokens
from ikigai.core.views.context_rule import context_rule, redraws_rule
from ikigai.core.views.transcript import event_blocks

if TYPE_CHECKING:
    from ikigai.core.secrets.redaction import Redactor


def fold_rows(memory: Memory, rows: Sequence[StoredEvent]) -> tuple[Memory, ...]:
    """Return `memory`, and memory after each of the rows."""
    return tuple(accumulate(rows, evolve, initial=memory))


def show_rows(view: View, folded: Sequence[Memory], rows: Sequence[StoredEvent], memory: Memory) -> None:
    """Show the rows, which were `folded` by `fold_rows`; `memory` is that behind them, which may be loaded anew."""
    used: int | None = None
    for row, (before_row, after_row) in zip(rows, pairwise(folded), strict=True):
        if after_row.window.older.turns > before_row.window.older.turns:
            used = _tokens_without_pruning(before_row, after_row)
        view.stored(row)
        for shown in event_blocks(row):
            view.show(shown)
    show_rule(view, memory, folded[0], used, again=any(redraws_rule(row.event) for row in rows))


def warn_of_keys(view: View, rows: Sequence[StoredEvent], redactor: Callable[[], Redactor]) -> None:
    """Tell the user of each row whose typed text seems to hold a key."""
    for row in rows:
        if isinstance(row.event, TYPED_EVENTS) and (message := key_notice(row.event, row.id, redactor())):
            view.notice(message)


def show_rule(view: View, memory: Memory, earlier: Memory, used: int | None = None, again: bool = False) -> None:
    """Draw the context rule if it moved since memory was `earlier`, or unconditionally with `again`.

    The context had `used` tokens before, by default the tokens of `earlier`.
    """
    before, now = context_rule(earlier), context_rule(memory)
    if now and ((again and not now.cleared) or before is None or now.before != before.before):
        left = 0 if again else now.turns - (before.turns if before and not before.cleared else 0)
        used = earlier.used if used is None else used
        view.rule(replace(now, left=left, used_before=used, used=memory.used) if left > 0 else now)
    elif before and not now:
        view.note("Everything is in the context again.")


def _tokens_without_pruning(before_row: Memory, now: Memory) -> int:
    """Return the tokens that the request of `now` would take if no turn had left the window of `before_row`."""
    opened = before_row.open.size if before_row.open else 0
    grown = now.open.size - opened if now.open else 0
    return tokens.count_tokens(now.provider, now.model, before_row.size + grown)
