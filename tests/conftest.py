"""This module gives tests databases: one server for all test processes, and an empty database for each test."""

import gc
import itertools
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from zlib import crc32

import psycopg
import pytest
from hypothesis import settings
from psycopg import conninfo

from ikigai.providers.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from ikigai.store import schema
from ikigai.store.database import Database
from ikigai.store.embedded import server as embedded
from tests import ROOT
from tests.support import starting
from tests.support.bubblewrap import refusal
from tests.support.wire_server import WireServer

MIGRATIONS = ROOT / "migrations"
DATABASE_IN_USE = int.from_bytes(b"test")
"""The first number of the lock that a test holds on its database."""

LEAVE = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity  -- waits until it is gone
where datname = current_database() and pid <> pg_backend_pid()
"""
# Whatever a test may have left: settings, schemas.
EMPTY = """
do $$
declare found name;
begin
  execute format('alter database %I reset all', current_database());
  execute format('alter database %I connection limit -1', current_database());
  for found in select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema' loop
    execute format('drop schema %I cascade', found);
  end loop;
  create schema public;
  grant usage on schema public to public;
end
$$
"""
# Connections of the tests find the tables by their plain names; those of the program have their own search_path.
FILL = """
do $$
begin
  execute format('alter database %I set search_path = ikigai, public', current_database());
end
$$;
create schema ikigai;
set search_path = ikigai;
"""
CLEAN = "select shobj_description(oid, 'pg_database') from pg_database where datname = current_database()"
# A digest of everything in the database that is no row of a table: whoever makes or changes one of these renews its
# xmin. Not of pg_class, which TRUNCATE renews too.
MADE = """
select md5(string_agg(concat_ws(' ', kind, id, made), ',' order by kind, id, made)) from (
  select 'attribute', attrelid, concat_ws(' ', attnum, xmin) from pg_attribute where attrelid >= 16384
  union all select 'default', oid, xmin::text from pg_attrdef
  union all select 'index', indexrelid, xmin::text from pg_index where indexrelid >= 16384
  union all select 'constraint', oid, xmin::text from pg_constraint where oid >= 16384
  union all select 'trigger', oid, xmin::text from pg_trigger
  union all select 'function', oid, xmin::text from pg_proc where oid >= 16384
  union all select 'type', oid, xmin::text from pg_type where oid >= 16384
  union all select 'rule', oid, xmin::text from pg_rewrite where oid >= 16384
  union all select 'schema', oid, xmin::text from pg_namespace where oid >= 16384
  union all select 'extension', oid, xmin::text from pg_extension
  union all select 'large', oid, xmin::text from pg_largeobject_metadata
  union all select 'policy', oid, xmin::text from pg_policy
  union all select 'granted', oid, xmin::text from pg_default_acl
  union all select 'statistics', oid, xmin::text from pg_statistic_ext
  union all select 'event trigger', oid, xmin::text from pg_event_trigger
  union all select 'setting', setdatabase, array_to_string(setconfig, ',') from pg_db_role_setting
    where setdatabase = (select oid from pg_database where datname = current_database())
  union all select 'database', oid, datconnlimit::text from pg_database where datname = current_database()
  union all select 'relation', oid, concat_ws(' ', relname, relowner, relkind, relacl, reltablespace, reloptions,
    relhasindex, relhasrules, relhastriggers, relrowsecurity, relpersistence) from pg_class where oid >= 16384
) as found (kind, id, made)
"""
# No trigger is asked about it. What a truncated table looked like is forgotten with its rows.
TRUNCATE = """
do $$
declare filled text; begun regclass;
begin
  set local session_replication_role = replica;
  select string_agg(format('%I', relname), ', ') into filled from pg_class
    where relnamespace = 'ikigai'::regnamespace and relkind = 'r' and relname <> 'ikigai_migrations'
      and pg_relation_size(oid) > 0;
  if filled is not null then
    execute 'truncate ' || filled || ' cascade';
  end if;
  delete from pg_statistic where starelid >= 16384;
  for begun in select oid from pg_class where relkind = 'S' and oid >= 16384 loop
    perform setval(begun, 1, false);
  end loop;
end
$$
"""


settings.register_profile("ikigai", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("ikigai")


sys.dont_write_bytecode = False  # to read all tests again takes three times as long in each of the processes


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no collection of garbage look through the tests and what they import, millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile what has changed once, before each of the test processes does it."""
    options = session.config.option
    if getattr(options, "numprocesses", None) and not options.file_or_dir:
        for file in (ROOT / "tests").rglob("test_*.py"):
            compiled = (file.parent / "__pycache__").glob(f"{file.stem}.*pytest*.pyc")
            if max((each.stat().st_mtime for each in compiled), default=0) < file.stat().st_mtime:
                with suppress(Exception, pytest.skip.Exception):  # who runs the tests will tell of it
                    import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return twice the number of processors: most of these tests wait for a terminal, a server or a child process."""
    return 2 * (os.cpu_count() or 1)


def address(dsn: str, **changes: str) -> str:
    """Return the DSN with some parameters changed, for example `dbname`."""
    return conninfo.make_conninfo(dsn, **changes)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the DSN of the server, whose data stay in pytest's cache so that only the first run makes them.

    IKIGAI_TEST_DATABASE_URL names another server, for example of an older version; its user must be a superuser.
    """
    if other := os.environ.get("IKIGAI_TEST_DATABASE_URL"):
        yield other
        return
    lease = embedded.start(request.config.cache.mkdir("postgres"))
    yield lease.dsn
    lease.close()


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """Yield the DSN of a database without a schema."""
    with _database(server, "ikigai_test_empty") as found:
        with psycopg.connect(found, autocommit=True) as other:
            other.execute(LEAVE)
            other.execute(EMPTY)
        yield found


@pytest.fixture
def dsn(server: str) -> Iterator[str]:
    """Yield the DSN of a database with the schema and nothing in it."""
    with _database(server, "ikigai_test") as found:
        with psycopg.connect(found, autocommit=True) as other:
            other.execute(LEAVE)
            _make_clean(other)
        yield found


def _make_clean(other: psycopg.Connection) -> None:
    """Remove the rows if there is the schema alone, which takes 15 ms of the processor; else make all anew, in
    60.

    The digest of a database whose schema has just been made is stored as its comment.
    """
    files = schema.read_migrations(MIGRATIONS)
    wanted = sha256(b"".join([FILL.encode(), *(file.read_bytes() for _, file in files)])).hexdigest()
    if other.execute(CLEAN).fetchall() == [(f"{wanted} {_made(other)}",)]:
        other.execute(TRUNCATE)
        return
    other.execute(EMPTY)
    other.execute(FILL)
    with other.transaction():
        for version, file in files:
            other.execute(file.read_bytes())
            other.execute("insert into ikigai_migrations (version, name) values (%s, %s)", (version, file.stem[5:]))
    other.execute(f"comment on database {other.info.dbname} is '{wanted} {_made(other)}'".encode())


def _made(other: psycopg.Connection) -> str:
    """Return a digest of the database without the rows of the conversation."""
    ((made, has_versions),) = other.execute(f"select ({MADE}), to_regclass('ikigai_migrations')".encode()).fetchall()
    versions = other.execute("select xmin::text, version from ikigai_migrations").fetchall() if has_versions else ()
    return sha256(repr((made, sorted(versions))).encode()).hexdigest()


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    """Yield the DSN of the first database of this name that no other test uses; a new one takes 100 ms and more."""
    with psycopg.connect(server, autocommit=True) as admin:
        for number in itertools.count():
            key = crc32(f"{name}_{number}".encode()) - (1 << 31)
            if admin.execute("select pg_try_advisory_lock(%s, %s)", (DATABASE_IN_USE, key)).fetchall() == [(True,)]:
                break
        name = f"{name}_{number}"
        if not admin.execute("select from pg_database where datname = %s", (name,)).fetchall():
            admin.execute(f"create database {name} encoding 'UTF8' template template0".encode())
        yield address(server, dbname=name)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """Yield the database with the schema, opened for writing."""
    # Other tests stop processes of the same server, some while they hold what all its databases share.
    opened = await Database.open(dsn, MIGRATIONS, deadline=60)
    yield opened
    await opened.close()


@pytest.fixture
async def wire_model() -> AsyncIterator[WireServer]:
    """Yield a scripted model server over HTTP."""
    async with WireServer() as model:
        yield model


@pytest.fixture
async def wire_provider(wire_model: WireServer) -> AsyncIterator[RetryingProvider]:
    """Yield the provider that asks it."""
    provider = OpenAIProvider("wire", wire_model.base_url, "key", traits=lambda model: ModelTraits())
    yield RetryingProvider(provider, jitter=lambda: 0.01)
    await provider.close()


def pytest_unconfigure() -> None:
    starting.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report that the sandbox was not tested: a run without it shows nothing of how commands are confined."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if "bubblewrap" in str(report.longrepr)]
    if skipped:
        terminalreporter.section("THE SANDBOX WAS NOT TESTED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped. {refusal()}", red=True)
