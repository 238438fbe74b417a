"""Make databases with a long history once and keep them: an embedded server each, in a cache folder.

The folder is `$IKIGAI_BENCH_CACHE`, or `ikigai-bench` among the user's caches. A history is made anew if the generator
would write another one by now, or to another schema.
"""

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import psycopg
from platformdirs import user_cache_path
from psycopg import conninfo, sql

from ikigai.store.database import Database
from ikigai.store.embedded import server as embedded
from ikigai.store.sql import dump as dump_queries
from ikigai.store.sql import usage as usage_queries
from tests.bench import generator

MIGRATIONS = Path(__file__).parents[2] / "migrations"
AGENT = "chronicle"
COPY = "copy messages (id, event_id, agent_id, seq, kind, content, data, created_at) from stdin"
STOPS_WITHIN = 30
"""Seconds until a server has stopped."""
STAMP = "select shobj_description(oid, 'pg_database') from pg_database where datname = 'ikigai'"


class History(NamedTuple):
    """`data_home` is the XDG_DATA_HOME under which the program finds this history by itself."""

    data_home: Path
    dsn: str
    events: int


@contextmanager
def history(events: int) -> Iterator[History]:
    """Yield a database with one agent of `events` events; its server runs meanwhile."""
    data_home = place() / str(events)
    data_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lease = embedded.start(data_home / "ikigai")
    try:
        if _stamp(lease.dsn) != (wanted := _wanted(events)):
            _make(lease.dsn, events, wanted)
        yield History(data_home, lease.dsn, events)
    finally:
        lease.close()


@contextmanager
def empty(beginning: str = "bench") -> Iterator[str]:
    """Yield the DSN of a fresh database with nothing but the schema; its name begins with `beginning`."""
    with history(10) as (_, dsn, _), psycopg.connect(_beside(dsn), autocommit=True) as admin:
        called = f"{beginning}_{os.getpid()}"
        name = sql.Identifier(called)
        admin.execute(sql.SQL("create database {}").format(name))
        try:
            fresh = conninfo.make_conninfo(dsn, dbname=called)
            asyncio.run(_migrate(fresh))
            yield fresh
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(name))


def place() -> Path:
    chosen = os.environ.get("IKIGAI_BENCH_CACHE")
    return Path(chosen).absolute() if chosen else user_cache_path("ikigai-bench")


def wait_until_stopped(history: History) -> None:
    """Wait for the server of a history that is not used any more. Raise TimeoutError if it is still used."""
    until = time.monotonic() + STOPS_WITHIN
    while embedded.embedded_status(history.data_home / "ikigai").running:
        if time.monotonic() > until:
            raise TimeoutError(f"The server in {history.data_home} does not stop: another program uses it.")
        time.sleep(0.05)


def fill(dsn: str, events: int) -> None:
    """Write a history into a database that holds the schema and nothing else."""
    agent = asyncio.run(_migrate(dsn, AGENT))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute(dump_queries.BEGIN_COPY)  # as a restore: the sums of an hour are made once
        with connection.cursor().copy(COPY) as copy:
            for seq, at, kind, content, data in generator.history(events):
                when = datetime.fromtimestamp(at, UTC).isoformat()
                copy.write_row((seq, _event_id(seq, at), agent, seq, kind, content, data, when))
        connection.execute(dump_queries.SET_IDENTITY)
        connection.execute(dump_queries.END_COPY)
        connection.execute("vacuum (freeze, analyze) messages")
        connection.execute(usage_queries.FILL_HOURS)
        connection.execute("checkpoint")


def _make(dsn: str, events: int, stamp: str) -> None:
    """Make the whole database anew, whatever there is; the stamp comes last."""
    began = time.monotonic()
    print(f"Making a history of {events:,} events …", file=sys.stderr, flush=True)
    with psycopg.connect(_beside(dsn), autocommit=True) as admin:
        admin.execute("drop database if exists ikigai with (force)")
        admin.execute("create database ikigai")
        fill(dsn, events)
        admin.execute(sql.SQL("comment on database ikigai is {}").format(sql.Literal(stamp)))
    print(f"… made in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)


def _stamp(dsn: str) -> str | None:
    with psycopg.connect(_beside(dsn)) as admin:
        found = admin.execute(STAMP).fetchone()
    return found[0] if found else None


def _wanted(events: int) -> str:
    """Return the stamp of a history that this program would make."""
    return f"ikigai-bench {events} {_fingerprint()}"


@cache
def _fingerprint() -> str:
    """Return a digest of the generator's output and of the schema, whatever the code looks like."""
    sample = repr(list(generator.history(2_000))).encode()
    schema = b"".join(file.read_bytes() for file in sorted(MIGRATIONS.glob("*.sql")))
    return hashlib.sha256(sample + schema).hexdigest()[:16]


def _beside(dsn: str) -> str:
    return conninfo.make_conninfo(dsn, dbname="postgres")


def _event_id(seq: int, at: float) -> UUID:
    """Return an id of version 7, as the program makes them, but the same every time."""
    return UUID(int=int(at * 1000) << 80 | 7 << 76 | 2 << 62 | seq)


async def _migrate(dsn: str, agent: str = "") -> str:
    """Bring the schema up to date; with a name, make an agent and return its id."""
    database = await Database.open(dsn, MIGRATIONS)
    try:
        return (await database.agents.create(agent)).id if agent else ""
    finally:
        await database.close()
