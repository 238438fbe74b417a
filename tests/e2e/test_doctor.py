"""Tests of `ikigai doctor`: good findings, bad ones with their remedies, and no changes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ikigai.cli.doctor.database import _cannot_be_made
from tests.conftest import address
from tests.e2e.account import ECHO, Account, Wire
from tests.support.bubblewrap import needs_bubblewrap_wheel


def examined(account: Account, *arguments: str, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = account.run("doctor", "--json", *arguments, **env)
    assert done.stderr == "", done.stderr
    told = json.loads(done.stdout)
    findings = {finding["about"]: finding for finding in told["findings"]}
    assert len(findings) == len(told["findings"]) and told["ok"] is (done.returncode == 0)
    assert told["ok"] is all(finding["state"] != "bad" for finding in findings.values())
    for finding in findings.values():
        assert finding["said"] and (finding["remedy"] or finding["state"] == "ok"), finding
    return done.returncode, findings


def test_all_is_well(account: Account):
    assert account.run(*ECHO, "-p", "hello").returncode == 0
    before = {path: path.stat().st_mode for path in account.home.rglob("*")}
    code, found = examined(account, IKIGAI_MODEL="scripted/echo")
    assert code == 0, found
    assert found["database"]["said"].startswith("PostgreSQL ") and "answers in" in found["database"]["said"]
    assert found["holds"]["said"].startswith("1 agent, 4 events")
    assert "is refused to another" in found["locks"]["said"] and "reaches another" in found["notifications"]["said"]
    assert found["model"]["said"] == "scripted/echo answers" and found["schema"]["said"].startswith("version ")
    assert found["recall"]["said"].startswith("ranks by words")
    assert found["libraries"]["said"].count(",") >= 8 and found["encoding"]["said"] == "UTF-8"
    assert {path: path.stat().st_mode for path in account.home.rglob("*")} == before
    plain = account.run("doctor", IKIGAI_MODEL="scripted/echo", PATH="/nowhere")
    assert plain.returncode == 0 and "\x1b" not in plain.stdout
    assert re.search(r"^ok +rg +/.*/rg: ", plain.stdout, re.MULTILINE), "it is looked for in no PATH"
    assert plain.stdout.rstrip().endswith(("warning.", "warnings."))


def test_problems_are_reported_with_remedies(account: Account):
    """A configuration that cannot be read, keys open to all users, no model; each with its remedy."""
    account.configure("budget = 5\n")
    code, found = examined(account)
    assert code == 1 and "config.toml" in found["configuration"]["said"] and "database" not in found
    account.configure('model = "nobody/x"\n')
    assert account.run("login", "openai", input="sk-secret-key-of-mine\n", HTTPS_PROXY="http://127.0.0.1:1").stdout
    (account.home / ".config/ikigai/keys.json").chmod(0o644)
    (account.home / ".config/ikigai").chmod(0o755)
    done = account.run("doctor", PATH="/nowhere", EDITOR="no-such-editor -w", PAGER="'open")
    assert done.returncode == 1 and "sk-secret" not in done.stdout
    for words in (
        "bad files readable by others: ",
        f"to do: Run: chmod go-rwx {account.home}/.config/ikigai",
        "bad model There is no provider 'nobody'",
        "warn editor no-such-editor -w is not installed",
        "to do: Set VISUAL or EDITOR to an installed program.",
        "warn pager $PAGER is not a command",
        "key stored by ikigai login; not tried",
    ):
        assert words in " ".join(done.stdout.split()), (words, done.stdout)


def test_settings_that_stop_every_run(account: Account):
    for text, about, words in (
        ('[tools]\napproval = "yolo"\n', "start", "tools.approval cannot be yolo"),
        ('[tools]\nallow = ["rm -rf $(x)"]\n', "start", "is not a plain command"),
    ):
        account.configure(text)
        assert account.run(*ECHO, "-p", "hello").returncode == 2
        code, found = examined(account, IKIGAI_MODEL="scripted/echo")
        assert code == 1 and found[about]["state"] == "bad" and words in found[about]["said"], text
    account.configure('[contxt]\nx = 1\n[tools]\napproval = "maybe"\n')
    code, found = examined(account)
    assert code == 1 and "[contxt]" in found["configuration"]["said"]
    assert "approval cannot be 'maybe'" in found["configuration 2"]["said"]


def test_settings_that_do_not_work(account: Account):
    account.configure(
        'model = "scripted/echo"\n[context]\nsliding_context_tokens = 30\ncondense_prompt_file = "/nowhere"\n'
        "condense_at_percent = 50\ncondense_to_percent = 50\n[profiles.small]\nsliding_context_tokens = 20\n"
    )
    tools = account.home / ".config/ikigai/tools"
    tools.mkdir(mode=0o700)
    for name, mode in (("fails", 0o700), ("plain", 0o600)):
        (tools / name).write_text("#!/bin/sh\nexit 3\n")
        (tools / name).chmod(mode)
    code, found = examined(account, IKIGAI_TOOLS_ENABLED="true", IKIGAI_DEFAULT_SYSTEM_PROMPT="true", IKIGAI_MODELL="x")
    assert code == 0 and found["start"]["state"] == "ok", found
    for about, words in (
        ("budget", "A budget of 30 tokens is too small"),
        ("budget of small", "A budget of 20 tokens is too small"),
        ("condensing", "condense_to_percent (50) is not below condense_at_percent (50)"),
        ("prompt file", "/nowhere cannot be read: No such file"),
        ("own tools", "with --schema it failed: exit status 3"),
        ("own tools", "plain is not offered as a tool: it is not executable"),
        ("variables", "Did you mean IKIGAI_MODEL?"),
    ):
        assert found[about]["state"] == "warn" and words in found[about]["said"], (about, found)
    assert "condensing of small" not in found, "the profile has it from the configuration"


def test_what_is_around_the_program(account: Account):
    code, found = examined(account, IKIGAI_MODEL="scripted/echo", SSL_CERT_FILE="/nowhere")
    assert code == 1 and found["certificates"]["state"] == "bad" and "/nowhere" in found["certificates"]["said"]
    for place in ("/dev/null", "/proc/1"):
        code, found = examined(account, XDG_DATA_HOME=place, IKIGAI_DATABASE_URL="embedded")
        if os.geteuid():  # root's embedded database is elsewhere
            assert code == 1 and found["database"]["state"] == "bad" and place in found["database"]["said"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_folder_that_cannot_be_written(tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    pid = os.fork()
    if not pid:
        os.setuid(65534)
        found = _cannot_be_made(closed / "postgres-18")
        os._exit(0 if found and found.state == "bad" and str(closed) in found.said else 1)
    assert os.waitpid(pid, 0)[1] == 0
    found = _cannot_be_made(Path("/dev/null/x/postgres-18"))
    assert found and "/dev/null is not a folder" in found.said and _cannot_be_made(tmp_path / "a" / "b") is None


def test_flags_of_a_run_are_looked_at(account: Account):
    for flags, about, words in (
        (("-m", "foo/bar"), "model", "There is no provider 'foo'"),
        (("--profile", "nope"), "configuration", "there is no profile 'nope'"),
        (("--config", "/nowhere"), "configuration", "/nowhere does not exist"),
        (("--db", "postgresql://me:secret@h/x"), "configuration", "holds a password"),
        (("-m", "foo", "--yolo"), "configuration", "--model cannot be 'foo'"),
    ):
        done = account.run(*flags, "doctor", "--json")
        findings = {each["about"]: each for each in json.loads(done.stdout)["findings"]}
        assert done.returncode == 1 and findings[about]["state"] == "bad", (flags, findings)
        assert words in findings[about]["said"] and "secret" not in done.stdout
    talk = account.run(*ECHO, "-p", "doctor")
    assert talk.stdout == "doctor\n", "after -p it is a message"


@needs_bubblewrap_wheel
def test_sandbox_that_is_asked_for_is_found_without_a_path(account: Account):
    account.configure('[tools]\nsandbox = "bwrap"\n')
    _, found = examined(account, PATH="/nowhere")
    assert found["sandbox"]["state"] == "ok" and found["sandbox"]["said"] == "bwrap is required, and installed"


def test_doctor_reports_faults_of_the_database(account: Account, dsn: str, empty_role: str):
    with psycopg.connect(dsn, autocommit=True) as admin:
        ((name,),) = admin.execute("select current_database()").fetchall()
        for value, state in (("on", "ok"), ("off", "warn")):
            admin.execute(f'alter database "{name}" set synchronous_commit = {value}'.encode())
            code, found = examined(account, IKIGAI_MODEL="scripted/echo")
            assert code == 0 and found["durability"]["state"] == state
        admin.execute("update ikigai_migrations set version = 999")
        code, found = examined(account)
        assert code == 1 and "newer than this ikigai" in found["schema"]["said"]
        admin.execute("update ikigai_migrations set version = 3")
        code, found = examined(account)
        assert found["database"] == found["database"] | {"state": "bad"} and "schema 3" in found["database"]["said"]
    for url, words in ((empty_role, "no tables of ikigai"), (address(dsn, port="1"), ""), ("host='", "")):
        code, found = examined(account, IKIGAI_DATABASE_URL=url, PGPASSWORD="secret")
        wrong = found.get("database", found["configuration"])
        assert code == 1 and wrong["state"] == "bad" and words in wrong["said"] and "secret" not in str(found)


def test_providers_are_asked_only_when_that_is_wanted(account: Account, wire: Wire):
    _, found = examined(account, WIRE_KEY="sk-of-mine")
    assert found["provider wire"]["said"] == "key in WIRE_KEY; not tried (--online does)" and wire.requests == []
    code, found = examined(account, "--online", WIRE_KEY="sk-of-mine")
    assert code == 1 and wire.requests and found["provider dead"]["state"] == "bad"
    assert "sk-of-mine" not in str(found) and "not tried" not in found["provider wire"]["said"]


def test_at_a_terminal(account: Account):
    """The terminal is asked which modes it knows, and left as it was; one that never answers costs little time."""
    answer = b"\x1b[?2004;2$y\x1b[?2026;1$y\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\\x1b[?62;22c"
    for says, pastes, updates in (
        (answer, "marked by the terminal (bracketed paste)", "drawn at once"),
        (b"", "not reported", "drawn in parts"),
    ):
        with account.terminal("doctor", columns=100, env={"IKIGAI_MODEL": "scripted/echo", "TMUX": ""}) as program:
            program.attributes = says
            assert program.ended() == 0
            assert b"\x1b[c" in program.raw
            assert ("background light" in program.words()) == bool(says)
            assert pastes in program.words() and updates in program.words() and "100×24" in program.text()
            program.assert_restored()
    with account.terminal("doctor", columns=30, rows=8, env={"TERM": "dumb", "IKIGAI_MODEL": "scripted/echo"}) as dumb:
        assert dumb.ended() == 0 and b"\x1b" not in dumb.raw
        told = "".join(dumb.scrollback())
        assert "30×8 is small" in told and "TERM is dumb" in told


def test_in_tmux(account: Account, tmp_path: Path):
    if not shutil.which("tmux"):
        pytest.skip("needs tmux")
    server = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [*server, "new-session", "-d", "-x", "100", "-y", "50", "sleep", "60", ";",
         "set", "-s", "escape-time", "500", ";", "display-message", "-p", "#{socket_path},#{pid},0"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    try:
        with account.terminal("doctor", env={"TMUX": done.stdout.strip(), "IKIGAI_MODEL": "scripted/echo"}) as program:
            program.wait(lambda: b"\x1b[c" in program.raw, "the question")
            program.type(b"\x1b[?62c")
            assert program.ended() == 0
            assert "delays Esc by 500 ms" in program.words() and "escape-time 20" in program.words()
    finally:
        subprocess.run([*server, "kill-server"], env=env, check=False)
