"""Tests of --ephemeral: the talk is purged however it ends, with its forks, and only its usage stays."""

import signal
import time

import psycopg
import pytest

from tests.e2e.account import ECHO, Account, lines_of, refused
from tests.e2e.program import Program
from tests.support.invariants import check

OWL = "a secret owl"


def left_of(account: Account) -> tuple[set[str], int]:
    """Return the kinds of the events that are left, and the number of agents that are not purged."""
    with psycopg.connect(account.dsn) as connection:
        kinds = {kind for (kind,) in connection.execute("select distinct kind from messages").fetchall()}
        ((agents,),) = connection.execute("select count(*) from agents where purged_at is null").fetchall()
        ((copies,),) = connection.execute("select count(*) from search_documents").fetchall()
        ((drafts,),) = connection.execute("select count(*) from drafts").fetchall()
        ((uses,),) = connection.execute("select count(*) from agent_uses").fetchall()
    assert agents or (copies, drafts, uses) == (0, 0, 0)
    return kinds, agents


def talk(program: Program) -> None:
    program.ready()
    program.wait(lambda: "ephemeral" in program.status(), "the mark in the status line")
    program.say(OWL)
    program.wait_for(f"● {OWL}")
    program.say("/fork --name kid")
    program.wait(lambda: program.status().startswith("  kid (ephemeral) · "), "the fork")
    program.say("in the fork")
    program.wait_for("● in the fork")


@pytest.mark.ordinary("/exit", "SIGHUP")
@pytest.mark.parametrize("ending", ["/exit", "Ctrl+D", "SIGTERM", "SIGHUP"])
def test_ephemeral_agent_is_purged_at_every_exit(account: Account, ending: str):
    with account.terminal("--ephemeral", *ECHO) as program:
        talk(program)
        assert "kid (ephemeral) · " in program.status(), "at 80 columns, too"
        program.type("unsent words")
        time.sleep(0.5)
        if ending == "/exit":
            program.type("\x15/exit\r")
        elif ending == "Ctrl+D":
            program.type("\x15\x04")
        else:
            program.process.send_signal(getattr(signal, ending))
        program.ended()
        assert ("This conversation was not kept. (" in program.words()) == (not ending.startswith("SIG"))
    assert left_of(account) == ({"usage"}, 0)
    assert not list((account.home / ".local/state/ikigai").glob("unsent-*"))
    assert account.run("agents", "--all").stdout == "There are no agents yet.\n"
    assert OWL not in account.run("history", "search", "owl").stdout
    with psycopg.connect(account.dsn) as connection:
        assert connection.execute("select count(*) from usage").fetchall() == [(2,)], "the ledger keeps the costs"


def age(account: Account) -> None:
    """Let the agents be a minute older: those made a moment ago may be about to be opened."""
    with psycopg.connect(account.dsn) as connection:
        connection.execute("update agents set created_at = created_at - interval '1 minute'")


def put_aside(program: Program, text: str) -> None:
    program.type(text)
    program.wait_for_input(text)
    program.type("\x1bq")
    program.wait_for_input("")


def test_stashed_draft_ends_with_an_ephemeral_run(account: Account):
    """Nor does the run take over the drafts of others: they would also end with it."""
    state = account.home / ".local/state/ikigai"
    with account.terminal(*ECHO) as program:
        put_aside(program.ready(), "kept")
        program.leave()
    (stash,) = state.glob("unsent-stash-*")
    for ending in ("leave", "kill"):
        with account.terminal("--ephemeral", *ECHO) as program:
            put_aside(program.ready(), OWL)
            program.type("\x1bq")
            program.wait_for_input(OWL)
            program.type("\x1bq")
            program.wait_for_input("")
            assert "A draft is put aside" not in program.text()
            time.sleep(1.5)
            assert list(state.glob("unsent-stash-*")) == [stash] and OWL not in stash.read_text()
            getattr(program, ending)()
    with account.terminal(*ECHO) as program:
        program.wait_for("A draft is put aside.")
        program.type("\x1bq")
        program.wait_for_input("kept")


def test_next_start_purges_what_a_killed_program_left(account: Account):
    with account.terminal("--ephemeral", *ECHO, columns=110) as program:
        talk(program)
        program.kill()
    age(account)
    assert left_of(account)[1] == 2
    with account.terminal(*ECHO, columns=110) as program:
        program.ready()
        assert "ephemeral" not in program.status() and OWL not in program.text()
        program.wait(lambda: left_of(account)[1] == 1, "the purge")
        program.leave()
    check(account.dsn)


def test_another_program_leaves_an_ephemeral_talk_alone(account: Account):
    with account.terminal("--ephemeral", *ECHO, columns=110) as program:
        talk(program)
        age(account)
        assert account.run(*ECHO, "--ephemeral", "-p", "beside").stdout == "beside\n"
        with account.terminal(*ECHO, columns=110) as other:
            other.ready()
            time.sleep(2)
            other.leave()
        program.say("still here")
        program.wait_for("● still here")
        program.leave()
    kinds, agents = left_of(account)
    assert agents == 1 and "assistant" not in kinds


def test_kept_agent_is_not_shown_as_ephemeral(account: Account):
    """The mark and the line at the end go with the agent on screen; /archive leads to another that is not kept."""
    assert account.run(*ECHO, "--new", "-p", "kept").returncode == 0
    (kept,) = account.agents()
    with account.terminal("--ephemeral", *ECHO, columns=110) as program:
        program.ready().say("/archive")
        program.wait_for("Archived ")
        program.settled()
        assert "ephemeral" in program.status() and kept not in program.status()
        program.say(f"/switch {kept}")
        program.wait(lambda: program.status().startswith(f"  {kept} · "), "the other agent")
        assert "ephemeral" not in program.status()
        program.leave()
        assert f"To continue: ikigai -r {kept}" in program.words()
    assert left_of(account)[1] == 1


def test_print_mode_and_its_refusals(account: Account):
    assert account.run(*ECHO, "-c", "-p", "kept").returncode == 0
    assert account.run(*ECHO, "--ephemeral", "-p", OWL).stdout == f"{OWL}\n"
    assert OWL not in account.said("user") and "kept" in account.said("user")
    assert [
        agent["agent"] for agent in lines_of(account.run("agents", "--json").stdout)[0]["agents"]
    ] == account.agents()[:1]
    for flags in (("-c",), ("-r", "kid"), ("-r",)):
        refused(account.run(*ECHO, "--ephemeral", *flags, "-p", "hi"), 2, "--ephemeral starts a new agent")
