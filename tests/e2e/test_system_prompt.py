"""Tests of the default system prompt: what a model is told before the first message, at the terminal and printed."""

from datetime import date

from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program

DEFAULT = {"IKIGAI_DEFAULT_SYSTEM_PROMPT": "true", "WIRE_KEY": "a-key-of-the-wire"}
HINT = 'This is the default. /system TEXT replaces it, /system "" clears it.'


def system(wire: Wire, number: int = -1) -> str:
    first = wire.messages(number)[0]
    return first["content"] if first["role"] == "system" else ""


def ask(program: Program, account: Account, text: str) -> None:
    turns = len(account.turns())
    program.say(text)
    program.wait(lambda: len(account.turns()) == turns + 1, "the end of the turn")
    program.settled()


def prompts(account: Account) -> list[str | None]:
    """Return the default system prompts of settings events, in order."""
    changed = [data["values"] for _, _, data in account.rows("settings")]
    return [each["default_system"] for each in changed if "default_system" in each]


def test_model_is_told_where_it_is_until_the_user_says_otherwise(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=140, rows=40, env={**DEFAULT, "IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready()
        program.say("/system")
        program.wait_for(HINT)
        assert f"Working directory: {account.home}" in program.text().replace("\n", "")
        assert account.rows("settings") == [], "showing it stores nothing"
        ask(program, account, "one")
        default = system(wire)
        assert f"\nWorking directory: {account.home}\nOperating system: Linux" in default
        assert f"\nDate: {date.today()}" in default and "run commands" in default and "is data:" in default
        ask(program, account, "two")
        assert system(wire) == default and prompts(account) == [default]
        program.say('/system ""')
        program.wait_for("System: none")
        ask(program, account, "three")
        assert system(wire) == "" and prompts(account) == [default, None]
        program.say("/system")
        program.wait_for("There is no system prompt.")
        program.say("/system Be brief.")
        program.wait_for("System: changed")
        ask(program, account, "four")
        assert system(wire) == "Be brief."
        program.say("/system default")
        program.wait_for("System: default")
        program.say("/tools off shell")
        program.wait_for("Tools off: shell")
        ask(program, account, "five")
        assert system(wire) == default.replace("run commands, ", ""), "it names the tools that are on"
        program.say('/fork "six"')
        program.wait(lambda: len(account.turns()) == 6, "the turn of the child")
        assert system(wire) == system(wire, -2), "the child is told the same, byte for byte"
        program.leave()
    count, rows = len(prompts(account)), len(account.rows())
    with account.terminal(*WIRE, env={**DEFAULT, "IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready()
        assert len(account.rows()) == rows, "starting again stores nothing"
        ask(program, account, "seven")
        assert system(wire) == system(wire, -2) and len(prompts(account)) == count
        program.leave()


def test_older_conversation_gets_the_default_prompt_with_its_next_turn(account: Account, wire: Wire):
    assert account.run("-c", "-p", *WIRE, "one", WIRE_KEY="k").returncode == 0
    assert system(wire) == "" and prompts(account) == []
    before = account.run("history", "export").stdout
    with account.terminal("-c", *WIRE, env=DEFAULT) as program:
        program.ready().leave()
    assert account.run("history", "export").stdout == before != ""
    told = account.run("-c", "-p", "-c", *WIRE, "two", **DEFAULT)
    assert told.returncode == 0 and f"Date: {date.today()}" in system(wire) == prompts(account)[0]
    assert "Date:" not in told.stdout + told.stderr
    export = account.run("history", "export").stdout
    assert "two" in export and "Date:" not in export and "Default" not in export


def test_default_prompt_is_overridden_by_flag_and_configuration(account: Account, wire: Wire):
    assert account.run("-c", "-p", *WIRE, "--system-prompt", "Be brief.", "one", **DEFAULT).returncode == 0
    assert system(wire) == "Be brief."
    assert account.run("-c", "-p", *WIRE, "--system-prompt", "", "two", **DEFAULT).returncode == 0
    assert system(wire) == ""
    file = account.home / ".config" / "ikigai" / "config.toml"
    kept = file.read_text()
    file.write_text("[context]\ndefault_system_prompt = false\n" + kept)
    without = "unset IKIGAI_DEFAULT_SYSTEM_PROMPT; ikigai -p -m wire/x"
    assert account.shell(f"{without} three", WIRE_KEY="k").returncode == 0 and system(wire) == ""
    assert prompts(account) == []
    assert account.shell(f"{without} /system", WIRE_KEY="k").stdout.startswith("There is no system prompt.")
    shown = account.run("-c", "-p", *WIRE, "/system", **DEFAULT).stdout
    assert shown.startswith("You are an assistant in the terminal") and HINT in shown


def test_budget_has_room_for_the_prompt_that_the_first_turn_brings(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=140, env=DEFAULT) as program:
        program.ready().say("/budget 100")
        program.wait_for("A budget of 100 tokens is too small: system prompt and tools alone take")
        program.leave()
