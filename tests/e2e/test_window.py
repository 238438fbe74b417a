"""Tests of the window: the context rule on screen and the request behind it, /context, refusals, read_result."""

import json
import random
import re

import pytest

from tests.e2e.account import ECHO, WIRE, Account, Wire, figures_of, refused
from tests.e2e.program import Program
from tests.support.wire_server import Answer, completion, failure

BUDGET = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "700"}


def ruled(program: Program, above: str = "") -> tuple[str, int]:
    """Return the first word of the first turn in context and the number of turns out, by the newest rule; else
    "", 0.

    With `above`, read the newest rule above the newest line that begins so.
    """
    lines = program.scrollback()
    end = max(n for n, line in enumerate(lines) if line.startswith(above)) if above else len(lines)
    for line in reversed(lines[:end]):
        if "Everything is in the context again." in line:
            break
        if found := re.match(r'─+ (\d+) (?:turns? )?out.* "(\w+)', line):
            return found[2], int(found[1])
    return "", 0


def drawn(program: Program) -> tuple[str, int]:
    """Return the result of `ruled` as soon as the rule is where the status line says that it is."""

    def out() -> int:
        found = re.search(r" · (\d+) out\b", program.status())
        return int(found[1]) if found else 0

    for _ in range(3):
        program.pump(0.1)
    program.wait(lambda: ruled(program)[1] == out(), "the rule")
    return ruled(program)


def asked(wire: Wire, number: int = -1) -> tuple[str, int]:
    """Return the first word of a request's first message and the number of messages that its notice says are
    out.

    With a notice, it is the first word of the message behind it.
    """
    said = [message["content"] for message in wire.messages(number)]
    for content, following in zip(said, said[1:], strict=False):
        if found := re.fullmatch(r"\[conversation truncated — (\d+) older messages? omitted\]", content):
            return following.split()[0], int(found[1])
    return said[0].split()[0], 0


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (1, ""),
        pytest.param(2, "prune_fraction = 0.5\n", marks=pytest.mark.long),
        pytest.param(4, "prune_fraction = 0\n", marks=pytest.mark.long),
        pytest.param(3, "keep_first_turn = true\n", marks=pytest.mark.long),
    ],
)
def test_context_rule_is_at_the_first_message_of_the_next_request(
    account: Account, wire: Wire, seed: int, settings: str
):
    file = account.home / ".config" / "ikigai" / "config.toml"
    file.write_text(f"[context]\nsliding_context_tokens = 350\n{settings}{file.read_text()}")
    draw, number, agreed = random.Random(seed), 0, 0

    def turn(program: Program) -> None:
        nonlocal number, agreed
        number += 1
        requests = len(wire.requests)
        program.type(f"q{number} {'word ' * draw.choice((1, 20, 40, 90))}z{number}")
        program.wait_for(f" z{number}")
        program.type("\r")
        program.wait(lambda: len(account.turns()) == number, f"the end of turn {number}")
        program.settled()
        assert len(wire.requests) == requests + 1
        words, messages = asked(wire)
        program.wait_for(f"❯ q{number} ")
        expected = ruled(program, above=f"❯ q{number} ")
        if expected[0]:
            assert (words, messages) == (expected[0], 2 * expected[1]), program.text()
            agreed += 1
        else:
            assert messages == 0, f"{messages} messages are out, and there is no rule:\n{program.text()}"

    def budget(program: Program) -> None:
        chosen = draw.choice((250, 250, 300, 100_000))
        program.say(f"/budget {chosen}")
        program.wait(lambda: f"· Budget: {chosen if chosen < 1000 else f'{chosen / 1000:g}k'} tokens" in program.text()
                     or "Already set." in program.text(), "the budget")  # fmt: skip
        program.settled()

    def marked(program: Program) -> None:
        label = f"m{number}"
        program.say(f"/mark {label}")
        program.wait_for(f"Mark {label} set.")
        for _ in range(draw.choice((1, 4))):
            turn(program)
        program.say(f"/rewind {label}")
        program.wait(lambda: len(account.rows("rewind")) > rewinds[0], "the rewind")
        rewinds[0] += 1
        program.settled()

    rewinds = [0]
    for steps in ((*[turn] * 6, budget, turn, marked, turn, budget, turn, turn), (turn, budget, turn, marked, turn)):
        with account.terminal(*WIRE, columns=160, rows=40) as program:
            program.ready()
            for step in steps:
                step(program)
            program.leave()
    assert agreed >= 4 and set(account.endings()) == {"completed"}


def test_turns_that_left_the_window_are_reported_once_and_counted(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=100, env=BUDGET) as program:
        program.ready()
        for n in range(9):
            program.type(f"q{n} {'word ' * 50}z{n}")
            program.wait_for(f" z{n}")
            program.type("\r")
            program.wait(lambda n=n: len(account.turns()) == n + 1, "the end of the turn")
        program.say("last")
        program.wait_for("● You said: last")
        program.leave()
        rules = [line for line in program.scrollback() if " just now (" in line]
    assert rules and all(re.search(r"(\d+) turns? out, \d+ just now \(\d+ → \d+ tokens\)", line) for line in rules)
    outs = [data.get("out", 0) for _, _, data in account.rows("usage")]
    assert outs == sorted(outs) and outs[-1] > 0
    times = sum(after > before for before, after in zip(outs, outs[1:], strict=False))
    told = account.run("usage").stdout.splitlines()[-1]
    assert told == f"Turns left the window {'once' if times == 1 else f'{times} times'}, {outs[-1]} in all."
    for by in ("day", "model", "agent"):
        made = json.loads(account.run("usage", "--json", "--by", by).stdout)
        assert (made["total"]["prunes"], made["total"]["pruned"]) == (times, outs[-1])
        assert made["rows"][0]["pruned"] == outs[-1]


@pytest.mark.ordinary("40")
@pytest.mark.parametrize("columns", [100, 40])
def test_context_fits(account: Account, wire: Wire, columns: int):
    with account.terminal(*WIRE, columns=columns, rows=40) as program:
        program.ready()
        program.say("hello")
        program.wait_for("● You said: hello")
        program.settled()
        program.say("/context")
        program.wait_for("accuracy")
        lines = program.scrollback()
        at = max(n for n, line in enumerate(lines) if "tokens in the next request" in line)
        (free,) = [line for line in lines[at:] if line.startswith("  free")]
        assert re.fullmatch(r"  free +[\d.]+k  100% ████████", free)
        assert any(re.match(r"  messages +\d+ +0% ░+$", line) for line in lines[at:])
        assert "counted 10 (" in " ".join(" ".join(lines[at:]).split())
        program.leave()


def test_limit_that_the_provider_states_is_reported_as_learned(account: Account, wire: Wire):
    too_long = failure(400, "This model's maximum context length is 3000 tokens.", "context_length_exceeded")
    with account.terminal(*WIRE, columns=120) as program:
        program.ready().say("/context")
        program.wait_for("model limit")
        assert "counted by its provider" not in program.words()
        wire.answers("a " * 3_000, "b " * 3_000, too_long, "It fits.")
        for n, asked in enumerate(("one", "two", "three"), start=1):
            program.say(asked)
            program.wait(lambda n=n: len(account.turns()) == n, "the end of the turn")
            program.settled()
        program.wait_for("Sending a smaller request")
        program.say("/context")
        program.wait_for("model limit  3k, including the reply (counted by its provider)")
        program.leave()
    assert len(wire.requests) == 4 and account.endings() == ["completed"] * 3
    assert 0 < len(wire.requests[-1].body) < 4 * 3_000 < len(wire.requests[-2].body)
    made = figures_of(account.run(*WIRE, "-c", "-p", "/context", "--json"))
    assert made["context"] > 3_000 and made["learned"] is False, "learned is for the session"


def test_commands_of_print_mode(account: Account, wire: Wire):
    account.run(*WIRE, "-c", "-p", "hello")
    assert len(wire.requests) == 1
    told = account.run(*WIRE, "-c", "-p", "/context")
    assert told.returncode == 0 and "tokens in the next request" in told.stdout and "1 in, none out" in told.stdout
    made = figures_of(account.run(*WIRE, "-c", "-p", "/context", "--json"))
    assert made["used"] == sum(part["tokens"] for part in made["parts"]) and made["turns"] == 1
    assert made["compared"]["reported"] == 10
    made = figures_of(account.run(*WIRE, "/status", "--output-format", "json"))
    assert [made["agent"]] == account.agents() and made["agent_id"] == account.agent_id(made["agent"])
    assert (made["model"], made["state"], made["turns"]) == ("wire/x", "idle", 1)
    assert figures_of(account.run(*WIRE, "-c", "-p", "/cost", "--json"))["in_all"]["input"] == 10
    assert "in all" in account.run(*WIRE, "-c", "-p", "/cost").stdout
    assert figures_of(account.run(*WIRE, "-c", "-p", "/model", "--json"))["model"] == "wire/x"
    assert {"name": "clear", "argument": "", "help": "start with an empty context; the history stays"} in figures_of(
        account.run("-c", "-p", "/help", "--json", IKIGAI_DATABASE_URL="postgresql://nowhere.invalid/x")
    )["commands"]
    assert account.run("-c", "-p", "/help", PYTHONIOENCODING="ascii").returncode == 0
    assert account.run(*WIRE, "-c", "-p", "/context", PYTHONIOENCODING="ascii").returncode == 0
    refused(account.run(*WIRE, "-c", "-p", "/edit"), 2, "/edit is not available in print mode.")
    refused(account.run(*WIRE, "-c", "-p", "/contxt"), 2, "There is no command '/contxt'. Did you mean /context")
    assert len(wire.requests) == 1 and account.said("user") == ["hello"]


def test_read_only_command_of_print_mode_acquires_no_write_lock(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready().say("mine")
        program.wait_for("● mine")
        assert '"turns":1' in account.run(*ECHO, "-c", "-p", "/context", "--json").stdout
        program.leave()


def test_full_context_with_the_window_off_is_refused_with_remedies(account: Account, wire: Wire):
    file = account.home / ".config" / "ikigai" / "config.toml"
    file.write_text(f'{file.read_text()}[models."wire/x"]\ncontext = 2000\nmax_output = 200\n')
    wire.answers("a " * 3_500)
    with account.terminal(*WIRE, columns=120, env={"IKIGAI_SLIDING_CONTEXT_TOKENS": "0"}) as program:
        program.ready().say("go")
        program.wait(lambda: len(account.turns()) == 1, "the end of the turn")
        program.wait_for("% !!")
        program.say("more of it")
        program.wait_for("and the window is off. Use /clear or /rewind, or switch the window on with /budget 100k.")
        program.wait_for_input("more of it")
        program.type("\x15")
        program.leave()
    assert len(wire.requests) == 1


def test_budget_below_the_system_prompt_is_refused_with_one_that_works(account: Account):
    told = account.run(*ECHO, "--system-prompt", "x" * 8_000, "-c", "-p", "hi", IKIGAI_SLIDING_CONTEXT_TOKENS="1000")
    found = re.search(r"only the newest turn will be sent\. The smallest /budget that works is (\d+)\.", told.stderr)
    assert told.returncode == 0 and found
    told = account.run(*ECHO, "--system-prompt", "x" * 8_000, "-c", "-p", "hi", IKIGAI_SLIDING_CONTEXT_TOKENS=found[1])
    assert told.stderr == ""


def test_cut_results_can_be_read(account: Account, wire: Wire):
    def call(name: str, call: str, **arguments: object) -> Answer:
        return completion("", calls=[{"name": name, "arguments": arguments, "id": call}])

    wire.answers(
        call("lines", "call_a", n=20_000),
        call("read_result", "call_b", id="call_a", offset=100_000),
        call("read_result", "call_c", id="call_a", grep="line 19999 "),
        call("read_result", "call_d", id="call_x"),
        "done",
    )
    result = account.run(*WIRE, "-p", "go", module="tests.e2e.toy", TOOL_LOG=str(account.home / "log"))
    assert result.stdout == "done\n", result.stderr
    offered = [tool["function"]["name"] for tool in wire.requests[0].json["tools"]]
    assert offered == ["lines", "read_result", "touch"]
    cut, page, found, none = (message["content"] for message in wire.messages() if message["role"] == "tool")
    whole = "".join(f"line {n} of the toy\n" for n in range(20_000))
    assert cut.startswith(whole[:30_000]) and cut.endswith(" [read_result call_a]") and len(cut) < 33_000
    assert page.partition("\n")[2] == whole[100_000 : 100_000 + len(page.partition("\n")[2])] and len(page) > 30_000
    assert found.endswith(": line 19999 of the toy") and found.startswith("[1 line]\n20000 (offset ")
    assert "there is no tool result with the id 'call_x'." in none
    assert account.said("tool_result")[0] == whole
