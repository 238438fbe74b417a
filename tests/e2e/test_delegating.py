"""Tests of a model that shares a task with three subagents, in a terminal: the display, and the cost."""

import json
import signal
from pathlib import Path

import psycopg
import pytest

from tests.e2e.account import Account
from tests.e2e.test_tools import TOOLS, call

PARTS = ("one", "two", "three")
HANG = {"do": "hang"}


def script(folder: Path, name: str, *replies: object) -> str:
    (folder / f"{name}.json").write_text(json.dumps(replies))
    return f"scripted/{folder / name}.json"


def test_task_is_shared_with_three_subagents(account: Account, tmp_path: Path) -> None:
    models = {part: script(tmp_path, part, f"The answer of {part}.", f"{part} again.") for part in PARTS}
    forks = [{**call("fork"), "arguments": {"prompt": f"Part {n}", "name": n, "model": models[n]}} for n in PARTS]
    wait = call("wait", agents=list(PARTS), seconds=30)
    boss = script(tmp_path, "boss", forks, [wait], "All three are done.", "Heard.")
    account.configure(f'model = "{boss}"\n')
    with account.terminal(env=TOOLS) as program:
        program.ready()
        program.type("Share it.\r")
        program.wait_for("All three are done.")
        program.type("/agents\r")
        program.wait_for("The answer of three.")
        program.type("/cost\r")
        program.wait_for("with them")
        assert any("its agents" in line and " 3 " in line for line in program.lines())
        program.type('/send two "Once more."\r')
        program.wait_for("Sent to two: Once more.")
        program.wait(lambda: "two again." in account.said("assistant"), "the answer to what was sent")
        program.leave()
    assert sorted(account.said("mail_sent")) == ["Once more.", *(f"The answer of {n}." for n in sorted(PARTS))]
    assert len({data["of"] for _, _, data in account.rows("mail_taken")}) == 4
    assert "answer of two" in account.said("tool_result")[-1]


def test_print_mode_waits_for_its_agents_and_stops_the_others(account: Account, tmp_path: Path) -> None:
    slow, quick = script(tmp_path, "slow", [{"do": "hang"}]), script(tmp_path, "quick", "Done.")
    forks = [
        {**call("fork"), "arguments": {"prompt": "?", "name": name, "model": model}}
        for name, model in (("snail", slow), ("hare", quick))
    ]
    boss = script(tmp_path, "boss", forks, [call("wait", agents=["hare"])], "One is done.")
    account.configure(f'model = "{boss}"\n')
    found = account.run("-p", "--yolo", "--output-format", "json", "Go.", **TOOLS)
    made = json.loads(found.stdout)
    assert found.returncode == 0 and made["text"] == "One is done."
    assert made["usage"]["agents"]["output"] > 0
    assert "Stopped with it: snail." in found.stderr
    assert [data["ending"] for _, _, data in account.rows("mail_sent")] == ["completed", "interrupted"]


FULL_FOR_SNAIL = """
create function ikigai.fail() returns trigger language plpgsql as $$
begin
  if (select name from ikigai.agents where id = new.agent_id) = 'snail' then
    raise exception 'no space left' using errcode = '53100';
  end if;
  return new;
end $$;
create trigger fail before insert on ikigai.messages
  for each row when (new.kind = 'turn_end') execute function ikigai.fail();
"""


def test_print_mode_says_what_its_agents_could_not_save(account: Account, tmp_path: Path) -> None:
    account.run("db", "migrate")
    with psycopg.connect(account.dsn, autocommit=True) as server:
        server.execute(FULL_FOR_SNAIL.encode())
    fork = {**call("fork"), "arguments": {"prompt": "?", "name": "snail", "model": script(tmp_path, "slow", [HANG])}}
    boss = script(tmp_path, "boss", [fork], "It is at work.")
    account.configure(f'model = "{boss}"\n')
    found = account.run("-p", "--yolo", "Go.", module="tests.e2e.hasty", **TOOLS)
    assert found.stdout == "It is at work.\n"
    (line,) = [line for line in found.stderr.splitlines() if "could not be saved" in line]
    file = Path(line.partition(" kept in ")[2].partition(" until ")[0])
    kept = [json.loads(row).get("kind") for row in file.read_text().splitlines()]
    assert line.endswith(" until snail is opened again.") and "turn_end" in kept
    with psycopg.connect(account.dsn, autocommit=True) as server:
        server.execute("drop trigger fail on ikigai.messages")
    after = account.run("-r", "snail", "-c", "-p", "And now?", "-m", "scripted/echo")
    assert "that could not be saved are in the log now." in after.stderr and not file.exists()
    assert account.endings() == ["completed", "interrupted", "completed"]


def test_killed_between_the_end_of_a_childs_turn_and_the_parents_taking(account: Account, tmp_path: Path) -> None:
    """The report is stored with the end of the turn: the next program receives it, once."""
    fork = call("fork", prompt="?")
    fork["arguments"] = {"prompt": "?", "name": "kid", "model": script(tmp_path, "kid", "Done.")}
    boss = script(tmp_path, "boss", [fork], [{"do": "hang"}])
    account.configure(f'model = "{boss}"\n')
    env = {**TOOLS, "KILL_AT": "after:mail_sent", "AGENTS": "yes"}
    with account.terminal(module="tests.e2e.toy", env=env) as program:
        program.ready()
        program.type("Go.\r")
        assert program.ended() == -signal.SIGKILL
    assert account.said("mail_sent") == ["Done."] and not account.rows("mail_taken")
    script(tmp_path, "boss", "I have heard it.", "Nothing else.")
    for _ in range(2):
        with account.terminal(env=TOOLS) as program:
            program.wait_for("I have heard it.")
            program.leave()
    assert len(account.rows("mail_taken")) == 1
    assert account.said("user").count("Done.") == 1


def test_held_mail_is_reported_and_delivered_when_the_user_agrees(account: Account, tmp_path: Path) -> None:
    """Parent and child go on by themselves, until the user sends something."""
    fork = {
        **call("fork"),
        "arguments": {"prompt": "?", "name": "kid", "model": script(tmp_path, "kid", *["Pong."] * 40)},
    }
    talk = [[call("send", agent="kid", text="Ping.")], "Pinged."] * 40
    account.configure(f'model = "{script(tmp_path, "boss", [fork], "Started.", *talk)}"\n')
    with account.terminal(env=TOOLS) as program:
        program.ready()
        program.type("Go.\r")
        program.wait_for("kid held: /send")
        program.wait_for("send a message here, or /send kid TEXT.")
        answered = account.said("mail_sent").count("Pong.")
        program.say("/agents")
        program.wait(lambda: any("kid" in line and "held" in line for line in program.lines()), "the state in the tree")
        program.type('/send kid "Go on."\r')
        program.wait(lambda: account.said("mail_sent").count("Pong.") > answered, "what was held has come")
        program.leave()


def test_print_mode_opens_an_agent_that_it_gives_work(account: Account, tmp_path: Path) -> None:
    fork = {**call("fork"), "arguments": {"prompt": "?", "name": "kid", "model": script(tmp_path, "kid", "Ready.")}}
    account.configure(f'model = "{script(tmp_path, "boss", [fork, call("wait", agents=["kid"])], "Made.")}"\n')
    assert account.run("-c", "-p", "--yolo", "Go.", **TOOLS).stdout == "Made.\n"
    script(tmp_path, "kid", "Done.")
    script(tmp_path, "boss", [call("send", agent="kid", text="More."), call("wait", agents=["kid"])], "Heard.")
    assert account.run("-c", "-p", "--yolo", "More.", **TOOLS).stdout == "Heard.\n"
    assert account.said("tool_result")[-1] == "[kid, turn completed]\nDone."


@pytest.mark.ordinary("before:mail_sent", "after:mail_taken")
@pytest.mark.parametrize(
    "at", ["after:tool_started", "before:mail_sent", "after:mail_sent", "before:mail_taken", "after:mail_taken"]
)
def test_killed_within_a_reply_with_agent_tools(account: Account, tmp_path: Path, at: str) -> None:
    """The next program receives each answer once, whatever was under way."""
    fork = call("fork")
    fork["arguments"] = {"prompt": "?", "name": "kid", "model": script(tmp_path, "kid", "First.", "Second.")}
    calls = [fork, call("send", agent="kid", text="More."), call("wait", agents=["kid"])]
    account.configure(f'model = "{script(tmp_path, "boss", calls, "Heard.")}"\n')
    with account.terminal(module="tests.e2e.toy", env={**TOOLS, "KILL_AT": at, "AGENTS": "yes"}) as program:
        program.ready()
        program.type("Go.\r")
        assert program.ended() == -signal.SIGKILL
    script(tmp_path, "boss", *["Ok."] * 9)
    script(tmp_path, "kid", *["Answer."] * 9)
    with account.terminal(env=TOOLS) as program:
        program.ready()

        def quiet() -> bool:
            ended = len(account.turns()) == len(account.said("user"))
            return ended and len(account.rows("mail_taken")) == len(account.rows("mail_sent"))

        program.wait(quiet, "all that was sent has come")
        program.leave()
    assert account.endings()
    taken = [data["of"] for _, _, data in account.rows("mail_taken")]
    assert len(taken) == len(set(taken))
    work = [data for _, _, data in account.rows("mail_sent") if data.get("wants_reply")]
    answers = [data for _, _, data in account.rows("mail_sent") if data.get("ending")]
    made = "kid" in account.agents()
    assert len(work) <= 1 and bool(answers) >= made and len(answers) <= len(work) + made
