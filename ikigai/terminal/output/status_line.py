"""The status line: who, which model, how full the context is, what fell out of it, what it cost, where it is kept."""

from collections.abc import Iterator, Sequence

from ikigai.core import tokens
from ikigai.core.sanitize import clean_line
from ikigai.core.state.memory import Memory
from ikigai.core.views import usage_totals as spending
from ikigai.core.views.usage_totals import Spent
from ikigai.terminal.render.text_width import columns, cut
from ikigai.terminal.render.theme import Theme

CELLS = 4
"""Width of the context meter's bar."""
LEAST = 12
"""Cells that stay for the rest when agents in the background have much to tell."""
FULL, ALMOST = 0.95, 0.80
"""Shares of the room from which the meter is red and yellow, and has two marks and one. Turns that can slide out do not
count, for they make room by themselves."""

PARTS = ("agent", "background", "model", "context", "out", "cost", "database")
"""All there are, in their usual order."""

NOTHING = Spent()

Part = tuple[str, str]
"""(style, text)"""
NONE: Part = ("", "")


def line(
    agent: str,
    memory: Memory | None,
    database: Part,
    width: int,
    theme: Theme,
    spent: Spent = NOTHING,
    others: Part = ("", ""),
    parts: Sequence[str] = PARTS,
) -> str:
    """The fullest version of these parts that fits into `width` cells, in their order.

    `spent` is what this session did, `others` what the agents in the background are about, which goes before what else
    there is to tell; it is cut only where one of them waits for the user, and else left out. A database in trouble is
    told whatever the parts are, and at any width.
    """
    style, told = others[0], clean_line(others[1])
    short = cut(told, max(0, width - LEAST))
    others = style, short if short == told or style == "warning" else ""
    trouble = database[0] == "warning"
    for version in _versions(clean_line(agent), memory, database, spent):
        told = {**version, "background": others}
        shown = [told[part] for part in parts if told.get(part, NONE)[1]]
        if trouble and database not in shown:
            shown.append(database)
        if sum(columns(text) for _, text in shown) + 3 * (len(shown) - 1) <= width:
            break
    else:
        shown = [(database[0], cut(database[1], width))]
    return theme.paint("dim", " · ").join(theme.paint(style, text) for style, text in shown)


def _versions(name: str, memory: Memory | None, database: Part, spent: Spent) -> Iterator[dict[str, Part]]:
    """What there is to tell by part, the fullest first."""
    model, meter, percent, out = "", NONE, NONE, ""
    if memory is not None:
        model = _model(memory)
        meter, percent = _meter(memory)
        turns = memory.window.older.turns
        condensed = f"{memory.summary.turns:,} condensed" if memory.summary else ""
        out = ", ".join(filter(None, (condensed, f"{turns:,} out" if turns else "")))
        name = " ".join(filter(None, (name, _mode(memory))))
    short = ("dim", model.rpartition("/")[2])
    cost, money = ("dim", spending.short(spent)), ("dim", spending.money(spent))
    all = {"agent": ("", name), "model": short, "context": meter, "out": ("dim", out)}
    yield {**all, "model": ("dim", model), "cost": cost, "database": database}
    yield {**all, "cost": cost, "database": database}
    yield {**all, "cost": cost}
    yield {**all, "cost": money, "database": database}
    yield {**all, "database": database}
    yield all
    yield {**all, "context": percent}
    yield {"agent": ("", name), "model": short, "context": percent}
    yield {"model": short, "context": percent}
    yield {"context": percent}
    yield {}


def _mode(memory: Memory) -> str:
    """The approval mode, where it is not that which asks."""
    approval = str(memory.settings.get("approval") or "ask")
    return "" if approval == "ask" else f"[{clean_line(approval)}]"


def _model(memory: Memory) -> str:
    level = memory.settings.get("level")
    return clean_line(memory.model + (f":{level}" if level else "")) or "no model"


def _meter(memory: Memory) -> tuple[Part, Part]:
    """The context meter in full and as a percentage: tokens of the next request against the ceiling."""
    ceiling = memory.ceiling
    if not memory.model or ceiling <= 0:
        return NONE, NONE
    share, taken = memory.used / ceiling, memory.used_at_least / memory.room
    style, mark = ("error", " !!") if taken >= FULL else ("warning", " !") if taken >= ALMOST else ("dim", "")
    filled = min(CELLS, round(share * CELLS))
    bar = "█" * filled + "░" * (CELLS - filled)
    percent = f"{share * 100:.0f}%"
    figures = f"{tokens.short(memory.used)}/{tokens.short(ceiling)}"
    return (style, f"ctx {figures} {bar} {percent}{mark}"), (style, f"ctx {percent}{mark}")
