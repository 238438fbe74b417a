"""Tests of spending caps over the real program: what starts, what is asked, and what print mode says."""

import json
import os
import signal
from datetime import date
from decimal import Decimal

import psycopg
import pytest

from tests.e2e.account import WIRE, Account, Wire, refused
from tests.support.wire_server import Answer, completion, failure

pytestmark = pytest.mark.usefixtures("quick_questions")

PRICES = '[models."wire/x"]\ninput_price = 10\noutput_price = 50\ncontext = 100000\nmax_output = 8000\n'
"""Dollars for a million tokens: the reply of 8,000 tokens that a request may have costs $0.40."""


def limits(account: Account, wire: Wire, text: str, prices: str = PRICES) -> None:
    account.configure(
        f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n{prices}[limits]\n{text}\n'
    )


def output_limit(wire: Wire, number: int = -1) -> int:
    return wire.requests[number].json["max_tokens"]


def reserved(account: Account) -> int:
    with psycopg.connect(account.dsn) as connection:
        return connection.execute("select from reservations").rowcount


def test_print_mode_ends_at_its_cap_before_the_request(account: Account, wire: Wire):
    limits(account, wire, "")
    result = account.run(*WIRE, "-p", "hello", "--max-usd", "0.05", "--json")
    error = json.loads(result.stdout)
    assert (error["type"], error["code"], result.returncode) == ("error", 3, 3)
    assert "$0.00 of $0.05 are used for this run" in error["message"]
    remedy = "Raise --max-usd, or limits.run_usd in the configuration."
    assert error["remedy"] == remedy, "nobody can type a command"
    refused(account.run(*WIRE, "-p", "hello", "--max-usd", "0.05"), 3, "spending cap", remedy)
    assert not wire.requests and account.endings() == ["failed", "failed"]
    wrong = account.run(*WIRE, "-p", "hello", "--max-usd", "-1")
    assert wrong.returncode == 2 and "'-1' is not an amount in US dollars" in wrong.stderr


def test_reply_is_limited_to_what_the_cap_leaves(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 0.2")
    assert account.run(*WIRE, "-p", "hello").returncode == 0
    assert 1_024 <= output_limit(wire) < 4_000 and reserved(account) == 0
    limits(account, wire, "day_usd = 5")
    assert account.run(*WIRE, "-p", "hello").returncode == 0 and output_limit(wire) == 8_000


def test_cap_of_the_day_counts_what_other_programs_spent_and_reserve(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 0.45")
    wire.answers(Answer(end="hang"))
    other = account.start(*WIRE, "-p", "one that takes long")
    assert wire.asked()
    refused(account.run(*WIRE, "-p", "two"), 3, "today", "limits.day_usd")
    assert len(wire.requests) == 1
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert other.stdout and other.stderr
    other.stdout.close()
    other.stderr.close()
    account.alone()
    result = account.run(*WIRE, "-p", "three")
    assert result.returncode == 0 and output_limit(wire) < 8_000, "what the killed program had sent is counted"
    assert "80 % of the spending cap" not in result.stderr


def test_killed_request_is_recorded_once(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 5")
    wire.answers(Answer(end="hang"))
    program = account.start(*WIRE, "-p", "one that takes long")
    assert wire.asked()
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    account.alone()
    assert reserved(account) == 1
    with psycopg.connect(account.dsn) as connection:
        ((name,),) = connection.execute("select name from agents").fetchall()
    for _ in range(2):
        assert account.run(*WIRE, "-p", "-r", name, "again").returncode == 0
    lost = [data for _, _, data in account.rows("usage") if data.get("failure") == "lost"]
    assert len(lost) == 1 and 0.05 < lost[0]["most"]["usd"] < 0.2 and reserved(account) == 0


def test_model_without_a_price_needs_a_cap_in_tokens(account: Account, wire: Wire):
    limits(account, wire, "turn_usd = 1", "")
    refused(account.run(*WIRE, "-p", "hello"), 3, "The price of wire/x is not known", "limits.turn_tokens")
    limits(account, wire, "turn_usd = 1\nturn_tokens = 20000", "")
    assert account.run(*WIRE, "-p", "hello").returncode == 0
    limits(account, wire, "turn_tokens = 1000", "")
    refused(account.run(*WIRE, "-p", "hello"), 3, "of 1,000 tokens are used for this turn")


def test_count_above_the_margin_is_told(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 5")
    wire.answers(completion("Yes.", usage={"prompt_tokens": 90_000, "completion_tokens": 1}))
    told = account.run(*WIRE, "-p", "hello").stderr
    assert "wire/x counted 90,000 input tokens where at most" in told and "more than was reserved" in told


def test_four_fifths_of_a_cap_are_told(account: Account, wire: Wire):
    limits(account, wire, "run_usd = 1")
    wire.answers(counted("Yes.", 79_000), counted("Yes.", 80_000))
    assert "80 %" not in account.run(*WIRE, "-p", "hello").stderr
    told = account.run(*WIRE, "-p", "hello").stderr
    assert "80 % of the spending cap for this run is used: $0.8001 of $1.00. /limit shows it." in told


def counted(text: str, input: int) -> Answer:
    return completion(text, usage={"prompt_tokens": input, "completion_tokens": 1})


def test_retry_counts_against_a_cap(account: Account, wire: Wire):
    """The first attempt may have cost all that was reserved: its answer broke off before anything was counted."""
    limits(account, wire, "run_usd = 0.5")
    wire.answers(Answer(b"", headers={"Content-Type": "text/event-stream"}), counted("Yes.", 10))
    result = account.run(*WIRE, "-p", "hello")
    assert result.returncode == 3 and "of $0.50 are used for this run, and it could take $0.4" in result.stderr
    assert len(wire.requests) == 1


def test_fallback_counts_against_a_cap(account: Account, wire: Wire):
    prices = PRICES + PRICES.replace("wire/x", "wire/y")
    account.configure(
        f'fallback = ["wire/y"]\n[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
        f"{prices}[limits]\nrun_usd = 0.32\n"
    )
    call = completion("", calls=[{"name": "none"}], usage={"prompt_tokens": 30_000, "completion_tokens": 1})
    wire.answers(*[failure(503, "busy")] * 3, call, counted("Done.", 10))
    result = account.run(*WIRE, "-p", "hello")
    assert result.returncode == 3 and "The spending cap stops this request: $0.3001 of $0.32" in result.stderr
    assert [request.json["model"] for request in wire.requests][-1] == "y"


@pytest.mark.ordinary("/btw*")
@pytest.mark.parametrize("command", ["/btw And that?", "/condense"])
def test_side_calls_and_summaries_count_against_a_cap(account: Account, wire: Wire, command: str):
    limits(account, wire, "")
    wire.answers(*[counted(f"{n} {'long ' * 300}", 10) for n in range(6)])
    account.say(*(f"{n}?" for n in range(6)), flags=WIRE)
    wire.answers(counted("Beside it.", 30_000))
    with account.terminal(*WIRE, columns=100) as program:
        program.ready()
        program.say("/limit run 0.32")
        program.wait_for("of $0.32")
        program.say(command)
        program.wait(lambda: [data.get("purpose", "") for _, _, data in account.rows("usage")][-1], "the side call")
        program.say("hello")
        program.wait_for("The spending cap stops this request")
        program.wait_for("$0.3001 of $0.32")
        program.let_read()
        program.type("s")
        program.wait(lambda: account.turns()[-1] == "failed", "the end of the turn")
    account.endings()
    assert wire.requests[-1].json["messages"][-1]["content"] != "hello"


@pytest.mark.ordinary("o-*-80-24", "r-*-40-12", "s-*-80-24")
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 12)])
@pytest.mark.parametrize("key, request_starts", [("o", True), ("r", True), ("s", False)])
def test_user_is_asked_at_the_cap(
    account: Account, wire: Wire, key: str, request_starts: bool, columns: int, rows: int
):
    limits(account, wire, "turn_usd = 0.04")
    with account.terminal(*WIRE, columns=columns, rows=rows) as program:
        program.ready()
        program.say("hello")
        for words in (
            "The spending cap stops this request",
            "[o] send it once",
            "[r] raise the cap to $0.",
            "[s] stop",
        ):
            program.wait(lambda words=words: words in " ".join(program.text().split()), words)
        program.let_read()
        program.type(key)
        program.wait(lambda: len(account.turns()) == 1, "the end of the turn")
        assert len(wire.requests) == request_starts
        program.say("/limit day 3")
        program.wait_for("of $3.00")
        program.say("/limit week 3")
        program.wait_for("has no cap")
    assert account.endings() == ["completed" if request_starts else "failed"]


def test_project_can_only_tighten_caps(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 5")
    project = account.home / ".ikigai" / "config.toml"
    project.parent.mkdir()
    project.write_text("[limits]\nday_usd = 9\nturn_usd = 0.04\n")
    assert account.run("-p", "hello", *WIRE).returncode == 0, "it is not trusted"
    with account.terminal(*WIRE) as program:
        program.wait_for("[y] yes")
        program.let_read()
        program.type("y")
        program.ready()
    refused(account.run("-p", "hello", *WIRE), 3, "this turn", "$0.04")
    with account.terminal(*WIRE) as program:
        program.ready()
        program.say("/limit turn 3")
        program.wait_for("/limit can only lower it here")


def test_day_is_shown_against_its_cap(account: Account, wire: Wire):
    limits(account, wire, "day_usd = 5")
    wire.answers(completion("Yes.", usage={"prompt_tokens": 1_000, "completion_tokens": 100}))
    account.run(*WIRE, "-p", "hello")
    assert "Used of today's cap: $0.0150 of $5.00" in account.run("-p", "/cost").stdout
    shown = json.loads(account.run("-p", "/limit", "--json").stdout)["command"]["figures"]
    assert shown["day"] == {"usd": 5.0, "tokens": None, "used_usd": 0.015, "used_tokens": 1_100}
    assert shown["turn"]["usd"] is None
    spent = Decimal("0.015")
    with psycopg.connect(account.dsn) as connection:
        (row,) = connection.execute("select spent_usd, created_at::date from usage").fetchall()
    assert row == (spent, date.today())
