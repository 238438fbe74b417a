"""A fork has the choices of its parent where this program made it, and not where someone changed the table agents."""

from typing import LiteralString

import pytest

from ikigai.app.agents import agent_tree
from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.core.commands.fork import ForkRequest
from ikigai.core.state.grants import unconfirmed_notice
from ikigai.core.state.inputs import Change, Submitted
from ikigai.core.tools.approval_mode import ApprovalMode
from tests.app.house import House, until

PLANTED: dict[str, LiteralString] = {
    "another parent": "update agents set parent = %(boss)s, forked_at = %(late)s where id = %(spy)s",
    "a later event": "update agents set forked_at = %(late)s where id = %(early)s",
}


async def boss_of(house: House) -> tuple[OpenAgent, int]:
    """Return an agent that has chosen a mode, and the end of the turn before."""
    boss = await house.member("boss", "Yes.", "Yes.")
    boss.agent_loop.put_input(Submitted("?"))
    await until(lambda: bool(boss.view.ended))
    end = boss.agent_loop.memory.window.turns[-1].end
    boss.agent_loop.put_input(Change({"approval": "edits", "budget": 77_000}))
    await until(lambda: boss.agent_loop.memory.budget == 77_000)
    return boss, end


def in_force(member: OpenAgent) -> tuple[str, int, bool]:
    memory = member.agent_loop.memory
    return ApprovalMode.of(memory.settings).value, memory.budget, bool(memory.unconfirmed)


async def test_fork_has_the_choices_of_its_parent_whatever_becomes_of_that(house: House) -> None:
    boss, _ = await boss_of(house)
    made = await agent_tree.fork(house.world, boss.agent, ForkRequest(name="child"), boss.agent_loop.memory)
    below = await agent_tree.fork(house.world, made.agent, ForkRequest(name="below"))
    await house.manager.close()
    await house.database.tree.rename(boss.agent, "chief")
    await house.database.tree.archive(boss.agent)
    again = House(house.database, house.folder, house.world.config)
    for agent in (made.agent, below.agent):
        assert in_force(await again.open(agent.name)) == ("edits", 77_000, False)
    await again.manager.close()


@pytest.mark.parametrize("statement", PLANTED.values(), ids=PLANTED)
async def test_row_of_agents_that_no_fork_proves_grants_nothing(house: House, statement: LiteralString) -> None:
    boss, end = await boss_of(house)
    made = await agent_tree.fork(house.world, boss.agent, ForkRequest(end, name="early"))
    spy = await house.member("spy", "Never.")
    await house.rested()
    alone = in_force(spy)
    late = await house.database.tree.fork_point(boss.agent)
    await house.manager.close()
    async with house.database.mail._session.use() as cursor:
        ids = {"boss": boss.agent.id, "spy": spy.agent.id, "early": made.agent.id, "late": late}
        await cursor.execute(statement, ids)
    again = House(house.database, house.folder, house.world.config)
    name = "spy" if "parent" in statement else "early"
    found = in_force(await again.open(name))
    assert found == (*alone[:2], True)
    await again.manager.close()


@pytest.mark.parametrize("statement", ["parent = null, forked_at = null", "forked_at = 0"])
async def test_fork_that_is_cut_off_runs_nothing_until_the_user_chooses(house: House, statement: LiteralString) -> None:
    boss, _ = await boss_of(house)
    boss.agent_loop.put_input(Change({"approval": "read-only"}))
    await until(lambda: ApprovalMode.of(boss.agent_loop.memory.settings) is ApprovalMode.READ_ONLY)
    made = await agent_tree.fork(house.world, boss.agent, ForkRequest(name="below"))
    await house.manager.close()
    async with house.database.mail._session.use() as cursor:
        await cursor.execute(f"update agents set {statement} where id = %s", (made.agent.id,))
    again = House(house.database, house.folder, house.world.config)
    found = await again.open("below")
    assert in_force(found)[0] == "read-only"
    settings = found.agent_loop.memory.settings
    assert settings["tools_off"] == "*"
    notice = unconfirmed_notice(found.agent_loop.memory.unconfirmed)
    assert notice.startswith(
        "Not in force, because it was not chosen in this program: all that was inherited from boss"
    )
    await again.manager.close()
