"""Press the keys that docs/comparison.md counts for common tasks."""

import json

from tests.e2e.account import Account
from tests.e2e.test_trust import answer

DOWN, STOP, LEAVE, CHOOSE_MODEL = "\x1b[B", "\x1b", "\x04", "\x1bp"


def test_common_tasks_take_the_keys_that_the_comparison_counts(account: Account):
    source = account.home / "src" / "main.py"
    source.parent.mkdir()
    source.write_text("print(1)")
    script = account.home / "script.json"
    call = [{"do": "call", "name": "shell", "arguments": {"command": "touch made"}}]
    script.write_text(json.dumps(["one", ["half ", {"do": "hang"}], "again", call, "ran", call, "refused"]))
    account.configure(f'favorite_models = ["scripted/{script}", "scripted/demo"]\n')
    with account.terminal("-m", f"scripted/{script}", env={"IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready().say("an owl")
        program.wait_for("● one")
        program.say("stop me")
        program.wait_for("half")
        program.type(STOP)
        program.wait_for("interrupted")
        program.type("\x1b\x1b")
        program.wait(lambda: "e edit and resend" in program.status(), "the turns")
        program.type("\r")
        program.wait_for_input("stop me")
        program.type("\r")
        program.wait_for("● again")
        program.say("run it")
        answer(program, "y", "Run it?")
        program.wait_for("● ran")
        assert (account.home / "made").exists()
        program.say("once more")
        program.wait(lambda: program.text().count("Run it?") == 2, "the second question")
        answer(program, "r", "Run it?")
        program.wait_for("Why not?")
        program.type("not today!\r")
        program.wait_for("you said no: not today!")
        program.wait_for("● refused")
        program.settled()
        program.type("@mai")
        program.wait_for("@src/main.py")
        program.type("\t")
        program.wait_for("❯ @src/main.py")
        program.type("\x15")
        program.type("/search half\r")
        program.wait_for("#")
        program.type("/new\r")
        program.wait_for("── Agent ")
        program.ready().type(CHOOSE_MODEL)
        program.wait_for("scripted/demo")
        program.type(DOWN + "\r")
        program.wait(lambda: "scripted/demo · ctx" in program.status(), "the next model")
        program.type(LEAVE)
        assert program.ended() == 0
