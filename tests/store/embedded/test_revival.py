"""A server of our own that is killed under a running program comes back, and nothing acknowledged is missing."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import psycopg
import pytest

from ikigai.core.errors import BadDatabase, Unavailable
from ikigai.core.events.events import Marked
from ikigai.store.database import Database
from ikigai.store.embedded import location as embedded_place
from ikigai.store.embedded import server as embedded
from tests.conftest import MIGRATIONS

T = TypeVar("T")


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """The answer of a call that is made again while the database is away."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(0.1)


async def test_killed_server_is_started_again_by_the_next_call(data_dir: Path, lease: embedded.Lease) -> None:
    database = await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
    try:
        agent = await database.agents.create("a")
        log = await database.open_agent(agent)
        await log.append((Marked("before"),))
        postmaster = embedded_place.folder_of(data_dir) / "data" / "postmaster.pid"
        os.kill(int(postmaster.read_text().split()[0]), signal.SIGKILL)
        events = (Marked("after"),)
        appended = await insist(lambda: log.append(events))
        assert [row.seq for row in appended.rows] == [2]
        # The killed server's process for this connection may have stored it, and ends only now.
        history = await insist(lambda: database.reader(agent).history(None, 9))
        assert [row.event for row in history] == [Marked("before"), Marked("after")]
    finally:
        await database.close()


async def test_server_that_was_killed_since_it_was_found_is_started_again(
    data_dir: Path, lease: embedded.Lease
) -> None:
    postmaster = embedded_place.folder_of(data_dir) / "data" / "postmaster.pid"
    for _ in range(2):
        os.kill(int(postmaster.read_text().split()[0]), signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            while True:
                psycopg.connect(lease.dsn).close()
        database = await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
        await database.agents.create()
        await database.close()


@pytest.mark.long
async def test_server_that_was_killed_is_started_again_when_that_is_noticed_late(
    data_dir: Path, lease: embedded.Lease
) -> None:
    """As on a busy machine: until its keeper runs again, the server seems to be running."""
    server = psutil.Process(
        int((embedded_place.folder_of(data_dir) / "data" / "postmaster.pid").read_text().split()[0])
    )
    keeper = server.parent()
    assert keeper
    keeper.suspend()
    server.kill()
    opening = asyncio.create_task(Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew)))
    await asyncio.wait({opening}, timeout=5)
    keeper.resume()
    await (await opening).close()


async def test_stopped_server_is_told_of_without_words_on_the_network(
    data_dir: Path, lease: embedded.Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikigai.store.connection.address.CONNECT_TIMEOUT", 2)
    pid = int((embedded_place.folder_of(data_dir) / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="did not answer in time") as refused:
            await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert refused.value.remedy == "Its processes may be stopped, or the machine is busy: try again in a moment."


def test_lease_is_kept_when_it_cannot_be_renewed(data_dir: Path, lease: embedded.Lease) -> None:
    """Else the server would stop under the other connections of this program."""
    lock = embedded_place.folder_of(data_dir) / "server.lock"
    kept = lock.rename(lock.with_name("kept"))
    lock.symlink_to(kept)
    with pytest.raises(BadDatabase, match="cannot be used"):
        lease.renew()
    kept.replace(lock)
    with psycopg.connect(lease.dsn) as other:
        time.sleep(embedded.GRACE_SECONDS + 1)
        assert other.execute("select 1").fetchall() == [(1,)]
    assert embedded.is_running(data_dir)
