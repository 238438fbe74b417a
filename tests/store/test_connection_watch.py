"""Programs that a restart cut off together come back one by one, each with one connection."""

import asyncio
import heapq
import random

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.store.connection import connection_watch
from ikigai.store.connection.connection_watch import LOOK_SECONDS, SPREAD_SECONDS, ConnectionWatch
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.store.test_faults import backends, left
from tests.store.test_healing import lose, rows, talk_of

PROGRAMS = 24


class Clock:
    """Time that passes only when the test says so."""

    def __init__(self) -> None:
        self.now, self._sleepers = 0.0, list[tuple[float, int, asyncio.Event]]()

    async def delay(self, seconds: float) -> None:
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + seconds, id(woken), woken))
        await woken.wait()

    def pass_to(self, time: float) -> None:
        self.now = time
        while self._sleepers and self._sleepers[0][0] <= time:
            heapq.heappop(self._sleepers)[2].set()

    async def settle(self, count: int) -> None:
        """Wait until `count` watches sleep again."""
        while len(self._sleepers) < count:
            await asyncio.sleep(0.001)


async def test_idle_programs_come_back_one_by_one(dsn: str) -> None:
    clock = Clock()
    random.seed(1)  # chance as programs have it, and the same in each run
    programs = [await Database.open(dsn, MIGRATIONS) for _ in range(PROGRAMS)]
    watches = [ConnectionWatch(program._session, clock.delay) for program in programs]
    for watch in watches:
        watch.start()
    await clock.settle(PROGRAMS)
    await left(dsn, PROGRAMS)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(pid, 10000) from unnest(%s) as pid", (backends(dsn),))
    await left(dsn, 0)
    came = list[int]()
    for second in range(1, int(LOOK_SECONDS + SPREAD_SECONDS) + 2):
        clock.pass_to(second)
        await clock.settle(PROGRAMS)
        came.append(len(backends(dsn)))
    assert came[int(LOOK_SECONDS) - 2] == 0 and came[-1] == PROGRAMS, "each has one connection"
    arrivals = [after - before for before, after in zip(came, came[1:], strict=False)]
    assert max(arrivals) <= PROGRAMS // 4
    for watch, program in zip(watches, programs, strict=True):
        await watch.stop()
        await program.close()


async def test_lost_events_of_an_idle_program_come_back(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(connection_watch, "SPREAD_SECONDS", 0.05)
    database, talk, told = await talk_of(dsn)
    database.logs._answered_by = "another server"
    before = rows(dsn)
    lose(dsn, 2)
    async with asyncio.timeout(60):
        while not told:
            await asyncio.sleep(0.02)
    assert rows(dsn) == before
    await talk.log.append((ev.Marked("next"),))
    assert rows(dsn)[-1][0] > before[-1][0] + 9_000, "other programs may bring back ids that follow"
    await database.close()
