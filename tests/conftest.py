"""Give tests databases: one server for all test processes, and an empty database for each test."""

import gc
import itertools
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from uuid import uuid4
from zlib import crc32

import psycopg
import pytest
from hypothesis import is_hypothesis_test
from psycopg import conninfo, sql

from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from ikigai.store.database import Database
from ikigai.store.embedded import server as embedded
from ikigai.store.schema import schema
from tests import ROOT
from tests.support import examples, kept_connections, starting
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
# Connections of the tests find the tables by their plain names; the program's have their own search_path. No commit
# waits for the disk: no test stops this server, and what a killed process has committed stays.
FILL = """
do $$
begin
  execute format('alter database %I set search_path = ikigai, public', current_database());
  execute format('alter database %I set synchronous_commit = off', current_database());
end
$$;
create schema ikigai;
set search_path = ikigai, pg_temp;
"""
CLEAN = "select shobj_description(oid, 'pg_database') from pg_database where datname = current_database()"
# A digest of everything in the database that is not a row of a table: whoever makes or changes one of these renews its
# xmin. Not of pg_class, which TRUNCATE renews too.
MADE = """
select concat_ws(' ', count(*), sum(hashtextextended(concat_ws(' ', kind, id, made), 0))) from (
  select 'attribute', attrelid, concat_ws(' ', attnum, xmin) from pg_attribute where attrelid >= 16384 and attnum > 0
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
# No trigger is asked about it. What a table looked like is forgotten with its rows. To truncate the tables of a short
# conversation, with all their indexes, takes ten times as long as to delete its rows.
EMPTY_TABLES = """
do $$
declare each record; large text; begun regclass;
begin
  set local session_replication_role = replica;
  for each in
    select oid::regclass as name, pg_table_size(oid) > {kept_bytes} as is_large from pg_class
    where relkind = 'r' and relname <> 'ikigai_migrations' and pg_relation_size(oid) > 0 and relnamespace in (
      select oid from pg_namespace where nspname = 'ikigai'
    )
  loop
    if each.is_large then
      large := concat_ws(', ', large, each.name);
    else
      execute format('delete from %s', each.name);
    end if;
  end loop;
  if large is not null then
    execute 'truncate ' || large || ' cascade';
  end if;
  delete from pg_statistic where starelid >= 16384;
  update pg_class set reltuples = -1, relpages = 0 where oid >= 16384 and relkind = 'r' and reltuples <> -1;
  for begun in select oid from pg_class where relkind = 'S' and oid >= 16384 loop
    perform setval(begun, 1, false);
  end loop;
end
$$
"""
KEPT_BYTES = 128 * 1024
"""The size of a table up to which its rows are deleted. Pages with deleted rows stay; tests with the mark `fresh` look
at plans or pages, and get none.
"""


sys.dont_write_bytecode = False  # to read all tests again takes three times as long in each of the processes


def pytest_configure(config: pytest.Config) -> None:
    examples.choose(config.option.markexpr == "long")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark parameters that `ordinary` does not name, and property tests in a long run, which tries all examples."""
    if not examples.is_ordinary(item) or (examples.is_thorough and is_hypothesis_test(getattr(item, "obj", None))):
        item.add_marker("long")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse an `ordinary` that names no parameter, as it does when a parameter gets another name."""
    if not any("::" in each for each in config.args) and (unused := examples.unused_names(items)):
        raise pytest.UsageError(f"`ordinary` names no parameter of {unused}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no collection of garbage look through the tests and what they import, millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
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
    """Return two for each processor: many of these tests wait for a terminal, a server or a child process.

    With each further process the tests are collected and the SDKs are loaded once more, for six seconds.
    """
    return (os.cpu_count() or 1) * 2


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
        _disconnect()
        return
    lease = embedded.start(request.config.cache.mkdir("postgres"))
    yield lease.dsn
    _disconnect()
    lease.close()


def _disconnect() -> None:
    kept_connections.close()
    while _admins:
        _admins.popitem()[1].close()


@pytest.fixture
def people(server: str) -> Iterator[tuple[str, str, str]]:
    """Yield names for two roles and a shared schema. All databases of the server have the same roles: each test has
    others, and those that it has made are dropped.
    """
    names = (f"anna_{uuid4().hex[:8]}", f"bela_{uuid4().hex[:8]}", f"team_{uuid4().hex[:8]}")
    yield names
    with psycopg.connect(server, autocommit=True) as admin:
        for name in names:
            for (database,) in admin.execute(WITH_RIGHTS, (name,)).fetchall():
                with psycopg.connect(address(server, dbname=database), autocommit=True) as other:
                    other.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        for name in names:
            admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))


WITH_RIGHTS = """
select distinct datname from pg_shdepend
  join pg_roles on refobjid = pg_roles.oid join pg_database on dbid = pg_database.oid
where refclassid = 'pg_authid'::regclass and rolname = %s
"""
"""Databases in which a role has rights."""


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """Yield the DSN of a database without a schema."""
    with own_database(server, "ikigai_test_empty") as found:
        kept_connections.query(found, LEAVE)
        _make_empty(found)
        yield found


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the DSN of a database with the schema and nothing in it."""
    is_fresh = request.node.get_closest_marker("fresh") is not None
    with own_database(server, "ikigai_test") as found:
        kept_connections.query(found, LEAVE)
        make_clean(found, 0 if is_fresh else KEPT_BYTES)
        yield found


def _make_empty(dsn: str) -> None:
    """Remove everything, and the connection with it, which keeps the settings that the database had."""
    kept_connections.connection(dsn).execute(EMPTY)
    kept_connections.close(dsn)


def make_clean(dsn: str, kept_bytes: int) -> None:
    """Remove the rows if there is the schema alone, which takes 8 ms of the processor; else make all anew, in 60.
    Truncate what is larger than `kept_bytes`.

    The digest of a database whose schema has just been made is stored as its comment.
    """
    other = kept_connections.connection(dsn)
    wanted, files = _migrations()
    if other.execute(CLEAN).fetchall() == [(f"{wanted} {_made(other)}",)]:
        other.execute(EMPTY_TABLES.format(kept_bytes=kept_bytes).encode())
        return
    _make_empty(dsn)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(FILL)
        with other.transaction():
            for statements in files:
                other.execute(statements)
            other.execute("insert into ikigai_migrations (version) values (%s)", (schema.SCHEMA_VERSION,))
        other.execute(f"comment on database {other.info.dbname} is '{wanted} {_made(other)}'".encode())


@cache
def _migrations() -> tuple[str, list[bytes]]:
    """Return a digest of the schema, and the statements of each file that makes it."""
    files = [file.read_bytes() for file in schema.schema_files(MIGRATIONS)]
    return sha256(b"".join([FILL.encode(), *files])).hexdigest(), files


def _made(other: psycopg.Connection) -> str:
    """Return a digest of the database without the rows of the conversation."""
    ((made, has_versions),) = other.execute(f"select ({MADE}), to_regclass('ikigai_migrations')".encode()).fetchall()
    versions = other.execute("select xmin::text, version from ikigai_migrations").fetchall() if has_versions else ()
    return sha256(repr((made, sorted(versions))).encode()).hexdigest()


_admins: dict[str, psycopg.Connection] = {}
"""The connections that hold the locks of the databases in use, by server: one for all tests of a process."""
_in_use: set[str] = set()
"""The names of the databases that tests of this process use now."""
_last: dict[str, str] = {}
"""The databases used last, by name without a number: this process is likely to have a connection to them."""


@contextmanager
def own_database(server: str, name: str) -> Iterator[str]:
    """Yield the DSN of a database of this name that no other test uses; a new one takes 100 ms and more."""
    admin = _admins.get(server)
    if admin is None or admin.closed:
        admin = _admins[server] = psycopg.connect(server, autocommit=True)
    for found in itertools.chain([_last.get(name, f"{name}_0")], (f"{name}_{number}" for number in itertools.count())):
        lock = DATABASE_IN_USE, crc32(found.encode()) - (1 << 31)
        taken = found not in _in_use and admin.execute("select pg_try_advisory_lock(%s, %s)", lock).fetchall()
        if taken == [(True,)]:
            break
    _last[name] = found
    _in_use.add(found)
    try:
        if not admin.execute("select from pg_database where datname = %s", (found,)).fetchall():
            admin.execute(f"create database {found} encoding 'UTF8' template template0".encode())
        dsn = address(server, dbname=found)
        kept_connections.keep(dsn)
        yield dsn
    finally:
        _in_use.remove(found)
        if not admin.closed:
            admin.execute("select pg_advisory_unlock(%s, %s)", lock)


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
