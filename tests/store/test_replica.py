"""A read replica serves what has no need of the primary, once it has all that the primary has."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from ikigai.core.errors import StoreError
from ikigai.core.events import events as ev
from ikigai.core.state.loading import Reading, load_memory
from ikigai.store import database as databases
from ikigai.store.connection import replica as replicas
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.replica import ReplicaSession
from ikigai.store.database import Database
from ikigai.store.log import reading
from ikigai.store.sql import replay as queries
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.talk import Talk
from tests.support.cluster import running_cluster


async def port(session: ReplicaSession) -> int:
    async with session.use() as cursor:
        return await port_of(cursor)


async def port_of(cursor: Cursor) -> int:
    return cursor.connection.info.port


async def test_reads_come_from_the_replica_while_it_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "MAX_WAIT_FOR_REPLAY", 30.0)
    monkeypatch.setattr(databases, "IDLE_TIMEOUT", 0.5)
    with running_cluster(2) as cluster:
        database = await Database.open(cluster.address(0), MIGRATIONS)
        database.read_from(cluster.address(1))
        reads = database._replica
        assert reads
        talk = await Talk.open(database)
        for n in range(5):  # what was just stored is there
            await talk.turn(f"albatross {n}", "heron")
            page = await database.reader(talk.agent).page(100, 1_000_000)
            assert page[-1].id == max(event.id for event in await database.reader(talk.agent).history(None, 9))
            assert await port(reads) == 5433
        assert len((await database.search("albatross")).hits) == 5
        assert (await database.recall("albatross?")).turns
        exported = database.export(talk.agent)
        await exported.open()
        assert exported.events == sum([len(rows) async for rows in exported.pages()])
        lag = await database.replica_lag()
        assert lag and lag.is_current
        assert reads._replica
        position = await reads._position()
        async with reads._replica.use() as cursor:
            # It has all, and is ahead of what it has not, or lacks an event that another timeline has.
            for other in ({}, {"end": "FFFF/0"}, {"event_id": uuid4()}, {"id": 1 << 40}):
                await cursor.execute(queries.HOLDS, position | other)
                assert await cursor.fetchall() == [(not other,)], other
        with cluster.connect(1) as standby:
            connected = "select from pg_stat_activity where application_name like 'ikigai/%'"
            async with asyncio.timeout(60):
                while standby.execute(connected).rowcount:  # an idle program has none there
                    await asyncio.sleep(0.1)
                    standby.rollback()

        monkeypatch.setattr(replicas, "MAX_WAIT_FOR_REPLAY", 0.1)
        await asyncio.to_thread(cluster.cut_off, 1)
        await talk.turn("cormorant", "heron")
        assert await port(reads) == 5432, "it is behind"
        assert (await database.search("cormorant")).hits
        lag = await database.replica_lag()
        assert lag and not lag.is_current and lag.bytes > 0

        monkeypatch.setattr(replicas, "MAX_WAIT_FOR_REPLAY", 30.0)
        cluster.kill(1)
        assert await port(reads) == 5432, "it is away"
        assert (await database.search("cormorant")).hits
        with pytest.raises(StoreError):
            await database.replica_lag()
        await database.close()


async def test_follower_loads_memory_from_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "MAX_WAIT_FOR_REPLAY", 30.0)
    loaded_from: list[int] = []

    async def load(cursor: Cursor, asking: Reading[Any]) -> Any:
        loaded_from.append(await port_of(cursor))
        return await loading(cursor, asking)

    loading = reading.load
    monkeypatch.setattr(reading, "load", load)
    with running_cluster(2) as cluster:
        writer = await Database.open(cluster.address(0), MIGRATIONS)
        talk = await Talk.open(writer)
        await talk.turn("albatross", "heron")
        database = await Database.open(cluster.address(0), MIGRATIONS, write=False)
        database.read_from(cluster.address(1))
        del loaded_from[:]
        follower = database.follow(talk.agent, lambda: load_memory(RUN, talk.agent.id))
        memory, owner = await follower.begin()
        assert (memory, loaded_from) == (talk.memory, [5433]) and owner
        await talk.turn("cormorant", "heron")
        news = await follower.look()
        assert news.rows[-1].seq == follower.seq and news.memory is None and 5433 not in loaded_from[1:]
        assert [row.event.text for row in news.rows if isinstance(row.event, ev.UserMessage)] == ["cormorant"]
        await talk.turn("gannet", "heron")
        del loaded_from[:]
        follower.reload()
        news = await follower.look()
        assert news.memory == talk.memory and loaded_from == [5433]
        assert news.rows[-1].seq == follower.seq and not (await follower.look()).rows

        await asyncio.to_thread(cluster.cut_off, 1)
        monkeypatch.setattr(replicas, "MAX_WAIT_FOR_REPLAY", 0.1)
        await talk.turn("petrel", "heron")
        del loaded_from[:]
        follower.reload()
        assert (await follower.look()).memory == talk.memory and loaded_from == [5432]
        await follower.close()
        await database.close()
        await writer.close()


async def test_standby_of_another_history_is_not_read(dsn: str, empty_dsn: str) -> None:
    primary, other = DatabaseSession(dsn), DatabaseSession(empty_dsn)
    reads = ReplicaSession(primary, other)
    async with reads.use() as cursor:
        assert cursor.connection.info.dbname == primary.place.database
    await primary.close()
    await reads.close()
