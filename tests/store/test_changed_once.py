"""Changes of an agent whose answer is cut off anywhere are made, and reported as made."""

from collections.abc import Awaitable, Callable

import psycopg
import pytest

from ikigai.core.errors import Unavailable
from ikigai.core.events import events as ev
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from tests.store.proxy import TO_CLIENT, TO_SERVER
from tests.store.test_made_once import CUTS, opened


async def renamed(database: Database, agent: Agent, number: int) -> str:
    await database.tree.rename(agent, f"name-{number}")
    return f"name-{number}"


async def archived(database: Database, agent: Agent, number: int) -> str:
    assert await database.tree.archive(agent) in (0, 2)
    return "archived"


async def listed_again(database: Database, agent: Agent, number: int) -> str:
    await database.tree.list_again(agent)
    return "listed"


Change = Callable[[Database, Agent, int], Awaitable[str]]
BEFORE: dict[Change, str] = {
    renamed: "update agents set name = 'parent' where id = %s",
    archived: "update agents set archived_at = null where %s::uuid is not null",
    listed_again: "update agents set archived_at = '2026-01-01' where %s::uuid is not null",
}
STATE = """
select case when name <> 'parent' then name when archived_at is null then 'listed' else 'archived' end
from agents where parent is null
"""


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT], ids=["to server", "to client"])
@pytest.mark.parametrize("change", BEFORE)
async def test_change_of_an_agent_is_made_wherever_the_connection_is_cut(
    dsn: str, change: Change, direction: int
) -> None:
    async with opened(dsn) as (proxy, database, parent):
        await database.tree.fork(parent, 0, (ev.Forked(parent.name, 0, parent.id),), "child")
        with psycopg.connect(dsn, autocommit=True) as other:
            length = 0
            for n in range(CUTS + 2):
                other.execute(BEFORE[change].encode(), (parent.id,))
                before = proxy.passed[direction]
                if n:
                    proxy.cut_after(direction, (n - 1) * max(1, length // CUTS))
                expected = await change(database, parent, n)
                length = length or proxy.passed[direction] - before
                proxy.spare()
                assert other.execute(STATE).fetchall() == [(expected,)], n


@pytest.mark.parametrize("change", BEFORE)
async def test_agent_is_not_changed_while_nothing_answers(dsn: str, change: Change) -> None:
    async with opened(dsn) as (proxy, database, parent):
        proxy.refuse("57P03", "the database system is starting up")
        with pytest.raises(Unavailable):
            await change(database, parent, 1)
        proxy.refuse()
