"""Measure S8: any search in a million events, against a GIN probe that stops at 1,000 hits.

The probe for a common word is what PostgreSQL does best by itself: an index over `to_tsvector` of the log, 1,000 hits
in any order, the newest twenty of those. Both sides ask in turns. The log is a copy of the history the other rows use,
with one more event in fifty, in Japanese, and with both indexes; it is made once and kept beside it. The module also
measures how much filling the index slows the appends.
"""

import asyncio
import re
import sys
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from random import Random
from uuid import UUID

import psycopg
from psycopg import conninfo, sql

from ikigai.store.database import Database
from ikigai.store.sql import dump as queries
from tests.bench import histories
from tests.bench.figures import Figure, percentile
from tests.bench.generator import SEED
from tests.bench.histories import MIGRATIONS
from tests.bench.prose import Prose
from tests.bench.s03_append import WORDS, _Talk

COPY = "ikigai_search"
PROBE_INDEX = "create index if not exists bench_probe on messages using gin (to_tsvector('simple', content))"
PROBE = """
select id, left(content, 160) from (
  select id, content from messages where to_tsvector('simple', content) @@ 'the'::tsquery limit 1000
) probe order by id desc limit 20
"""
JAPANESE = "日本語東京都首学校先生時間会社電車水曜天気食事本当今年来月新聞読書山川海空花鳥風月"
KANA = "のにはをがでとものへ"
BLOCK = 300
"""Events in a row that are appended with, or without, a process that fills the index: more than a second's."""
CJK_AGENT = "chronicle-ja"


def measure(quick: bool) -> list[Figure]:
    events, rounds, appends = (20_000, 3, 60) if quick else (1_000_000, 40, 1_500)
    with searchable(events) as dsn:
        figures = asyncio.run(compare(dsn, rounds))
    with histories.empty() as dsn:
        return figures + asyncio.run(append(dsn, appends))


@contextmanager
def searchable(events: int) -> Iterator[str]:
    """Yield the DSN of a history with both indexes."""
    with histories.history(events) as (_, dsn, _), psycopg.connect(histories._beside(dsn), autocommit=True) as admin:
        copied = conninfo.make_conninfo(dsn, dbname=COPY)
        stamp = f"{histories._wanted(events)} searchable"
        told = "select shobj_description(oid, 'pg_database') from pg_database where datname = %s"
        if admin.execute(told, (COPY,)).fetchall() != [(stamp,)]:
            print("Making its index …", file=sys.stderr, flush=True)
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(COPY)))
            admin.execute(sql.SQL("create database {} template ikigai").format(sql.Identifier(COPY)))
            prepare(copied, events // 50)
            asyncio.run(index(copied))
            comment = sql.SQL("comment on database {} is {}")
            admin.execute(comment.format(sql.Identifier(COPY), sql.Literal(stamp)))
        yield copied


def prepare(dsn: str, japanese: int) -> None:
    """Add events in Japanese, with ids scattered among a few agents' at the end; and the index of the other side."""
    rng = Random(8)
    agent = asyncio.run(_agent(dsn))
    weights = list(accumulate(1 / (rank + 2) for rank in range(len(JAPANESE))))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        ((last,),) = connection.execute("select max(id) from messages").fetchall()
        with connection.cursor().copy(histories.COPY) as copy:
            for n in range(1, japanese + 1):
                text = "".join(
                    rng.choice(KANA) if rng.random() < 0.3 else JAPANESE[bisect(weights, rng.random() * weights[-1])]
                    for _ in range(rng.randint(10, 200))
                )
                event_id = UUID(int=(1 << 100) + n)
                copy.write_row((last + n, event_id, agent, n, "user", text, None, "2026-01-01T00:00:00Z"))
        connection.execute(queries.SET_IDENTITY)
        connection.execute("set maintenance_work_mem = '256MB'")
        connection.execute(PROBE_INDEX)
        connection.execute("vacuum (analyze) messages")


async def _agent(dsn: str) -> str:
    database = await Database.open(dsn, MIGRATIONS)
    try:
        return (await database.agents.create(CJK_AGENT)).id
    finally:
        await database.close()


async def index(dsn: str) -> None:
    """Fill the index of words, as the program does behind the log, without its pauses."""
    database = await Database.open(dsn, MIGRATIONS)
    try:
        while await database.indexer.index_some():
            pass
        while await database.indexer.join_some():
            pass
    finally:
        await database.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum (analyze)")


def shapes(dsn: str) -> dict[str, str]:
    """Return queries by shape."""
    names = Prose(Random(SEED))._names
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select content from messages where kind = 'tool_result' order by id limit 50")
        unique = next(found[1] for (text,) in rows if (found := re.search(r"# ([0-9a-f]{10})", text)))
    return {
        "unique word": unique,
        "rare word": next(name for name in names[15_000:] if len(name) > 6),
        "middling word": next(name for name in names[1_000:] if len(name) > 4),
        "common word": "the",
        "two letters": "qu",
        "one letter": "s",
        "two words": f"window {next(name for name in names[300:] if len(name) > 4)}",
        "two common words": "the message",
        "two words that never meet": f"{unique} the",
        "only stop words": "to be or",
        "phrase": '"error table"',
        "phrase of stop words": '"of the"',
        "part of words": "*indo*",
        "part of a unique word": f"*{unique[1:8]}*",
        "no word at all": "zzyzxq",
        "CJK": "東京都",
        "one CJK character": "鳥",
        "CJK that is nowhere": "鬱鬱",
    }


async def compare(dsn: str, rounds: int) -> list[Figure]:
    """Search every shape `rounds` times, newest first and by relevance, in turns with the probe."""
    asked = shapes(dsn)
    taken: dict[tuple[str, str], list[float]] = {}
    bases: list[float] = []
    cut: set[str] = set()
    database = await Database.open(dsn, MIGRATIONS)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for round in range(-1, rounds):
                for shape, query in asked.items():
                    for order in ("time", "relevance"):
                        began = time.perf_counter()
                        found = await database.search(query, order=order)
                        seconds = time.perf_counter() - began
                        if round >= 0:  # the first time fills the caches of the server
                            taken.setdefault((shape, order), []).append(seconds)
                        cut.update({shape} if found.reached is not None else ())
                    base = _timed(lambda: connection.execute(PROBE).fetchall())
                    bases += [base] if round >= 0 else []
    finally:
        await database.close()
    against = "GIN probe, 1,000 hits of a common word"
    figures = [
        Figure("S8", f"{shape}, by {order}, p99", "s", [percentile(times, 99)], against, bases, 1.5)
        for (shape, order), times in taken.items()
    ]
    cut_short = Figure("S8", "shapes that ran out of time", "of them", [len(cut)], "shapes", [len(asked)], 0.0)
    return [*figures, cut_short]


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


async def append(dsn: str, events: int) -> list[Figure]:
    """Measure S3's append while the program fills its index, and while it does not; block by block."""
    prose = Prose(Random(3))
    alone: list[float] = []
    beside: list[float] = []
    block = min(events, BLOCK)
    talk = await _Talk.open(dsn, 2 * (events + block) + 40)
    try:
        for _ in range(40):
            await talk.say(prose.text(WORDS))
        while len(beside) < events:
            alone += [await talk.say(prose.text(WORDS)) for _ in range(block)]
            filling = asyncio.create_task(talk.database.indexer.run())
            beside += [await talk.say(prose.text(WORDS)) for _ in range(block)]
            filling.cancel()
            await asyncio.wait({filling})
    finally:
        await talk.close()
    what = "one event while the index is filled"
    tail, base_tail = percentile(beside, 99), percentile(alone, 99)
    return [
        Figure("S8", what, "s", beside, "while nobody fills it", alone, 1.3),
        Figure("S8", f"{what}, p99", "s", [tail], "while nobody fills it, p99", [base_tail]),
        Figure("S8", f"{what}, the slowest", "s", [max(beside)], "while nobody fills it, the slowest", [max(alone)]),
    ]
