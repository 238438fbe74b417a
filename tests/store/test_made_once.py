"""Agents whose making is cut off anywhere are made once, under the name that was asked for."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from ikigai.core.errors import Unavailable
from ikigai.core.events import events as ev
from ikigai.core.relocation.renumber import RawRow
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.store.proxy import TO_CLIENT, TO_SERVER, Proxy, proxied

CUTS = 12


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[tuple[Proxy, Database, Agent]]:
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        yield proxy, database, await database.agents.create("parent")
        await database.close()


async def new(database: Database, parent: Agent, name: str) -> str:
    return (await database.agents.create(name)).id


async def forked(database: Database, parent: Agent, name: str) -> str:
    events = ev.Forked(parent.name, 0), ev.SettingsChanged({"budget": 5}, {"budget": "agent"})
    return (await database.tree.fork(parent, 0, events, name)).id


async def imported(database: Database, parent: Agent, name: str) -> str:
    rows = [RawRow(n, "a", n, 1.0, "user", f"{n}", None) for n in (1, 2, 3)]
    return (await database.begin_import().store(iter(rows), name)).agent


EVENTS = {new: 0, forked: 2, imported: 3}
Make = Callable[[Database, Agent, str], Awaitable[str]]


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT], ids=["to server", "to client"])
@pytest.mark.parametrize("make", [new, forked])
async def test_agent_is_made_once_wherever_the_connection_is_cut(
    dsn: str, make: Make, direction: int, named: bool
) -> None:
    async with opened(dsn) as (proxy, database, parent):
        before = proxy.passed[direction]
        ids = [await make(database, parent, "")]
        length = proxy.passed[direction] - before
        for n, position in enumerate(range(0, length + 1, max(1, length // CUTS))):
            proxy.cut_after(direction, position)
            ids.append(await make(database, parent, f"agent-{n}" if named else ""))
            proxy.spare()
        check(dsn, ids, EVENTS[make])


async def test_import_whose_last_answer_is_lost_is_found(dsn: str) -> None:
    async with opened(dsn) as (proxy, database, parent):
        before = proxy.passed[TO_CLIENT]
        ids, names = [await imported(database, parent, "")], list[str]()
        length = proxy.passed[TO_CLIENT] - before
        for n, position in enumerate(range(0, length + 1, max(1, length // (3 * CUTS)))):
            proxy.cut_after(TO_CLIENT, position)
            try:
                ids.append(await imported(database, parent, f"agent-{n}"))
            except Unavailable:
                names.append(f"agent-{n}")
            proxy.spare()
        assert names and len(ids) > 1
        check(dsn, ids, EVENTS[imported])


@pytest.mark.parametrize("make", EVENTS)
async def test_agent_is_not_made_while_nothing_answers(dsn: str, make: Make) -> None:
    async with opened(dsn) as (proxy, database, parent):
        proxy.refuse("57P03", "the database system is starting up")
        with pytest.raises(Unavailable):
            await make(database, parent, "")
        proxy.refuse()
        check(dsn, [], 0)


def check(dsn: str, ids: list[str], events: int) -> None:
    """Check that there are just these agents besides the parent, each with so many events."""
    with psycopg.connect(dsn) as other:
        found = other.execute("""
            select id::text, (select count(*) from messages where agent_id = agents.id)
            from agents where name <> 'parent'
        """).fetchall()
    assert sorted(found) == sorted((id, events) for id in ids)
