"""Early facts of a long conversation: condensed here, and under Roo-Code's rules, at what price."""

import pytest

from ikigai.core.pressure import Options
from ikigai.store.database import Database
from tests.needles import HEAD, Outcome, conversation, ours, theirs


async def compared(database: Database, turns: int, words: int, needles: int, budget: int) -> list[Outcome]:
    talk, hidden = conversation(turns, words, needles)
    found = [
        theirs("Roo-Code, half of the messages hidden", talk, hidden, budget, condense=False),
        theirs("Roo-Code, a summary replaces everything", talk, hidden, budget, condense=True),
        await ours("ikigai, auto at 75 % to 40 %", database, talk, hidden, budget, Options("auto")),
        await ours("ikigai, auto at 90 % to 15 %", database, talk, hidden, budget, Options("auto", 90, 15)),
    ]
    print("\n" + "\n".join((HEAD, *(each.row() for each in found))))
    return found


async def test_needles_of_a_short_conversation(database: Database):
    halved, replaced, default, lean = await compared(database, 30, 60, 6, 1_500)
    for one in (default, lean):
        assert one.kept + one.recalled >= max(halved.kept, replaced.kept), one
    assert default.summaries > lean.summaries > 1 and lean.price <= min(halved.price, replaced.price)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_needles_of_300_turns(database: Database):
    halved, replaced, default, lean = await compared(database, 300, 200, 60, 20_000)
    for one in (default, lean):
        assert one.kept + one.recalled >= max(halved.kept, replaced.kept), one
    assert default.price <= halved.price and lean.price <= min(halved.price, replaced.price)
