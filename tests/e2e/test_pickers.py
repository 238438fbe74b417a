"""Tests of the lists to pick from: agents (-r, /switch) and models (/model), on screens of any size."""

import psycopg

from ikigai.repl.pickers.agent_picker import PAGE_AGENTS
from tests.e2e.account import ECHO, Account

KEYED = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "sk-canary-of-the-test-0123456789")


def agents(account: Account, *words: str) -> list[str]:
    """Make an agent for each of these messages; return their names, the newest first."""
    for each in words:
        assert account.run(*ECHO, "-p", each).returncode == 0
        assert account.run("agents", "revive", account.agents()[-1]).returncode == 0
    return [line.split()[0] for line in reversed(account.run("agents").stdout.splitlines()[1:])]


def test_agent_is_picked_at_the_start_by_its_messages(account: Account):
    names = agents(account, "words about owls", "words about foxes", "the newest")
    with account.terminal("-r", *ECHO, columns=80, rows=24) as program:
        program.wait_for("Tab shows archived and subagents")
        program.wait_for(names[0])
        program.wait(lambda: program.text().index(names[0]) < program.text().index(names[2]), "the newest first")
        assert "words about owls" in program.text() and "just now" in program.text()
        program.type("owls")
        program.wait(lambda: names[0] not in program.text() and names[2] in program.text(), "the one that said it")
        program.type("\r")
        program.wait(lambda: program.status().startswith(f"  {names[2]} · "), "the picked agent")
        program.say("/switch")
        program.wait_for("Enter switches")
        program.wait(lambda: names[1] in program.text(), "the others")
        assert names[2] not in program.text(), "the one on screen is not offered"
        program.type("\x1b[B\r")
        program.wait(lambda: program.status().startswith(f"  {names[1]} · "), "the second row")
        program.leave()


def test_leaving_the_list_of_the_start_leaves_the_program(account: Account):
    agents(account, "one")
    with account.terminal("-r", *ECHO) as program:
        program.wait_for("Enter switches")
        program.type("nothing like it\r")
        program.wait_for("No agent matches.")
        program.type("\x1b")
        assert program.ended() == 130
    for arguments in (("-r",), ("-r", "-c", "-p", "hi")):
        refused = account.run(*arguments, *ECHO)
        assert refused.returncode == 2 and "Usage: ikigai -r NAME" in refused.stderr


def test_list_is_left_while_the_database_does_not_answer(account: Account):
    agents(account, "one", "two")
    with account.terminal(*ECHO, columns=60, rows=12) as program:
        program.ready().say("x")
        program.wait_for("● x")
        program.settled()
        with account.stopped():
            program.say("/switch")
            program.wait_for("loading…")
            program.type("\x1b")
            program.wait(lambda: "loading…" not in program.text(), "the prompt", seconds=5)
            program.type("typed behind")
            program.wait_for_input("typed behind")
        program.type("\r")
        program.wait_for("● typed behind")
        program.leave()


def test_archived_agents_are_shown_by_a_key_and_long_lists_load_as_they_scroll(account: Account):
    names = agents(account, *(f"message {n}" for n in range(3)))
    account.run("agents", "archive", names[0])
    with account.terminal("-r", *ECHO, columns=40, rows=12) as program:
        program.wait_for(names[1])
        assert names[0] not in program.text()
        program.type("\t")
        program.wait_for(names[0])
        program.wait_for("archived")
        program.resize(20, 5)
        program.type("\x1b[F")
        program.wait_for(names[2][:10])
        program.resize(80, 24)
        program.type("\x1b[H\r")
        program.wait(lambda: program.status().startswith(f"  {names[0]} · "), "the archived agent")
        program.leave()


def test_model_is_picked_from_favorites_and_all_known_ones(account: Account):
    account.configure('model = "scripted/echo"\nfavorite_models = ["anthropic/claude-opus-4-1"]\n')
    with account.terminal(columns=90, rows=24, env=KEYED) as program:
        program.ready().say("/model")
        program.wait_for("anthropic/claude-opus-4-1  $15 / $75 · 200k context · favorite")
        program.wait_for("scripted/echo  free")
        program.type("nosuch\r")
        program.wait_for("'nosuch' is not a model")
        program.type("\x15nosuch/model\r")
        program.wait_for("There is no provider 'nosuch'")
        program.wait_for("[providers.nosuch]")
        program.type("\x15gpt-5-mini")
        program.wait(lambda: "opus" not in program.text() and "gpt-5-mini  $" in program.text(), "the filtered list")
        program.type("\r")
        program.wait(lambda: "gpt-5-mini · ctx" in program.status(), "the picked model")
        program.say("/model")
        program.wait_for("opus-4-1")
        program.type("gpt-5-mini")
        program.wait_for("in use")
        program.type("\x03")
        program.ready()
        assert "gpt-5-mini · ctx" in program.status()
        program.leave()
    shown = account.run("-c", "-p", "/model", **KEYED).stdout
    assert "/model PROVIDER/NAME[:LEVEL] chooses another" in shown


def test_second_page_of_a_long_list_is_read_when_the_cursor_comes_near(account: Account):
    (name,) = agents(account, "the newest")
    count = PAGE_AGENTS + 30
    with psycopg.connect(account.dsn) as connection:
        connection.execute("set search_path = ikigai, public")
        connection.execute(
            "insert into agents (id, name, created_at, last_used_at) select gen_random_uuid(), 'older-' || n, "
            "now() - n * interval '1 hour', now() - n * interval '1 hour' from generate_series(1, %s) n",
            (count,),
        )
    with account.terminal("-r", *ECHO, columns=80, rows=24) as program:
        program.wait_for(name)
        last = f"older-{count}"
        program.type("\x1b[F")
        program.wait(
            lambda: any(f"older-{n} " in program.text() for n in range(PAGE_AGENTS - 3, PAGE_AGENTS + 3)), "the end"
        )

        def is_at_the_end() -> bool:
            program.type("\x1b[F")  # the second page may just be read
            return last in program.text()

        program.wait(is_at_the_end, "the end of the second page")
        program.type("\r")
        program.wait(lambda: program.status().startswith(f"  {last} · "), "the picked agent")
        program.leave()
