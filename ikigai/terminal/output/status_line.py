"""Draw the status line: agent, model, fill of the context, turns out of it, cost and database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.views import usage_totals
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.terminal.render.text_width import cell_width, cut
from ikigai.terminal.render.theme import Theme

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory

MIN_NAME_WIDTH = 8
"""Cells of the name of an earlier turn from which it is shown."""
METER_CELLS = 4
"""Width of the context meter's bar."""
MIN_NAME_CELLS = 5
"""Cells of the agent's name from which a part of it is shown."""
MIN_REST_CELLS = 12
"""Cells that stay for the other parts when the text about agents in the background is long."""
FULL_SHARE, ALMOST_FULL = 0.95, 0.80
"""Shares of the room from which the meter is red with two marks, and yellow with one.

Turns that can slide out do not count, for they make room by themselves.
"""

STATUS_PARTS = ("agent", "background", "model", "context", "out", "cost", "database")
"""All parts there are, in their usual order."""

OVER_BUDGET = " (the newest turn stays)"
"""The reason why a request takes more than the budget."""

NOTHING_SPENT = UsageTotals()

StyledText = tuple[str, str]
"""(style, text)"""
NO_TEXT: StyledText = ("", "")


def draw_status_line(
    agent: str,
    memory: Memory | None,
    database: StyledText,
    width: int,
    theme: Theme,
    spent: UsageTotals = NOTHING_SPENT,
    others: StyledText = ("", ""),
    parts: Sequence[str] = STATUS_PARTS,
) -> str:
    """Draw the fullest version of these parts that fits into `width` cells, in their order.

    `spent` is the usage of this session. `others` is the text about agents in the background, which is left out last.
    It is cut only where one of them waits for the user; else it is left out when too long. A database in trouble is
    shown with any parts and at any width.
    """
    style, text = others[0], clean_line(others[1])
    short = cut(text, max(0, width - MIN_REST_CELLS))
    others = style, short if short == text or style == "warning" else ""
    trouble = database[0] == "warning"
    for version in _versions(clean_line(agent), memory, database, spent, width):
        texts = {**version, "background": others}
        shown = [texts[part] for part in parts if texts.get(part, NO_TEXT)[1]]
        if trouble and database not in shown:
            shown.append(database)
        if sum(cell_width(text) for _, text in shown) + 3 * (len(shown) - 1) <= width:
            break
    else:
        shown = [(database[0], cut(database[1], width))]
    return theme.paint("dim", " · ").join(theme.paint(style, text) for style, text in shown)


def _versions(
    name: str, memory: Memory | None, database: StyledText, spent: UsageTotals, width: int
) -> Iterator[dict[str, StyledText]]:
    """Yield the texts of the parts, the fullest version first."""
    model, meter, percent, out = "", NO_TEXT, NO_TEXT, ""
    if memory is not None:
        model = _model(memory)
        meter, percent = _meter(memory)
        turns = memory.window.older.turns
        condensed = f"{memory.summary.turns:,} condensed" if memory.summary else ""
        out = ", ".join(filter(None, (condensed, f"{turns:,} out" if turns else "")))
        name = " ".join(filter(None, (name, _mode(memory))))
    short = ("dim", model.rpartition("/")[2])
    cost, money = ("dim", usage_totals.format_short(spent)), ("dim", usage_totals.format_money(spent))
    if memory is not None:  # say why where there is room
        provider = clean_line(memory.provider) * (money[1] == usage_totals.NO_PRICE)
        over = OVER_BUDGET * (memory.budget > 0 and bool(meter[1]) and memory.used > memory.ceiling)
        why = {"context": (meter[0], meter[1] + over), "cost": ("dim", cost[1] + f" for {provider}" * bool(provider))}
        yield {"agent": ("", name), "model": ("dim", model), "out": ("dim", out), "database": database, **why}
    all = {"agent": ("", name), "model": short, "context": meter, "out": ("dim", out)}
    yield {**all, "model": ("dim", model), "cost": cost, "database": database}
    yield {**all, "cost": cost, "database": database}
    yield {**all, "cost": cost}
    yield {**all, "cost": money, "database": database}
    yield {**all, "database": database}
    yield all
    yield {**all, "context": percent}
    yield {"agent": ("", name), "model": short, "context": percent}
    yield {"agent": ("", name), "context": percent}
    if (room := width - cell_width(percent[1]) - 3) >= MIN_NAME_CELLS:
        yield {"agent": ("", cut(name, room)), "context": percent}
    yield {"context": percent}
    yield {}


def _mode(memory: Memory) -> str:
    """Return the approval mode in brackets; "" for the one that asks."""
    approval = ApprovalMode.of(memory.settings)
    return "" if approval is ApprovalMode.ASK else f"[{approval}]"


def _model(memory: Memory) -> str:
    level = memory.settings.get("level")
    return clean_line(memory.model + (f":{level}" if level else "")) or "no model"


def _meter(memory: Memory) -> tuple[StyledText, StyledText]:
    """Return the context meter in full and as a percentage: tokens of the next request against the ceiling."""
    ceiling = memory.ceiling
    if not memory.model or ceiling <= 0:
        return NO_TEXT, NO_TEXT
    share, taken = memory.used / ceiling, memory.used_at_least / memory.room
    style, mark = (
        ("error", " !!") if taken >= FULL_SHARE else ("warning", " !") if taken >= ALMOST_FULL else ("dim", "")
    )
    filled = min(METER_CELLS, round(share * METER_CELLS))
    bar = "█" * filled + "░" * (METER_CELLS - filled)
    percent = f"{share * 100:.0f}%"
    figures = f"{tokens.format_tokens(memory.used)}/{tokens.format_tokens(ceiling)}"
    return (style, f"ctx {figures} {bar} {percent}{mark}"), (style, f"ctx {percent}{mark}")


def offer_recalled(names: Sequence[str], key: str, room: int) -> str:
    """Return in `room` cells the offer to add earlier turns by a key, with as many of their names as can be read."""
    offer = f"{key} adds {len(names)} earlier turn{'s' * (len(names) > 1)}"
    space = room - cell_width(offer) - len(": ")
    count = min(len(names), (space + len(" · ")) // (MIN_NAME_WIDTH + len(" · ")))
    if count < 1:
        return cut(offer, room)
    each = (space + len(" · ")) // count - len(" · ")
    return f"{offer}: " + " · ".join(cut(clean_line(name), each) for name in names[:count])
