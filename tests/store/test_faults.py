"""Failures between program and database lose nothing acknowledged and store nothing twice."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest

from ikigai.core.errors import AgentLocked, Unavailable
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Text, Usage
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.loading import load_memory
from ikigai.store.database import Database
from ikigai.store.log import write_lock
from ikigai.store.log.log import AgentLog
from tests.conftest import MIGRATIONS, address
from tests.core.agent import RUN
from tests.store.proxy import TO_CLIENT, TO_SERVER, proxied
from tests.support.usage_sums import check_sums

BACKENDS = "select pid from pg_stat_activity where application_name like 'ikigai/%' and datname = current_database()"

WAITING = "select from pg_locks where not granted and relation = 'messages'::regclass"


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[tuple[Database, AgentLog]]:
    database = await Database.open(dsn, MIGRATIONS)
    try:
        agent = await database.agents.last() or await database.agents.create("a")
        yield database, await database.open_agent(agent)
    finally:
        await database.close()


def stored(dsn: str) -> list[str]:
    """The texts in the log, by seq, which has no gap and no repeat."""
    with psycopg.connect(dsn) as other:
        rows = other.execute("select seq, coalesce(content, '') from messages order by id").fetchall()
    assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1))
    return [content for _, content in rows]


def backends(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as other:
        return [pid for (pid,) in other.execute(BACKENDS).fetchall()]


async def left(dsn: str, count: int) -> list[int]:
    """Return the backends once there are `count`: an ended one may need a moment to disappear."""
    until = time.monotonic() + 30
    while len(found := backends(dsn)) != count and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert len(found) == count
    return found


async def persist(log: AgentLog, events: Sequence[ev.Event], reload: bool = False) -> tuple[int, list[ev.Event]]:
    """Append until it is stored; returns how often the database was unavailable, and what it gave back."""
    for failures in range(5):
        try:
            appended = await log.append(events, load_memory(RUN, log.agent) if reload else None)
        except Unavailable:
            continue
        assert bool(appended.memory) == reload
        return failures, [row.event for row in appended.rows]
    raise AssertionError("never stored")


def one(n: int) -> tuple[ev.Event, ...]:
    return (ev.UserMessage(f"{n}"),)


def several(n: int) -> tuple[ev.Event, ...]:
    request = ev.UsageReported("a/b", Usage(n, 1), cost=0.25)
    return (ev.AssistantMessage((Text(f"{n}"),)), request, ev.TurnEnded(ev.Ending.COMPLETED))


def command(n: int) -> tuple[ev.Event, ...]:
    return (ev.Marked(f"{n}"),)


DIRECTIONS = pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT], ids=["to server", "to client"])
MAKERS = pytest.mark.parametrize("make", [one, several, command])


@pytest.mark.ordinary("to server-one", "to client-several", "* *-command")
@MAKERS
@DIRECTIONS
async def test_cut_stores_once(dsn: str, make: Callable[[int], tuple[ev.Event, ...]], direction: int) -> None:
    await cut_everywhere(dsn, make, direction, cuts=25)


@pytest.mark.long
@MAKERS
@DIRECTIONS
async def test_cut_at_any_byte_stores_once(
    dsn: str, make: Callable[[int], tuple[ev.Event, ...]], direction: int
) -> None:
    await cut_everywhere(dsn, make, direction, cuts=400 if make is command else 10_000)


async def cut_everywhere(dsn: str, make: Callable[[int], tuple[ev.Event, ...]], direction: int, cuts: int) -> None:
    """Cut an append after so many of its bytes, up to all of them, and try again until it is stored."""
    failed = tried = 0
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        before = proxy.passed[direction]
        await persist(log, make(0), make is command)
        length = proxy.passed[direction] - before
        for position in range(0, length + 20, max(1, length // cuts)):
            proxy.cut_after(direction, position)
            tried += 1
            failures, rows = await persist(log, events := make(tried), make is command)
            assert rows == list(events)
            failed += failures
    assert [content for content in stored(dsn) if content] == [str(n) for n in range(tried + 1)]
    assert failed > tried // 2
    assert check_sums(dsn) == (tried + 1 if make is several else 0), "a retry counts no request twice"


async def test_lost_reply_is_known_by_its_ids(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        proxy.cut_after(TO_CLIENT, 0)
        events = one(1)
        with pytest.raises(Unavailable):
            await log.append(events)
        assert stored(dsn) == ["1"]
        (row,) = (await log.append(events)).rows
        assert (row.event, row.seq) == (events[0], 1)
        assert stored(dsn) == ["1"]
        # Equal events that are others are stored again.
        await log.append(one(1))
        assert stored(dsn) == ["1", "1"]


async def test_other_facts_do_not_follow_on_what_was_stored_unseen(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        proxy.cut_after(TO_CLIENT, 0)
        with pytest.raises(Unavailable):
            await log.append(one(1))
        with pytest.raises(AgentLocked):
            await log.append(one(2))
        assert stored(dsn) == ["1"]


async def test_other_facts_follow_when_nothing_was_stored(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        proxy.cut_after(TO_SERVER, 5)
        with pytest.raises(Unavailable):
            await log.append(one(1))
        await log.append(one(2))
        assert stored(dsn) == ["2"]


async def test_backend_killed_while_idle_is_not_noticed(dsn: str) -> None:
    async with opened(dsn) as (_, log):
        await log.append(one(1))
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = any(%s)", (backends(dsn),)
            )
        await left(dsn, 0)  # the server says farewell; nobody listens
        await log.append(one(2))
        assert stored(dsn) == ["1", "2"]


async def test_backend_killed_while_it_works(dsn: str) -> None:
    async with opened(dsn) as (_, log):
        with psycopg.connect(dsn) as other:
            other.execute("lock table messages")  # the append waits for this transaction
            events = several(1)
            appending = asyncio.create_task(log.append(events))
            while not other.execute(WAITING).fetchall():
                await asyncio.sleep(0.01)
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid = any(%s)", (backends(dsn),)
            )
            with pytest.raises(Unavailable):
                await appending
        assert (await log.append(events)).rows[0].seq == 1
        assert stored(dsn) == ["1", "", ""] and check_sums(dsn) == 1


@pytest.mark.parametrize("reload", [False, True], ids=["plain", "with reload"])
async def test_stopped_backend_is_given_up_after_the_deadline(
    dsn: str, reload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(dsn) as (database, log):
        await log.append(one(1))
        (pid,) = await left(dsn, 1)
        events = command(2)
        os.kill(pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as short:  # only while nothing is to succeed
                short.setattr(database._session, "_deadline", 0.5)
                short.setattr(write_lock, "DEAD_OWNER_TIMEOUT", 1)
                began = time.monotonic()
                with pytest.raises(Unavailable, match="not answered"):
                    await log.append(events, load_memory(RUN, log.agent) if reload else None)
                assert time.monotonic() - began < 15
                # The stopped backend still has the write lock: the wait for it is short, and no other program is
                # blamed.
                with pytest.raises(Unavailable):
                    await log.append(events, load_memory(RUN, log.agent) if reload else None)
        finally:
            os.kill(pid, signal.SIGCONT)
        await persist(log, events, reload)
        assert stored(dsn) == ["1", "2"]
        await log.append(one(3))
        assert stored(dsn) == ["1", "2", "3"]
        await left(dsn, 1)
        assert (await database.agents.all())[0].events == 3


async def test_cancelled_append_leaves_a_log_that_works(dsn: str) -> None:
    async with opened(dsn) as (_, log):
        with psycopg.connect(dsn) as other:
            other.execute("lock table messages")
            events = several(1)
            appending = asyncio.create_task(log.append(events))
            while not other.execute(WAITING).fetchall():
                await asyncio.sleep(0.01)
            began = time.monotonic()
            appending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await appending
            assert time.monotonic() - began < 10
        await persist(log, events)
        assert stored(dsn) == ["1", "", ""] and check_sums(dsn) == 1


async def test_draft_and_load_come_back_after_a_cut(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        await log.append(one(1))
        for direction in (TO_SERVER, TO_CLIENT):
            for call in (
                lambda: log.save_draft(Draft(1, "so far")),
                lambda: log.load(load_memory(RUN, log.agent)),
                lambda: log.draft(),
            ):
                proxy.cut_after(direction, 3)
                with pytest.raises(Unavailable):
                    await call()
                await call()
        assert await log.draft() == Draft(1, "so far")


async def test_pen_is_taken_again_before_anything_is_written(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through), opened(through) as (_, log):
        await log.append(one(1))
        proxy.cut_after(TO_SERVER, 0)
        with pytest.raises(Unavailable):
            await log.append(one(2))
        await left(dsn, 0)  # nobody holds the write lock
        async with opened(dsn) as (_, thief):
            for call in (
                lambda: log.append(one(3)),
                lambda: log.save_draft(Draft(1, "no")),
                lambda: log.load(load_memory(RUN, log.agent)),
            ):
                with pytest.raises(AgentLocked) as refused:
                    await call()
                assert refused.value.owner.endswith(f"pid {os.getpid()}")
            await thief.append(one(4))
        # The thief is gone, but what it wrote is not in this program's memory.
        for call in (lambda: log.append(one(5)), lambda: log.save_draft(Draft(1, "no"))):
            with pytest.raises(AgentLocked, match="wrote to agent a"):
                await call()
    assert stored(dsn) == ["1", "4"]
    async with opened(dsn) as (_, log):
        await log.append(one(6))
    assert stored(dsn) == ["1", "4", "6"]


async def test_row_written_behind_the_pens_back_stops_the_writer(dsn: str) -> None:
    async with opened(dsn) as (_, log):
        await log.append(one(1))
        with psycopg.connect(dsn) as other:
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind) values (gen_random_uuid(), %s, 2, 'user')",
                (log.agent,),
            )
        for events in (one(2), several(3)):
            with pytest.raises(AgentLocked):
                await log.append(events)
    assert stored(dsn) == ["1", ""]


async def test_server_that_only_reads(dsn: str) -> None:
    async with opened(dsn) as (_, log):
        await log.append(one(1))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("do $$ begin execute format('alter database %I set default_transaction_read_only = on',"
                      " current_database()); end $$")  # fmt: skip
    database = await Database.open(dsn, MIGRATIONS)
    (agent,) = await database.agents.all()
    with pytest.raises(Unavailable, match="is read-only") as refused:
        await database.open_agent(agent)
    assert refused.value.exit_code == 75
    with pytest.raises(Unavailable, match=r"accepts no writes now\. Try again in a moment: a standby may"):
        await Database.open(address(dsn, target_session_attrs="read-write"), MIGRATIONS)
    assert len(await database.reader(agent).history(None, 5)) == 1
    # The write lock was not kept: once the server writes again, it is taken as if nothing had been.
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("set default_transaction_read_only = off")
        other.execute("do $$ begin execute format('alter database %I reset all', current_database()); end $$")
    async with opened(dsn) as (_, log):
        await log.append(one(2))
    await database.close()
    assert stored(dsn) == ["1", "2"]


async def test_no_connection_left(dsn: str, role: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("do $$ begin execute format('alter database %I connection limit 0', current_database()); end $$")
    with pytest.raises(Unavailable, match="no free connection") as refused:
        await Database.open(role, MIGRATIONS)
    assert refused.value.exit_code == 75


async def test_full_disk_loses_nothing(dsn: str, small_disk: str) -> None:
    async with opened(dsn) as (_, log):
        await log.append(one(0))
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute(f"alter table messages set tablespace {small_disk}".encode())
        kept = ["0"]
        text = "".join(chr(0x4E00 + n % 20_000) for n in range(300_000))
        while True:
            events = (ev.UserMessage(text),)
            try:
                await log.append(events)
            except Unavailable as error:
                assert "disk" in error.what
                break
            kept.append(text)
            assert len(kept) < 100
        with pytest.raises(Unavailable, match="disk"):
            await log.append(events)
        assert stored(dsn) == kept
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("alter table messages set tablespace pg_default")
        await log.append(events)
        assert stored(dsn) == [*kept, text]


async def test_closing_never_waits_for_a_server_that_is_gone(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        log = await database.open_agent(await database.agents.create())
        proxy.cut_after(TO_SERVER, 0)
        with pytest.raises(Unavailable):
            await log.append(one(1))
    began = time.monotonic()
    await log.close()
    await database.close()
    assert time.monotonic() - began < 15
