"""Tests of secrets: no tool brings one of ikigai's own, or a well-known token, into the log."""

import json
from typing import Any

import psycopg

from ikigai.app.project.trusted_project import Project
from tests.e2e.account import ECHO, WIRE, Account, Wire

KEY = "sk-proj-" + "aB3dE5gH7jK9" * 4
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ENV = {"OPENAI_API_KEY": KEY, "IKIGAI_TOOLS_ENABLED": "true"}
MARKER = "[redacted: OPENAI_API_KEY]"


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": name, "arguments": arguments}


def everything(account: Account) -> str:
    with psycopg.connect(account.dsn) as other:
        return repr([other.execute(f"select * from {table}".encode()).fetchall() for table in ("messages", "drafts")])


def test_tools_replies_and_files(account: Account):
    notes = account.home / "notes.txt"
    notes.write_text(f"key = {KEY}\ntoken = {TOKEN}\n")
    flags = account.script(
        [call("shell", command=f"cat notes.txt; echo {KEY} > copy.txt")],
        [call("read_file", path="notes.txt")],
        [call("edit_file", path="notes.txt", old="key = ", new=f"key = {MARKER} # ")],
        [call("write_file", path="notes.txt", content=f"key = {MARKER}\n")],
        [call("write_file", path="new.txt", content=f"key = {MARKER}\n")],
        [f"The key is {KEY}."],
    )
    done = account.run(*flags, "--yolo", "-p", "look", **ENV)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"The key is {MARKER}."
    results = account.said("tool_result")
    for result in results[:2]:
        assert MARKER in result and "[redacted: GitHub token]" in result
    for result in results[2:]:
        assert "replaces a secret that you were not shown" in result
    assert notes.read_text() == f"key = {KEY}\ntoken = {TOKEN}\n" and not (account.home / "new.txt").exists()
    assert (account.home / "copy.txt").read_text() == f"{KEY}\n", "the command ran as the model wrote it"
    assert KEY not in everything(account) and TOKEN not in everything(account)
    assert KEY not in account.log_file()


def test_off_keeps_everything(account: Account):
    (account.home / "notes.txt").write_text(f"{KEY} {TOKEN}")
    flags = account.script([call("read_file", path="notes.txt")], [f"It is {KEY}."])
    done = account.run(*flags, "--yolo", "-p", "look", **ENV, IKIGAI_TOOLS_REDACT="off")
    assert done.stdout.strip() == f"It is {KEY}." and TOKEN in account.said("tool_result")[0]


def test_command_of_the_user(account: Account):
    (account.home / "notes.txt").write_text(f"{KEY} {TOKEN}")
    with account.terminal(*ECHO, env=ENV, columns=160) as program:
        program.ready().type("!cat notes.txt\r")
        program.wait_for("[redacted: GitHub token]")
        program.type(f"remember {TOKEN}\r")
        program.wait_for("contains what looks like a key (GitHub token)")
        assert "To remove it: ikigai db purge --ids" in program.words()
        program.settled()
        program.leave()
    (ran, typed) = account.said("user")
    assert ran.startswith("!cat notes.txt\n") and MARKER in ran and TOKEN not in ran
    assert typed == f"remember {TOKEN}", "what was typed stays"


def test_password_of_the_database_and_a_short_key(account: Account):
    (account.home / "notes.txt").write_text("pass: a-Password-Of-The-Database-1")
    flags = account.script([call("read_file", path="notes.txt")], ["ok"])
    more = {**ENV, "PGPASSWORD": "a-Password-Of-The-Database-1", "OPENAI_API_KEY": "short"}
    done = account.run(*flags, "--yolo", "-p", "look", **more)
    assert "[redacted: PGPASSWORD]" in account.said("tool_result")[0]
    assert "OPENAI_API_KEY has fewer than 12 characters" in done.stderr


def test_import(account: Account):
    def event(id: int, kind: str, content: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"id": id, "agent": "a", "seq": id, "at": "2026-01-01T00:00:00Z", "kind": kind, "content": content,
                "data": data}  # fmt: skip

    thinking = {"type": "thinking", "text": f"hm, {KEY}", "signature": "signed", "vendor": "anthropic"}
    events = [
        event(1, "user", f"my key is {KEY}"),
        event(2, "assistant", f"I see {KEY}!", {"blocks": [thinking, len(f"I see {KEY}!")], "model": "x/y"}),
        event(3, "tool_call", json.dumps({"command": f"echo {KEY}"}), {"id": "c", "name": "shell"}),
        event(4, "tool_result", KEY, {"call_id": "c"}),
        event(5, "turn_end", "", {"ending": "completed"}),
    ]
    file = account.home / "h.jsonl"
    exported = account.run(*ECHO, "-c", "-p", "hello")
    assert exported.returncode == 0
    account.run("history", "export", "-o", str(account.home / "shape.jsonl"))
    head = json.loads((account.home / "shape.jsonl").read_text().splitlines()[0])
    head = {key: head[key] for key in ("format", "version", "agent")}  # a file made by hand has no checksum
    file.write_text("\n".join(map(json.dumps, [head, *events, {"count": len(events)}])) + "\n")
    done = account.run("history", "import", str(file), "--name", "new", **ENV)
    assert done.returncode == 0, done.stderr
    assert KEY not in everything(account)
    said = account.rows("assistant")[-1]
    assert said[1] == f"I see {MARKER}!" and said[2]["blocks"][0]["text"] == f"hm, {MARKER}"
    assert "signature" not in said[2]["blocks"][0] and said[2]["blocks"][1] == len(said[1])
    shown = account.run("-r", "new", "-c", "-p", "/context", **ENV)
    assert shown.returncode == 0, shown.stderr


def test_instructions_of_a_project(account: Account, wire: Wire):
    (account.home / "AGENTS.md").write_text(f"Use the key {KEY}.")
    Project(account.home, account.home / ".local/share/ikigai/trusted.json").trust(1.0)
    account.say("hi", "again", flags=WIRE, **ENV)
    assert all(f"Use the key {MARKER}." in request.body.decode() for request in wire.requests)
    assert not any(KEY in request.body.decode() for request in wire.requests) and KEY not in everything(account)
