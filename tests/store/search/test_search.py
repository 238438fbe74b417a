"""Searching the real database: everything that was said is found, and nothing waits for the index."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest

from ikigai.core import events as ev
from ikigai.core.errors import Rejected
from ikigai.core.messages import Citation, Text, ToolCall, ToolResult
from ikigai.core.transfer.redact import PurgeTarget
from ikigai.store.agents import Agent
from ikigai.store.database import Database
from ikigai.store.driver_connection import Cursor
from ikigai.store.search import lookup, packer, word_keys
from ikigai.store.search.pack_lookup import BLOCKS_AHEAD, IndexPart, PackLookup, Place
from ikigai.store.search.search import SearchResult
from ikigai.store.sql import purge, word_packs
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


async def packed(database: Database) -> None:
    """Pack all segments that the ids have left behind, and merge the packs."""
    while await database.indexer.packer.pack_some():
        pass
    while await database.indexer.packer.merge_some():
        pass


def segments(dsn: str) -> list[int]:
    """The segments that are not packed, or not all of them."""
    with psycopg.connect(dsn) as other:
        return [n for (n,) in other.execute("select segment from search_segments order by 1").fetchall()]


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


async def test_pages_of_replies_are_found_in_packs_and_where_a_purge_took_a_pack(database: Database, dsn: str):
    page = Citation("https://example.org/report-4711", "Walrus census")
    _, reply, silent, *_ = await said(
        database,
        "a canary",
        ev.AssistantMessage((Text("It is new.", (page,)),)),
        ev.AssistantMessage((Text("", (page,)),)),
        ev.AssistantMessage((Text("", (Citation("https://other.org", "seal " * 4_000 + "farend"),)),)),
        ev.AssistantMessage((Text(""),)),
    )
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
    await said(database, "behind")
    for _ in range(2):
        await database.indexer.words.catch_up(60)
        await packed(database)
        assert segments(dsn) == [1]
        assert await found(database, "walrus") == await found(database, '"report-4711"') == [silent, reply]
        assert await found(database, "farend") == [silent + 1]
        purge = database.purge(PurgeTarget("canary"), ((0, 1 << 62),))
        await purge.carry_out(await purge.find())
        if segments(dsn) == [0, 1]:
            assert await found(database, "walrus") == [silent, reply]
            assert await found(database, "farend") == [silent + 1]
            assert await found(database, "canary") == await found(database, "=>") == []


async def test_packs_of_an_earlier_version_are_made_anew_where_pages_are_cited(database: Database, dsn: str):
    page = Citation("https://example.org/report-4711", "Walrus census")
    _, reply = await said(database, "a canary", ev.AssistantMessage((Text("It is new.", (page,)),)))
    for segment in (1, 2):
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (segment << 14,))
        await said(database, "behind", ev.AssistantMessage((Text("no pages"),)))
    pages, content = word_packs.SEARCHED_TEXT, "content"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(word_packs, "INDEXED_EVENTS", word_packs.INDEXED_EVENTS.replace(pages, content))
        await database.indexer.words.catch_up(60)
        await packed(database)
    made = "select number, xmin::text from search_packs where level = 0 and has_pages order by 1"
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("update search_packs set has_pages = false")
        assert await found(database, "walrus") == []
        assert not other.execute(made).fetchall()
        steps = 0
        while await database.indexer.packer.pack_some():
            steps += 1
            assert await found(database, "canary") == [reply - 1] and len(await found(database, "behind")) == 2
        assert await found(database, "walrus") == [reply] and segments(dsn) == [2]
        assert steps == 2 + 2, "a look at each pack, and one is made: a step reads, and one stores"
        assert [number for number, _ in other.execute(made).fetchall()] == [0, 1]
        before = other.execute(made).fetchall()
        assert not await database.indexer.packer.pack_some()
        assert other.execute(made).fetchall() == before


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


async def test_fork_finds_what_is_before_many_later_events_of_its_parent(database: Database, dsn: str):
    root = await database.agents.create()
    early, *_ = await said(database, "common", *(f"common {n}" for n in range(20)), agent=root)
    child = await database.agents.create(parent=root.id, forked_at=early)
    (own,) = await said(database, "common own", agent=child)
    assert await found(database, "common", agent=child.id) == [own, early]
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
    await said(database, "behind")
    await database.indexer.words.catch_up(60)
    await packed(database)
    assert segments(dsn) == [1] and await found(database, "common", agent=child.id) == [own, early]


async def test_hits_of_a_segment_that_come_a_few_at_a_time(database: Database, dsn: str):
    """None is left out or told twice, whatever else the newest pieces are."""
    one, other = await database.agents.create(), await database.agents.create()
    long = " ".join(f"common word {n} that nowhere{n}" for n in range(8_000))  # many pieces
    texts = [long, *(f"common word that nowhere{n}" for n in range(30)), long]
    written = [await said(database, text, agent=(one, other)[n % 2]) for n, text in enumerate(texts)]
    every = [id for (id,) in written][::-1]
    for is_packed in (False, True):
        if is_packed:
            with psycopg.connect(dsn) as admin:
                admin.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
            await said(database, "behind")
            await database.indexer.words.catch_up(60)
            await packed(database)
            assert segments(dsn) == [1]
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
    with psycopg.connect(dsn) as other:
        pieces = other.execute("select start, length from search_pieces order by start").fetchall()
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
    with psycopg.connect(dsn) as other:
        assert other.execute("select count(*) from search_pieces").fetchall() == [(0,)]
        running = asyncio.create_task(database.indexer.run())
        try:
            until = time.monotonic() + 60
            while other.execute("select count(*) from search_pieces").fetchall() != [(2,)]:
                other.rollback()
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            await talk.turn("second words")
            while other.execute("select count(*) from search_pieces").fetchall() != [(4,)]:
                other.rollback()
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
        finally:
            running.cancel()


async def test_locked_or_broken_index_hinders_no_append(database: Database, dsn: str):
    talk = await Talk.open(database)
    with psycopg.connect(dsn) as other:
        other.execute("lock table search_pieces, search_segments, search_progress in access exclusive mode")
        began = time.monotonic()
        await talk.turn("while it is locked")
        assert time.monotonic() - began < 23
    with psycopg.connect(dsn) as other:
        other.execute("drop table search_pieces, search_segments, search_progress")
    await talk.turn("while it is gone")
    assert (await talk.reloaded()).open is None


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
        while some := await database.indexer.words.index_some():
            taken += some
        return taken

    assert sum(await asyncio.gather(*map(fill, others))) == len(written)
    with psycopg.connect(dsn) as other:
        assert other.execute("select count(*), count(distinct message) from search_pieces").fetchall() == [
            (len(written), len(written))
        ]
    assert await found(database, "common", limit=1000) == written[::-1]
    for each in others:
        await each.close()


async def test_long_event_is_searched_in_time_where_a_purge_took_its_pack(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    """It is read once: a step for each of its pieces would unpack all of it each time."""
    filling = "filling " * 2_000
    long = f"{filling * 10}sealed{' ' * 9_000}{filling * 60} farend"
    _, event, later = await said(database, "a canary", f"a {long}", "sealed")
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
    await said(database, "behind")
    await database.indexer.words.catch_up(60)
    await packed(database)
    assert await found(database, "sealed") == [later, event]
    purge = database.purge(PurgeTarget("canary"), ((0, 1 << 62),))
    await purge.carry_out(await purge.find())
    assert segments(dsn) == [0, 1]
    read = list[int]()
    texts = lookup.read_texts

    async def counted(*which: Any) -> list[lookup.PieceRow]:
        rows = await texts(*which)
        read.extend(row.id for row in rows)
        return rows

    monkeypatch.setattr(lookup, "read_texts", counted)
    assert await found(database, "farend") == [event] and await found(database, "sealed") == [later, event]
    assert await found(database, "farend canary") == await found(database, "sealed farend") == []
    assert read.count(event) == 2 + 2 * 2, "once a search; where nothing is found, once more for parts of words"
    (hit,) = (await database.search("farend")).hits
    assert hit.snippet.text.endswith("filling farend")
    monkeypatch.setattr(lookup, "SEARCH_TIMEOUT", -1.0)
    reached = (await database.search("farend", before=event + 1)).reached
    assert reached is None or reached <= event, "each search gets beyond an event"


async def test_many_segments_of_ids(database: Database, dsn: str):
    written: list[int] = []
    agent = await database.agents.create()
    log = await database.open_agent(agent)
    for n in range(12):
        texts = [ev.UserMessage(f"common n{n} needle{n} xx{n}yy"), ev.UserMessage("common dull")]
        written += [row.id for row in (await log.append(texts)).rows]
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((n + 1) << 14,))
    await log.close()
    for _ in range(2):
        assert await found(database, "common", limit=100) == written[::-1]
        assert await found(database, "common", limit=5) == written[:-6:-1]
        assert await found(database, "common", limit=5, before=written[7]) == written[6:1:-1]
        for n in range(12):
            assert await found(database, f"needle{n}", limit=1) == [written[2 * (11 if n == 1 else n)]]
            assert await found(database, f"*x{n}y*") == [written[2 * n]]
            assert (await database.search(f"x{n}y")).widened
        assert await found(database, "*eedl*", limit=100) == written[-2::-2]
        assert await found(database, "=>", limit=100) == []
        await packed(database)
        assert segments(dsn) == [11], "all but the last"
    (more,) = await said(database, "an unseen word", agent=agent)
    assert await found(database, "*nsee*") == [more]


async def test_search_within_an_agent_asks_only_where_it_is(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    one, other = await database.agents.create(), await database.agents.create()
    written: list[int] = []
    for n in range(12):
        written += await said(database, f"common place{n}", agent=one if n in (3, 7) else other)
        with psycopg.connect(dsn) as admin:
            admin.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((n + 1) << 14,))
    child = await database.agents.create(parent=one.id, forked_at=written[3])
    written += await said(database, "common place12", agent=child)
    assert await found(database, "common", limit=100) == written[::-1]
    await packed(database)
    asked: list[int] = []
    read = PackLookup._read_places

    async def noting(run: PackLookup, numbers: Sequence[tuple[IndexPart, set[int] | None]], most: int) -> None:
        asked.extend(part.number for part, found in numbers if found)
        await read(run, numbers, most)

    monkeypatch.setattr(PackLookup, "_read_places", noting)
    for agent, where in ((one, [7, 3]), (child, [12, 3]), (other, [11, 10, 9, 8, 6, 5, 4, 2, 1, 0])):
        for query, hits in (("common", [written[n] for n in where]), ('"nowhere"', [])):
            asked.clear()
            assert await found(database, query, agent=agent.id) == hits
            assert sorted(asked) == sorted(word_keys.segment_of(written[n]) for n in where if hits and n < 12)
    assert await found(database, "common", agent=other.id, before=written[5]) == [written[n] for n in (4, 2, 1, 0)]
    assert await found(database, "common", agent=other.id, since=time.time() + 60) == []


async def test_packed_segment_that_grows_is_packed_anew(database: Database, dsn: str):
    slow = await database.agents.create()
    await database.open_agent(slow)
    with psycopg.connect(dsn) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content)"
            " values (gen_random_uuid(), %s, 1, 'user', 'xlatex')",
            (slow.id,),
        )
        await said(database, "xearlyx")
        with psycopg.connect(dsn) as third:
            third.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 18,))
        await said(database, "behind")
        await database.indexer.words.catch_up(60)
        await packed(database)
        assert len(await found(database, "*earl*")) == 1 and await found(database, "*late*") == []
        assert segments(dsn) == [16]
        other.commit()
    assert len(await found(database, "*late*")) == len(await found(database, "xlatex")) == 1
    assert segments(dsn) == [0, 16]
    await packed(database)
    assert segments(dsn) == [16]
    for query in ("*late*", "xlatex", "xearlyx"):
        assert len(await found(database, query)) == 1


async def test_segment_that_is_indexed_after_its_neighbors_were_merged_joins_them(database: Database, dsn: str):
    """Its words are in no larger pack, and later packs are merged as before."""
    slow, written = await database.agents.create(), list[int]()
    await database.open_agent(slow)
    with psycopg.connect(dsn) as late:
        for n in range(20):
            with psycopg.connect(dsn) as other:
                other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((n << 14) + 1,))
            if n == 3:
                insert = (
                    "insert into messages (event_id, agent_id, seq, kind, content)"
                    " values (gen_random_uuid(), %s, 1, 'user', 'common late') returning id"
                )
                written += [id for (id,) in late.execute(insert, (slow.id,)).fetchall()]
            else:
                written += await said(database, f"common {n}")
            if n == 10:
                await database.indexer.words.catch_up(60)
                await packed(database)
        late.commit()
    await database.indexer.words.catch_up(60)
    await packed(database)
    assert await found(database, "common", limit=100) == written[::-1]
    assert await found(database, "late") == [written[3]]
    with psycopg.connect(dsn) as other:
        tops = other.execute("select level, number from search_packs where not is_covered order by 1, 2").fetchall()
    assert tops == [(0, 16), (0, 17), (0, 18), (1, 0), (1, 1)]


async def test_every_shape_of_query_in_a_packed_segment(database: Database, dsn: str):
    """Hits do not depend on how the index keeps words."""
    written = await said(database, *TEXTS, "unspaced 日本", "x " * 20_000 + "farend")
    queries = [
        "fox",
        '"fox"',
        "*fox*",
        "首都",
        "j",
        "the",
        "to be or",
        "%",
        "=>",
        "c++",
        "nothing",
        "u*",
        "farend",
        "xfo",
    ]
    before = [await database.search(query, limit=100) for query in queries]
    within = await found(database, "fox", before=written[6], kinds=["user"], since=time.time() - 600)
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 20,))
    await said(database, "behind")
    assert (await database.status()).search_unpacked == 1
    await database.indexer.words.catch_up(60)
    await packed(database)
    assert segments(dsn) == [64] and (await database.status()).search_unpacked == 0
    with psycopg.connect(dsn) as other:
        assert other.execute("select count(*) from search_pieces").fetchall() == [(1,)]
        levels = other.execute("select level from search_packs where is_complete order by 1").fetchall()
    assert levels == [(0,), (1,), (2,)], "as far as the ids have moved on"
    for query, result in zip(queries, before, strict=True):
        now = await database.search(query, limit=100)
        assert now.hits == result.hits, query
    assert within == await found(database, "fox", before=written[6], kinds=["user"], since=time.time() - 600)
    assert await found(database, "fox", since=time.time() + 60) == await found(database, "fox", kinds=["mark"]) == []


async def test_words_are_found_through_packs_of_all_levels(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    """By as many statements however many levels there are, and all of them where they fill several blocks."""
    reads: list[int] = []
    blocks = PackLookup._blocks

    async def count_reads(self: PackLookup, parts: Sequence[IndexPart]):
        reads[-1] += any((part.level, part.number) not in self._ahead for part in parts)
        return await blocks(self, parts)

    only, many = list[int](), list[int]()
    for n in range(3):
        only += await said(database, f"only{n}")
        many += await said(database, *(" ".join(f"many{n}x{m}y{k}" for k in range(60)) for m in range(60)))
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((9 * n + 1) << 14,))
    for top in (1, 2, 3):
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((1 << 14 + 3 * top) + 5,))
        newest = await said(database, "behind")
        await database.indexer.words.catch_up(60)
        await packed(database)
        reads.append(0)
        monkeypatch.setattr(PackLookup, "_blocks", count_reads)
        assert await found(database, "only0") == only[:1]
        monkeypatch.undo()
        assert await found(database, "many", limit=1_000) == many[::-1]
        assert await found(database, "behind", limit=1) == newest
    with psycopg.connect(dsn) as other:
        levels = other.execute("select distinct level from search_packs where is_complete order by 1").fetchall()
        of_prefix = "select count(*) from search_blocks where first between 'many0' and 'many9' and level = 3"
        ((several,),) = other.execute(of_prefix).fetchall()
    assert levels == [(0,), (1,), (2,), (3,)] and several > BLOCKS_AHEAD
    assert reads[0] == reads[-1], reads


async def test_hits_of_many_segments_are_read_together(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch):
    """As many segments are asked at once as the other hits are likely to be in."""
    reads: list[int] = []
    read_texts = lookup.read_texts

    async def count_reads(cursor: Cursor, places: Sequence[Place], which: lookup.SearchScope):
        reads.append(len(places))
        return await read_texts(cursor, places, which)

    written = list[int]()
    for n in range(60):
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((n << 14) + 5,))
        written += await said(database, "words far apart", "far from apart", "and far apart again")
    phrases = [id for n, id in enumerate(written) if n % 3 != 1]
    for is_packed in (False, True):
        if is_packed:
            with psycopg.connect(dsn) as other:
                other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 22,))
            await said(database, "behind")
            await database.indexer.words.catch_up(60)
            await packed(database)
        monkeypatch.setattr(lookup, "read_texts", count_reads)
        reads.clear()
        assert await found(database, '"far apart"', limit=1_000) == phrases[::-1]
        assert len(reads) <= 8, reads
        reads.clear()
        assert await found(database, '"far apart"', limit=9) == phrases[:-10:-1]
        assert len(reads) <= 3 and sum(reads) <= 40, reads
        monkeypatch.undo()


async def test_long_event_is_shown_by_its_first_hit_however_few_are_wanted(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    (id,) = await said(database, "common first " + "common next " * 8_000)
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
    await said(database, "behind")
    for most in (lookup.MAX_SKIPPED_CHARACTERS, 1):  # all pieces read at once, and one by one
        monkeypatch.setattr(lookup, "MAX_SKIPPED_CHARACTERS", most)
        (hit,) = (await database.search("common", limit=1)).hits
        assert hit.id == id and hit.snippet.text.startswith("common first")
        assert await found(database, '"next common"') == [id] and await found(database, '"nowhere next"') == []
        await packed(database)
        assert segments(dsn) == [1]


async def test_packing_goes_on_where_a_killed_program_left_it(database: Database, dsn: str):
    """Whatever step was the last one: nothing is lost, and nothing is found twice."""
    written: list[int] = []
    for n in range(9):
        written += await said(database, *(f"common n{n}x{m}" for m in range(50)))
        with psycopg.connect(dsn) as other:
            other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", ((n + 1) << 14,))
    await database.indexer.words.catch_up(60)
    going = True
    while going:
        short = await Database.open(dsn, MIGRATIONS)
        for _ in range(2):  # a step that reads a segment, and the one that stores it
            going = await short.indexer.packer.pack_some() or await short.indexer.packer.merge_some()
        await short._beside.close()  # as when it is killed: its locks go with the connection
        await short.close()
        assert await found(database, "common", limit=1_000) == written[::-1]
        assert len(await found(database, "n3x7", limit=100)) == 1 and await found(database, '"nowhere"') == []
    assert segments(dsn) == [8]


async def test_rewriting_leaves_the_timeouts_of_the_connection(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(packer, "MAX_PIECES_BYTES", 0)
    await said(database, "a word")
    await database.indexer.words.catch_up(60)

    async def timeouts() -> list[tuple[str, str]]:
        async with database._beside.use() as cursor:
            await cursor.execute("select current_setting('statement_timeout'), current_setting('lock_timeout')")
            return await cursor.fetchall()

    with psycopg.connect(dsn, autocommit=True) as other:
        file = "select pg_relation_filenode('search_pieces')"
        before, rules = other.execute(file).fetchall(), await timeouts()
        await database.indexer.packer.rewrite()
        assert other.execute(file).fetchall() != before and await timeouts() == rules == [("15s", "5s")]


async def test_table_of_stems_is_rewritten_when_it_is_mostly_room(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(packer, "MIN_LOOSE_BYTES", 100_000)
    monkeypatch.setattr(packer, "REWRITE_INTERVAL", 0.0)
    (id,) = await said(database, "harbors")
    while await database.indexer.index_some():
        pass
    with psycopg.connect(dsn, autocommit=True) as other:

        async def is_rewritten(change: str) -> bool:
            file = "select pg_relation_filenode('recall_postings'), pg_relation_filenode('search_pieces')"
            (before,) = other.execute(file).fetchall()
            other.execute(change.encode())
            other.execute("vacuum (analyze) recall_postings")
            await database.indexer.packer.rewrite()
            (after,) = other.execute(file).fetchall()
            assert after[1] == before[1]
            return after[0] != before[0]

        filled = "insert into recall_postings select 'zz' || n, -1, '' from generate_series(1, 20000) as n"
        assert not await is_rewritten(filled), "all of it are rows"
        assert not await is_rewritten("delete from recall_postings where stem like 'zz___'"), "most of it are"
        assert await is_rewritten(
            "delete from recall_postings where stem like 'zz%' and (stem < 'zz18' or stem > 'zz19')"
        )
        stored = other.execute("select stem from recall_postings order by ctid").fetchall()
        assert len(stored) > 1_000 and stored == sorted(stored), "those of a stem lie beside each other"
        assert not await is_rewritten("select")
    assert [turn.id for turn in (await database.recall("a harbor", limit=9)).turns] == [id]


async def test_ephemeral_agent_is_purged_while_its_segment_is_packed(database: Database, dsn: str):
    """Neither waits for what the other one has locked."""
    agent = await database.agents.create(ephemeral=True)
    await said(database, "gone", agent=agent)
    (left,) = await said(database, "left")
    with psycopg.connect(dsn) as other:
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), %s)", (1 << 14,))
    await said(database, "behind")
    await database.indexer.words.catch_up(60)
    assert await database.indexer.packer.pack_some(), "it is read"
    async with await psycopg.AsyncConnection.connect(dsn) as purging:
        await purging.execute(purge.PURGING)
        packing = None
        for statement in purge.PURGE_AGENTS_WHOLE:
            await purging.execute(statement, {"agents": [UUID(agent.id)]})
            if packing is None and "search_pieces" in statement:
                packing = asyncio.create_task(database.indexer.packer.pack_some())
                waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
                with psycopg.connect(dsn, autocommit=True) as other:
                    while not other.execute(waits).fetchall():
                        await asyncio.sleep(0.01)
    assert packing and await packing
    await packed(database)
    assert segments(dsn) == [1] and await found(database, "left") == [left] and await found(database, "gone") == []


async def test_there_is_no_time(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch):
    written = await said(database, *(f"common {n}" for n in range(500)))
    monkeypatch.setattr("ikigai.store.search.search.CATCH_UP_SECONDS", 0.0)
    result = await database.search("common")
    assert result.behind == 500 and result.hits == ()
    assert await database.indexer.words.catch_up(60) == 0
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


async def test_no_plan_depends_on_how_common_a_word_is(dsn: str):
    """Every look-up goes by the index of terms, also where nothing has been analysed."""
    plans: Sequence[str] = []
    database = await Database.open(address(dsn), MIGRATIONS)
    await said(database, *(f"common word number{n}" for n in range(3_000)))
    assert await database.indexer.words.catch_up(60) == 0
    queries = [f"'{word_keys.segment_prefix(0)}common'", f"'{word_keys.segment_prefix(0)}number5':*"]
    bounds = {"queries": queries, "befores": 2 * [2**63 - 1], "since": None, "most": 1000}
    with psycopg.connect(dsn) as other:
        for analysed in (False, True):
            if analysed:
                other.execute("analyze search_pieces")
            rows = other.execute("explain " + lookup.search.PROBE, bounds).fetchall()
            plans = [line for (line,) in rows]
            assert any("Bitmap Index Scan on search_terms" in line for line in plans), plans
    await database.close()
