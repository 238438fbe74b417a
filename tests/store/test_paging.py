"""Looking through a whole history: pages in both directions, whose it is, from hit to hit, and what all that reads."""

from types import SimpleNamespace
from uuid import UUID

import psycopg
import pytest

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.state.inputs import Clear, RewindTo, SetMark, Undo
from ikigai.repl.history_source import MAX_PAGE_BYTES, HistorySource
from ikigai.store.database import Database
from ikigai.store.log import paging
from ikigai.terminal.browser.pages import MAX_HELD_EVENTS, PAGE_EVENTS
from ikigai.terminal.browser.reader import HistoryReader
from tests.store.talk import Talk

NO_MATTER = 1 << 30


async def test_pages_in_both_directions_over_forks(database: Database) -> None:
    root = await Talk.open(database)
    for n in range(6):
        await root.turn(f"root {n}")
    fork = root.memory.window.turns[2].end
    child = await database.agents.create("child", parent=root.agent.id, forked_at=fork)
    await database.agents.create("other", parent=root.agent.id, forked_at=fork - 1)
    late = await database.agents.create("late", parent=root.agent.id, forked_at=root.memory.window.turns[5].end)
    log = await database.open_agent(child)
    await log.append((ev.Forked(root.agent.id, fork), *(ev.UserMessage(f"child {n}") for n in range(5))))
    reader = database.reader(child)
    whole = await reader.history(None, 1000)
    forwards: list[ev.StoredEvent] = []
    while page := await reader.page(7, NO_MATTER, after=forwards[-1].id if forwards else 0):
        assert len(page) == 7 or page[-1] == whole[-1]
        forwards += page
    backwards: list[ev.StoredEvent] = []
    while page := await reader.page(7, NO_MATTER, before=backwards[0].id if backwards else None):
        backwards[:0] = page
    assert tuple(forwards) == tuple(backwards) == whole and fork in [row.id for row in whole]

    lineage = await reader.lineage()
    assert lineage.names == {child.id: "child", root.agent.id: root.agent.name}
    assert lineage.branches == {fork - 1: ("other",)}  # what began behind the fork is not of this history
    parents = await database.reader(root.agent).lineage()
    assert parents.branches == {fork - 1: ("other",), fork: ("child",), late.forked_at: ("late",)}


async def test_page_ends_before_it_is_too_much(database: Database) -> None:
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    await log.append(tuple(ev.CommandRan("x" * size) for size in (10, 5_000, 10, 10, 9_000, 10)))
    reader, ids = database.reader(agent), [row.id for row in await database.reader(agent).history(None, 10)]
    for bytes, before, after in ((4_000, [5], [0]), (8_000, [5], [0, 1, 2, 3]), (12_000, [2, 3, 4, 5], [0, 1, 2, 3])):
        assert [row.id for row in await reader.page(10, bytes)] == [ids[n] for n in before]
        assert [row.id for row in await reader.page(10, bytes, after=0)] == [ids[n] for n in after]
    assert [row.id for row in await reader.page(10, 100, before=ids[5])] == [ids[4]]  # one in any case


async def test_controls_of_a_lineage(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one")
    for incoming in (SetMark("m"), Clear(), SetMark("n"), RewindTo("n"), Undo()):
        await talk.happen(incoming)
    controls = (await database.reader(talk.agent).lineage()).controls
    assert [type(row.event) for row in controls] == [ev.Cleared, ev.Rewound, ev.Undone]
    child = await database.agents.create("child", parent=talk.agent.id, forked_at=controls[0].id)
    assert (await database.reader(child).lineage()).controls == controls[:1]


async def test_from_hit_to_hit(database: Database) -> None:
    talk = await Talk.open(database)
    for n in range(22):
        await talk.turn("nothing here" if n % 7 else f"the needle {n}", "another needleless one" if n == 10 else "!")
    reader = await database.reader(talk.agent).history(None, 10_000)
    for query, word in (("needle", "needle"), ('"the needle"', "the needle"), ("*dlel*", "needleless")):
        hits = [row.id for row in reader if word in (getattr(row.event, "text", None) or "")]
        seeker = await database.seeker(query, talk.agent.id)
        for id in (0, *(row.id for row in reader[::17]), *hits, reader[-1].id + 5):
            assert await seeker.older(id) == max((hit for hit in hits if hit < id), default=None)
            assert await seeker.newer(id) == min((hit for hit in hits if hit > id), default=None)
    widened = await database.seeker("eedleles", talk.agent.id)
    assert widened.widened and await widened.older(1 << 40) == hits[0]
    nothing = await database.seeker("haystack", talk.agent.id)
    assert nothing.reached is None and nothing.behind == 0
    assert await nothing.older(1 << 40) is None and await nothing.newer(0) is None
    with pytest.raises(Rejected):
        await database.seeker("  ", talk.agent.id)


FILL = """
insert into messages (event_id, agent_id, seq, kind, content, data)
select gen_random_uuid(), %(agent)s, n, case n %% 4 when 1 then 'user' when 2 then 'assistant' when 3 then 'usage'
       else 'turn_end' end,
       case n %% 4 when 1 then 'question ' || n when 2 then 'answer ' || n end,
       case n %% 4 when 3 then '{"model": "m/n"}'::jsonb when 0 then '{"ending": "completed"}'::jsonb end
from generate_series(1, %(events)s) n
"""


async def test_long_history_is_read_in_pages_and_little_of_it_is_held(database: Database, dsn: str) -> None:
    events = 50_000
    agent = await database.agents.create("long")
    with psycopg.connect(dsn) as connection:
        connection.execute("set session_replication_role = replica")  # the triggers are tested elsewhere
        connection.execute(FILL, {"agent": UUID(agent.id), "events": events})
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("analyze messages")
    memory = (await Talk.open(database)).memory
    reads: list[int] = []

    class Counted(HistorySource):
        async def before(self, id: int | None, limit: int) -> tuple[ev.StoredEvent, ...]:
            reads.append(len(page := await super().before(id, limit)))
            return page

        async def after(self, id: int, limit: int) -> tuple[ev.StoredEvent, ...]:
            reads.append(len(page := await super().after(id, limit)))
            return page

    active_agent = SimpleNamespace(agent=agent, memory=memory, runtime=None)
    reader = HistoryReader(Counted(SimpleNamespace(database=database), active_agent))  # type: ignore[arg-type]
    await reader.open()
    assert sum(reads) == PAGE_EVENTS and reader.items[-1].text == f"answer {events - 2}"
    for _ in range(30):
        await reader.more_before(lambda: (reader.pages.events[0].id, reader.pages.events[10].id))
        assert len(reader.pages.events) <= MAX_HELD_EVENTS
    assert not reader.pages.last and reader.items
    await reader.home()
    assert reader.items[0].text == "question 1"
    for _ in range(30):
        await reader.more_after(lambda: (reader.pages.events[-10].id, reader.pages.events[-1].id))
        assert len(reader.pages.events) <= MAX_HELD_EVENTS
    assert reader.pages.events[-1].seq == 31 * PAGE_EVENTS and max(reads) == PAGE_EVENTS and len(reads) == 62
    await reader.go_to(reader.pages.events[0].id + events // 2)
    assert len(reader.pages.events) == 2 * PAGE_EVENTS

    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.cursor(binary=True) as cursor:
        middle = reader.pages.events[PAGE_EVENTS].id
        for which in ({"before": None}, {"before": middle}, {"after": middle}, {"after": 0}):
            assert len(await paging.read_page(cursor, agent.id, PAGE_EVENTS, MAX_PAGE_BYTES, **which)) == PAGE_EVENTS
        await paging.read_lineage(cursor, agent.id)
        await cursor.execute(
            "select seq_scan, seq_tup_read, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'messages'"
        )
        ((scans, scanned, fetched),) = await cursor.fetchall()
        assert scans == scanned == 0 and fetched <= 4 * PAGE_EVENTS + 10
