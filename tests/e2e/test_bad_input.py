"""Tests of mistakes of users, networks, servers and disks: plain errors with a remedy, exit codes, nothing lost."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from ikigai.store.embedded import server as embedded
from tests.conftest import address
from tests.e2e.account import ECHO, WIRE, Account, Wire, refused, told_plainly
from tests.support import starting
from tests.support.invariants import check
from tests.support.wire_server import Answer, completion, failure

# -- the database ------------------------------------------------------------------------------------------------


@pytest.mark.ordinary("postgresql://127.0.0.1:1/x-*", "nonsense-*", "host=/nowhere-*")
@pytest.mark.parametrize(
    ("dsn", "code", "words"),
    [
        ("postgresql://127.0.0.1:1/x", 75, "Cannot reach PostgreSQL at 127.0.0.1:1."),
        ("postgresql://no-such-host.invalid/x", 75, "no-such-host.invalid:5432 has an unknown host name"),
        ("nonsense", 2, "Allowed: a PostgreSQL address"),
        ("postgresql://[half/x", 2, "The address of the database cannot be read"),
        ("postgresql://127.0.0.1:port/x", 2, "The address of the database cannot be read"),
        ("host=/nowhere", 75, "Cannot reach PostgreSQL on the socket in /nowhere."),
    ],
)
def test_missing_database_is_reported(tmp_path: Path, dsn: str, code: int, words: str):
    account = Account(tmp_path, dsn)
    refused(account.run(*ECHO, "-p", "hi"), code, words)
    refused(account.run("db", "status"), code, words)


@pytest.mark.ordinary("postgresql://me:canary*", "host=127.0.0.1 port=1 password=canary")
@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:canary@127.0.0.1:1/x",
        "postgresql://me@127.0.0.1:1/x?password=canary",
        "postgres://me@127.0.0.1:1/x?pass%77ord=canary",
        "host=127.0.0.1 port=1 password=canary",
        "host=127.0.0.1 port=1 password = 'canary bird'",
        "host=127.0.0.1 port=1 sslpassword=canary",
    ],
)
def test_password_on_the_command_line_is_refused(tmp_path: Path, dsn: str):
    account = Account(tmp_path, "postgresql://127.0.0.1:1/y")
    for arguments in (
        ("--db", dsn, *ECHO, "-p", "hi"), (f"--db={dsn}", "db", "status"), ("db", "status", "--db", dsn),
        ("db", "psql", "--db", dsn),
    ):  # fmt: skip
        result = account.run(*arguments)
        refused(result, 2, "The address of --db holds a password", "IKIGAI_DATABASE_URL", "~/.pgpass")
        assert "canary" not in result.stdout + result.stderr
    result = account.run("--db", dsn, "doctor")
    assert result.returncode == 1 and "The address of --db holds a password" in result.stdout
    assert "canary" not in result.stdout + result.stderr


@pytest.mark.ordinary("host=*")
@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me@127.0.0.1:1/x",
        "host=127.0.0.1 port=1 require_auth=password",
        "postgresql://me:@127.0.0.1:1/x?user=a%40b",
    ],
)
def test_address_without_a_password_is_accepted(tmp_path: Path, dsn: str):
    refused(Account(tmp_path, "").run("--db", dsn, "db", "status"), 75, "Cannot reach PostgreSQL at 127.0.0.1:1.")


@pytest.mark.own_interpreter
def test_password_in_the_environment_is_in_no_process_list(account: Account, wire: Wire):
    answer = completion("Half a reply")
    answer.cut, answer.end = answer.body.index(b'"finish_reason":"stop"'), "hang"
    wire.answers(answer)
    dsn = address(account.dsn, password="canary")
    program = account.start(*WIRE, "-p", "go", IKIGAI_DATABASE_URL=dsn)
    assert program.stdout and program.stdout.read(4) == "Half"
    processes = [program.pid, *_children(program.pid)]
    seen = [Path(f"/proc/{pid}/cmdline").read_text() for pid in processes]
    program.terminate()
    program.communicate()
    assert "ikigai" in seen[0] and not any("canary" in each for each in seen)


def _children(pid: int) -> list[int]:
    found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(below for child in found for below in _children(child))]


def test_server_that_never_answers_is_reported(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        account = Account(tmp_path, f"postgresql://{place}/x?connect_timeout=2")
        refused(account.run(*ECHO, "-p", "hi"), 75, f"The database at {place} did not answer in time.")


def test_unknown_database_or_user_is_reported(account: Account):
    for changes, words in (
        ({"dbname": "nowhere"}, 'no database "nowhere"'),
        ({"user": "stranger"}, 'no user "stranger"'),
    ):
        refused(Account(account.home, address(account.dsn, **changes)).run(*ECHO, "-p", "hi"), 2, words)


@pytest.fixture
def guarded(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the DSN of a server that asks the user `guarded` for the password `right`, which the DSN does not hold."""
    lease = embedded.start(request.config.cache.mkdir("postgres-guarded"))
    with psycopg.connect(lease.dsn, autocommit=True) as admin:
        ((rules,),) = admin.execute("show hba_file").fetchall()
        Path(rules).write_text("local all ikigai trust\nlocal all all scram-sha-256\n")
        admin.execute("select pg_reload_conf()")
        if not admin.execute("select from pg_roles where rolname = 'guarded'").fetchall():
            admin.execute("create role guarded login password 'right'")
        admin.execute("grant create on database ikigai to guarded")
        admin.execute("drop schema if exists ikigai cascade")  # of an earlier run, perhaps with another schema number
    yield address(lease.dsn, user="guarded")
    lease.close()


@pytest.mark.long  # tests/store/test_address.py shows it of a connection
def test_wrong_password_is_reported(tmp_path: Path, guarded: str):
    wrong = Account(tmp_path, address(guarded, password="wr0ng-and-secret"))
    refused(wrong.run(*ECHO, "-c", "-p", "hi"), 2, "did not accept the password of user guarded", "~/.pgpass")
    assert "wr0ng" not in wrong.run("config").stdout + wrong.log_file()
    refused(Account(tmp_path, guarded).run(*ECHO, "-c", "-p", "hi"), 2, "did not accept the password of user guarded")
    assert Account(tmp_path, guarded).run(*ECHO, "-c", "-p", "hi", PGPASSWORD="right").stdout == "hi\n"


def test_password_change_during_a_conversation_loses_nothing(tmp_path: Path, guarded: str):
    account = Account(tmp_path, address(guarded, password="right"))

    def change(password: str) -> None:
        with psycopg.connect(address(guarded, user="ikigai"), autocommit=True) as admin:
            admin.execute(f"alter role guarded password '{password}'".encode())
            admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'guarded'")

    with account.terminal(*ECHO, "--new", module="tests.e2e.hasty", columns=200) as program:
        program.ready()
        change("another")
        try:
            program.say("are you there?")
            program.wait_for("did not accept the password of user guarded.")
            program.wait_for("ikigai tries again every minute. Unsaved messages are kept in memory")
        finally:
            change("right")
        program.wait_for("The database is back; everything is saved.")
        program.wait_for("● are you there?")
        program.leave()
        assert "read-only" not in program.text()


def test_database_that_is_lost_when_the_conversation_is_open_does_not_end_it(account: Account):
    """The earlier prompts and the names for Tab are read then."""
    with account.terminal(*ECHO, module="tests.e2e.cut_off") as program:
        program.ready().say("are you there?")
        program.wait_for("● are you there?")
        program.settled()
        program.leave()


def test_database_that_accepts_no_connections_is_reported(account: Account, server: str):
    name = conninfo.conninfo_to_dict(account.dsn)["dbname"]
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"alter database {name} allow_connections false".encode())
        try:
            refused(account.run(*ECHO, "-p", "hi"), 75, "is not currently accepting connections", "Try again in a")
        finally:
            admin.execute(f"alter database {name} allow_connections true".encode())


def test_no_right_to_make_tables(tmp_path: Path, empty_role: str):
    result = Account(tmp_path, empty_role).run(*ECHO, "-p", "hi")
    refused(result, 2, "There is no schema ikigai in the database", "Let its owner run: GRANT CREATE ON DATABASE")


def test_no_right_to_read(tmp_path: Path, role: str):
    refused(
        Account(tmp_path, role).run(*ECHO, "-p", "hi"),
        2,
        "may not use the schema ikigai",
        "Let its owner run: GRANT USAGE, CREATE ON SCHEMA",
    )


def test_schema_newer_than_the_program_is_refused(account: Account):
    account.run(*ECHO, "-c", "-p", "before")
    with psycopg.connect(account.dsn) as other:
        other.execute("update ikigai_migrations set version = 99")
    before = account.rows()
    for arguments in ((*ECHO, "-c", "-p", "hi"), ("db", "migrate")):
        refused(account.run(*arguments), 2, "has schema 99", "Install a newer ikigai to write to it.")
    with account.terminal(*ECHO, columns=200) as program:
        assert program.ended() == 2
        told_plainly(program.text(), "has schema 99")
    assert account.rows() == before
    status = account.run("db", "status")
    assert status.returncode == 0 and "schema 99" in status.stdout and "4 events" in status.stdout
    for look in ("/status", "/context", "/search before"):
        shown = account.run("-c", "-p", look)
        assert (shown.returncode, shown.stderr) == (0, "") and shown.stdout
    assert account.rows() == before


def test_read_only_server_is_reported(account: Account):
    assert account.run(*ECHO, "-c", "-p", "before").returncode == 0
    standby = Account(account.home, address(account.dsn, options="-c default_transaction_read_only=on"))
    refused(standby.run(*ECHO, "-c", "-p", "hi"), 75, "is read-only now", "use the primary server")
    assert standby.run("db", "status").returncode == 0
    assert account.said("user") == ["before"]


@pytest.mark.ordinary("arguments0-*", "arguments3-*")
@pytest.mark.parametrize(
    ("arguments", "env", "code", "words"),
    [
        (ECHO, {"IKIGAI_DATABASE_URL": "postgresql://127.0.0.1:1/x"}, 75, "Cannot reach PostgreSQL at 127.0.0.1:1."),
        (ECHO, {"IKIGAI_SLIDING_CONTEXT_TOKENS": "-1"}, 2, "IKIGAI_SLIDING_CONTEXT_TOKENS cannot be '-1'."),
        (("-m", "nobody/x"), {}, 2, "There is no provider 'nobody'"),
        ((*ECHO, "-r", "nobody"), {}, 2, "There is no agent nobody."),
    ],
)
def test_at_the_terminal(account: Account, arguments: list[str], env: dict[str, str], code: int, words: str):
    with account.terminal(*arguments, columns=200, env=env) as program:
        assert program.ended() == code
        told_plainly(program.text(), words)
        program.assert_restored()


@contextmanager
def full(disk: str, account: Account) -> Iterator[None]:
    """Fill the disk with the log while the block runs."""
    with psycopg.connect(account.dsn, autocommit=True) as admin:
        admin.execute(f"alter table messages set tablespace {disk}".encode())
        query = "select pg_tablespace_location(oid) from pg_tablespace where spcname = %s"
        ((folder,),) = admin.execute(query, (disk,)).fetchall()
    filler = Path(folder) / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1 << 16))
    yield
    filler.unlink(missing_ok=True)


def long_text() -> str:
    """Return more than a page of the table that is there already, which cannot be compressed."""
    return "".join(random.Random(5).choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=60_000)).strip()


def test_full_disk_loses_nothing(account: Account, small_disk: str):
    text = long_text()
    with account.terminal(*account.script("Before.", "After."), columns=120, rows=40) as program:
        program.ready()
        program.say("before")
        program.wait_for("● Before.")
        with full(small_disk, account):
            program.paste(text)
            program.wait_for("[pasted 60,000 characters]")
            program.type("\r")
            program.wait_for("is full.")
            program.wait_for("are kept in memory")
            assert account.said("user") == ["before"]
        program.wait_for("The database is back; everything is saved.")
        program.wait(lambda: account.turns() == ["completed"] * 2, "the answer")
        program.leave()
        assert program.words().count("is full.") == 1
    assert account.said("user") == ["before", text]


def test_full_disk_in_print_mode_is_reported(account: Account, small_disk: str):
    text = long_text()
    account.run(*ECHO, "-c", "-p", "before")
    with full(small_disk, account):
        result = account.run(*ECHO, "-c", "-p", input=text, module="tests.e2e.hasty")
    assert result.returncode == 75 and not result.stdout
    waiting, kept, given_up = result.stderr.splitlines()
    assert "is full. " in waiting and "some space there" in waiting
    assert kept.startswith("ikigai: 1 event could not be saved; it is kept in ")
    assert "is full. " in given_up and "some space there" in given_up
    file = Path(kept.partition(" in ")[2].partition(" until ")[0])
    _, line = file.read_text().splitlines()
    assert json.loads(line)["content"] == text
    assert account.endings() == ["completed"]
    name = kept.partition(" until ")[2].split()[0]
    after = account.run(*ECHO, "-r", name, "-c", "-p", "after")
    assert (after.stdout, after.stderr) == (
        "after\n",
        "ikigai: 1 event that could not be saved is in the log now.\n",
    )
    assert account.said("user") == ["before", text, "after"] and not file.exists()
    assert account.endings() == ["completed", "interrupted", "completed"]


def test_leaving_while_the_disk_is_full(account: Account, small_disk: str):
    with account.terminal(*ECHO, columns=200) as program:
        program.ready()
        with full(small_disk, account):
            program.paste(long_text())
            program.wait_for("[pasted 60,000 characters]")
            program.type("\r")
            program.wait_for("are kept in memory")
            program.say("/exit")
            assert program.ended() == 75
            program.assert_restored()
            assert "1 event could not be saved; it is kept in " in program.words()
    assert check(account.dsn) and not account.rows()


def test_connections_that_are_cut(account: Account):
    pause = {"do": "pause", "seconds": 1.0}
    with account.terminal(*account.script("One.", ["Two ", pause, "parts."], "Three.")) as program:
        program.ready().say("first")
        program.wait_for("● One.")
        program.wait(lambda: account.turns() == ["completed"], "the first turn in the log")
        _cut(account)
        program.say("second")
        program.wait_for("● Two")
        _cut(account)
        program.wait_for("● Two parts.")
        program.wait(lambda: account.turns() == ["completed"] * 2, "the end of the turn")
        _cut(account)
        program.say("/mark safe")
        program.wait_for("Mark safe set.")
        program.leave()
        assert "⚠" not in program.text(), "what heals by itself is not worth a word"
    assert account.endings() == ["completed"] * 2


def _cut(account: Account) -> None:
    """End the program's connections to the database."""
    with psycopg.connect(account.dsn, autocommit=True) as admin:
        mine = "from pg_stat_activity where datname = current_database() and application_name like 'ikigai/%%'"
        assert admin.execute(f"select pg_terminate_backend(pid, 5000) {mine}".encode()).fetchall()


# -- configuration and flags -------------------------------------------------------------------------------------


@pytest.mark.ordinary("*-words0", "*-words2", "*-words8")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[context\nsliding_context_tokens = 1\n', ("config.toml:1 is not valid TOML", "Correct that line")),
        ("model = \n", ("config.toml:1 is not valid TOML",)),
        ('[context]\n\nsliding_context_token = 5\n', ("config.toml:3: there is no key", "Did you mean")),
        ('[context]\nsliding_context_tokens = "many"\n', ("config.toml:2: context.sliding_context_tokens", "Allowed:")),
        ("[context]\nsliding_context_tokens = -5\n", ("cannot be -5.", "0 to 1000000000")),
        ('model = "gpt"\n', ("config.toml:1: model cannot be 'gpt'.", "provider/name")),
        ('[database]\nurl = "mysql://x"\n', ("config.toml:2: database.url cannot be 'mysql://x'.",)),
        ('[providers.mine]\napi_key_env = "MINE"\n', ("the provider mine has no base_url.", "Add one")),
        ('[providers.openai]\napi_key = "sk-1234567890"\n', ("does not belong in a file.", "ikigai login")),
        ('[providers.mine]\nbase_url = "http://h/v1"\napi = "soap"\n', ("providers.mine.api cannot be 'soap'",)),
        ('[context]\ntoken_counter = "exact"\n', ("context.token_counter cannot be 'exact'", "Allowed:")),
    ],
)  # fmt: skip
def test_bad_configuration_is_refused(account: Account, text: str, words: tuple[str, ...]):
    account.configure(text)
    result = account.run(*ECHO, "-p", "hi")
    refused(result, 2, *words)
    assert "sk-1234567890" not in result.stderr + account.log_file()
    refused(account.run("config"), 2, *words)


@pytest.mark.ordinary("-1", "abc")
@pytest.mark.parametrize("value", ["-1", "abc", "1.5", "", "10kb"])
def test_bad_variable_is_refused(account: Account, value: str):
    result = account.run(*ECHO, "-p", "hi", IKIGAI_SLIDING_CONTEXT_TOKENS=value)
    refused(result, 2, f"IKIGAI_SLIDING_CONTEXT_TOKENS cannot be {value!r}.", "Allowed: a number of tokens")


@pytest.mark.ordinary("arguments0-*", "arguments3-*", "arguments6-*", "arguments7-*")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--config", "/nowhere"], 2, ("/nowhere does not exist.", "Check the name")),
        (["-m", "gpt"], 2, ("--model cannot be 'gpt'.", "provider/name")),
        (["-m", "nobody/x"], 2, ("There is no provider 'nobody'", "[providers.nobody]")),
        (["-m", "openai/gpt-5-mini"], 1, ("There is no key for OpenAI.", "ikigai login openai", "OPENAI_API_KEY")),
        (["-m", "anthropic/claude-x"], 1, ("There is no key for Anthropic.", "ikigai login anthropic")),
        (["-m", "openai/gpt-4.1:high"], 2, ("gpt-4.1 does not think", "another model")),
        (["-m", "scripted/nowhere"], 1, ("cannot be run",)),
        (
            ["-m", "local/smollm2-135m", "--new"],
            1,
            ("The weights of the local model are not installed.", "ikigai setup"),
        ),
    ],
)
def test_bad_flags(account: Account, arguments: list[str], code: int, words: tuple[str, ...]):
    refused(account.run(*arguments, "-p", "hi"), code, *words)
    check(account.dsn)


def test_flags_that_do_not_exist(account: Account):
    for arguments in (["--nonsense"], ["--max-turns", "0"], ["--output-format", "xml"], ["config", "what"], ["db"]):
        result = account.run(*arguments)
        assert result.returncode == 2 and "usage: " in result.stderr and "Traceback" not in result.stderr


# -- models ------------------------------------------------------------------------------------------------------

SECRET = "sk-of-the-test-0123456789"


@pytest.mark.ordinary("401", "429 for an hour", "a page")
@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (failure(401, f"bad key {SECRET}"), 1, ("did not accept the key (401): bad key [key].", "Check the key")),
        (failure(404, "no such model"), 1, ("wire has no model x at http://127.0.0.1", "Check the model's name")),
        (failure(402, "pay"), 1, ("the credit is used up (402)", "Add credit")),
        (failure(429, "slow down", Retry_After="3600"), 75, ("short time (429)", "asks to wait 1 hour")),
        (Answer(b"<html>hello</html>", 200, {"Content-Type": "text/html"}), 1, ("sent a web page instead", "/v1")),
    ],
    ids=["401", "404", "402", "429 for an hour", "a page"],
)
def test_request_that_the_model_refuses_is_reported(
    account: Account, wire: Wire, answer: Answer, code: int, words: tuple[str, ...]
):
    wire.answers(answer)
    result = account.run(*WIRE, "-p", "hi", WIRE_KEY=SECRET)
    refused(result, code, *words)
    assert len(wire.requests) == 1 and result.stdout == ""
    assert account.endings() == ["failed"] and account.said("user") == ["hi"]
    assert SECRET not in result.stderr + account.log_file() + str(account.rows())


@pytest.mark.ordinary("429")
@pytest.mark.parametrize("status", [429, 503])
def test_request_is_retried_when_the_model_is_busy(account: Account, wire: Wire, status: int):
    wire.answers(failure(status, "busy", Retry_After="0.2"), "Here I am.")
    result = account.run(*WIRE, "-p", "hi")
    assert (result.stdout, result.returncode) == ("Here I am.\n", 0)
    told_plainly(result.stderr, f"({status}): busy.", "Trying again in 1 s (attempt 2 of 8).")
    assert len(wire.requests) == 2 and account.endings() == ["completed"]


def test_retries_end_when_the_model_stays_busy(account: Account, wire: Wire):
    wire.answers(*[failure(503, "busy", Retry_After="0.05")] * 8)
    result = account.run(*WIRE, "-p", "hi")
    assert result.returncode == 75 and len(wire.requests) == 8
    first, *_, last = result.stderr.splitlines()
    assert "Trying again in 1 s (attempt 2 of 8)." in first
    assert "Stopped after 8 attempts. Send the message again" in last
    assert account.endings() == ["failed"]


@pytest.mark.ordinary("reset-*")
@pytest.mark.parametrize(("end", "words"), [("clean", "ended before it was complete"), ("reset", "stopped")])
def test_stream_that_ends_early_keeps_its_text(account: Account, wire: Wire, end: str, words: str):
    cut = completion("Half a reply is better than none.")
    cut.cut, cut.end = cut.body.index(b"han "), end
    wire.answers(cut)
    result = account.run(*WIRE, "-p", "hi")
    refused(result, 75, words, "Send the message again.")
    assert result.stdout and "Half a reply is better t".startswith(result.stdout.rstrip("\n"))
    assert len(wire.requests) == 1, "what was shown is not asked for again"
    assert account.endings() == ["failed"]
    assert account.said("assistant") == [result.stdout.rstrip("\n")]


@pytest.mark.ordinary("clean")
@pytest.mark.parametrize("end", ["clean", "reset"])
def test_stream_that_ends_before_any_text_is_retried(account: Account, wire: Wire, end: str):
    wire.answers(*[Answer(end=end)] * 2, "Now then.")
    result = account.run(*WIRE, "-p", "hi", module="tests.e2e.hasty")
    assert (result.stdout, result.returncode) == ("Now then.\n", 0)
    first, second = result.stderr.splitlines()
    told_plainly(first, "Trying again")
    assert second.startswith("ikigai: Trying again") and "attempt 3" in second
    assert account.endings() == ["completed"]


def test_full_context_is_reported(account: Account):
    account.configure('[models."scripted/echo"]\ncontext = 200\nmax_output = 50\n')
    text, off = "word " * 30, {"IKIGAI_SLIDING_CONTEXT_TOKENS": "0"}
    assert account.run(*ECHO, "-c", "-p", text, **off).returncode == 0
    refused(account.run(*ECHO, "-c", "-p", text, **off), 1, "Context full: ", "the window is off.", "/clear")
    with account.terminal(*ECHO, columns=200, env=off) as program:
        program.ready()
        program.paste(text)
        program.type("\r")
        program.wait_for("Context full: ")
        program.wait(lambda: program.input().startswith("word word"), "the words given back")
        program.type("\x15/clear\r")
        program.wait_for("Context cleared")
        program.paste(text)
        program.type("\r")
        program.wait(lambda: account.turns() == ["completed"] * 2, "the answer")
        program.leave()
    assert account.endings() == ["completed"] * 2


def test_replies_that_are_short_at_the_terminal(account: Account, wire: Wire):
    wire.answers(completion("Half a", finish="length"), completion("", finish="content_filter"))
    cut, refused = "⚠ The reply was cut off at its length limit.", "⚠ The model refused to answer."
    with account.terminal(*WIRE, columns=100) as program:
        program.ready()
        program.say("one")
        program.wait_for(cut)
        program.settled()
        program.say("two")
        program.wait_for(refused)
        program.settled()
        live = [line for line in program.text().splitlines() if line.startswith(("●", "⚠"))]
        program.leave()
    assert live == ["● Half a", cut, refused]
    with account.terminal(*WIRE, columns=100) as program:
        program.ready()
        program.wait_for(refused)
        assert [line for line in program.text().splitlines() if line.startswith(("●", "⚠"))] == live
        program.leave()


def test_failures_at_the_terminal(account: Account, wire: Wire):
    wire.answers(failure(401, "bad key"), failure(503, "busy", Retry_After="30"))
    with account.terminal(*WIRE, columns=120) as program:
        program.ready()
        program.say("one")
        program.wait_for(
            "✗ wire did not accept the key (401): bad key. Check the key, or store another with `ikigai login"
        )
        program.say("two")
        trying = r"\(attempt 2 of 8\) · Enter: now · Esc stops wire could not answer \(503\): busy\."
        program.wait(lambda: re.search(trying, program.words()), "the countdown")
        program.type("\x1b")
        program.wait(lambda: account.turns() == ["failed", "interrupted"], "the end of the turn")
        program.wait_for("⚠ wire could not answer (503): busy. Enter on the empty line tries again.")
        program.settled()
        program.say("three")
        program.wait_for("● You said: three")
        program.leave()
        assert "Traceback" not in program.text()
    assert account.said("user") == ["one", "two", "three"]
    roles = [message["role"] for message in wire.messages()]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_enter_tries_again_while_a_request_waits_and_after_the_stop(account: Account, wire: Wire):
    wire.answers(*(failure(503, "busy", Retry_After="50") for _ in range(2)))
    with account.terminal(*WIRE, columns=100) as program:
        program.ready()
        program.say("one")
        program.wait_for("(attempt 2 of 8) · Enter: now · Esc stops")
        program.type("\r")
        program.wait(lambda: len(wire.server.requests) == 2, "the request without the wait")
        program.wait_for("(attempt 2 of 8) · Enter: now · Esc stops")
        program.type("\x1b")
        program.wait_for("Enter on the empty line tries again.")
        program.settled()
        program.type("\r")
        program.wait_for("● You said: one")
        program.settled()
        program.type("\r\r")  # now there is nothing to try again
        program.say("two")
        program.wait_for("● You said: two")
        program.settled()
        wire.answers(failure(401, "bad key"))
        program.say("three")
        program.wait_for("did not accept the key (401): bad key.")
        program.wait_for("· Enter on the empty line tries again.")
        program.settled()
        program.type("\r")
        program.wait_for("● You said: three")
        program.leave()
    assert account.endings()[-4:] == ["completed", "completed", "failed", "completed"]


# -- input and output --------------------------------------------------------------------------------------------

ODD = "a\0b\udced\udca0\udc80c"  # NUL, and the three bytes of a lone surrogate
ODD_STORED = "a\ufffdb\ufffd\ufffd\ufffdc"


def test_odd_bytes_in_piped_input(account: Account):
    for text, offset in ((ODD, "0x00 at offset 1"), (ODD.replace("\0", ""), "0xed at offset 2")):
        refused(account.run(*ECHO, "-p", input=text), 2, f"byte {offset} is not UTF-8 text")
    assert not account.rows()


def test_odd_bytes_in_a_paste(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready()
        program.paste(ODD.encode("utf-8", "surrogateescape"))
        program.wait(lambda: "c" in program.input(), "the paste")
        program.type("\r")
        program.wait(lambda: account.turns() == ["completed"], "the answer")
        program.leave()
        assert b"\0" not in program.raw
    assert account.said("user", "assistant") == [ODD_STORED] * 2


def test_long_message_is_sent_whole(account: Account, wire: Wire):
    text = "\n".join(f"line {n} of a very long message" for n in range(30_000))
    assert len(text) > 1_000_000
    wire.answers("Long.", "Long again.")
    assert account.run(*WIRE, "-c", "-p", input=text).stdout == "Long.\n"
    assert wire.messages()[-1]["content"] == text
    with account.terminal(*WIRE) as program:
        program.ready()
        program.paste(text)
        program.wait_for("[pasted 30,000 lines]")
        program.type("\r")
        program.wait_for("● Long again.")
        program.settled()
        program.paste("x" * (10 << 20))  # more than any model takes
        program.wait_for("[pasted 10,485,760 characters]")
        program.type("\r")
        program.wait_for("This message takes about 2.6M tokens, and")
        program.wait(lambda: program.input().startswith("[pasted 10,485,760"), "the words given back")
        program.type("\x15")
        program.wait_for_input("")
        program.leave()
    assert wire.messages()[-1]["content"] == text
    assert account.said("user") == [text, text] and account.endings() == ["completed"] * 2


@pytest.mark.ordinary("text")
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_output_closed_early(account: Account, wire: Wire, format: str):
    text = "\n".join(f"line {n}" for n in range(20_000))
    wire.answers(completion(text, piece=200))
    line = f"ikigai -m wire/x -p go --output-format {format} | head -1; echo ${{PIPESTATUS[0]}}"
    result = account.shell(line)
    assert result.stderr == "" and result.stdout.splitlines()[1] == "0"
    assert account.said("assistant") == [text] and account.endings() == ["completed"]


def test_output_to_a_full_disk(account: Account):
    refused(
        account.shell("ikigai -m scripted/echo -p hello >/dev/full"),
        1,
        "No space left on device. It is stored: ikigai -r ",
    )
    assert account.said("assistant") == ["hello"] and account.endings() == ["completed"]
    for words in ("config", "--help", "db dump --help", "--version", "db dump -"):
        refused(account.shell(f"ikigai {words} >/dev/full"), 1, "cannot be written: No space left on device.")
    assert account.shell("ikigai config | head -1; echo ${PIPESTATUS[0]}").stdout.endswith("\n0\n")
    unread = account.shell("ikigai db dump - | true; echo ${PIPESTATUS[0]}")
    assert (unread.stdout, unread.stderr) == ("0\n", "")


def test_closed_streams(account: Account):
    refused(account.shell("ikigai -m scripted/echo -p hello >&-"), 2, "standard output is closed", "Redirect")
    assert not account.rows()
    for line in ("ikigai -m scripted/echo -p hello <&-", "ikigai -m scripted/echo -p hello 2>&-"):
        result = account.shell(line)
        assert (result.stdout, result.stderr, result.returncode) == ("hello\n", "", 0)
    for line in ("ikigai -m scripted/echo <&-", "ikigai -m scripted/echo </dev/null", "ikigai -m scripted/echo -p ''"):
        refused(account.shell(line), 2, "No message was given, and the standard input is empty.", "ikigai -p")
    assert account.endings() == ["completed"] * 2


def test_errors_that_nobody_can_read(account: Account):
    assert account.shell("ikigai -m nobody/x -p hello 2>/dev/full").returncode == 2
    assert account.shell("ikigai -m nobody/x -p hello 2>&-").returncode == 2


def test_output_that_is_no_terminal_is_no_repl(account: Account):
    if not shutil.which("script"):
        pytest.skip("needs the program `script`")
    line = f"{starting.shell_command()} {' '.join(ECHO)} hello >out"
    result = account.shell(f"script -qec {shlex.quote(line)} /dev/null; cat out")
    assert result.stdout == "hello\n"


@pytest.mark.ordinary("5")
@pytest.mark.parametrize("rows", [24, 5])
def test_twenty_columns(account: Account, rows: int):
    reply = "A **reply** that is wider than the screen.\n\n| a | b |\n|---|---|\n| one | two |\n\n```\ncode = 1\n```"
    with account.terminal(*account.script(reply), columns=20, rows=rows) as program:
        program.ready()
        program.say("what is it?")
        program.wait(lambda: account.turns() == ["completed"], "the answer")
        program.wait_for("code = 1")
        program.say("/budget x")
        program.wait_for("is not a token")
        program.type("\x15")
        program.leave()
        words = program.text().split()
    assert "Traceback" not in words
    spoken = "● A reply that is wider than the screen."
    assert spoken in " ".join(words), program.text()


def test_signals_while_it_starts(account: Account):
    for number in (signal.SIGTERM, signal.SIGINT):
        with account.terminal(*ECHO) as program:
            program.wait(lambda: "❯" in program.text(), "the prompt")
            os.kill(program.process.pid, number)
            assert program.ended() in (128 + number, -number)
            program.assert_restored()
    check(account.dsn)
