"""Databases for tests: one server for all test processes, and a fresh database for every test that wants one."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo

from ikigai.store import embedded
from ikigai.store.database import Database

MIGRATIONS = Path(__file__).parent.parent / "migrations"


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


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """Name of a database with the schema and nothing in it, made by the migrations as they are now."""
    stamp = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(MIGRATIONS.iterdir()))).hexdigest()
    name, making = f"template_{stamp[:12]}", f"making_{stamp[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(hashtext('template'))")
        _drop_leftovers(admin)
        if not admin.execute("select from pg_database where datname = %s", (name,)).fetchall():
            admin.execute(f"drop database if exists {making}".encode())
            admin.execute(f"create database {making}".encode())
            asyncio.run(_migrate(address(server, dbname=making)))
            admin.execute(f"alter database {making} rename to {name}".encode())
    return name


def _drop_leftovers(admin: psycopg.Connection) -> None:
    """Drop the databases of test processes that have died."""
    for (name,) in admin.execute("select datname from pg_database where datname ~ '^test_[0-9]+_'").fetchall():
        try:
            os.kill(int(name.split("_")[1]), 0)
        except ProcessLookupError:
            _drop(admin, name)


def _drop(admin: psycopg.Connection, name: str) -> None:
    admin.execute(f"drop database if exists {name} with (force)".encode())


async def _migrate(dsn: str) -> None:
    await (await Database.open(dsn, MIGRATIONS)).close()


class Databases:
    """Makes the databases of tests, and drops them some at a time: the first drop of several pays for all of them."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._made: list[str] = []

    def make(self, template: str) -> str:
        """A fresh copy of the template; returns its DSN."""
        if len(self._made) >= 30:
            self.drop()
        name = f"test_{os.getpid()}_{uuid4().hex[:12]}"
        with psycopg.connect(self._server, autocommit=True) as admin:
            admin.execute(f"create database {name} template {template}".encode())
        self._made.append(name)
        return address(self._server, dbname=name)

    def drop(self) -> None:
        with psycopg.connect(self._server, autocommit=True) as admin:
            while self._made:
                _drop(admin, self._made.pop())


@pytest.fixture(scope="session")
def databases(server: str) -> Iterator[Databases]:
    made = Databases(server)
    yield made
    made.drop()


@pytest.fixture
def empty_dsn(databases: Databases) -> str:
    """DSN of a fresh database without a schema."""
    return databases.make("template1")


@pytest.fixture
def dsn(databases: Databases, template: str) -> str:
    """DSN of a fresh database with the schema and nothing in it."""
    return databases.make(template)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    """A fresh database, opened for writing."""
    opened = await Database.open(dsn, MIGRATIONS)
    yield opened
    await opened.close()
