"""An idle program holds one connection of the server, however much it searched and indexed before."""

import asyncio

import pytest

from ikigai.store import database as databases
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk
from tests.store.test_faults import left


async def test_second_connection_ends_when_nothing_is_searched_or_indexed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "IDLE_TIMEOUT", 0.3)
    database = await Database.open(dsn, MIGRATIONS)
    indexing = asyncio.create_task(database.indexer.run())
    talk = await Talk.open(database)
    writer = database._session.info.backend
    for word in ("albatross", "heron"):
        await talk.turn(f"tell me of the {word}")
        found = await database.search(word)
        assert len(found.hits) == 1
        assert await left(dsn, 1) == [writer], "the one that writes stays"
    indexing.cancel()
    await database.close()
    await left(dsn, 0)


async def test_long_use_is_not_ended(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "IDLE_TIMEOUT", 0.05)
    database = await Database.open(dsn, MIGRATIONS)
    for _ in range(2):
        async with database._beside.use() as cursor:
            await cursor.execute("select pg_sleep(0.3), pg_backend_pid()")
            assert len(await cursor.fetchall()) == 1
    await database.close()


async def test_use_that_fails_at_its_end_leaves_the_session_to_others(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    session = database._beside

    def fail() -> None:
        raise OSError("no space left")

    session.on_lost = fail
    with pytest.raises(OSError):
        async with session.use() as cursor:
            await cursor.execute("begin")  # left open, which costs the connection
    async with asyncio.timeout(60), session.use() as cursor:
        await cursor.execute("select 1")
    await database.close()
