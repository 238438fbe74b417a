"""The status line: who, which model, how full the context is, what fell out of it, what it cost, where it is kept."""

from ikigai.core import spending, tokens
from ikigai.core.memory import Memory
from ikigai.core.sanitize import clean_line
from ikigai.core.spending import Spent
from ikigai.terminal.text import columns, cut
from ikigai.terminal.theme import Theme

CELLS = 4
"""Width of the context meter's bar."""
LEAST = 12
"""Cells that stay for the rest when agents in the background have much to tell."""
FULL, ALMOST = 0.95, 0.80
"""Shares of the *model's* context from which the meter is red and yellow; the budget may be as full as it likes."""

NOTHING = Spent()

Part = tuple[str, str]
"""(style, text)"""


def line(
    agent: str,
    memory: Memory | None,
    database: Part,
    width: int,
    theme: Theme,
    spent: Spent = NOTHING,
    others: Part = ("", ""),
) -> str:
    """The fullest version that fits into `width` cells; `spent` is what this session did, `others` what the agents in
    the background are about, which goes before what else there is to tell.
    """
    trouble = database[0] == "warning"  # told at any width
    name, model, meter, percent, out = clean_line(agent), "", ("", ""), ("", ""), ""
    if memory is not None:
        model = _model(memory)
        meter, percent = _meter(memory)
        turns = memory.window.older.turns
        condensed = f"{memory.summary.turns:,} condensed" if memory.summary else ""
        out = ", ".join(filter(None, (condensed, f"{turns:,} out" if turns else "")))
        name = " ".join(filter(None, (name, _mode(memory))))
    others = others[0], cut(clean_line(others[1]), max(0, width - LEAST))
    short = model.rpartition("/")[2]
    cost = ("dim", spending.short(spent))
    for parts in (
        (("", name), ("dim", model), meter, ("dim", out), cost, database),
        (("", name), ("dim", short), meter, ("dim", out), cost, database),
        (("", name), ("dim", short), meter, ("dim", out), cost),
        (("", name), ("dim", short), meter, ("dim", out), ("dim", spending.money(spent)), database),
        (("", name), ("dim", short), meter, ("dim", out), database),
        (("", name), ("dim", short), meter, ("dim", out)),
        (("", name), ("dim", short), percent, ("dim", out)),
        (("", name), ("dim", short), percent),
        (("dim", short), percent),
        (percent,),
        (("", ""),),
    ):
        shown = [(style, text) for style, text in parts if text]
        if others[1]:
            shown.insert(1 if shown and shown[0] == ("", name) else 0, others)
        if trouble and database not in shown:
            shown.append(database)
        if sum(columns(text) for _, text in shown) + 3 * (len(shown) - 1) <= width:
            break
    else:
        shown = [(database[0], cut(database[1], width))]
    return theme.paint("dim", " · ").join(theme.paint(style, text) for style, text in shown)


def _mode(memory: Memory) -> str:
    """The approval mode, where it is not that which asks."""
    approval = str(memory.settings.get("approval") or "ask")
    return "" if approval == "ask" else f"[{clean_line(approval)}]"


def _model(memory: Memory) -> str:
    level = memory.settings.get("level")
    return clean_line(memory.model + (f":{level}" if level else "")) or "no model"


def _meter(memory: Memory) -> tuple[Part, Part]:
    """The context meter in full and as a percentage: tokens of the next request against the ceiling."""
    ceiling, context = memory.ceiling, memory.limits.context
    if not memory.model or ceiling <= 0:
        return ("", ""), ("", "")
    share, of_model = memory.used / ceiling, memory.used / context if context else 0.0
    style = "error" if of_model >= FULL else "warning" if of_model >= ALMOST else "dim"
    filled = min(CELLS, round(share * CELLS))
    bar = "█" * filled + "░" * (CELLS - filled)
    percent = f"{share * 100:.0f}%"
    figures = f"{tokens.short(memory.used)}/{tokens.short(ceiling)}"
    return (style, f"ctx {figures} {bar} {percent}"), (style, f"ctx {percent}")
