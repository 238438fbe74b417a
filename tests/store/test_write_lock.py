"""One writer per agent: who has the write lock, who is told so, and when it is free again."""

import asyncio
import os
import subprocess
import sys
import time
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest

from ikigai.core.errors import AgentLocked, Rejected
from ikigai.core.events import events as ev
from ikigai.core.state.loading import load_memory
from ikigai.store.connection import address
from ikigai.store.database import Database
from ikigai.store.log import write_lock
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN

LOCKS = """
select count(*) from pg_locks join pg_database on pg_database.oid = database
where locktype = 'advisory' and datname = current_database()
"""
CONNECTIONS = """
select count(*) from pg_stat_activity where datname = current_database() and application_name like 'ikigai/%'
"""

# Opens an agent, says so, and waits to be killed.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from ikigai.store.database import Database
async def main():
    database = await Database.open(sys.argv[1], Path(sys.argv[2]))
    await database.open_agent(await database.agents.find(sys.argv[3]))
    print("open", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def locks(dsn: str) -> int:
    with psycopg.connect(dsn) as other:
        return other.execute(LOCKS).fetchall()[0][0]


async def test_waiting_for_the_user_outlives_a_lost_connection(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    agent = await database.agents.create()
    log = await database.open_agent(agent)

    async def is_waiting() -> bool:
        async with database._session.use() as cursor:
            owner = await write_lock.read_owner(database._session, cursor, UUID(agent.id))
        return owner is not None and owner.is_waiting

    for asks in (True, False):
        await log.asks(asks)
        with psycopg.connect(dsn) as other:
            ended = "select pg_terminate_backend(%s, 10000)"
            assert other.execute(ended, (database._session.info.backend,)).fetchall() == [(True,)]
        await log.mark_used()
        assert await is_waiting() is asks
    await database.close()


async def test_second_program_is_told_who_writes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock, "DEAD_OWNER_TIMEOUT", 60)  # which a living holder is not granted
    first = await Database.open(dsn, MIGRATIONS)
    agent = await first.agents.create("heron")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, dsn, MIGRATIONS, agent.id, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert program.stdout and await program.stdout.readline() == b"open\n"
        began = time.monotonic()
        with pytest.raises(AgentLocked) as refused:
            await first.open_agent(agent)
        assert time.monotonic() - began < 30
        assert refused.value.owner == f"{os.uname().nodename[:40]}, pid {program.pid}"
        assert "heron" in refused.value.what and refused.value.owner in refused.value.what
        assert refused.value.exit_code == 75
        # Reading needs no write lock, and another agent is free.
        assert (await first.reader(agent).load(load_memory(RUN, agent.id))).agent == agent.id
        await first.open_agent(await first.agents.create())
    finally:
        program.kill()
        await program.wait()
    # A program that was killed is not a holder, though the server may need a moment to see it.
    log = await first.open_agent(agent)
    await log.append((ev.UserMessage("mine"),))
    await first.close()


async def test_pen_is_put_down_on_close(dsn: str) -> None:
    first, second = await Database.open(dsn, MIGRATIONS), await Database.open(dsn, MIGRATIONS)
    agent = await first.agents.create()
    for _ in range(3):
        log = await first.open_agent(agent)
        await log.append((ev.UserMessage("?"),))
        with pytest.raises(AgentLocked):
            await second.open_agent(agent)
        await log.close()
        assert locks(dsn) == 0
        other = await second.open_agent(agent)
        await other.close()
        await other.close()
    await first.open_agent(agent)
    await first.close()
    await second.open_agent(agent)
    await second.close()


async def test_twice_in_one_program_is_refused(database: Database, dsn: str) -> None:
    agent = await database.agents.create()
    opening = [asyncio.create_task(database.open_agent(agent)) for _ in range(3)]
    results = await asyncio.gather(*opening, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["AgentLocked", "AgentLocked", "AgentLog"]
    assert locks(dsn) == 1


async def test_many_agents_share_one_connection(database: Database, dsn: str) -> None:
    logs = [await database.open_agent(await database.agents.create()) for _ in range(5)]
    await asyncio.gather(*(log.append((ev.UserMessage(str(n)),)) for log in logs for n in range(20)))
    with psycopg.connect(dsn) as other:
        rows = other.execute(
            "select array_agg(content order by seq), max(seq) from messages group by agent_id"
        ).fetchall()
        ((connections,),) = other.execute(CONNECTIONS).fetchall()
    assert rows == [([str(n) for n in range(20)], 20)] * 5
    assert connections == 1


async def test_agent_that_is_not_there(database: Database, dsn: str) -> None:
    agent = msgspec.structs.replace(await database.agents.create("gone"), id=str(uuid4()))
    with pytest.raises(Rejected, match="no agent gone"):
        await database.open_agent(agent)
    assert locks(dsn) == 0


def test_holder_is_named_as_well_as_possible() -> None:
    ours = write_lock.LockOwner(1, address.application_name())
    assert str(ours) == f"{os.uname().nodename[:40]}, pid {os.getpid()}" and not ours.is_dead()
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert write_lock.LockOwner(1, f"ikigai/{os.uname().nodename[:40]}/{ended.pid}").is_dead()
    assert not write_lock.LockOwner(1, f"ikigai/elsewhere/{ended.pid}").is_dead()
    assert str(write_lock.LockOwner(1, "ikigai/a/b/7")) == "a/b, pid 7"
    assert str(write_lock.LockOwner(1, "psql")) == "psql"
    assert str(write_lock.LockOwner(1, "")) == "another program"


def test_locks_number_is_made_of_the_random_end_of_an_id() -> None:
    agents = [UUID(int=2**127 + n) for n in (0, 1, 2**31, 2**32 - 1)]
    ours = [write_lock.lock_number(agent, "ikigai") for agent in agents]
    assert [number ^ address.schema_number("ikigai") for number in ours] == [0, 1, -(2**31), -1]
    other = [write_lock.lock_number(agent, "other") for agent in agents]
    assert all(-(2**31) <= number < 2**31 for number in (*ours, *other)) and not {*ours} & {*other}
