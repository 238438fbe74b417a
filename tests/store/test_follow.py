"""Following an agent that another program writes: all of it, in order, nothing twice, whatever happens to the hints."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from ikigai.core.errors import Unavailable
from ikigai.core.events import events as ev
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.inputs import Clear, RewindTo, SetMark
from ikigai.core.state.loading import load_memory
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.database import Database
from ikigai.store.log import follow
from ikigai.store.log.follow import Follower, FollowUpdate
from ikigai.store.sql import agents as queries
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.proxy import TO_CLIENT, proxied
from tests.store.talk import Talk

NEVER = 60.0
"""Seconds between two looks when only a notification is to bring news."""
SOON = NEVER / 2


@asynccontextmanager
async def following(dsn: str, agent: str) -> AsyncIterator[Follower]:
    """A follower as another program has one."""
    session = DatabaseSession(dsn, write=False)
    follower = Follower(session, agent, lambda: load_memory(RUN, agent), session)
    try:
        yield follower
    finally:
        await follower.close()


async def news_of(follower: Follower) -> FollowUpdate:
    """Return the next news, as soon as something may be new."""
    await follower.wait()
    return await follower.look()


async def until(follower: Follower, seq: int) -> list[ev.StoredEvent]:
    """The rows up to that one, which no poll had to bring."""
    rows: list[ev.StoredEvent] = []
    async with asyncio.timeout(SOON):
        while follower.seq < seq:
            rows += (await news_of(follower)).rows
    return rows


def texts(news: FollowUpdate) -> list[str]:
    return [row.event.text for row in news.rows if isinstance(row.event, ev.UserMessage)]


async def test_what_is_stored_and_said_comes_at_once(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL_SECONDS", NEVER)
    talk = await Talk.open(database)
    await talk.turn("before", "said")
    async with following(dsn, talk.agent.id) as follower:
        memory, holder = await follower.begin()
        assert memory == talk.memory and holder and "pid" in str(holder)
        await follower.look()
        told: list[float] = []
        for number in range(3):
            waiting = asyncio.create_task(news_of(follower))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            await talk.log.append((ev.UserMessage(str(number)),))
            news = await waiting
            told.append(time.monotonic() - began)
            assert texts(news) == [str(number)] and news.draft is None
        for text, new in (("One", "One"), ("One and two", " and two")):
            waiting = asyncio.create_task(news_of(follower))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            await talk.log.save_draft(Draft(9, text, "hm", (("thinking", 2), ("text", len(text)))))
            news = await waiting
            told.append(time.monotonic() - began)
            assert news.draft and news.draft.text == new and news.draft.parts[-1] == ("text", len(text))
        assert max(told) < SOON, told
        assert (await follower.look()).draft is None, "nothing is told twice"


async def test_two_follow_and_other_agents_are_none_of_theirs(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL_SECONDS", NEVER)
    talk, other = await Talk.open(database), await Talk.open(database)
    async with following(dsn, talk.agent.id) as one, following(dsn, talk.agent.id) as two:
        for each in (one, two):
            await each.begin()
            await each.look()
        hearing = [asyncio.create_task(until(each, one.seq + 40)) for each in (one, two)]
        for number in range(10):
            await asyncio.gather(talk.turn(str(number), "yes"), other.turn("elsewhere", "no"))
        first, second = await asyncio.gather(*hearing)
        assert first == second and [row.seq for row in first] == list(range(first[0].seq, first[0].seq + len(first)))
        assert {row.agent for row in first} == {talk.agent.id}


async def test_rows_that_nobody_was_told_of(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await Talk.open(database)
    async with following(dsn, talk.agent.id) as follower:
        await follower.begin()
        # Its connection is killed, once while it waits and once while it does nothing.
        for number, waits in enumerate((True, False)):
            waiting = asyncio.create_task(news_of(follower)) if waits else None
            with psycopg.connect(dsn) as other:
                other.execute("select pg_terminate_backend(%s, 5000)", (follower._session.info.backend,))
            await talk.log.append((ev.UserMessage(f"missed {number}"),))
            news = await waiting if waiting else FollowUpdate()
            while not news.rows:
                news = await news_of(follower)
            assert texts(news) == [f"missed {number}"]
        # It is notified again.
        await follower.look()
        with monkeypatch.context() as patched:
            patched.setattr(follow, "POLL_SECONDS", NEVER)
            waiting = asyncio.create_task(news_of(follower))
            await asyncio.sleep(0.1)
            await talk.log.append((ev.UserMessage("heard"),))
            async with asyncio.timeout(SOON):
                assert texts(await waiting) == ["heard"]
        # Nobody notifies any more: the next poll brings it.
        async with follower._session.use() as cursor:
            await cursor.execute("unlisten ikigai")
        await talk.log.append((ev.UserMessage("polled"),))
        began = time.monotonic()
        assert texts(await news_of(follower)) == ["polled"]
        assert time.monotonic() - began < SOON


async def test_memory_is_loaded_behind_what_changes_the_past(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    await talk.turn("first", "one")
    async with following(dsn, talk.agent.id) as follower:
        await follower.begin()
        await talk.happen(SetMark("here"))
        await talk.turn("second", "two")
        assert (await follower.look()).memory is None
        await talk.happen(RewindTo("here"))
        await talk.turn("third", "three")
        news = await follower.look()
        assert news.memory == talk.memory and follower.seq == news.rows[-1].seq
        await talk.happen(Clear())
        assert len((await follower.look()).rows) == 1


async def test_long_absence_is_read_in_pages(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "FOLLOW_PAGE_ROWS", 7)
    monkeypatch.setattr(follow, "POLL_SECONDS", NEVER)
    talk = await Talk.open(database)
    async with following(dsn, talk.agent.id) as follower:
        memory, _ = await follower.begin()
        start = follower.seq
        await talk.log.append([ev.UserMessage(str(number)) for number in range(30)])
        rows: list[ev.StoredEvent] = []
        began = time.monotonic()
        while len(rows) < 30:
            news = await news_of(follower)
            assert len(news.rows) <= 7
            rows += news.rows
        assert [row.seq for row in rows] == list(range(start + 1, start + 31)) and memory.open is None
        assert time.monotonic() - began < SOON, "nobody waits while there is more"


async def test_writer_notifies_where_somebody_follows(database: Database, dsn: str) -> None:
    talk, other = await Talk.open(database), await Talk.open(database)
    heard: list[str] = []
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as listening:
        await listening.execute(queries.listen("ikigai"))

        async def hear(least: int = 0) -> list[str]:
            """Wait for so many, and a moment for more than those."""
            heard.clear()
            if least:
                heard.extend([note.payload async for note in listening.notifies(timeout=30, stop_after=least)])
            heard.extend([note.payload async for note in listening.notifies(timeout=0.1)])
            return heard

        await talk.turn()
        await talk.log.save_draft(Draft(1, "It"))
        assert await hear() == []
        async with following(dsn, talk.agent.id) as follower:
            await follower.begin()
            seq = follower.seq
            await talk.log.append((ev.UserMessage("one"), ev.UserMessage("two")))
            await talk.log.save_draft(Draft(1, "It is"))
            await other.turn()
            id = talk.agent.id
            assert await hear(3) == [f"{id} {seq + 1}", f"{id} {seq + 2}", f"{id} draft"]
        for _ in range(50):  # until the server has seen it go
            await talk.turn()
            if not await hear():
                break
        assert not heard


async def test_notifications_of_others_are_no_news(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    async with following(dsn, talk.agent.id) as follower:
        await follower.begin()
        began = time.monotonic()
        await follower.look()
        with psycopg.connect(dsn, autocommit=True) as other:
            for payload in (
                "",
                "x",
                talk.agent.id,
                f"{talk.agent.id} x",
                f"{talk.agent.id} {follower.seq}",
                "\u2028 9",
            ):
                other.execute("select pg_notify('ikigai', %s)", (payload,))
            assert await news_of(follower) == FollowUpdate(
                looked=True, owner=(await follower.begin())[1], name=talk.agent.name
            )
            assert time.monotonic() - began > follow.POLL_SECONDS / 2


async def test_follower_stores_nothing(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    async with following(dsn, talk.agent.id) as follower:
        await follower.begin()
        with pytest.raises(Exception, match="opened for reading"):
            async with follower._session.use() as cursor:
                await cursor.execute("insert into drafts (agent_id, asked_by, text) select id, 1, '' from agents")


async def test_answer_that_is_cut_off_is_read_again(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    async with proxied(dsn) as (proxy, through), following(through, talk.agent.id) as follower:
        await follower.begin()
        await talk.log.append([ev.UserMessage(f"{number} " + "word " * 100) for number in range(9)])
        await talk.log.save_draft(Draft(9, "word " * 100))
        failures, rows, words = 0, 0, ""
        for count in (10, 200, 1000, 4000, 5200):
            proxy.cut_after(TO_CLIENT, count)
            try:
                news = await follower.look()
            except Unavailable:
                failures += 1
                continue
            rows += len(news.rows)
            words += news.draft.text if news.draft else ""
        news = await follower.look()
        assert failures >= 3 and rows + len(news.rows) == 9
        assert words + (news.draft.text if news.draft else "") == "word " * 100


async def test_program_of_its_own(dsn: str) -> None:
    """The connection is one further, and gone with the follower; the schema is as it was."""
    database = await Database.open(dsn, MIGRATIONS)
    agent = await database.agents.create()
    follower = database.follow(agent, lambda: load_memory(RUN, agent.id))
    _, holder = await follower.begin()
    assert holder is None
    count = (
        "select count(*) from pg_stat_activity where application_name like 'ikigai/%' and datname = current_database()"
    )
    with psycopg.connect(dsn, autocommit=True) as other:
        assert other.execute(count).fetchall() == [(2,)]
        await follower.close()
        for _ in range(3000):
            if other.execute(count).fetchall() == [(1,)]:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("it is still connected")
    await database.close()
