"""Searching the real database: everything that was said is found, and nothing waits for the index."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Citation, Text, ToolCall, ToolResult
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.search import lookup, postings, word_index
from ikigai.store.search import segments as joining
from ikigai.store.search.postings import IndexedDocument, read_documents
from ikigai.store.search.search import SearchResult
from ikigai.store.sql import search
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh


async def said(database: Database, *events: ev.Event | str, agent: Agent | None = None) -> list[int]:
    """The ids of these events, strings being messages of a user's."""
    agent = agent or await database.agents.create()
    log = await database.open_agent(agent)
    events = [ev.UserMessage(event) if isinstance(event, str) else event for event in events]
    rows = (await log.append(events)).rows
    await log.close()
    return [row.id for row in rows]


async def joined(database: Database) -> None:
    """Index everything, and join the segments as far as it goes."""
    await database.indexer.catch_up(60)
    while await database.indexer.join_some():
        pass


def segments(dsn: str) -> list[tuple[int, int]]:
    """The first and the last document of each segment."""
    with psycopg.connect(dsn) as other:
        return other.execute("select first, last from search_segments order by first, last desc").fetchall()


def documents(dsn: str) -> list[IndexedDocument]:
    """All documents of the index, without what a purge has left of some."""
    with psycopg.connect(dsn) as other:
        rows = other.execute("select documents from search_documents order by first").fetchall()
    return [document for (packed,) in rows for document in read_documents(packed) if document.message]


def join_small(monkeypatch: pytest.MonkeyPatch, most: int = 64) -> None:
    """Let segments be joined only in the background, from two documents on and up to `most`."""
    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)
    monkeypatch.setattr(joining, "SEGMENTS_JOINED", 2)
    monkeypatch.setattr(joining, "BLOCKS_AT_ONCE", 1)
    monkeypatch.setattr(joining.join, "__defaults__", (most,))
    monkeypatch.setattr(postings, "BLOCK_BYTES", 60)


def ids(found: SearchResult) -> list[int]:
    return [hit.id for hit in found.hits]


async def found(database: Database, query: str, **which: object) -> list[int]:
    result = await database.search(query, **which)  # pyright: ignore[reportArgumentType]
    assert result.behind == 0 and result.reached is None
    return ids(result)


TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "Crème brûlée in the Straße, naïvely",
    "東京は日本の首都です。ﬁne",
    "SELECT * FROM users; -- it's a \"quoted\" 'thing' \\ 100%",
    "getUserName(user_id) => c++ → 🎉 done",
    "to be or not to be, that is the question",
    "foxtrot and outfoxed",
]


SHAPES = {
    "quick": [0],
    "QUICK brown": [0],
    "fox": [6, 0],
    '"fox"': [0],
    "fox*": [6, 0],
    "*foxed": [6],
    "*fox*": [6, 0],
    '"brown fox"': [0],
    '"fox brown"': [],
    '"to be or not to be"': [5],
    '"be to"': [],
    "creme brulee strasse": [1],
    "Brûl": [1],
    "首都": [2],
    "日本": [2],
    "東京は日本の首都": [2],
    "都": [2],
    "日都": [],
    "fi": [2],
    "ju": [0],
    "j": [0],
    "the": [5, 1, 0],
    "is the": [5],
    "to be or": [5],
    "drop table": [],
    "'; drop table messages; --": [],
    "from users; --": [3],
    "it's": [3],
    "100%": [3],
    "\\": [3],
    "%": [3],
    "=>": [4],
    "c++": [4],
    "🎉": [4],
    "user_id": [4],
    "id": [4],
    '"quoted thing': [3],
    "tru": [],  # of no word: found within words only where nothing begins like that
    "nothing at all of this": [],
}
"""The texts in which each query finds something, the newest first."""


async def test_every_shape_of_query(database: Database):
    written = await said(database, *TEXTS)
    wrong: dict[str, object] = {}
    for query, where in SHAPES.items():
        result = await database.search(query)
        ranked = ids(await database.search(query, order="relevance"))
        wanted = [written[n] for n in where]
        is_found = ids(result) == wanted and not result.widened and set(ranked) == set(wanted)
        if not is_found or not all(hit.snippet.places for hit in result.hits):
            wrong[query] = result, ranked
    assert wrong == {}


async def test_parts_of_words_where_nothing_begins_so(database: Database):
    one, two = await said(database, "outfoxed", "xfoxy")
    result = await database.search("foxy")
    assert result.widened and ids(result) == [two]
    assert [hit.snippet.text[a:b] for hit in result.hits for a, b in hit.snippet.places] == ["foxy"]
    assert await found(database, "tfo") == [one]


@pytest.mark.parametrize("query", ["", "  "])
async def test_empty_query(database: Database, query: str):
    with pytest.raises(Rejected, match="Add the words to search for"):
        await database.search(query)


async def test_what_is_in_it_and_what_is_not(database: Database):
    call = ToolCall("c1", "shell", '{"command":"ls zebras\\nwc lions"}')
    _, reply, called, result, mark, *_ = await said(
        database,
        "?",
        ev.AssistantMessage((Text("zebras said"),)),
        call,
        ToolResult("c1", "zebras printed"),
        ev.Marked("zebras"),
        ev.UsageReported("zebras/zebras"),
        ev.SettingsChanged({"system": "zebras"}, {}),
    )
    assert await found(database, "zebras") == [mark, result, called, reply]
    assert await found(database, "lions") == [called], "JSON's \\n is no letter"
    assert await found(database, "zebras", kinds=["assistant"]) == [reply]
    assert await found(database, "zebras", kinds=["mark", "tool_result"]) == [mark, result]
    (hit, *_) = (await database.search("printed")).hits
    assert (hit.kind, hit.snippet.text) == ("tool_result", "zebras printed") and abs(hit.at - time.time()) < 60


async def test_pages_that_a_reply_relies_on_are_found_and_recalled(database: Database):
    page = Citation("https://example.org/report-4711?a=1", "Walrus census", '{"sealed": 1}', "google/gemini-x")
    bare = Citation("https://other.org/x", "")
    cited = ev.AssistantMessage((Text("It is new. ", (page, bare)), Text("Good.", (page,))))
    long = ev.AssistantMessage((Text("many words " * 3_000, (bare,)),))
    _, reply, plain, silent, late = await said(
        database, "?", cited, ev.AssistantMessage((Text("A walrus."),)), ev.AssistantMessage((Text("", (page,)),)), long
    )
    assert await found(database, "walrus") == [silent, plain, reply]
    assert await found(database, '"report-4711"') == [silent, reply]
    assert await found(database, '"other.org"') == [late, reply]
    assert await found(database, "sealed") == []
    *_, hit = (await database.search("walrus")).hits
    assert hit.snippet.text == f"It is new. Good. Walrus census {page.url} {bare.url}"
    (turn,) = (await database.recall("Where was the census of walruses?")).turns
    assert any("Walrus census https://example.org" in message.excerpt for message in turn.messages)


async def test_pages_of_replies_are_found_behind_a_purge_beside_them(database: Database):
    page = Citation("https://example.org/report-4711", "Walrus census")
    _, reply, silent, *_ = await said(
        database,
        "a canary",
        ev.AssistantMessage((Text("It is new.", (page,)),)),
        ev.AssistantMessage((Text("", (page,)),)),
        ev.AssistantMessage((Text("", (Citation("https://other.org", "seal " * 4_000 + "farend"),)),)),
        ev.AssistantMessage((Text(""),)),
    )
    for is_purged in (False, True):
        await joined(database)
        assert await found(database, "walrus") == await found(database, '"report-4711"') == [silent, reply]
        assert await found(database, "farend") == [silent + 1]
        assert await found(database, "canary") == ([] if is_purged else [reply - 1])
        purge = database.purge(PurgeTarget("canary"), ((0, 1 << 62),))
        await purge.carry_out(await purge.find())


async def test_agents_and_their_lineage(database: Database):
    root = await database.agents.create("root")
    early, late = await said(database, "word early", "word late", agent=root)
    child = await database.agents.create("child", parent=root.id, forked_at=early)
    (own,) = await said(database, "word own", agent=child)
    (other,) = await said(database, "word other")
    assert await found(database, "word") == [other, own, late, early]
    assert await found(database, "word", agent=child.id) == [own, early]
    assert await found(database, "word", agent=root.id) == [late, early]
    assert (await database.search("own")).hits[0].agent == "child"
    with pytest.raises(Rejected, match="no such agent"):
        await database.search("word", agent="00000000-0000-0000-0000-000000000000")


async def test_fork_finds_what_is_before_many_later_events_of_its_parent(database: Database):
    root = await database.agents.create()
    early, *_ = await said(database, "common", *(f"common {n}" for n in range(20)), agent=root)
    child = await database.agents.create(parent=root.id, forked_at=early)
    (own,) = await said(database, "common own", agent=child)
    assert await found(database, "common", agent=child.id) == [own, early]
    await joined(database)
    assert await found(database, "common", agent=child.id) == [own, early]


async def test_hits_of_a_segment_that_come_a_few_at_a_time(database: Database, monkeypatch: pytest.MonkeyPatch):
    """None is left out or told twice, whatever else the newest pieces are."""
    one, other = await database.agents.create(), await database.agents.create()
    long = " ".join(f"common word {n} that nowhere{n}" for n in range(8_000))  # many pieces
    texts = [long, *(f"common word that nowhere{n}" for n in range(30)), long]
    written = [await said(database, text, agent=(one, other)[n % 2]) for n, text in enumerate(texts)]
    every = [id for (id,) in written][::-1]
    for at_once in (lookup.MAX_AT_ONCE, 1):
        monkeypatch.setattr(lookup, "MAX_AT_ONCE", at_once)
        for query in ("common", '"common word"', "common that nowhere*"):
            for limit in (1, 2, 7, 40):
                assert await found(database, query, limit=limit) == every[:limit]
                assert await found(database, query, limit=limit, agent=one.id) == every[1::2][:limit]
            assert await found(database, query, limit=3, before=every[5]) == every[6:9]
            assert await found(database, query, limit=9, since=time.time() + 60) == []


async def test_since_before_and_limit(database: Database, dsn: str):
    written = await said(database, *(f"day {n}" for n in range(30)))
    assert await found(database, "day", limit=3) == written[:-4:-1]
    assert await found(database, "day", limit=3, before=written[5]) == [written[4], written[3], written[2]]
    assert await found(database, "day", limit=0) == []
    assert await found(database, "day", since=time.time() - 60, limit=100) == written[::-1]
    assert await found(database, "day", since=time.time() + 60) == []


async def test_relevance(database: Database):
    best, *others = await said(database, "apple tart: apple, apple", "x " * 900 + "apple tartan", "an applet, a tart")
    assert await found(database, "apple tart") == [others[1], others[0], best]
    assert await found(database, "apple tart", order="relevance") == [best, others[1], others[0]]
    assert await found(database, "apple tart", order="relevance", limit=1) == [best]


async def test_four_megabytes_are_taken_in_pieces(database: Database, dsn: str):
    needle = "needle in the haystack"
    text = f"{'straw ' * 300_000} {needle} {'日本語テキスト' * 100_000} endword"
    began = time.monotonic()
    (id,) = await said(database, text)
    stored = time.monotonic() - began
    steps = 0
    while await database.indexer.index_some():
        steps += 1
    assert steps > 2 and stored < 25
    assert await found(database, f'"{needle}"') == await found(database, "endword") == [id]
    pieces = sorted((document.start, document.length) for document in documents(dsn))
    assert len(pieces) > 130 and max(len(text[at : at + length].encode()) for at, length in pieces) <= 1 << 16
    assert all(after < at + length for (at, length), (after, _) in pairwise(pieces)), "nothing is left out"
    (hit,) = (await database.search(f'"{needle}"')).hits
    assert needle in hit.snippet.text and len(hit.snippet.text) < 250


async def test_words_at_the_edges_of_pieces(database: Database):
    words = [f"w{n:05}" for n in range(40_000)]
    (id,) = await said(database, " ".join(words))
    for n in range(1, 40_000, 997):
        assert await found(database, f'"{words[n - 1]} {words[n]}"') == [id], words[n]


async def test_index_is_filled_behind_the_append(database: Database, dsn: str):
    talk = await Talk.open(database)
    await talk.turn("first words")
    assert documents(dsn) == []
    running = asyncio.create_task(database.indexer.run())
    try:
        until = time.monotonic() + 60
        for count in (2, 4):
            while len(documents(dsn)) != count:
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            await talk.turn("second words")
    finally:
        running.cancel()


async def test_locked_or_broken_index_hinders_no_append(database: Database, dsn: str):
    talk = await Talk.open(database)
    with psycopg.connect(dsn) as other:
        other.execute(
            "lock table search_postings, search_segments, search_figures, search_progress in access exclusive mode"
        )
        began = time.monotonic()
        await talk.turn("while it is locked")
        assert time.monotonic() - began < 23
    with psycopg.connect(dsn) as other:
        other.execute("drop table search_postings, search_segments, search_figures, search_progress")
    await talk.turn("while it is gone")
    assert (await talk.reloaded()).open is None


async def test_search_goes_on_while_another_program_has_the_index_locked_for_long(database: Database, dsn: str):
    written = await said(database, "first word")
    assert await found(database, "word") == written
    await said(database, "second word")
    async with database._beside.use() as cursor:
        await cursor.execute("set lock_timeout = '100ms'")
    with psycopg.connect(dsn) as other:
        other.execute("select from search_figures for update")
        result = await database.search("word")
        assert ids(result) == written and result.behind == 1
    assert len(await found(database, "word")) == 2


async def test_slow_transactions_are_not_missed(database: Database, dsn: str):
    """Ids are drawn before others commit: a number over all agents would leave the slower one behind."""
    slow, fast = [await database.agents.create() for _ in range(2)]
    await database.open_agent(slow)  # who appends holds the write lock
    with psycopg.connect(dsn) as other:
        ((early,),) = other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content)"
            " values (gen_random_uuid(), %s, 1, 'user', 'slow word') returning id",
            (slow.id,),
        ).fetchall()
        (late,) = await said(database, "fast word", agent=fast)
        assert early < late and await found(database, "word") == [late]
        other.commit()
    assert await found(database, "word") == [late, early]


async def test_several_programs_fill_it_at_once(database: Database, dsn: str):
    written: list[int] = []
    for n in range(6):
        written += await said(database, *(f"word{n} common {m}" for m in range(150)))
    others = [await Database.open(dsn, MIGRATIONS) for _ in range(4)]

    async def fill(database: Database) -> int:
        taken = 0
        while some := await database.indexer.index_some():
            taken += some
        return taken

    assert sum(await asyncio.gather(*map(fill, others))) == len(written)
    assert sorted(document.message for document in documents(dsn)) == written
    assert await found(database, "common", limit=1000) == written[::-1]
    for each in others:
        await each.close()


async def test_each_search_gets_beyond_an_event(database: Database, monkeypatch: pytest.MonkeyPatch):
    written = await said(database, *(f"common {n} => {'x ' * 20_000}" for n in range(30)))
    monkeypatch.setattr(lookup, "SEARCH_TIMEOUT", -1.0)
    before, asked = written[-1] + 1, 0
    while (reached := (await database.search('"nowhere" => common', before=before)).reached) is not None:
        assert reached < before
        before, asked = reached, asked + 1
    assert asked < 30


async def test_hits_are_the_same_before_and_behind_each_join(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    join_small(monkeypatch)
    written: list[int] = []
    agents = [await database.agents.create() for _ in range(2)]
    joins = 0
    for n in range(12):
        texts = f"common n{n} needle{n} xx{n}yy", f"common dull {chr(0x4E00 + n)}\u672c"
        written += await said(database, *texts, agent=agents[n % 2])
        await database.indexer.catch_up(60)
        for _ in range(2):
            assert await found(database, "common", limit=100) == written[::-1]
            assert await found(database, "common", limit=5) == written[:-6:-1]
            assert await found(database, "common", limit=3, before=written[n]) == written[:n][:-4:-1]
            dull = [id for place, id in enumerate(written) if place % 4 == 1]
            assert await found(database, "dull common", limit=2, agent=agents[0].id) == dull[:-3:-1]
            for m in range(n + 1):
                one = 2 * (n if m == 1 and n >= 10 else m)
                assert await found(database, f"needle{m}", limit=1) == [written[one]]
                assert await found(database, f"*x{m}y*") == [written[2 * m]]
                assert await found(database, f"{chr(0x4E00 + m)}\u672c") == [written[2 * m + 1]]
            assert await found(database, "*eedl*", limit=100) == written[-2::-2]
            assert await found(database, "common mark", limit=100) == await found(database, "=>", limit=100) == []
            joins += await database.indexer.join_some()
    assert joins > 5 and segments(dsn) == [(0, 23)]
    (more,) = await said(database, "an unseen word")
    assert await found(database, "*nsee*") == [more]


async def test_search_within_an_agent_asks_only_where_it_is(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)
    one, other = await database.agents.create(), await database.agents.create()
    written: list[int] = []
    for n in range(12):
        written += await said(database, f"common place{n}", agent=one if n in (3, 7) else other)
        await database.indexer.catch_up(60)
    child = await database.agents.create(parent=one.id, forked_at=written[3])
    written += await said(database, "common place12", agent=child)
    assert await found(database, "common", limit=100) == written[::-1]
    asked: list[int] = []
    look_up = lookup.Lookup._look_up

    async def noting(run: lookup.Lookup, segments: Sequence[Any]) -> None:
        asked.extend(segment.first for segment in segments)
        await look_up(run, segments)

    monkeypatch.setattr(lookup.Lookup, "_look_up", noting)
    for agent, where in ((one, [7, 3]), (child, [12, 3]), (other, [11, 10, 9, 8, 6, 5, 4, 2, 1, 0])):
        absent = next(n for n in range(12) if n not in {*where, 7})
        for query, hits in (("common", [written[n] for n in where]), (f'"place{absent}"', [])):
            asked.clear()
            assert await found(database, query, agent=agent.id) == hits
            assert {*asked} <= {*where, 7} and asked, "an ancestor's later segments may be asked"
    asked.clear()
    assert await found(database, '"nowhere"') == await found(database, "*nowhere*") == [] and not asked
    assert await found(database, "common", agent=other.id, before=written[5]) == [written[n] for n in (4, 2, 1, 0)]
    assert await found(database, "common", agent=other.id, since=time.time() + 60) == []


async def test_older_events_that_are_indexed_later_are_shown_in_their_place(database: Database, dsn: str):
    slow, written = await database.agents.create(), list[int]()
    await database.open_agent(slow)
    with psycopg.connect(dsn) as late:
        for n in range(20):
            if n == 3:
                insert = (
                    "insert into messages (event_id, agent_id, seq, kind, content)"
                    " values (gen_random_uuid(), %s, 1, 'user', 'common late') returning id"
                )
                written += [id for (id,) in late.execute(insert, (slow.id,)).fetchall()]
            else:
                written += await said(database, f"common {n}")
        await joined(database)
        late.commit()
    for _ in range(2):
        assert await found(database, "common", limit=100) == written[::-1]
        assert await found(database, "common", limit=2, before=written[5]) == [written[4], written[3]]
        assert await found(database, "late") == [written[3]]
        await joined(database)


async def test_hits_of_many_segments_are_read_together(database: Database, monkeypatch: pytest.MonkeyPatch):
    reads: list[int] = []
    read = lookup.Lookup._read

    async def count_reads(run: lookup.Lookup, places: Sequence[lookup.Place]):
        reads.append(len(places))
        return await read(run, places)

    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)
    written = list[int]()
    for _ in range(60):
        written += await said(database, "words far apart", "far from apart", "and far apart again")
        await database.indexer.catch_up(60)
    phrases = [id for n, id in enumerate(written) if n % 3 != 1]
    monkeypatch.setattr(lookup.Lookup, "_read", count_reads)
    assert await found(database, '"far apart"', limit=1_000) == phrases[::-1]
    assert len(reads) <= 3, reads
    reads.clear()
    assert await found(database, '"far apart"', limit=9) == phrases[:-10:-1]
    assert len(reads) <= 3 and sum(reads) <= 40, reads


async def test_long_event_is_shown_by_its_first_hit_however_few_are_wanted(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    (id,) = await said(database, "common first " + "common next " * 8_000)
    for most in (lookup.MAX_SKIPPED_CHARACTERS, 1):  # all pieces read at once, and one by one
        monkeypatch.setattr(lookup, "MAX_SKIPPED_CHARACTERS", most)
        (hit,) = (await database.search("common", limit=1)).hits
        assert hit.id == id and hit.snippet.text.startswith("common first")
        assert await found(database, '"next common"') == [id] and await found(database, '"nowhere next"') == []


async def test_joins_use_the_room_that_joins_left(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch):
    """The table stays about as large as its rows, however often they are written anew."""
    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)  # filling joins none
    with psycopg.connect(dsn, autocommit=True) as other:
        # Only joins free the room here, as on a server that is slower to it than they are.
        other.execute("alter table search_postings set (autovacuum_enabled = false)")
        for _ in range(24):
            await said(database, *(f"harbor {n} " + " ".join(f"w{n}x{each}" for each in range(40)) for n in range(9)))
            await joined(database)
        size = "select pg_relation_size('search_postings')"
        ((before,),) = other.execute(size).fetchall()
        other.execute("vacuum full search_postings")
        ((after,),) = other.execute(size).fetchall()
    assert before <= 3 * after, (before, after)


async def test_ephemeral_agent_is_purged_while_its_segment_is_joined(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    """Neither waits for what the other one has locked."""
    join_small(monkeypatch)
    agent = await database.agents.create(ephemeral=True)
    left: list[int] = []
    for n in range(4):
        await said(database, f"gone{n} secretly", agent=agent)
        left += await said(database, f"left{n} openly")
        await database.indexer.catch_up(60)
    joining = asyncio.create_task(joined(database))
    assert await database.purge_ephemeral(0.0) == [agent.id]
    await joining
    assert len(segments(dsn)) == 1
    assert await found(database, "openly") == left[::-1] and await found(database, "secretly") == []
    with psycopg.connect(dsn) as other:
        for table, column in (("search_postings", "words"), ("search_vocabulary", "word")):
            assert not other.execute(f"select from {table} where {column} ~ 'gone|secret'".encode()).fetchall()


async def test_there_is_no_time(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch):
    written = await said(database, *(f"common {n}" for n in range(500)))
    monkeypatch.setattr("ikigai.store.search.search.CATCH_UP_SECONDS", 0.0)
    result = await database.search("common")
    assert result.behind == 500 and result.hits == ()
    assert await database.indexer.catch_up(60) == 0
    monkeypatch.setattr(lookup, "SEARCH_TIMEOUT", -1.0)
    result = await database.search('"common" =>')
    assert result.hits == () and result.reached and written[0] < result.reached <= written[-1]


async def test_database_that_can_only_be_read(database: Database, dsn: str):
    (id,) = await said(database, "indexed words")
    assert await found(database, "words") == [id]
    await said(database, "later words")
    reading = await Database.open(dsn, MIGRATIONS, write=False)
    result = await reading.search("words")
    assert ids(result) == [id] and result.behind == 1
    await reading.close()


async def test_around(database: Database):
    agent = await database.agents.create("walker")
    written = await said(database, *(f"step {n}" for n in range(9)), ev.UsageReported("a/b"), agent=agent)
    await said(database, "of another")
    name, events = await database.neighbors(written[4], 2, 3)
    assert name == "walker" and [event.id for event in events] == written[2:8]
    assert [event.id for event in (await database.neighbors(written[9], 1, 1))[1]] == written[8:10]
    for id in (0, -1, 10**17, 2**63):
        with pytest.raises(Rejected, match=f"no event #{id}"):
            await database.neighbors(id)


async def test_no_plan_depends_on_how_common_a_word_is(dsn: str, monkeypatch: pytest.MonkeyPatch):
    """Every look-up goes by the keys of blocks, also where nothing has been analyzed."""
    monkeypatch.setattr(postings, "BLOCK_BYTES", 100)
    monkeypatch.setattr(word_index, "DOCUMENTS_PER_ROW", 5)
    database = await Database.open(address(dsn), MIGRATIONS)
    await said(database, *(f"common word number{n} numbered{n}" for n in range(3_000)))
    assert await database.indexer.catch_up(60) == 0
    keys = {"lows": ["common", "number5"], "highs": ["common", "number5z"], "parts": ["common", "number5"]}
    agents = {"agents": None, "since": None}
    statements: tuple[tuple[str, Any, str], ...] = (
        (search.BLOCKS, {"segments": [1], **keys}, "Index Scan using search_postings_pkey"),
        (search.POSTINGS, (["common", "number"],), "Index Scan using search_postings_pkey"),
        (search.DOCUMENTS_AT, ([7],), "Index Scan Backward using search_documents_pkey"),
        (search.DOCUMENTS_BESIDE, ([0],), "using search_documents_agent"),
        (search.DOCUMENTS_BETWEEN, {"first": 0, "last": 9, "before": 9, **agents}, "search_documents_pkey"),
    )
    with psycopg.connect(dsn) as other:
        other.execute("set enable_bitmapscan = off")
        for analyzed in (False, True):
            if analyzed:
                other.execute("analyze search_postings, search_documents, search_segments, search_vocabulary")
            for statement, values, wanted in statements:
                plan = "\n".join(line for (line,) in other.execute("explain " + statement, values).fetchall())
                assert wanted in plan and "Seq Scan on search_postings" not in plan, plan
    await database.close()
