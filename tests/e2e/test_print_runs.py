"""Tests of which conversation print mode uses, and that it changes nobody's last one."""

import json
import os

import psycopg
import pytest

from tests.e2e.account import ECHO, Account, Wire, refused
from tests.support.wire_server import completion


def mine(account: Account) -> str:
    """Begin the user's conversation in a terminal; return the agent's name."""
    with account.terminal(*ECHO) as program:
        program.ready()
        program.say("mine")
        program.wait_for("● mine")
        program.leave()
    return account.agents()[-1]


def opened(account: Account) -> str:
    """Return the agent that `ikigai` opens."""
    with account.terminal(*ECHO, columns=120) as program:
        program.ready()
        name = program.status().split(" · ")[0].strip()
        program.leave()
    return name


def archived(account: Account) -> list[str]:
    with psycopg.connect(account.dsn) as connection:
        query = "select name from agents where archived_at is not null order by created_at"
        return [name for (name,) in connection.execute(query).fetchall()]


def uses(account: Account) -> list[tuple[object, ...]]:
    with psycopg.connect(account.dsn) as connection:
        return connection.execute("select * from agent_uses order by agent_id").fetchall()


def test_every_run_is_a_fresh_archived_conversation(account: Account):
    assert account.run(*ECHO, "-p", "one").stdout == "one\n"
    made = json.loads(account.run(*ECHO, "-p", "--json", "two").stdout)
    assert account.run(*ECHO, "-p", "--new", "three").returncode == 0
    assert len(account.agents()) == 3 and account.agents()[1] == made["agent"]
    assert archived(account) == account.agents() and not uses(account)
    assert "one" not in account.run("agents").stdout and made["agent"] in account.run("agents", "--all").stdout


def test_continue_goes_on_with_the_users_last_conversation(account: Account, wire: Wire):
    wire.answers("Seven it is.", "It was seven.")
    with account.terminal("-m", "wire/x") as program:
        program.ready()
        program.say("remember seven")
        program.wait_for("● Seven it is.")
        program.leave()
    account.run(*ECHO, "-p", "something else")
    assert account.run("-m", "wire/x", "-c", "-p", "which?").stdout == "It was seven.\n"
    assert [message["content"] for message in wire.messages()] == ["remember seven", "Seven it is.", "which?"]


def test_continue_without_a_conversation_begins_the_users(account: Account):
    account.run(*ECHO, "-p", "aside")
    account.run(*ECHO, "-c", "-p", "one")
    account.run(*ECHO, "-c", "-p", "two")
    aside, began = account.agents()
    assert archived(account) == [aside] and opened(account) == began


def test_no_print_run_changes_what_opens_next(account: Account):
    name = mine(account)
    before = uses(account)
    other = json.loads(account.run(*ECHO, "-p", "--json", "a job").stdout)["agent"]
    fork = '/fork "a child"'
    for arguments in (["--new", "x"], ["-r", other, "y"], ["-c", fork], ["-r", other, fork], ["-c", "z"], ["/context"]):
        assert account.run(*ECHO, "-p", *arguments).returncode == 0, arguments
    assert uses(account) == before and opened(account) == name
    assert archived(account) == [each for each in account.agents() if each != name]


def test_agents_that_a_tool_makes_are_archived_with_theirs(account: Account, wire: Wire):
    call = {"name": "fork", "arguments": json.dumps({"prompt": "help"})}
    wire.answers(completion(calls=[call]), *["done"] * 4)
    made = json.loads(account.run("-m", "wire/x", "-p", "--json", "--yolo", "go", IKIGAI_TOOLS_ENABLED="true").stdout)
    assert len(account.agents()) == 2 and archived(account) == account.agents()
    assert account.run("agents", "revive", made["agent"]).returncode == 0
    assert not archived(account)


def test_last_is_that_of_the_role_and_the_user(account: Account, role: str):
    """A user of another role, who has no conversation yet, begins one of their own."""
    name = mine(account)
    with psycopg.connect(account.dsn, autocommit=True) as owner:
        owner.execute("grant usage on schema ikigai to public")
        owner.execute("grant select, insert, update, delete on all tables in schema ikigai to public")
    other = Account(account.home, role)
    assert other.run(*ECHO, "-c", "-p", "theirs").stdout == "theirs\n"
    assert [each for each in account.agents() if each != name] == [
        json.loads(other.run(*ECHO, "-c", "-p", "--json", "again").stdout)["agent"]
    ]
    assert opened(account) == name


def test_slash_command_needs_a_conversation(account: Account):
    name = mine(account)
    before = account.rows()
    for command in ("/clear", "/forget last 1", "/fork", "/rename x"):
        word = command.split()[0]
        refused(account.run(*ECHO, "-p", command), 2, f"{word} is for a conversation", "Add -c", "-r NAME")
        assert account.rows() == before and account.agents() == [name], command


@pytest.mark.parametrize("command", ["/context", "/status", "/cost", "/search owls", "/summary", "/model"])
@pytest.mark.parametrize("flags", [(), ("--new",), ("--ephemeral",)])
def test_command_that_only_shows_makes_no_agent(account: Account, command: str, flags: tuple[str, ...]) -> None:
    shown = account.run(*ECHO, *flags, "-p", "--json", command)
    assert shown.returncode == 0 and json.loads(shown.stdout)["agent"] is None
    assert not account.agents()


def test_commands_that_name_their_agent_need_no_other(account: Account):
    name = mine(account)
    assert account.run(*ECHO, "-p", f"/rename {name} docs").returncode == 0
    assert account.run(*ECHO, "-p", "/archive docs").returncode == 0
    assert account.run(*ECHO, "-p", "/revive docs").returncode == 0
    end = next(iter(id for (id,) in psycopg.connect(account.dsn).execute("select max(id) from messages")))
    assert account.run(*ECHO, "-p", f'/fork at {end} "there"').stdout == "there\n"
    assert account.run(*ECHO, "-p", "/status").returncode == 0


def test_what_is_piped_in_is_never_a_command(account: Account):
    mine(account)
    texts = ("/clear", "/kill", "/exit now", "!ls")
    for text, arguments in zip(texts, (["-p"], ["-p", "-c", "--yes"], [], ["-p", "-c", "--yes"]), strict=True):
        assert account.run(*ECHO, *arguments, input=f"{text}\n").stdout == f"{text}\n"
    assert account.said("user") == ["mine", *texts]
    assert not account.rows("clear", "agent_killed")


def test_slash_command_does_not_read_the_pipe(account: Account):
    mine(account)
    assert account.run(*ECHO, "-c", "-p", "/mark x", input="more\n").returncode == 0
    assert account.said("user") == ["mine"] and account.rows("mark")
    said = account.run(*ECHO, "-c", "-p", '/fork "explain"', input="/data\n").stdout
    assert said == "explain\n\n/data\n"


@pytest.mark.ordinary("ab*")
@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"ab\xffc", "0xff at offset 2"), (b"a\0b\xff", "0x00 at offset 1"), (b"caf\xe9", "0xe9 at offset 3")],
)
def test_binary_input_is_refused(account: Account, data: bytes, offset: str):
    file = account.home / "data"
    file.write_bytes(data)
    result = account.shell(f"ikigai {' '.join(ECHO)} -p hello < {file}")
    refused(result, 2, f"byte {offset}", "Nothing was sent")
    assert not account.agents()


def test_binary_input_is_refused_with_its_offset(account: Account):
    (account.home / "data.bin").write_bytes(b"text" * 10 + os.urandom(1000) + b"\0")
    (account.home / "elf").write_bytes(b"\x7fELF\0\0")
    refused(account.run(*ECHO, "-p", "what is @elf"), 2, "elf is a binary file: byte 0x00 at offset 4 of 6 bytes")
    refused(account.run(*ECHO, "-p", "what is @data.bin"), 2, "data.bin is a binary file: byte 0x")
    assert not account.agents()


def test_text_with_a_mark_and_wide_characters_is_taken(account: Account):
    assert account.run(*ECHO, "-p", input="\ufeffgrüße 記憶\n").stdout == "grüße 記憶\n"


def test_turn_of_a_model_that_repeats_a_failing_call_ends(account: Account):
    again = {"do": "call", "name": "shell", "arguments": {"command": "exit 7"}}
    result = account.run(*account.script(*[[again]] * 12), "-p", "--yolo", "go", IKIGAI_TOOLS_ENABLED="true")
    assert result.returncode == 1 and len(account.said("tool_result")) == 8
    assert "shell has failed 3 times in a row with the same arguments. The model was told" in result.stderr
    assert "makes the same call of shell again, which has failed 8 times in a row." in result.stderr
