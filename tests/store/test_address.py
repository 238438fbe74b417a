"""Databases that cannot be reached: each told in one sentence with what to do, never with a password."""

import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from ikigai.cli.commands.database_users import added_text
from ikigai.core.errors import BadDatabase, Misconfigured, StoreError, Unavailable
from ikigai.store.connection import address
from ikigai.store.database import Database
from ikigai.store.schema import schema
from tests.conftest import MIGRATIONS
from tests.conftest import address as changed

SECRET = "sw0rdfish"


async def refusal(dsn: str) -> StoreError:
    with pytest.raises(StoreError) as refused:
        await Database.open(dsn, MIGRATIONS)
    error = refused.value
    assert SECRET not in f"{error} {error!r} {error.what} {error.remedy}"
    assert error.what.endswith(".") and "\n" not in error.what and "  " not in error.what and "{" not in error.what
    assert error.remedy and error.remedy[0].isupper()
    return error


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql+psycopg://me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@host:port/db",
        f"postgresql://me:{SECRET}@[::1/db",
        f"postgresql://me:%zz{SECRET}@host/db",
        f"host=x password={SECRET} {SECRET}",
        f"host=x pasword={SECRET}",
        f"postgresql://me@host/db?{SECRET}=1",
        f"password='{SECRET}",
        f"host=\ud800 password={SECRET}",
        f"{SECRET}",
    ],
)
async def test_address_that_cannot_be_read(dsn: str) -> None:
    error = await refusal(dsn)
    assert type(error) is BadDatabase and error.exit_code == 2


@pytest.fixture
def nobody() -> Iterator[str]:
    """A folder in which no server has its socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


async def test_nobody_answers(nobody: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for dsn in (f"postgresql://me:{SECRET}@127.0.0.1:{port}/db", f"host={nobody} password={SECRET}"):
            error = await refusal(dsn)
            assert type(error) is Unavailable and error.exit_code == 75 and "Cannot reach PostgreSQL" in error.what
            assert f"127.0.0.1:{port}" in error.what or nobody in error.what


async def test_name_that_is_no_hosts() -> None:
    error = await refusal(f"postgresql://me:{SECRET}@nowhere.invalid/db")
    assert type(error) is Unavailable and "nowhere.invalid" in error.what
    # An @ in the password that is not written as %40 moves the rest of it into the host.
    error = await refusal(f"postgresql://me:p@{SECRET}@nowhere.invalid/db")
    assert "nowhere.invalid" in error.what


async def test_port_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikigai.store.connection.address.CONNECT_TIMEOUT", 60)  # the address says otherwise
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        began = time.monotonic()
        error = await refusal(f"host=127.0.0.1 port={silent.getsockname()[1]} connect_timeout=2 password={SECRET}")
        assert time.monotonic() - began < 15
    assert type(error) is Unavailable and "did not answer in time" in error.what


async def test_server_that_is_none() -> None:
    with socket.socket() as web:
        web.bind(("127.0.0.1", 0))
        web.listen(1)
        web.settimeout(10)
        port = web.getsockname()[1]

        def answer() -> None:
            connection, _ = web.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        error = await refusal(f"host=127.0.0.1 port={port} sslmode=disable password={SECRET}")
        thread.join()
    assert type(error) is Unavailable


async def test_no_such_database_or_user(server: str) -> None:
    error = await refusal(changed(server, dbname="no such db", password=SECRET))
    assert type(error) is Misconfigured and error.what.startswith('There is no database "no such db" on the socket in')
    assert "createdb" in error.remedy
    error = await refusal(changed(server, user="no_such_user", password=SECRET))
    assert type(error) is Misconfigured and error.what.startswith('There is no user "no_such_user"')


@pytest.fixture
def guarded(dsn: str) -> Iterator[str]:
    """DSN of a user who needs the password "right"; skips where the server's rules cannot be written."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(hashtext('hba'))")
        ((path,),) = admin.execute("show hba_file").fetchall()
        rules = Path(path)
        if not os.access(rules, os.W_OK):
            pytest.skip("needs the right to write the server's pg_hba.conf")
        if not admin.execute("select from pg_roles where rolname = 'guarded'").fetchall():
            admin.execute("create role guarded login password 'right'")
        rule = "local all guarded scram-sha-256\n"
        if not (text := rules.read_text()).startswith(rule):
            rules.write_text(rule + text)
            admin.execute("select pg_reload_conf()")
        while True:  # the server reads its rules when it comes to it
            try:
                psycopg.connect(changed(dsn, user="guarded", password="wrong", dbname="template1")).close()
            except psycopg.OperationalError as error:
                if "password" in str(error):
                    break
            time.sleep(0.02)
    yield changed(dsn, user="guarded")


async def test_wrong_password(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    for dsn in (changed(guarded, password=SECRET), guarded):
        error = await refusal(dsn)
        assert type(error) is Misconfigured and error.what.endswith("did not accept the password of user guarded.")
        assert ".pgpass" in error.remedy
    error = await refusal(changed(guarded, password="right"))
    assert "may not use the schema" in error.what


async def test_libpqs_own_variables(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = conninfo.conninfo_to_dict(dsn)
    for variable, key in (("PGHOST", "host"), ("PGPORT", "port"), ("PGDATABASE", "dbname"), ("PGUSER", "user")):
        monkeypatch.setenv(variable, str(given[key]))
    database = await Database.open("", MIGRATIONS)
    status = await database.status()
    assert status.database == given["dbname"] and str(given["host"]) in status.where
    await database.close()
    monkeypatch.setenv("PGHOST", "/nowhere")
    assert "/nowhere" in (await refusal("")).what


async def test_first_of_several_hosts_that_answers(dsn: str, nobody: str) -> None:
    host = conninfo.conninfo_to_dict(dsn)["host"]
    database = await Database.open(changed(dsn, host=f"{nobody},{host}", port="5432,5432", hostaddr=","), MIGRATIONS)
    assert await database.agents.all() == []
    await database.close()


def test_several_servers_are_told_apart() -> None:
    several = address.place(address.connection_parameters("postgresql://me@a,b:2,c/d?target_session_attrs=read-write"))
    assert several.servers == ["a:5432", "b:2", "c:5432"]
    assert (str(several), several.short) == ("at a:5432 or b:2 or c:5432", "a +2")
    assert address.place(address.connection_parameters("host=a,b port=7")).servers == ["a:7", "b:7"]
    assert address.place(address.connection_parameters("host=/run port=7")).short == "local"
    added = added_text("anna", several, "").splitlines()
    assert 'url = "postgresql://anna@a:5432,b:2,c:5432/d?target_session_attrs=read-write"' in added
    assert [line.rpartition(" ")[2] for line in added[-3:]] == [f"{each}:d:anna:PASSWORD" for each in several.servers]


async def test_status(database: Database, dsn: str) -> None:
    await database.agents.create()
    status = await database.status()
    given = conninfo.conninfo_to_dict(dsn)
    assert (status.database, status.user, status.schema) == (given["dbname"], given["user"], "ikigai")
    assert (status.schema_version, status.agents, status.events, status.durable) == (schema.SCHEMA_VERSION, 1, 0, False)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"alter database {given['dbname']} set synchronous_commit = on".encode())
    again = await Database.open(dsn, MIGRATIONS)
    assert (await again.status()).durable
    await again.close()
    assert int(status.server.split(".")[0]) >= 15 and status.size > status.messages_size > 0
    assert any(extension.startswith("plpgsql ") for extension in status.extensions)


def test_users_parameters_win_but_for_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    found = address.connection_parameters(
        "host=h connect_timeout=9 keepalives_idle=1 application_name=x client_encoding=latin1"
    )
    assert (found["connect_timeout"], found["keepalives_idle"], found["tcp_user_timeout"]) == ("9", "1", "20000")
    assert found["application_name"] == f"ikigai/{socket.gethostname()[:40]}/{os.getpid()}"
    assert found["client_encoding"] == "UTF8"
    assert address.connection_parameters("host=h")["connect_timeout"] == "5"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "30")
    assert "connect_timeout" not in address.connection_parameters("host=h")
    assert SECRET not in str(address.place(address.connection_parameters(f"postgresql://me:{SECRET}@h:1/d")))
