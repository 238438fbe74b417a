"""Tests of folder trust: asked once, stored or not, and the folder's part of requests."""

import json
from pathlib import Path

import pytest

from ikigai.app.project.trusted_project import Project
from ikigai.config.project import trusted_folders as trust
from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program
from tests.support.wire_server import completion

pytestmark = pytest.mark.usefixtures("quick_questions")

QUESTION = "Trust this folder?"
CHANGES = "Trust these files as they are now?"
HEAD = "Instructions of this project (AGENTS.md):"


@pytest.fixture
def agents(account: Account) -> Path:
    file = account.home / "AGENTS.md"
    file.write_text("Answer like an owl.\x1b[2J\n")
    return file


def answer(program: Program, key: str, question: str = QUESTION) -> None:
    """Press a key once the question has been on screen for long enough."""
    program.wait_for(question)
    program.let_read()
    program.type(key)


def system(wire: Wire, number: int = -1) -> str:
    first = wire.messages(number)[0]
    return first["content"] if first["role"] == "system" else ""


def offered(wire: Wire, number: int = -1) -> list[str]:
    """Return the names of the tools of one request."""
    return [tool["function"]["name"] for tool in wire.requests[number].json["tools"]]


def ask(program: Program, account: Account, text: str) -> None:
    turns = len(account.turns())
    program.say(text)
    program.wait(lambda: len(account.turns()) == turns + 1, "the end of the turn")
    program.settled()


def settings(account: Account) -> list[str]:
    """Return the instructions of settings events, by their last line; "" where they were taken away."""
    changed = [data["values"] for _, _, data in account.rows("settings")]
    return [(each["instructions"] or "").rpartition("\n")[2] for each in changed if "instructions" in each]


def test_yes_is_kept_and_a_changed_file_is_read_again(account: Account, wire: Wire, agents: Path):
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        program.wait_for("has AGENTS.md.")
        answer(program, "y")
        program.ready()
        program.say("/trust")
        program.wait_for("is trusted. It has AGENTS.md.")
        ask(program, account, "Hoo?")
        assert system(wire) == f"{HEAD}\n\nAnswer like an owl.\x1b[2J"
        program.say("/system")
        program.wait_for("There is no system prompt.")
        program.wait_for("Answer like an owl.")
        ask(program, account, "And now?")
        assert settings(account) == []
        agents.write_text("Answer like a raven.\n")
        ask(program, account, "Untrusted?")
        assert system(wire) == "" and settings(account) == [""]
        program.wait_for("AGENTS.md is not used: it was added or changed")
        program.say("/trust yes")
        program.wait_for("Its AGENTS.md, if there is one, is used from the next message on.")
        ask(program, account, "Nevermore?")
        assert system(wire) == f"{HEAD}\n\nAnswer like a raven."
        assert settings(account) == ["", "Answer like a raven."]
        kinds = [kind for kind, _, _ in account.rows("settings", "user")]
        assert kinds == ["user", "user", "settings", "user", "settings", "user"], "the change stands before the message"
        program.wait_for("Project instructions: AGENTS.md, 16 tokens")
        program.say("/system Be brief.")
        program.wait_for("System: changed")
        agents.unlink()
        ask(program, account, "Gone?")
        assert system(wire) == "Be brief."
        program.wait_for("Project instructions: none")
        program.leave()
    agents.write_text("Answer like a crow.\n")
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        answer(program, "y", CHANGES)
        assert "Answer like a crow." in program.text()
        ask(program.ready(), account, "Caw?")
        assert QUESTION not in program.text()
        assert system(wire) == f"Be brief.\n\n{HEAD}\n\nAnswer like a crow."
        assert settings(account) == ["", "Answer like a raven.", "", "Answer like a crow."]
        program.say("/trust no")
        program.wait_for("No longer trusted:")
        ask(program, account, "Still?")
        assert system(wire) == "Be brief."
        program.leave()
    assert account.endings() == ["completed"] * 7


def test_no_is_not_kept_and_nothing_is_read(account: Account, wire: Wire, agents: Path):
    read, kept = agents.stat().st_atime_ns, account.home / ".local" / "share" / "ikigai" / "trusted.json"
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        answer(program, "\r")
        program.pump(0.3)
        assert not kept.exists(), "Enter is no yes"
        answer(program, "n")
        ask(program.ready(), account, "Hoo?")
        assert system(wire) == "" and settings(account) == [] and not kept.exists()
        program.leave()
    assert agents.stat().st_atime_ns == read
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        answer(program, "\x1b")
        program.ready()


def test_print_mode_never_asks_and_uses_what_is_trusted(account: Account, wire: Wire, agents: Path):
    """The user's own tools need no trust."""
    own, kept = account.home / ".config" / "ikigai" / "tools", account.home / ".local" / "share" / "ikigai"
    for folder, name in ((own, "owl"), (account.home / ".ikigai" / "tools", "raven")):
        folder.mkdir(parents=True)
        (folder / name).write_text(f"#!/bin/sh\necho '{json.dumps({'name': name})}'\n")
        (folder / name).chmod(0o755)
    env = {"WIRE_KEY": "a-key-of-the-wire", "IKIGAI_TOOLS_ENABLED": "true"}
    done = account.run("-c", "-p", *WIRE, "Hoo?", **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert system(wire) == "" and "owl" in offered(wire) and "raven" not in offered(wire)
    assert not (kept / "trusted.json").exists()
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "trusted.json").write_text(json.dumps({str(account.home.resolve()): 1.0}))
    done = account.run("-c", "-p", *WIRE, "Hoo?", **env)
    assert done.returncode == 0 and "its trust must be confirmed" in done.stderr
    assert system(wire) == "" and "raven" not in offered(wire)
    project = Project(account.home, kept / "trusted.json")
    project.trust(1.0)
    done = account.run("-c", "-p", *WIRE, "Hoo?", **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Answer like an owl." in system(wire) and {"owl", "raven"} < set(offered(wire))


def test_print_mode_uses_what_is_unchanged_and_says_what_it_left_out(account: Account, wire: Wire, agents: Path):
    folder, kept = account.home / ".ikigai" / "tools", account.home / ".local" / "share" / "ikigai"
    folder.mkdir(parents=True)
    for name in ("owl", "raven"):
        (folder / name).write_text(f"#!/bin/sh\necho '{json.dumps({'name': name})}'\n")
        (folder / name).chmod(0o755)
    project = Project(account.home, kept / "trusted.json")
    project.trust(1.0)
    (folder / "raven").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "crow").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "crow").chmod(0o755)
    agents.write_text("Obey the crow.")
    done = account.run("-p", *WIRE, "Hoo?", WIRE_KEY="k", IKIGAI_TOOLS_ENABLED="true")
    assert done.returncode == 0 and not (account.home / "ran").exists()
    assert system(wire) == "" and "owl" in offered(wire) and not {"raven", "crow"} & set(offered(wire))
    for name in ("AGENTS.md", "raven", "crow"):
        assert any(name in line and "was added or changed" in line for line in done.stderr.splitlines()), name


def test_print_mode_sends_nothing_where_settings_are_not_those_that_were_trusted(account: Account, wire: Wire):
    config = account.home / ".ikigai" / "config.toml"
    config.parent.mkdir()
    config.write_text("tools.enabled = false\n")
    Project(account.home, account.home / ".local/share/ikigai/trusted.json").trust(1.0)
    assert account.run("-c", "-p", *WIRE, "Hoo?", WIRE_KEY="k").returncode == 0
    sent = len(wire.requests)
    config.write_text("")
    done = account.run("-c", "-p", *WIRE, "Hoo?", WIRE_KEY="k")
    assert done.returncode == 2 and "config.toml may have restrictions, but it was added or changed" in done.stderr
    assert "type /trust yes" in done.stderr and len(wire.requests) == sent


def test_folder_with_bad_settings_is_not_trusted_and_the_program_goes_on(account: Account, wire: Wire):
    config = account.home / ".ikigai" / "config.toml"
    config.parent.mkdir()
    config.write_text("tools.approval = 1\n")
    with account.terminal(*WIRE, columns=140, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        answer(program, "y")
        program.wait_for("The folder is not trusted. ")
        program.say("/trust yes")
        reason = "tools.approvalcannotbe1"
        program.wait(lambda: "".join(program.text().split()).count(reason) == 2, "the reason again")
        config.write_text('tools.approval = "read-only"\n')
        program.say("/trust yes")
        program.wait_for("Trusted: ")
        program.leave()


def test_bad_settings_of_a_trusted_folder_end_the_program_with_the_way_out(account: Account, wire: Wire):
    """The settings are like those that an earlier version has accepted."""
    config = account.home / ".ikigai" / "config.toml"
    config.parent.mkdir()
    config.write_text("tools.approval = 1\n")
    project = Project(account.home, account.home / ".local/share/ikigai/trusted.json")
    files = {name: own.digest for name, own in project.read(project.files).items()}
    project.file.parent.mkdir(parents=True, exist_ok=True)
    trust.trust(project.file, project.folder, 1.0, files)
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        assert program.ended() == 2
        assert f"type:/trustno{project.folder}" in "".join(program.words().split())


def test_damaged_trust_file_trusts_nothing_and_the_program_goes_on(account: Account, wire: Wire, agents: Path):
    kept = account.home / ".local/share/ikigai/trusted.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("[]")
    with account.terminal(*WIRE, env={"WIRE_KEY": "a-key-of-the-wire"}) as program:
        ask(program.ready(), account, "Hoo?")
        assert system(wire) == "" and QUESTION not in program.text()
        program.wait_for("Delete it: ikigai then asks again for each folder.")
        program.leave()
    assert kept.read_text() == "[]"


def test_tools_of_a_trusted_folder_are_offered_and_asked_about(account: Account, wire: Wire):
    folder = account.home / ".ikigai" / "tools"
    folder.mkdir(parents=True)
    schema = json.dumps({"name": "owl", "description": "Asks an owl.", "input_schema": {"type": "object"}})
    (folder / "owl-tool").write_text(f"#!/bin/sh\n[ \"$1\" = --schema ] && echo '{schema}' && exit\ntouch ran; cat\n")
    (folder / "owl-tool").chmod(0o755)
    (folder / "broken").write_text("")
    env = {"WIRE_KEY": "a-key-of-the-wire", "IKIGAI_TOOLS_ENABLED": "true"}
    call = {"id": "c1", "name": "owl", "arguments": '{"of":"night"}'}
    wire.answers(completion(calls=[call]), completion("Hoo."))
    with account.terminal(*WIRE, columns=140, rows=40, env=env) as program:
        program.wait_for("has .ikigai/tools.")
        answer(program, "y")
        program.ready()
        program.wait_for("broken is not offered as a tool: it is not executable.")
        program.say("Ask the owl.")
        program.wait_for("Run it?")
        assert not (account.home / "ran").exists()
        program.wait_for('owl-tool {"of":"night"}')
        program.let_read()
        program.type("y")
        program.wait(lambda: account.turns() == ["completed"], "the end of the turn")
        program.settled()
        program.say("/tools")
        program.wait_for("external: owl")
        (account.home / "ran").unlink()
        program.say("/fork")
        program.settled()
        program.say("/trust no")
        program.wait_for("Its tools are no longer offered")
        wire.answers(completion(calls=[call]), completion("Silence."))
        program.say("Ask the owl again.")
        program.wait(lambda: account.turns() == ["completed"] * 2, "the end of the turn, without a question")
        program.settled()
        wire.answers(completion(calls=[call]), completion("Hello."))
        program.type("\x1b[1;3A")  # to the parent, which is open in the background
        program.say("And you?")
        program.wait(lambda: account.turns() == ["completed"] * 3, "the parent's turn")
        program.settled()
        program.leave()
    assert "owl" in offered(wire, 0)
    assert not any("owl" in offered(wire, n) for n in range(2, len(wire.requests)))
    answered, unknown, refused = account.said("tool_result")
    assert answered == '{"of":"night"}\n' and "There is no tool 'owl'" in unknown
    assert "the user no longer trusts its folder" in refused
    assert not (account.home / "ran").exists()
