"""Tests of all that the program prints as JSON, successes and failures, against the published schema.

`Account.run` checks every output that was asked for as JSON, here and in all other tests of the whole program.
"""

import json
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import jsonschema
import pytest

from ikigai.app.usage.usage_report import GROUPINGS
from ikigai.core.commands import table
from ikigai.core.commands.spec import PrintMode
from tests.app.plugins.folders import write_plugin
from tests.app.skills.folders import write_skill
from tests.cli.test_help_pages import parsers
from tests.e2e.account import ECHO, WIRE, Account, Wire, lines_of
from tests.e2e.test_mcp import SCRIPT, forking
from tests.support import json_schema
from tests.support.examples import walk
from tests.support.wire_server import Answer, completion, failure

AWAY = "postgresql://127.0.0.1:1/x"
FORMATS = (("--json",), ("--output-format", "json"), ("--output-format=stream-json",))
"""The first is another name for the second. Commands and refusals are tried in one in the ordinary run."""


def test_published_schema_is_the_one_of_the_records():
    assert json.loads(json_schema.FILE.read_text()) == json_schema.make(), "python -m tests.support.json_schema"


def test_published_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema.FILE.read_text()))


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"error","code":2,"message":"x","remedy":null,"more":1}',
        '{"type":"error","code":"2","message":"x","remedy":null}',
        '{"type":"error","code":0,"message":"x","remedy":null}',
        '{"type":"delta"}',
        '{"type":"result","text":"","agent":null,"agent_id":null,"stop":"soon"}',
    ],
)
def test_schema_refuses_other_objects(line: str):
    with pytest.raises(jsonschema.ValidationError):
        json_schema.check(line)


def test_times_without_offset_are_refused():
    event = {
        "type": "event",
        "agent": "a",
        "agent_id": "b",
        "id": 1,
        "seq": 1,
        "kind": "user",
        "content": "",
        "data": None,
    }
    json_schema.check(json.dumps({**event, "at": "2026-11-24T02:10:00.5Z"}))
    with pytest.raises(jsonschema.ValidationError):
        json_schema.check(json.dumps({**event, "at": "2026-11-24T02:10:00"}))


@pytest.fixture
def used(account: Account, wire: Wire) -> Account:
    """Return a user with an agent `docs`, that has two turns, and a fork `kid`."""
    wire.answers("An answer, wörd by wörd.", "Another.")
    account.say("first", "second", flags=WIRE)
    (name,) = account.agents()
    assert account.run("agents", "rename", name, "docs").returncode == 0
    for name in ("kid", "ghost"):
        assert account.run("-r", "docs", "-p", f"/fork --name {name}", *WIRE).returncode == 0
    assert account.run("agents", "kill", "ghost", "--yes").returncode == 0
    return account


SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "agents": ("agents", "--json"),
    "agents, all": ("agents", "--all", "--json"),
    "agent": ("agents", "show", "kid", "--json"),
    "list": ("history", "list", "--agent", "kid", "--json"),
    "show": ("history", "show", "1", "--beside", "3", "--json"),
    "search": ("history", "search", "wörd", "--json"),
    "recall": ("history", "recall", "what", "was", "first", "--json"),
    "search, nothing": ("history", "search", "elsewhere", "--json"),
    "usage by day": ("usage", "--json"),
    "usage, newest day": ("usage", "--limit", "1", "--json"),
    "usage by model": ("usage", "--by", "model", "--since", "2d", "--json"),
    "usage by month": ("usage", "--by", "month", "--json"),
    "usage by folder": ("usage", "--by", "folder", "--json"),
    "usage by tree": ("usage", "--by", "tree", "--json"),
    "usage by agent": ("usage", "--by", "agent", "--agent", "docs", "--json"),
    "models": ("models", "--json"),
    "agents, listed": ("agents", "list", "--all", "--json"),
    "agents, limited": ("agents", "list", "--limit", "1", "--json"),
    "config": ("config", "--json"),
    "config show": ("config", "show", "--json"),
    "config set": ("config", "set", "terminal.theme", "dark", "--json"),
    "config validate": ("config", "validate", "--json"),
    "config get": ("config", "get", "context.keep_first_turn", "--json"),
    "mcp list": ("mcp", "list", "--json"),
    "mcp test": ("mcp", "test", "--json"),
    "skills": ("skills", "list", "--json"),
    "skill": ("skills", "check", ".agents/skills/pdf", "--json"),
    "plugins": ("plugins", "list", "--json"),
    "status": ("db", "status", "--json"),
    "migrate": ("db", "migrate", "--json"),
    "revive": ("agents", "revive", "ghost", "--json"),
    "rename": ("agents", "rename", "kid", "child", "--json"),
    "kill": ("agents", "kill", "child", "--yes", "--json"),
    "archive": ("agents", "archive", "docs", "--json"),
}


@pytest.mark.timeout(600)  # on a busy machine the program takes seconds to start
def test_subcommands(used: Account):
    """All of one user: those that change the agents come behind those that show them."""
    assert used.run("mcp", "add", "scripted", "--", sys.executable, SCRIPT, "good").returncode == 0
    write_skill(used.home / ".agents/skills", "pdf")
    assert used.run("plugins", "add", "--yes", str(write_plugin(used.home / "demo"))).returncode == 0
    for case, words in SUBCOMMANDS.items():
        user = forking(used) if words[0] == "mcp" else used
        result = user.run(*words, IKIGAI_MODEL="wire/x", WIRE_KEY="key")
        errors = result.stderr.replace("ikigai: No list yet from dead. To fetch it: ikigai models --refresh\n", "")
        assert (result.returncode, errors) == (0, "") and lines_of(result.stdout), case
        assert all(" " not in line.split(":")[0] for line in result.stdout.splitlines()), f"{case} is not compact"


COMMANDS = {path: "--json" in parser._option_string_actions for path, parser in parsers() if path}
"""All commands, by the words that lead to them; True for those that take --json."""
WITH_JSON = [path for path, takes_json in COMMANDS.items() if takes_json]


def command_of(words: tuple[str, ...]) -> str:
    """Return the command that these words are for."""
    return max((path for path in COMMANDS if " ".join(words).startswith(path)), key=len)


def test_every_command_that_prints_json_is_tried():
    """A command that is added needs a sample in SUBCOMMANDS."""
    assert {*WITH_JSON} - {*map(command_of, SUBCOMMANDS.values())} == {"doctor"}
    assert {words[2] for words in SUBCOMMANDS.values() if words[:2] == ("usage", "--by")} | {"day"} == {*GROUPINGS}


@pytest.mark.timeout(600)
@walk
def test_every_command_refuses_in_json(account: Account, whole: bool):
    """Also one that has no such output: a program that asks for it reads standard output alone.

    The ordinary run tries one of those in each group; test_refusals_of_subcommands tries those that have it.
    """
    without = {path.split()[0]: path for path, takes_json in COMMANDS.items() if not takes_json}
    for path in COMMANDS if whole else without.values():
        result = account.run(*path.split(), "--nonsense", "--json", IKIGAI_DATABASE_URL=AWAY)
        (record,) = lines_of(result.stdout)
        assert (result.returncode, record["type"]) == (record["code"], "error"), result
        assert record["code"] == (75 if path == "db psql" else 2), "what psql does not take it says itself"


def test_doctor(account: Account):
    for env in ({"IKIGAI_MODEL": "scripted/echo"}, {"IKIGAI_DATABASE_URL": AWAY}):
        result = account.run("doctor", "--json", **env)
        (record,) = lines_of(result.stdout)
        assert record["type"] == "doctor" and record["ok"] is (result.returncode == 0)


def test_values_of_settings_are_values(account: Account):
    account.configure('model = "wire/x"\n[context]\nkeep_first_turn = true\nprune_fraction = 0.5\n')
    values = {row["key"]: row["value"] for row in lines_of(account.run("config", "--json").stdout)}
    assert values["model"] == "wire/x" and values["context.keep_first_turn"] is True
    assert values["context.prune_fraction"] == 0.5 and values["context.sliding_context_tokens"] == 100_000
    assert isinstance(values["tools.allow"], list)


SHOWN = {
    "agents": "/agents", "context": "/context", "cost": "/cost", "help": "/help", "model": "/model",
    "profile": "/profile", "search": "/search first", "status": "/status", "summary": "/summary", "system": "/system",
    "think": "/think", "budget": "/budget", "limit": "/limit", "skills": "/skills",
}  # fmt: skip
SHOWN_TOO = ("/help keys", "/help clear", "/search #1", "/agents --all")
CHANGED = {
    "clear": "/clear", "mark": "/mark here", "rewind": "/rewind", "undo": "/undo", "redo": "/redo", "retry": "/retry",
    "forget": "/forget last 1", "remember": "/remember ducks",
    "condense": "/condense", "fork": '/fork "on"', "rename": "/rename calm", "archive": "/archive",
    "kill": "/kill", "revive": "/revive docs",
}  # fmt: skip


def test_commands_of_print_mode_are_the_ones_tried():
    modes = {mode: {each.name for each in table.COMMANDS if each.print_mode is mode} for mode in PrintMode}
    assert modes[PrintMode.SHOW] == SHOWN.keys()
    assert modes[PrintMode.CHANGE] | modes[PrintMode.TREE] == CHANGED.keys()


@pytest.mark.ordinary("--output-format json")
@pytest.mark.parametrize("format", FORMATS, ids=" ".join)
def test_command_that_shows(used: Account, format: tuple[str, ...]):
    for line in (*SHOWN.values(), *SHOWN_TOO):
        result = used.run(*WIRE, "-r", "docs", "-p", line, *format, WIRE_KEY="key")
        (record,) = lines_of(result.stdout)
        assert result.returncode == 0 and record["text"], line
        assert record["command"]["name"] == line.split()[0][1:] and record["command"]["figures"]["type"], line
        assert record["agent"] == (None if line.startswith("/help") else "docs"), line


@pytest.mark.ordinary("--output-format=stream-json")
@pytest.mark.parametrize("format", FORMATS, ids=" ".join)
def test_command_that_changes(used: Account, format: tuple[str, ...]):
    """A result if it is possible, and an error if it is not; never nothing."""
    for name, line in CHANGED.items():
        result = used.run(*WIRE, "-r", "kid", "-p", line, *format, WIRE_KEY="key")
        *_, record = lines_of(result.stdout)
        if result.returncode and "stop" not in record:
            assert (record["type"], record["code"]) == ("error", result.returncode) and record["message"], line
            assert record["message"].rstrip(".") in result.stderr, line
        else:
            assert record["type"] == "result" and record["command"]["name"] == name, line
        if name == "rename":
            used.run("agents", "rename", "calm", "kid")


@pytest.mark.ordinary("*output-format json", "end---json", "end-*stream-json", "400-*stream-json")
@pytest.mark.parametrize("format", FORMATS, ids=" ".join)
@pytest.mark.parametrize(
    ("answer", "code", "stop"),
    [
        (completion("Words."), 0, "end"),
        (completion("Half a", finish="length"), 0, "length"),
        (completion("", finish="length"), 1, "length"),
        (completion("I", finish="content_filter"), 1, "refused"),
        (completion("", finish="content_filter"), 1, "refused"),
        (failure(400, "no"), 1, "failed"),
        (failure(401, "no"), 1, "failed"),
    ],
    ids=["end", "length", "length, no words", "filter", "filter, no words", "400", "401"],
)
def test_turn(account: Account, wire: Wire, format: tuple[str, ...], answer: Answer, code: int, stop: str):
    wire.answers(answer)
    result = account.run(*WIRE, "-p", "hello", *format)
    *before, record = lines_of(result.stdout)
    assert (result.returncode, record["type"], record["stop"]) == (code, "result", stop)
    assert ("reason" in record) is (stop != "end")
    assert bool(before) is (format == FORMATS[2])
    assert all(event["agent"] == record["agent"] for event in before if event["type"] == "event")
    assert all(event["agent_id"] == record["agent_id"] for event in before if event["type"] == "event")


def test_turn_that_may_work_later(account: Account, wire: Wire):
    result = account.run("-m", "dead/x", "-p", "go", "--json", module="tests.e2e.hasty")
    (record,) = lines_of(result.stdout)
    assert (result.returncode, record["stop"]) == (75, "failed") and "Stopped after " in record["reason"]


REFUSALS: dict[str, tuple[int, tuple[str, ...], dict[str, str]]] = {
    "unknown flag": (2, ("-p", "hi", "--nonsense"), {}),
    "value of a flag": (2, ("-p", "hi", "--max-turns", "0"), {}),
    "no message": (2, ("-p",), {}),
    "unknown command": (2, ("-p", "/foo"), {}),
    "command of the terminal": (2, ("-p", "/edit"), {}),
    "unknown model": (2, ("-p", "hi", "-m", "nobody/x"), {}),
    "model without provider": (2, ("-p", "hi", "-m", "x"), {}),
    "unknown agent": (2, ("-p", "hi", "-r", "nobody"), {}),
    "unknown profile": (2, ("-p", "hi", "--profile", "nobody"), {}),
    "missing file": (2, ("-p", "hi", "@nothing.png"), {}),
    "no model": (1, ("-p", "hi"), {"IKIGAI_MODEL": ""}),
    "database away": (75, ("-p", "hi"), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, command": (75, ("-p", "/context"), {"IKIGAI_DATABASE_URL": AWAY}),
    "bad DSN": (2, ("-p", "hi"), {"IKIGAI_DATABASE_URL": "postgresql://h:port/x"}),
    "bad setting": (2, ("-p", "hi"), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "not killed": (1, ("-p", "/kill", "-r", "kid"), {}),
    "two options": (2, ("-p", "hi", "--follow", "docs"), {}),
}


@pytest.mark.timeout(600)
@pytest.mark.ordinary("--output-format json")
@pytest.mark.parametrize("format", FORMATS, ids=" ".join)
def test_refusals_of_print_mode(used: Account, format: tuple[str, ...]):
    """None of them changes what the others find."""
    for code, words, env in REFUSALS.values():
        result = used.run(*words, *format, **{"IKIGAI_MODEL": "scripted/echo", **env})
        (record,) = lines_of(result.stdout)
        assert (result.returncode, record["type"], record["code"]) == (code, "error", code), result
        assert record["message"].rstrip(".") in result.stderr.replace("\n", " ") and "Traceback" not in result.stderr


REFUSED_SUBCOMMANDS: dict[str, tuple[int, tuple[str, ...], dict[str, str]]] = {
    "unknown flag": (2, ("agents", "--nonsense"), {}),
    "unknown action": (2, ("agents", "what"), {}),
    "no action": (2, ("history",), {}),
    "names that lack": (2, ("agents", "rename", "kid"), {}),
    "unknown agent": (2, ("agents", "show", "nobody"), {}),
    "no --yes": (1, ("agents", "kill", "kid"), {}),
    "root is not killed": (1, ("agents", "kill", "docs", "--yes"), {}),
    "not an id": (2, ("history", "show", "x"), {}),
    "no such event": (2, ("history", "show", "99999"), {}),
    "nothing to search for": (2, ("history", "search", " "), {}),
    "unknown kind": (2, ("history", "search", "x", "--kind", "y"), {}),
    "history of nobody": (2, ("history", "list", "--agent", "nobody"), {}),
    "two formats of usage": (2, ("usage", "--csv"), {}),
    "usage of nobody": (2, ("usage", "--agent", "nobody"), {}),
    "usage of no number": (2, ("usage", "--limit", "ten"), {}),
    "usage since never": (2, ("usage", "--since", "yesterday"), {}),
    "unknown provider": (2, ("models", "nobody"), {}),
    "unknown key": (2, ("config", "get", "nothing"), {}),
    "bad setting": (2, ("config",), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "database away": (75, ("agents",), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, history": (75, ("history", "list"), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, recall": (75, ("history", "recall", "x"), {"IKIGAI_DATABASE_URL": AWAY}),
    "recall of nobody": (2, ("history", "recall", "x", "--agent", "nobody"), {}),
    "database away, usage": (75, ("usage",), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, status": (75, ("db", "status"), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, migrate": (75, ("db", "migrate"), {"IKIGAI_DATABASE_URL": AWAY}),
    "database away, agents": (75, ("agents", "list"), {"IKIGAI_DATABASE_URL": AWAY}),
    "rename to a name in use": (1, ("agents", "rename", "kid", "docs"), {}),
    "archive again": (1, ("agents", "archive", "ghost"), {}),
    "revive of the living": (1, ("agents", "revive", "docs"), {}),
    "share with nobody": (2, ("agents", "share", "docs", "with", "nobody"), {}),
    "share that lacks a user": (2, ("agents", "share", "docs"), {}),
    "share that is none": (2, ("agents", "share", "docs", "with", "nobody", "none"), {}),
    "value of a key": (2, ("config", "set", "terminal.theme", "0"), {}),
    "file with an error": (2, ("config", "validate", "/dev/zero/x"), {}),
    "bad setting, shown": (2, ("config", "show"), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "bad setting, servers": (2, ("mcp", "list"), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "bad setting, skills": (2, ("skills", "list"), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "no such skill": (2, ("skills", "check", "nowhere"), {}),
    "bad setting, plugins": (2, ("plugins", "list"), {"IKIGAI_PRUNE_FRACTION": "much"}),
    "unknown server": (1, ("mcp", "test", "nowhere"), {}),
    "password in --db": (2, ("agents", "--db", "postgresql://u:secret@h/x"), {}),
}


def test_every_command_that_prints_json_fails_in_json():
    """Each has a failure of its own above, and not of its options alone; a finding of doctor's is no failure."""
    own = (words for case, (_, words, _) in REFUSED_SUBCOMMANDS.items() if case != "unknown flag")
    assert {*WITH_JSON} - {*map(command_of, own)} == {"doctor"}


FIRST_REFUSALS = {command_of(case[1]): case for case in reversed(REFUSED_SUBCOMMANDS.values())}.values()
"""One of each command, the first."""


@pytest.mark.timeout(600)
@walk
def test_refusals_of_subcommands(used: Account, whole: bool):
    """The ordinary run tries one of each command; test_exit_codes tries others, without --json."""
    for code, words, env in REFUSED_SUBCOMMANDS.values() if whole else FIRST_REFUSALS:
        result = used.run(*words, "--json", **env)
        *_, record = lines_of(result.stdout)
        assert (result.returncode, record["type"], record["code"]) == (code, "error", code), result
        assert record["message"].rstrip(".") in result.stderr.replace("\n", " ")


def test_json_is_asked_for_by_options_alone(account: Account):
    for words in (("-p", "/foo", "--", "--json"), ("-p", "/foo", "--output-format", "text")):
        assert account.run(*ECHO, *words).stdout == ""


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"postgresql://127.0.0.1:{server.getsockname()[1]}/x?connect_timeout=30"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_before_the_turn(account: Account, silent: str, number: signal.Signals, code: int):
    program = account.start(*ECHO, "-p", "go", "--json", IKIGAI_DATABASE_URL=silent)
    _wait_for_connection(program.pid)
    program.send_signal(number)
    out, errors = program.communicate(timeout=60)
    (record,) = json_schema.check(out)
    assert (program.returncode, record["type"], record["code"], errors) == (code, "error", code, "")


def test_subcommand_stopped(account: Account, silent: str):
    program = account.start("agents", "--json", IKIGAI_DATABASE_URL=silent)
    _wait_for_connection(program.pid)
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=60)
    (record,) = json_schema.check(out)
    assert (program.returncode, record["type"], record["code"]) == (130, "error", 130)


def _wait_for_connection(pid: int) -> None:
    import time

    import psutil

    until = time.monotonic() + 60
    while not any(each.raddr for each in psutil.Process(pid).net_connections("tcp")):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_output_is_utf8_whatever_the_locale_says(account: Account):
    result = account.run(*ECHO, "-p", "wörd 記憶", "--json")
    assert json.loads(result.stdout)["text"] == "wörd 記憶" and "wörd 記憶" in result.stdout
    line = "ikigai -m scripted/echo -p 'wörd' --json | od -An -tx1 | tr -d ' \\n'"
    assert "c3b6" in account.shell(line, PYTHONIOENCODING="latin-1").stdout


def test_word_that_is_not_utf8_is_printed_as_json_can_hold_it(account: Account):
    """Python keeps such bytes of the command line as lone surrogates."""
    for command, field in (("search", "query"), ("recall", "question")):
        result = account.run("history", command, "--json", "wörd \udcff")
        assert json.loads(result.stdout)[field] == "wörd \ufffd", result.stderr
    result = account.run("doctor", "--json", "--profile", "\udcff")
    assert (result.returncode, json.loads(result.stdout)["type"]) == (2, "error") and "\ufffd" in result.stdout
