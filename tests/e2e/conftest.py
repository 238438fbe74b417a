"""This module gives the tests of the whole program their users and model servers."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.conftest import address
from tests.e2e.account import Account, Wire
from tests.store.conftest import empty_role, role, small_disk
from tests.support import starting

__all__ = ["account", "empty_role", "people", "role", "small_disk", "wire"]


@pytest.fixture(autouse=True)
def interpreters(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start the program with an interpreter of its own in long runs, and in tests of its start and end."""
    own = any(map(request.node.get_closest_marker, ("own_interpreter", "long")))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(starting, "own_interpreter", own or starting.own_interpreter)
        yield


@pytest.fixture
def account(tmp_path: Path, dsn: str) -> Account:
    """Return a user who has never used the program, with an empty database."""
    return Account(tmp_path, dsn)


@pytest.fixture
def people(dsn: str) -> Iterator[tuple[str, str]]:
    """Yield names for two users of the database. All databases of the server share the roles: each test has others, and
    those that it has made are dropped.
    """
    names = (f"anna_{uuid4().hex[:8]}", f"bela_{uuid4().hex[:8]}")
    yield names
    with psycopg.connect(dsn, autocommit=True) as admin:
        for name in names:
            for (database,) in admin.execute(WITH_RIGHTS, (name,)).fetchall():
                with psycopg.connect(address(dsn, dbname=database), autocommit=True) as other:
                    other.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
            admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))


WITH_RIGHTS = """
select distinct datname from pg_shdepend
  join pg_roles on refobjid = pg_roles.oid join pg_database on dbid = pg_database.oid
where refclassid = 'pg_authid'::regclass and rolname = %s
"""
"""Databases in which a role has rights."""


@pytest.fixture
def wire(account: Account) -> Iterator[Wire]:
    """Yield a model server that the user has configured as the provider `wire`; nothing listens at the provider
    `dead`.
    """
    with Wire().running() as wire:
        account.configure(
            f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
            '[providers.dead]\nbase_url = "http://127.0.0.1:1/v1"\n'
        )
        yield wire
