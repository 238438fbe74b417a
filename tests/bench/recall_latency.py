"""Measure recall in a log of 250,000 turns: seconds of a question, and the bytes of the index.

The log is made once and kept in the bench's cache with its index. Its segments are joined, as an open program leaves
them. The reference of a question is what PostgreSQL does best by itself there: a GIN
probe that stops at 1,000 hits of a common word, as for S8. Processor time of this process is also reported, because a
busy machine changes the latency alone. The collector does not look at the objects that the bench has made before, as in
a program at its prompt.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from uuid import UUID

import psycopg
from psycopg import conninfo, sql

from ikigai.store.database import Database
from ikigai.store.sql import dump as queries
from tests.bench import histories
from tests.bench.figures import Figure, percentile
from tests.bench.histories import MIGRATIONS
from tests.bench.prose import Prose
from tests.bench.s08_search import PROBE, PROBE_INDEX
from tests.bench.s21_scale import INDEX_TABLES
from tests.support import semantic

TURNS = 250_000
AGENTS = 50
LOG = "ikigai_recall"
QUESTION_WORDS = (2, 5, 9, 16, 40)
SIZE = "select coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint from unnest(%s::text[]) as name"


def measure(quick: bool) -> list[Figure]:
    turns, rounds = (2_000, 5) if quick else (TURNS, 100)
    with histories.history(10) as (_, dsn, _), psycopg.connect(histories._beside(dsn), autocommit=True) as admin:
        log = conninfo.make_conninfo(dsn, dbname=LOG)
        stamp = f"{histories._wanted(turns)} recall"
        told = "select shobj_description(oid, 'pg_database') from pg_database where datname = %s"
        if admin.execute(told, (LOG,)).fetchall() != [(stamp,)]:
            print(f"Making a log of {turns:,} turns …", file=sys.stderr, flush=True)
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(LOG)))
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(LOG)))
            began = time.process_time()
            asyncio.run(_make(log, turns))
            print(f"… {time.process_time() - began:.0f} s of this process.", file=sys.stderr, flush=True)
            admin.execute(sql.SQL("comment on database {} is {}").format(sql.Identifier(LOG), sql.Literal(stamp)))
        asyncio.run(_join_parts(log))
        return asyncio.run(_ask(log, turns, rounds))


async def _make(dsn: str, turns: int) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    try:
        agents = [(await database.agents.create(f"agent{n}")).id for n in range(AGENTS)]
        await asyncio.to_thread(_fill, dsn, agents, turns)
        while await database.indexer.index_some():
            pass
    finally:
        await database.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute(PROBE_INDEX)
        connection.execute("vacuum (analyze)")


async def _join_parts(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    try:
        while await database.indexer.join_some():
            pass
    finally:
        await database.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum (analyze)")


def _fill(dsn: str, agents: Sequence[str], turns: int) -> None:
    """Write turns in stretches of 500, each by the next agent."""
    rng = Random(23)
    prose, seqs, at = Prose(rng), dict.fromkeys(agents, 0), datetime(2026, 1, 1, tzinfo=UTC)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        with connection.cursor().copy(histories.COPY) as copy:
            for turn in range(turns):
                agent, first, at = agents[turn // 500 % len(agents)], 3 * turn + 1, at + timedelta(minutes=1)
                ended = json.dumps({"ending": "completed", "first": first})
                rows = (
                    ("user", prose.text(3 + min(150, int(rng.expovariate(1 / 20)))), None),
                    ("assistant", prose.text(5 + min(400, int(rng.expovariate(1 / 60)))), None),
                    ("turn_end", None, ended),
                )
                for n, (kind, content, data) in enumerate(rows):
                    seqs[agent] += 1
                    event_id = UUID(int=(1 << 100) + first + n)
                    copy.write_row((first + n, event_id, agent, seqs[agent], kind, content, data, at))
        connection.execute(queries.SET_IDENTITY)


async def _ask(dsn: str, turns: int, rounds: int) -> list[Figure]:
    prose, rng = Prose(Random(23)), Random(5)
    names = sorted(set(prose._names))
    taken: dict[str, dict[str, list[float]]] = {}
    bases: list[float] = []
    busy: dict[str, list[float]] = {}
    database = await Database.open(dsn, MIGRATIONS)
    gc.freeze()
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for round in range(-3, rounds):
                asked = {f"{words} words": prose.phrase(words) for words in QUESTION_WORDS}
                asked["common words"] = "the file test error value function"
                asked["names"] = " ".join(rng.sample(names, 4))
                for (name, mode), (shape, question) in product(semantic.modes().items(), asked.items()):
                    with mode():
                        began, worked = time.perf_counter(), time.process_time()
                        await database.recall(question, 12)
                        seconds = time.perf_counter() - began
                    if round >= 0:
                        taken.setdefault(name, {}).setdefault(shape, []).append(seconds)
                        busy.setdefault(name, []).append(time.process_time() - worked)
                began = time.perf_counter()
                connection.execute(PROBE).fetchall()
                bases += [time.perf_counter() - began] if round >= 0 else []
            ((index,),) = connection.execute(SIZE, (list(INDEX_TABLES),)).fetchall()
            ((messages,),) = connection.execute(SIZE, (["messages"],)).fetchall()
    finally:
        gc.unfreeze()
        await database.close()
    figures: list[Figure] = []
    against = "GIN probe, 1,000 hits of a common word"
    for name, shapes in taken.items():
        for shape, times in shapes.items():
            p50, p99 = percentile(times, 50) * 1e3, percentile(times, 99) * 1e3
            print(f"{name:<22} {shape:<14} p50 {p50:6.1f} ms  p99 {p99:6.1f} ms")
        every, own = sorted(seconds for times in shapes.values() for seconds in times), busy[name]
        figures += [
            Figure(
                "RECALL", f"{name}: a question in {turns:,} turns, p99", "s", [percentile(every, 99)], against, bases
            ),
            Figure("RECALL", f"{name}: a question, median", "s", every, against, bases),
            Figure("RECALL", f"{name}: processor time of this process, p99", "s", [percentile(own, 99)], "median", own),
        ]
    size = Figure("RECALL", "bytes of the index of words", "B", [index], "the log with its indexes", [messages])
    return [*figures, size]
