"""Tests of the exit codes: each that a help page documents is shown by the real program."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pytest

from ikigai.cli import help_pages
from ikigai.core.errors import EXIT_CODES, ExitCode
from ikigai.store.schema import schema
from tests.app.plugins.folders import write_plugin
from tests.app.skills.folders import write_skill
from tests.e2e.account import ECHO, WIRE, Account, Wire
from tests.support.examples import walk
from tests.support.wire_server import Answer, completion, failure

SIGNALS = {signal.SIGHUP: ExitCode.HANGUP, signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
AWAY = {"IKIGAI_DATABASE_URL": "postgresql://127.0.0.1:1/x"}
NO_MODEL = {"IKIGAI_MODEL": ""}


@pytest.fixture
def used(account: Account) -> Account:
    """Return a user with an agent `docs` with one turn, a fork `kid`, a dump, an export and other files."""
    assert account.run(*ECHO, "-c", "-p", "hello").returncode == 0
    (name,) = account.agents()
    assert account.run("agents", "rename", name, "docs").returncode == 0
    assert account.run("-r", "docs", "-p", "/fork --name kid", *ECHO).returncode == 0
    (account.home / "other.txt").write_text("something else\n")
    (account.home / "stop.sql").write_text("select nonsense;\n")
    return account


Case = tuple[int, tuple[str, ...], dict[str, str]]
# In each group of commands, such as `ikigai agents`, a case finds what those before it have left.
# ANNA stands for a role with a schema, BELA and TEAM for names of none.
CASES: dict[str, list[Case]] = {
    "setup": [
        (0, ("setup",), {"IKIGAI_MODEL": "scripted/echo"}),
        (1, ("setup",), {"IKIGAI_MODEL": "openai/gpt-5-mini"}),
        (2, ("setup", "--what"), {}),
        (75, ("setup",), AWAY),
    ],
    "config": [(0, ("config",), {}), (2, ("config", "--what"), {})],
    "config show": [(0, ("config", "show"), {}), (2, ("config", "show"), {"IKIGAI_PRUNE_FRACTION": "much"})],
    "config get": [(0, ("config", "get", "model"), {}), (2, ("config", "get", "nothing"), {})],
    "config set": [
        (0, ("config", "set", "terminal.theme", "dark"), {}),
        (2, ("--config", "/proc/x/config.toml", "config", "set", "terminal.theme", "dark"), {}),
        (2, ("config", "set", "terminal.theme", "0"), {}),
    ],
    "config validate": [(0, ("config", "validate"), {}), (2, ("config", "validate", "other.txt"), {})],
    "config path": [(0, ("config", "path"), {}), (2, ("config", "path", "x"), {})],
    "config init": [
        (0, ("--config", "new.toml", "config", "init"), {}),
        (1, ("config", "init"), {}),
        (2, ("config", "init", "x"), {}),
    ],
    "config edit": [
        (0, ("config", "edit"), {"EDITOR": "true", "VISUAL": ""}),
        (1, ("config", "edit"), {"EDITOR": "false", "VISUAL": ""}),
        (2, ("config", "edit"), {"EDITOR": "cp other.txt", "VISUAL": ""}),
    ],
    "login": [
        (0, ("login", "--list"), {}),
        (1, ("login", "wire"), {}),
        (2, ("login", "nobody"), {}),
    ],
    "skills": [(0, ("skills", "--help"), {}), (2, ("skills",), {})],
    "skills list": [(0, ("skills", "list"), {}), (2, ("skills", "list", "pdf"), {})],
    "skills check": [
        (0, ("skills", "check", ".agents/skills/pdf"), {}),
        (0, ("skills", "check", ".agents/skills/pdf/SKILL.md"), {}),
        (1, ("skills", "check", "demo"), {}),
        (2, ("skills", "check", "nowhere"), {}),
    ],
    "plugins": [(0, ("plugins", "--help"), {}), (2, ("plugins",), {})],
    "plugins add": [
        (0, ("plugins", "add", "demo", "--yes"), {}),
        (1, ("plugins", "add", ".agents", "--yes"), {}),
        (2, ("plugins", "add", "demo"), {}),
        (2, ("plugins", "add", "nowhere", "--yes"), {}),
    ],
    "plugins list": [(0, ("plugins", "list"), {}), (2, ("plugins", "list", "demo"), {})],
    "plugins remove": [
        (0, ("plugins", "remove", "demo"), {}),
        (1, ("plugins", "remove", "demo"), {}),
        (2, ("plugins", "remove"), {}),
    ],
    "models": [
        (0, ("models", "wire"), {"WIRE_KEY": "key"}),
        (1, ("models", "local"), {}),
        (2, ("models", "nobody"), {}),
        (75, ("models", "dead", "--refresh"), {}),
    ],
    "usage": [
        (0, ("usage",), {}),
        (2, ("usage", "--agent", "nobody"), {}),
        (75, ("usage",), AWAY),
    ],
    "agents": [(0, ("agents",), {}), (2, ("agents", "--what"), {}), (75, ("agents",), AWAY)],
    "agents list": [
        (0, ("agents", "list"), {}),
        (0, ("agents", "list", "--limit", "1"), {}),
        (2, ("agents", "list", "--limit", "few"), {}),
        (2, ("agents", "list", "docs"), {}),
        (75, ("agents", "list"), AWAY),
    ],
    "agents show": [
        (0, ("agents", "show", "docs"), {}),
        (2, ("agents", "show", "nobody"), {}),
        (75, ("agents", "show", "docs"), AWAY),
    ],
    "agents rename": [
        (0, ("agents", "rename", "kid", "child"), {}),
        (1, ("agents", "rename", "docs", "child"), {}),
        (2, ("agents", "rename", "nobody", "x"), {}),
        (75, ("agents", "rename", "docs", "x"), AWAY),
    ],
    "agents archive": [
        (0, ("agents", "archive", "docs"), {}),
        (1, ("agents", "archive", "docs"), {}),
        (2, ("agents", "archive", "nobody"), {}),
        (75, ("agents", "archive", "docs"), AWAY),
    ],
    "agents kill": [
        (0, ("agents", "kill", "child", "--yes"), {}),
        (1, ("agents", "kill", "docs", "--yes"), {}),
        (2, ("agents", "kill", "nobody", "--yes"), {}),
        (75, ("agents", "kill", "docs", "--yes"), AWAY),
    ],
    "agents revive": [
        (0, ("agents", "revive", "docs"), {}),
        (1, ("agents", "revive", "docs"), {}),
        (2, ("agents", "revive", "nobody"), {}),
        (75, ("agents", "revive", "docs"), AWAY),
    ],
    "history": [(0, ("history", "--help"), {}), (2, ("history",), {}), (75, ("history", "list"), AWAY)],
    "history search": [
        (0, ("history", "search", "hello"), {}),
        (2, ("history", "search", " "), {}),
        (2, ("history", "search", "x", "--agent", "nobody"), {}),
        (75, ("history", "search", "x"), AWAY),
    ],
    "history recall": [
        (0, ("history", "recall", "hello"), {}),
        (2, ("history", "recall", "x", "--agent", "nobody"), {}),
        (75, ("history", "recall", "x"), AWAY),
    ],
    "history list": [
        (0, ("history", "list", "--agent", "docs"), {}),
        (2, ("history", "list", "--agent", "nobody"), {}),
        (75, ("history", "list"), AWAY),
    ],
    "history show": [
        (0, ("history", "show", "1"), {}),
        (2, ("history", "show", "99999"), {}),
        (75, ("history", "show", "1"), AWAY),
    ],
    "history export": [
        (0, ("history", "export", "--agent", "docs", "-o", "new.md"), {}),
        (1, ("history", "export", "--format", "md", "-o", "other.txt"), {}),
        (1, ("history", "export", "--from", "9999"), {}),
        (1, ("history", "export", "-o", "nowhere/new.md"), {}),
        (2, ("history", "export", "--agent", "nobody"), {}),
        (75, ("history", "export"), AWAY),
    ],
    "history import": [
        (1, ("history", "import", "other.txt"), {}),
        (2, ("history", "import", "nowhere"), {}),
        (75, ("history", "import", "other.txt"), AWAY),
    ],
    "history recover": [
        (1, ("history", "recover", "other.txt"), {}),
        (2, ("history", "recover"), {}),
        (75, ("history", "recover", "other.txt"), AWAY),
    ],
    "doctor": [
        (0, ("doctor",), {"IKIGAI_MODEL": "scripted/echo"}),
        (1, ("doctor",), AWAY),
        (2, ("doctor", "--what"), {}),
    ],
    "completion": [(0, ("completion", "bash"), {}), (2, ("completion",), {})],
    "db": [(0, ("db", "--help"), {}), (2, ("db",), {}), (75, ("db", "status"), AWAY)],
    "db status": [(0, ("db", "status"), {}), (2, ("db", "status", "--what"), {}), (75, ("db", "status"), AWAY)],
    "db migrate": [(0, ("db", "migrate"), {}), (2, ("db", "migrate", "--what"), {}), (75, ("db", "migrate"), AWAY)],
    "db users": [(0, ("db", "users", "--help"), {}), (2, ("db", "users"), {}), (75, ("db", "users", "list"), AWAY)],
    "db users add": [
        (0, ("db", "users", "add", "BELA"), {}),
        (1, ("db", "users", "add", ""), {}),
        (2, ("db", "users", "add"), {}),
        (75, ("db", "users", "add", "BELA"), AWAY),
    ],
    "db users add-shared": [
        (0, ("db", "users", "add-shared", "TEAM", "ANNA"), {}),
        (1, ("db", "users", "add-shared", "pg_team", "ANNA"), {}),
        (2, ("db", "users", "add-shared", "TEAM"), {}),
        (75, ("db", "users", "add-shared", "TEAM", "ANNA"), AWAY),
    ],
    "db users list": [
        (0, ("db", "users", "list"), {}),
        (2, ("db", "users", "list", "--what"), {}),
        (75, ("db", "users", "list"), AWAY),
    ],
    "db users remove": [
        (0, ("db", "users", "remove", "ANNA", "--from", "TEAM"), {}),
        (0, ("db", "users", "remove", "TEAM", "--delete"), {}),
        (0, ("db", "users", "remove", "BELA"), {}),
        (1, ("db", "users", "remove", "BELA"), {}),
        (2, ("db", "users", "remove"), {}),
        (75, ("db", "users", "remove", "BELA"), AWAY),
    ],
    "db dump": [
        (0, ("db", "dump", "new.dump"), {}),
        (1, ("db", "dump", "other.txt"), {}),
        (1, ("db", "dump", "nowhere/new.dump"), {}),
        (2, ("db", "dump"), {}),
        (75, ("db", "dump", "newer.dump"), AWAY),
    ],
    "db restore": [
        (1, ("db", "restore", "other.txt"), {}),
        (2, ("db", "restore", "nowhere.dump"), {}),
    ],
    "db psql": [
        (0, ("db", "psql", "-c", "select 1"), {}),
        (1, ("db", "psql", "-c", "select nonsense"), {}),
        (2, ("db", "psql"), {"IKIGAI_DATABASE_URL": "postgresql://h:port/x"}),
        (3, ("db", "psql", "-v", "ON_ERROR_STOP=1", "-f", "stop.sql"), {}),
        (75, ("db", "psql"), AWAY),
    ],
    "db purge": [
        (0, ("db", "purge", "--match", "nothing of this", "--yes"), {}),
        (2, ("db", "purge", "--match", "hello"), {}),
        (2, ("db", "purge",), {}),
        (75, ("db", "purge", "--match", "hello", "--yes"), AWAY),
    ],
}  # fmt: skip
ELSEWHERE = {("db purge", 1), ("history import", 0), ("history recover", 0), ("db restore", 0), ("db restore", 75)}
"""Codes that other tests show: the word is not typed at a terminal, a history is imported, recovered, restored.
test_mcp shows the codes of `ikigai mcp`.
"""


def documented() -> set[tuple[str, int]]:
    """Return the exit codes of all pages, without signals."""
    content = help_pages.load()
    return {
        (page, int(code))
        for page, each in content.pages.items()
        for codes in help_pages.exit_codes(each, content)
        for code in codes.split(", ")
        if int(code) not in SIGNALS.values()
    }


def test_every_documented_code_is_shown_and_no_other():
    shown = {(page, code) for page, cases in CASES.items() for code, _, _ in cases}
    elsewhere = ELSEWHERE | {each for each in documented() if each[0].split()[0] == "mcp"}
    assert documented() - shown == elsewhere and not shown - documented()


GROUPS = (
    ("agents", "db", "history"),
    ("completion", "doctor", "login", "models", "setup", "usage", "config", "skills", "plugins"),
)
"""Groups of commands that find what `used` makes, and those that need a user alone."""


def cases(group: str, whole: bool) -> Iterator[tuple[str, Case]]:
    """Yield the cases of a group with their pages.

    Those with 2 and 75 come from one place for all commands, the parsers and the way to the database: not `whole`, they
    are of one page of the group. test_json_output shows that each command refuses what it cannot do.
    """
    seen = set[int]()
    for page in (page for page in CASES if page.split()[0] == group):
        for case in CASES[page]:
            if whole or case[0] not in (2, 75) or case[0] not in seen:
                yield page, case
        seen |= {code for code, _, _ in CASES[page]}


def try_cases(user: Account, group: str, names: dict[str, str], whole: bool) -> None:
    for page, (code, words, env) in cases(group, whole):
        given = "sk-wrong-key-of-the-test" if page == "login" else ""
        result = user.run(*(names.get(word, word) for word in words), input=given, **env)
        assert result.returncode == code, (words, result)
        assert "Traceback" not in result.stderr


@pytest.mark.timeout(600)  # on a busy machine the program takes seconds to start
@walk
@pytest.mark.parametrize("group", GROUPS[0])
def test_code_of_a_command(used: Account, people: tuple[str, str, str], group: str, whole: bool):
    names = dict(zip(("ANNA", "BELA", "TEAM"), people, strict=True))
    assert used.run("db", "users", "add", names["ANNA"]).returncode == 0
    try_cases(used, group, names, whole)


@pytest.mark.timeout(600)
@walk
def test_code_of_a_command_that_needs_no_agent(account: Account, wire: Wire, whole: bool):
    assert {page.split()[0] for page in CASES} == {group for groups in GROUPS for group in groups}
    assert account.run("db", "migrate").returncode == 0
    for name in ("other.txt", "other.png"):
        (account.home / name).write_text("something else\n")
    write_skill(account.home / ".agents/skills", "pdf")
    write_plugin(account.home / "demo")
    wire.answers(failure(401, "no"))
    for group in GROUPS[1]:
        try_cases(account, group, {}, whole)


def test_help_of_the_program_has_every_code(account: Account):
    text = account.run("--help").stdout
    (section,) = [part for part in text.split("\n\n") if part.startswith("exit codes:")]
    assert [int(line.split()[0]) for line in section.splitlines() if line[2:3].isdigit()] == list(EXIT_CODES)


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"postgresql://127.0.0.1:{server.getsockname()[1]}/x?connect_timeout=30"


WAITING = (
    ("-p", "hello"), ("agents",), ("usage",), ("history", "list"), ("history", "search", "x"), ("db", "status"),
    ("db", "migrate"), ("db", "dump", "-"), ("db", "psql"), ("setup",),
)  # fmt: skip


@pytest.mark.ordinary("-p hello-*")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("words", WAITING[:3], ids=" ".join)
def test_code_of_a_signal(account: Account, silent: str, words: tuple[str, ...], number: signal.Signals):
    _stop(account, silent, words, number)


@pytest.mark.ordinary("history list", "db psql")
@pytest.mark.parametrize("words", WAITING[3:], ids=" ".join)
def test_code_of_an_interrupt(account: Account, silent: str, words: tuple[str, ...]):
    _stop(account, silent, words, signal.SIGINT)


def _stop(account: Account, silent: str, words: tuple[str, ...], number: signal.Signals) -> None:
    """Stop the program while it waits for the database; a shell has the same code for a program that a signal ended."""
    program = account.start(*words, IKIGAI_DATABASE_URL=silent, IKIGAI_MODEL="scripted/echo")
    _wait(lambda: any(each.raddr for each in psutil.Process(program.pid).net_connections("tcp")))
    program.send_signal(number)
    _, errors = program.communicate(timeout=60)
    code = program.returncode if program.returncode >= 0 else 128 - program.returncode
    assert (code, errors) == (SIGNALS[number], "")


def _wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("dsn", "env", "words"),
    [
        ("libpq", {"PGSERVICE": "nowhere"}, 'definition of service "nowhere" not found'),
        ("libpq", {"PGPORT": "99999"}, "invalid port number"),
        ("libpq", {"PGSSLMODE": "maybe"}, "invalid sslmode value"),
        ("libpq", {"PGCONNECT_TIMEOUT": "soon"}, "bad value for connect_timeout"),
        ("postgresql://127.0.0.1:99999/x", {}, "invalid port number"),
        ("postgresql://127.0.0.1/x?target_session_attrs=some", {}, "invalid target_session_attrs value"),
        ("host=127.0.0.1 port=1,2", {}, "could not match"),
        ("postgresql:///x?host=/" + "long/" * 40, {}, "too long"),
    ],
)
def test_address_that_can_never_work(account: Account, dsn: str, env: dict[str, str], words: str):
    """A script that tries again while the code is 75 would never end."""
    result = account.run(*ECHO, "-p", "hi", IKIGAI_DATABASE_URL=dsn, **env)
    assert result.returncode == ExitCode.UNUSABLE and words in result.stderr and "Correct it" in result.stderr


@pytest.mark.parametrize("dsn", ["postgresql://127.0.0.1:1,127.0.0.1:99999/x", "postgresql://nowhere.invalid/x"])
def test_address_that_may_work_later(account: Account, dsn: str):
    assert account.run(*ECHO, "-p", "hi", IKIGAI_DATABASE_URL=dsn).returncode == ExitCode.TRY_AGAIN


@pytest.mark.long  # test_json_output and test_bad_input show each of these codes, with more
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (completion("Words."), 0),
        (completion("Half", finish="length"), 0),
        (completion("", finish="length"), 1),
        (completion("I", finish="content_filter"), 1),
        (failure(400, "no"), 1),
        (failure(429, "slow down", Retry_After="3600"), 75),
    ],
    ids=["answered", "cut off", "no words", "content filter", "400", "429"],
)
def test_code_of_a_turn(account: Account, wire: Wire, answer: Answer, code: int):
    wire.answers(answer)
    assert account.run(*WIRE, "-p", "hello").returncode == code


def test_wish_that_is_met_already_changes_nothing(used: Account):
    """All commands of a script answer it alike: with 1, a sentence, and no event."""
    lines = ("/budget 5000", "/think high", "/profile default", "/rename docs", "/system be brief")
    for line in lines:
        used.run(*ECHO, "-r", "docs", "-p", line)
    before = used.rows()
    for line in lines:
        told = used.run(*ECHO, "-r", "docs", "-p", line)
        assert told.returncode == ExitCode.FAILED and "Nothing was changed" in told.stderr, (line, told)
    for words in (("agents", "rename", "docs", "docs"), ("agents", "revive", "docs")):
        assert used.run(*words).returncode == ExitCode.FAILED, words
    assert used.rows() == before


def test_purge_that_is_not_confirmed(used: Account):
    with used.terminal("db", "purge", "--match", "hello") as program:
        program.wait_for("Type purge to go on:")
        program.type("no\r")
        assert program.ended() == ExitCode.FAILED
    assert "hello" in used.said("user")


def test_history_from_a_pipe(used: Account):
    exported = used.run("history", "export", "--format", "jsonl").stdout
    done = used.run("history", "import", "-", "--name", "copy", input=exported)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("copy is new and has ")
    wrong = used.run("history", "import", "-", input="something else\n")
    assert wrong.returncode == 1 and wrong.stderr.startswith("ikigai: standard input")
    with used.terminal("history", "import", "-") as program:
        assert program.ended() == ExitCode.UNUSABLE
        program.wait_for("A history is not read from a terminal.")


def test_dump_restored_and_dump_programs_missing(used: Account, empty_dsn: str, tmp_path: Path):
    assert used.run("db", "dump", "all.dump").returncode == 0
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    missing = used.run("db", "dump", "new.dump", module="tests.e2e.without_wheel", PATH=str(nothing))
    assert missing.returncode == 2 and "pg_dump is not installed." in missing.stderr
    assert used.run("db", "restore", "all.dump").returncode == 1, "it is not empty"
    assert used.run("db", "restore", "all.dump", **AWAY).returncode == 75
    assert used.run("db", "restore", "all.dump", IKIGAI_DATABASE_URL=empty_dsn).returncode == 0


def test_purge_makes_no_schema(account: Account, empty_dsn: str):
    result = account.run("db", "purge", "--match", "x", "--yes", IKIGAI_DATABASE_URL=empty_dsn)
    assert result.returncode == 2 and "no tables of ikigai in the schema ikigai of" in result.stderr
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("select from pg_namespace where nspname = 'ikigai'").fetchall() == []


def test_status_and_migrate(account: Account, empty_dsn: str):
    there, number = {"IKIGAI_DATABASE_URL": empty_dsn}, schema.SCHEMA_VERSION
    for done in ("was made", "is there already"):
        assert account.run("db", "migrate", **there).stdout == f"The schema ikigai {done}, with number {number}.\n"
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("update ikigai.ikigai_migrations set version = version - 1")
    for command in ("status", "migrate"):
        refused = account.run("db", command, **there)
        assert refused.returncode == 2 and f"this ikigai needs schema {number}" in refused.stderr


def test_one_is_no_plural(account: Account):
    assert account.run(*ECHO, "-c", "-p", "hello").returncode == 0
    assert "holds      1 agent, 4 events" in account.run("db", "status").stdout


def test_list_is_in_columns(used: Account):
    with psycopg.connect(used.dsn) as connection:
        connection.execute(
            "insert into messages (event_id, agent_id, seq, kind, content, data) select gen_random_uuid(), agents.id,"
            ' max(seq) + 1, \'tool_call\', \'{}\', \'{"id": "1", "name": "a_long_tool_name"}\''
            " from agents join messages on agent_id = agents.id where name = 'docs' group by agents.id"
        )
    rows = used.run("history", "list", "--agent", "docs").stdout.splitlines()
    starts = {row.index(word) for row in rows for word in (" hello", " {}") if word in row}
    assert len(rows) > 2 and len(starts) == 1, rows
