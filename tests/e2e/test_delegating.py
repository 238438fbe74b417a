"""A task that a model shares with three agents of its own, in a terminal: what is shown of it, and what it cost."""

import json
import signal
from pathlib import Path

from tests.e2e.account import Account
from tests.e2e.test_tools import TOOLS, call

PARTS = ("one", "two", "three")


def script(folder: Path, name: str, *replies: object) -> str:
    (folder / f"{name}.json").write_text(json.dumps(replies))
    return f"scripted/{folder / name}.json"


def test_a_task_is_shared_with_three_agents(account: Account, tmp_path: Path) -> None:
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


def test_killed_between_the_end_of_a_childs_turn_and_the_parents_taking(account: Account, tmp_path: Path) -> None:
    """The report is stored with the end of the turn: the next program hears it, once."""
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
