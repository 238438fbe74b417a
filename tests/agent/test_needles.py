"""Early events of a long conversation: condensed here, and under Roo-Code's rules, at what price."""

import pytest

from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.store.database import Database
from tests.support.needles import HEAD, Outcome, conversation, ours, theirs

LEAN = CondenseOptions("auto", 90, 15)


async def compared(
    database: Database, turns: int, words: int, needles: int, budget: int, *options: CondenseOptions
) -> list[Outcome]:
    """Both rules of theirs, then ours with these options; every one of ours finds at least as many."""
    talk, hidden = conversation(turns, words, needles)
    found = [
        theirs("Roo-Code, half of the messages hidden", talk, hidden, budget, condense=False),
        theirs("Roo-Code, a summary replaces everything", talk, hidden, budget, condense=True),
    ]
    for each in options:
        name = f"ikigai, {each.mode} at {each.at_percent} % to {each.to_percent} %"
        found.append(await ours(name, database, talk, hidden, budget, each))
    print("\n" + "\n".join((HEAD, *(each.row() for each in found))))
    assert all(each.kept + each.recalled >= max(found[0].kept, found[1].kept) for each in found[2:])
    return found


async def test_needles_of_a_short_conversation(database: Database):
    halved, replaced, lean = await compared(database, 60, 60, 14, 3_000, LEAN)
    assert lean.summaries > 1 and lean.price <= min(halved.price, replaced.price)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_needles_of_300_turns(database: Database):
    halved, replaced, default, lean = await compared(database, 300, 200, 60, 20_000, CondenseOptions("auto"), LEAN)
    assert default.price <= halved.price and lean.price <= min(halved.price, replaced.price)
