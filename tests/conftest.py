"""Databases for tests: one server for all test processes, and an empty database for every test that wants one."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from hypothesis import settings
from psycopg import conninfo

from ikigai.providers.models import Traits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import Retrying
from ikigai.store import schema
from ikigai.store.database import Database
from ikigai.store.embedded import server as embedded
from tests import ROOT
from tests.support.bubblewrap import refusal
from tests.support.wire_server import WireServer

MIGRATIONS = ROOT / "migrations"
DATABASE_IN_USE = int.from_bytes(b"test")
"""The first number of the lock that a test holds on its database."""

# Whatever a test may have left: connections, settings, schemas.
EMPTY = """
do $$
declare found name;
begin
  perform pg_terminate_backend(pid, 10000) from pg_stat_activity  -- waits until it is gone
    where datname = current_database() and pid <> pg_backend_pid();
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


settings.register_profile("ikigai", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("ikigai")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice the processors: most of these tests wait for a terminal, a server or a child of theirs."""
    return 2 * (os.cpu_count() or 1)


def address(dsn: str, **changes: str) -> str:
    """The same DSN with some parameters changed, for example `dbname`."""
    return conninfo.make_conninfo(dsn, **changes)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """DSN of the server, whose data stay in pytest's cache so that only the first run makes them.

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
    """DSN of a database without a schema."""
    yield from _database(server)


@pytest.fixture
def dsn(server: str) -> Iterator[str]:
    """DSN of a database with the schema and nothing in it."""
    for found in _database(server):
        with psycopg.connect(found) as other:
            for version, file in schema.migrations(MIGRATIONS):
                other.execute(file.read_bytes())
                other.execute("insert into ikigai_migrations (version, name) values (%s, %s)", (version, file.stem[5:]))
        yield found


def _database(server: str) -> Iterator[str]:
    """The first database that no other test uses, emptied: that takes 20 ms, and a new one 100 and more."""
    with psycopg.connect(server, autocommit=True) as admin:
        for number in itertools.count():
            if admin.execute("select pg_try_advisory_lock(%s, %s)", (DATABASE_IN_USE, number)).fetchall() == [(True,)]:
                break
        name = f"ikigai_test_{number}"
        if not admin.execute("select from pg_database where datname = %s", (name,)).fetchall():
            admin.execute(f"create database {name} encoding 'UTF8' template template0".encode())
        with psycopg.connect(found := address(server, dbname=name), autocommit=True) as other:
            other.execute(EMPTY)
        yield found


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """The same, opened for writing."""
    # Other tests stop processes of the same server, some while they hold what all its databases share.
    opened = await Database.open(dsn, MIGRATIONS, deadline=60)
    yield opened
    await opened.close()


@pytest.fixture
async def wire_model() -> AsyncIterator[WireServer]:
    """A scripted model server over HTTP."""
    async with WireServer() as model:
        yield model


@pytest.fixture
async def wire_provider(wire_model: WireServer) -> AsyncIterator[Retrying]:
    """The provider that asks it."""
    provider = OpenAIProvider("wire", wire_model.base_url, "key", traits=lambda model: Traits())
    yield Retrying(provider, jitter=lambda: 0.01)
    await provider.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say aloud that the sandbox was not tested: a run without it shows nothing of what commands are kept from."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if "bubblewrap" in str(report.longrepr)]
    if skipped:
        terminalreporter.section("THE SANDBOX WAS NOT TESTED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped. {refusal()}", red=True)
