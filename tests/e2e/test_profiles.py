"""Tests of profiles and pins: in print mode, in a terminal, after restarts, and in requests."""

import json

from tests.e2e.account import WIRE, Account, Wire, figures_of, refused
from tests.terminal.modes import ENTER

PROFILES = """
[profiles.brief]
system_prompt = "Be brief."
sliding_context_tokens = 9000
[profiles.hands-off]
inherits = "brief"
tools = false
max_history_tokens = 700
"""


def test_profile_of_an_agent_lasts_over_runs_and_its_absence_is_reported_once(account: Account):
    model = ("-m", "scripted/echo")
    account.configure(PROFILES)
    asked = account.run("-c", "-p", "one", *model, "--profile", "hands-off", "--json")
    assert json.loads(asked.stdout)["text"] == "one"
    assert "Profile: hands-off" in (changed := account.run("-c", "-p", "/profile hands-off", *model)).stdout, changed
    figures = figures_of(account.run("-c", "-p", "/context", *model, "--json"))
    assert (figures["budget"], figures["budget_from"], figures["max_history_tokens"]) == (
        9000,
        "profile hands-off",
        700,
    )
    assert "tools" not in {part["name"] for part in figures["parts"]}
    refused(account.run("-c", "-p", "hi", *model, "--profile", "breif"), 2, "--profile: there is no profile 'breif'.")
    listed = account.run("config", IKIGAI_PROFILE="hands-off").stdout
    assert any(line.split()[:2] == ["context.max_history_tokens", "700"] for line in listed.splitlines())
    assert "profile hands-off" in listed
    account.configure("")
    gone = [account.run("-c", "-p", "two", *model).stderr for _ in range(2)]
    assert "The profile hands-off, which this agent chose, no longer exists" in gone[0] and gone[1] == ""
    account.configure(PROFILES)
    assert figures_of(account.run("-c", "-p", "/profile", *model, "--json"))["profile"] == "hands-off"


def test_profiles_and_pins_in_a_terminal(account: Account, wire: Wire):
    account.configure((account.home / ".config/ikigai/config.toml").read_text() + PROFILES)
    notes = account.home / "my notes.md"
    notes.write_text("Use tabs.\x1b[31m\n")
    with account.terminal(*WIRE) as program:
        program.ready()
        program.type("/profile hands")
        program.wait(lambda: "  hands-off" in program.lines(), "the profile's name")
        program.type("\t\r")
        program.wait_for("Profile: hands-off; ")
        program.say("/profile")
        program.wait_for("Profile: hands-off (your choice)")
        program.type("/pin my")
        program.wait(lambda: "  my notes.md" in program.lines(), "the file's name")
        program.type("\t\r")
        program.wait_for("Pinned: ")
        program.say("hello")
        program.wait_for("● You said: hello")
        program.settled()
        notes.write_text("Use spaces.\n")
        program.say("/pin")
        program.wait_for("changed since")
        program.leave()
    system = wire.messages(0)[0]
    assert system["role"] == "system" and system["content"].startswith("Be brief.\n\nThe user has pinned the file")
    assert "Use tabs.\x1b[31m\n</pinned " in system["content"] and "tools" not in json.loads(wire.requests[0].body)
    assert b"\x1b[31m\n" not in program.raw
    with account.terminal(*WIRE) as program:
        program.ready()
        program.say("/clear")
        program.wait_for("Context cleared")
        program.say("/unpin my")
        program.wait_for("my is not pinned. Pinned files: my notes.md")
        program.type(f"/pin --refresh{ENTER}again\r")  # at once: what is said waits for what it is said with
        program.wait_for("● You said: again")
        program.settled()
        program.say("/unpin my notes.md")
        program.wait_for("Unpinned: ")
        program.say("/profile default")
        program.wait_for("Profile: default")
        program.say("bare")
        program.wait_for("● You said: bare")
        program.leave()
    assert "Use spaces.\n</pinned " in wire.messages(1)[0]["content"]
    assert wire.messages(2)[0] == {"role": "user", "content": "again"}, "neither prompt nor pins"


STARTS = (
    (("--profile", "brief"), {"IKIGAI_SLIDING_CONTEXT_TOKENS": "20k"}),
    ((), {"IKIGAI_PROFILE": "brief", "IKIGAI_SLIDING_CONTEXT_TOKENS": "20k"}),
)


def test_profile_and_budget_typed_now_override_flag_and_variable(account: Account, wire: Wire):
    account.configure((account.home / ".config/ikigai/config.toml").read_text() + PROFILES)
    for flags, env in STARTS:
        with account.terminal(*WIRE, *flags, columns=120, env=env) as program:
            program.ready()
            program.wait(lambda: "/20k" in program.status(), "the start")
            program.say("/budget 50k")
            program.wait(lambda: "/50k" in program.status(), "the budget typed now")
            program.say("/profile hands-off")
            program.wait_for("Profile: hands-off; ")
            program.wait(lambda: "/9k" in program.status(), "the budget of the profile typed now")
            program.say("/budget 30k")
            program.wait(lambda: "/30k" in program.status(), "the budget typed after it")
            program.say("hi")
            program.wait_for("● You said: hi")
            program.settled()
            assert wire.messages()[0]["content"].startswith("Be brief.")
            program.leave()
    with account.terminal(*WIRE, columns=120) as program:
        program.ready().say("/profile")
        program.wait_for("Profile: hands-off (your choice)")
        program.wait_for("sliding_context_tokens as you chose it")
        program.leave()
