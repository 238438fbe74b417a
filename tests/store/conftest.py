"""Roles and disks for the tests of the store."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo

from ikigai.store.search import lookup, search, turn_recall
from tests.conftest import address


@pytest.fixture(autouse=True)
def patient_search() -> Iterator[None]:
    """A search finds all there is however slow the machine; not by `monkeypatch`, which tests undo."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "CATCH_UP_SECONDS", 60.0)
        patched.setattr(turn_recall, "CATCH_UP_SECONDS", 60.0)
        patched.setattr(lookup, "SEARCH_TIMEOUT", 60.0)
        yield


@pytest.fixture
def role(dsn: str) -> Iterator[str]:
    """DSN of the same database for a user of its own, who is not a superuser and has no rights in it."""
    yield from _role(dsn)


@pytest.fixture
def empty_role(empty_dsn: str) -> Iterator[str]:
    """Yield the address of an empty database for a role of its own."""
    yield from _role(empty_dsn)


def let_use(dsn: str, role: str) -> None:
    """Let the role use the tables of the schema, which it does not own."""
    user = conninfo.conninfo_to_dict(role)["user"]
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(f"grant usage on schema ikigai to {user}".encode())
        owner.execute(f"grant select, insert, update, delete on all tables in schema ikigai to {user}".encode())
        owner.execute(f"grant usage, select on all sequences in schema ikigai to {user}".encode())


def _role(dsn: str) -> Iterator[str]:
    name = f"role_{uuid4().hex[:12]}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create role {name} login".encode())
    yield address(dsn, user=name)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"drop owned by {name}".encode())
        admin.execute(f"drop role {name}".encode())


@pytest.fixture
def small_disk(dsn: str) -> Iterator[str]:
    """Name of a tablespace on a disk of 8 MB; skips where no disk can be mounted."""
    name = f"small_{uuid4().hex[:12]}"
    folder = Path(tempfile.mkdtemp(prefix="small-disk-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a tmpfs")
    try:
        with psycopg.connect(dsn, autocommit=True) as admin:
            ((data,),) = admin.execute("show data_directory").fetchall()
            owner = Path(data).stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
            admin.execute(f"create tablespace {name} location '{folder}'".encode())
        yield name
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("alter table messages set tablespace pg_default")
            admin.execute(f"drop tablespace {name}".encode())
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()
