"""Tests of `ikigai db purge`: its list, its question, its refusals, and the talk that goes on afterwards."""

import fcntl
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.account import ECHO, Account, refused

SECRET = "sk-canary-of-a-purge-0123456789"
GONE = "[purged]"


@pytest.fixture
def talk(account: Account) -> Account:
    """Return a user who has let a secret slip, and talked on."""
    account.say("hello there", f"my key is {SECRET}, keep it", "and on")
    return account


def everything(account: Account) -> str:
    with psycopg.connect(account.dsn) as other:
        return repr([other.execute(f"select * from {table}".encode()).fetchall() for table in ("messages", "drafts")])


def ids(account: Account, *kinds: str) -> list[int]:
    with psycopg.connect(account.dsn) as other:
        return [id for (id,) in other.execute("select id from messages where kind = any(%s) order by id", ([*kinds],))]


def unseen(*results: Any) -> None:
    for result in results:
        assert SECRET not in f"{result.stdout}{result.stderr}"


def test_at_the_terminal_the_word_is_asked_for(talk: Account):
    asked, answered = ids(talk, "user")[1], ids(talk, "assistant")[1]
    with talk.terminal("db", "purge", "--match", SECRET, columns=140, rows=40) as program:
        program.wait_for("This cannot be undone. Type purge to go on:")
        lines = program.lines()
        (shown,) = (line for line in lines if line.startswith(f"{asked} "))
        assert talk.agents()[0] in shown and " user " in shown and shown.endswith("my key is ***, keep it")
        assert any(line.startswith(f"{answered} ") and "***" in line for line in lines)
        assert "2 events of 1 agent: 1 user, 1 assistant." in program.words()
        assert SECRET in everything(talk)
        program.type("purge\r")
        assert program.ended() == 0
        program.assert_restored()
        assert "Purged: 2 events (1 user, 1 assistant)." in program.words()
        assert "Rewritten: the table messages with its indexes" in program.words()
        assert "What it cannot reach: the write-ahead log of a server of yours" in program.words()
        assert SECRET.encode() not in program.raw
    assert SECRET not in everything(talk) and SECRET not in talk.log_file()
    assert talk.said("user") == ["hello there", GONE, "and on"]
    assert talk.endings() == ["completed"] * 3

    # The next talk has it in its memory as it is now.
    with talk.terminal(*ECHO, columns=100, rows=40) as program:
        program.ready().wait_for(GONE)
        program.say("do we go on")
        program.wait_for("● do we go on")
        program.leave()
    assert talk.endings() == ["completed"] * 4


def test_another_word_purges_nothing(talk: Account):
    before = everything(talk)
    for keys in ("PURGE\r", "\x04"):
        with talk.terminal("db", "purge", "--match", SECRET, columns=120) as program:
            program.wait_for("Type purge to go on:")
            program.type(keys)
            assert program.ended() == 1, keys
            program.wait_for("Nothing was purged.")
        assert everything(talk) == before, keys


def test_ctrl_c_purges_nothing(talk: Account):
    before = everything(talk)
    with talk.terminal("db", "purge", "--match", SECRET, columns=120) as program:
        program.wait_for("Type purge to go on:")
        program.type("\x03")
        assert program.ended() == 130
        program.assert_restored()
    assert everything(talk) == before


def test_without_a_terminal_it_is_shown_and_refused(talk: Account):
    before = everything(talk)
    result = talk.run("db", "purge", "--match", SECRET, input="purge\n")
    refused(result, 2, "there is no terminal", "--yes")
    assert "2 events of 1 agent" in result.stdout and everything(talk) == before
    unseen(result)
    result = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert (result.returncode, result.stderr) == (0, "") and "Purged: 2 events" in result.stdout
    unseen(result)
    assert SECRET not in everything(talk) and talk.endings() == ["completed"] * 3
    again = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert again.returncode == 0 and again.stdout.startswith("No event contains that. The tables are rewritten")


def test_secret_is_read_from_the_terminal_or_a_pipe(talk: Account):
    with talk.terminal("db", "purge", "--match", "-", columns=120) as program:
        program.wait_for("Text to purge (hidden):")
        program.type(f"{SECRET}\r")
        program.wait_for("Type purge to go on:")
        assert SECRET.encode() not in program.raw
        program.type("no\r")
        program.ended()
    result = talk.run("db", "purge", "--match", "-", "--yes", input=f"{SECRET}\n")
    assert result.returncode == 0 and SECRET not in everything(talk)
    for text in ("", "\n", "  \n"):
        refused(talk.run("db", "purge", "--match", "-", "--yes", input=text), 2, "Add the text to search for")
    refused(talk.run("db", "purge", "--match", "", "--yes"), 2, "Add the text to search for")


def test_ids(talk: Account):
    first, *_, last = ids(talk, "user")
    replies = ids(talk, "assistant")
    result = talk.run("db", "purge", "--ids", f"{first}, {last}-{replies[-1]}", "--yes")
    assert result.returncode == 0 and "3 events of 1 agent: 2 user, 1 assistant." in result.stdout
    assert "hello there" in result.stdout
    assert talk.said("user") == [GONE, f"my key is {SECRET}, keep it", GONE]
    again = talk.run("db", "purge", "--ids", f"{first}", "--yes")
    assert again.stdout == "There is nothing to purge: those events have no text.\n"
    end = ids(talk, "turn_end")[0]
    result = talk.run("db", "purge", "--ids", f"{end - 1}-{ids(talk, 'user')[1]}", "--yes")
    assert "2 events more of these ids have no text and stay unchanged." in result.stdout
    assert talk.said("user") == [GONE] * 3 and talk.endings() == ["completed"] * 3


@pytest.mark.ordinary("x", "7-5", "9*")
@pytest.mark.parametrize("wrong", ["", "x", "5-", "7-5", "1,,2", "1;2", "-5", "9" * 30])
def test_ids_that_are_none(account: Account, wrong: str):
    result = account.run("db", "purge", f"--ids={wrong}", "--yes")
    assert result.returncode == 2 and "is not a list of ids; write 45,47-50" in result.stderr


def test_what_is_refused(account: Account):
    refused(account.run("db", "purge", "--ids", "99999", "--yes"), 1, "There is no event 99999.")
    refused(account.run("db", "purge", "--match", "x", "--agent", "nobody", "--yes"), 2, "There is no agent nobody.")
    for arguments in ((), ("--match", "x", "--ids", "1")):
        result = account.run("db", "purge", *arguments, "--yes")
        assert result.returncode == 2 and "usage: ikigai db purge" in result.stderr


def test_of_one_agent_alone(talk: Account):
    assert talk.run(*ECHO, "--new", "-p", SECRET).returncode == 0
    mine = talk.agents()[0]
    result = talk.run("db", "purge", "--match", SECRET, "--agent", mine, "--yes")
    assert result.returncode == 0 and "2 events of 1 agent" in result.stdout
    assert talk.said("user") == ["hello there", GONE, "and on", SECRET]


def test_of_agents_that_no_list_has(talk: Account):
    assert talk.run(*ECHO, "-p", SECRET).returncode == 0
    assert talk.run(*ECHO, "-c", "-p", f'/fork --name killed "{SECRET}"').returncode == 0
    assert talk.run("agents", "kill", "killed", "--yes").returncode == 0
    archived = talk.agents()[1]
    result = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert (result.returncode, result.stderr) == (0, "") and "6 events of 3 agents" in result.stdout
    assert f" {archived} " in result.stdout and " killed " in result.stdout and SECRET not in everything(talk)


def test_purge_leaves_an_open_agent_alone(talk: Account):
    with talk.terminal(*ECHO) as program:
        program.ready()
        before = everything(talk)
        result = talk.run("db", "purge", "--match", SECRET, "--yes")
        refused(result, 75, "is open in another ikigai", "Nothing was changed")
        assert everything(talk) == before
        program.leave()
    assert talk.run("db", "purge", "--match", SECRET, "--yes").returncode == 0


def left_over(account: Account) -> list[Path]:
    """Write files of unsent input and of unsaved events that hold the text."""
    folder = account.home / ".local" / "state" / "ikigai"
    files = [folder / "unsaved-1.jsonl", folder / "unsent-0-1.txt"]
    for file in files:
        file.write_text(json.dumps({"content": f"<{SECRET}>"}))
    return files


def test_purge_names_other_places_of_the_text(talk: Account):
    kept = talk.home / ".local" / "state" / "ikigai" / "other.txt"
    kept.write_text(SECRET)
    folder = talk.home / SECRET
    folder.mkdir()
    with psycopg.connect(talk.dsn) as other:
        other.execute("update agents set directory = %s", (str(folder),))
    result = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert f"It is also in a file of ikigai, which is kept: {kept}" in result.stdout and kept.exists()
    assert "The name or folder of an agent contains it, and is not changed: its id is " in result.stdout
    unseen(result)


def test_files_that_hold_the_text_are_deleted_with_yes(talk: Account):
    files = left_over(talk)
    harmless = files[0].with_name("unsent-2-2.txt")
    harmless.write_text("other")
    result = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert all(f"Deleted: {file}" in result.stdout and not file.exists() for file in files)
    assert harmless.exists()
    unseen(result)


def test_file_of_a_running_program_is_not_deleted(talk: Account):
    file = left_over(talk)[1]
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        result = talk.run("db", "purge", "--match", SECRET, "--yes")
    assert f"Not deleted, because a running ikigai has it open: {file}" in result.stdout and file.exists()


@pytest.mark.ordinary("y-False", "-True")
@pytest.mark.parametrize(("key", "stay"), [("y", False), ("n", True), ("", True)])
def test_files_that_hold_the_text_are_asked_about_once(talk: Account, key: str, stay: bool):
    files = left_over(talk)
    with talk.terminal("db", "purge", "--match", SECRET, columns=140, rows=40) as program:
        program.wait_for("Type purge to go on:")
        program.type("purge\r")
        program.wait_for("Delete these files?")
        program.type(f"{key}\r")
        assert program.ended() == 0
        assert program.words().count("Delete these files?") == 1
    assert [file.exists() for file in files] == [stay, stay]


def test_purge_shows_safe_and_short_lines(talk: Account):
    with psycopg.connect(talk.dsn) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, content)"
            " select gen_random_uuid(), agent_id, newest + n, 'command', %s || n from generate_series(1, 60) n,"
            " (select agent_id, max(seq) as newest from messages group by agent_id) as logs",
            ("\x1b[31mred\x1b]0;t\x07" + " long" * 500,),
        )
    result = talk.run("db", "purge", "--match", "red", "--yes")
    assert result.returncode == 0 and "\x1b" not in result.stdout and "… and 20 more events" in result.stdout
    assert "60 events of 1 agent: 60 command." in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 400
