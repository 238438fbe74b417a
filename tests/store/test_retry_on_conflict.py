"""Transactions that lock the same rows in different orders: the server ends ikigai's, which runs again unseen."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

import psycopg
import pytest

from ikigai.core.errors import StoreError
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.store.connection.retry_on_conflict import RETRY_SECONDS, retry_on_conflict
from ikigai.store.database import Database
from ikigai.store.purge.purge import LAST_ID
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk

T = TypeVar("T")
WAITING = """
select count(distinct pid)::integer from pg_locks
where not granted and (database is null or database = (select oid from pg_database where datname = current_database()))
"""


class Circle(NamedTuple):
    """A deadlock: ikigai has locked `first`, and is about to lock what `held` has locked.

    `between` holds it up until another one, which has locked `held`, waits for `first`.
    """

    first: str
    between: str
    held: str


@asynccontextmanager
async def session(dsn: str, locks: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A transaction that has locked something; it never looks for deadlocks, so that ikigai's is the one that ends."""
    options = "-c search_path=ikigai -c deadlock_timeout=10min"
    async with await psycopg.AsyncConnection.connect(address(dsn, options=options)) as connection:
        await connection.execute(locks.encode())
        yield connection
        await connection.rollback()


async def in_circle(dsn: str, circle: Circle, run: Callable[[], Awaitable[T]]) -> T:
    """Run something of ikigai into the deadlock, and return its result."""

    async def waiting(count: int) -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as watcher:
            while await (await watcher.execute(WAITING)).fetchall() != [(count,)]:
                assert not running.done(), "it does not come to the lock"
                await asyncio.sleep(0.02)

    async with session(dsn, circle.held) as other, session(dsn, circle.between) as blocker:
        running = asyncio.ensure_future(run())
        await waiting(1)
        also = asyncio.create_task(other.execute(circle.first.encode()))
        await waiting(2)
        await blocker.rollback()
        await also  # ikigai's transaction has gone: this one has the lock
        await other.rollback()
        return await running


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """A database with an agent that said something; deadlocks that it waits in are found soon."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await admin.execute(f"alter database {admin.info.dbname} set deadlock_timeout = '100ms'".encode())
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database, await database.agents.create("a"))
    await talk.turn("Hello")
    while await database.indexer.index_some():
        pass
    await talk.turn("The secret is swordfish.")
    await talk.log.close()
    yield database
    await database.close()


INDEXING = {
    "rows": Circle(
        "select from search_progress for update",
        "select from search_figures for update",
        "lock table search_segments in share mode",
    ),
    "tables": Circle("lock table search_progress", "lock table search_figures", "lock table search_segments"),
}
"""As a purge locks rows of the index, and as the end of a share locks its tables."""


@pytest.mark.parametrize("locked", INDEXING)
async def test_search_waits_out_a_deadlock_of_the_index(
    database: Database, dsn: str, locked: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ikigai.store.connection.retry_on_conflict")
    found = await in_circle(dsn, INDEXING[locked], lambda: database.search("swordfish"))
    assert "runs again: deadlock detected" in caplog.text
    if found.behind:  # the other one had the agent meanwhile
        found = await database.search("swordfish")
    assert len(found.hits) == 1 and found.behind == 0


async def test_index_waits_out_a_deadlock(database: Database, dsn: str) -> None:
    """Behind the prompt a failure would end it for half a minute."""
    await in_circle(dsn, INDEXING["rows"], database.indexer.index_some)
    while await database.indexer.index_some():
        pass
    assert await database.indexer.behind() == 0


async def test_purge_waits_out_a_deadlock(database: Database, dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ikigai.store.connection.retry_on_conflict")
    while await database.indexer.index_some():
        pass
    purge = database.purge(PurgeTarget("swordfish"), ((0, LAST_ID),))
    plan = await purge.find()
    circle = Circle(
        "select from messages for update",
        "select from search_figures for update",
        "select from search_documents for update",
    )
    await in_circle(dsn, circle, lambda: purge.carry_out(plan))
    assert "Purge.carry_out runs again: deadlock detected" in caplog.text
    assert not (await database.purge(PurgeTarget("swordfish"), ((0, LAST_ID),)).find()).hits


async def test_deadlock_that_comes_back_again_and_again_is_told() -> None:
    runs = 0

    @retry_on_conflict
    async def run() -> None:
        nonlocal runs
        runs += 1
        raise StoreError("Another program held a conflicting lock.") from psycopg.errors.DeadlockDetected()

    with pytest.raises(StoreError):
        await run()
    assert runs == 1 + len(RETRY_SECONDS)
