"""Tests of `fallback`: a turn goes on with the next model when its own is overloaded, gone or out of credit."""

import json

import pytest

from tests.e2e.account import Account, Wire, figures_of, refused
from tests.support.wire_server import completion, failure

BUSY = failure(529, "Overloaded", retry_after="0.05")
NO_CREDIT = failure(429, "You exceeded your quota", "insufficient_quota", retry_after="0.05")


def configure(account: Account, wire: Wire, *fallback: str, more: str = "") -> None:
    """Make two models of one server known, the second with prices and a small context."""
    account.configure(
        f"fallback = {json.dumps(fallback)}\n"
        f'[providers.wire]\nbase_url = "{wire.server.base_url}"\n'
        '[providers.dead]\nbase_url = "http://127.0.0.1:1/v1"\n'
        '[models."wire/two"]\ninput_price = 1000\noutput_price = 1000\ncontext = 4000\nmax_output = 500\n'
        f"{more}"
    )


def asked_models(wire: Wire) -> list[str]:
    return [request.json["model"] for request in wire.requests]


@pytest.mark.ordinary("overloaded")
@pytest.mark.parametrize("problem", [BUSY, NO_CREDIT], ids=["overloaded", "no credit"])
def test_turn_goes_on_and_the_next_one_tries_again(account: Account, wire: Wire, problem: object):
    configure(account, wire, "wire/two:off")
    wire.answers(problem, problem, completion("From two."), completion("From one."))  # pyright: ignore[reportArgumentType]
    first = account.run("-m", "wire/one", "-c", "-p", "Hello", "--json")
    record = json.loads(first.stdout)
    assert (first.returncode, record["text"], record["model"]) == (0, "From two.", "wire/two")
    assert record["usage"]["cost"] == pytest.approx(0.015)
    assert asked_models(wire) == ["one", "one", "two"]
    assert first.stderr.count("This turn goes on with wire/two") == 1
    second = json.loads(account.run("-m", "wire/one", "-c", "-p", "Again", "--json").stdout)
    assert (second["text"], second["model"]) == ("From one.", "wire/one") and asked_models(wire)[3:] == ["one"]
    usage = [(data["model"], data.get("failure", "")) for _, _, data in account.rows("usage")]
    kind = "overloaded" if problem is BUSY else "quota"
    assert usage == [("wire/one", kind), ("wire/one", kind), ("wire/two", ""), ("wire/one", "")]
    assert [data["model"] for _, _, data in account.rows("assistant")] == ["wire/two", "wire/one"]
    assert account.endings() == ["completed"] * 2


def test_line_on_screen_a_restart_and_a_tool(account: Account, wire: Wire):
    configure(account, wire, "dead/x", "wire/two")
    call = completion(calls=[{"name": "list_files", "arguments": {"path": "."}}], thinking="Let me look.")
    wire.answers(call, BUSY, BUSY, completion("All seen."))
    (work := account.home / "work").mkdir()
    with account.terminal("-m", "wire/one", env={"IKIGAI_TOOLS_ENABLED": "true"}, cwd=work) as program:
        program.ready()
        program.say("Look around.")
        program.wait_for("● All seen.")
        program.settled()
        told = program.words().split("This turn goes on with ")[1:]
        assert [line.split()[0] for line in told] == ["dead/x.", "wire/two."]
        assert "wire/one" in program.status() and program.words().count("All seen.") == 1
        program.say("/status")
        program.wait_for("wire/one")
        program.leave()
    assert asked_models(wire) == ["one", "one", "one", "two"]
    assert "Let me look." not in wire.requests[-1].body.decode()
    assert [message["role"] for message in wire.messages()][-3:] == ["user", "assistant", "tool"]
    with account.terminal("-m", "wire/one", "-c") as program:
        program.ready()
        program.wait_for("● All seen.")
        assert "wire/one" in program.status()
        program.leave()
    shown = account.run("history", "list").stdout
    assert "connection refused. Stopped after 2 attempts. This" in shown


@pytest.mark.ordinary("401")
@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_refused_request_is_no_outage(account: Account, wire: Wire, status: int):
    configure(account, wire, "wire/two")
    wire.answers(failure(status, "No."))
    assert account.run("-m", "wire/one", "-p", "Hello").returncode == 1 and asked_models(wire) == ["one"]


def test_shown_words_and_a_stopped_turn_are_no_outage(account: Account, wire: Wire):
    configure(account, wire, "wire/two")
    cut = completion("Once upon a time")
    cut.cut = len(cut.body) // 2
    wire.answers(cut)
    result = account.run("-m", "wire/one", "-p", "Tell")
    assert result.returncode != 0 and asked_models(wire) == ["one"]
    wire.answers(failure(529, "Overloaded", retry_after="9"))
    with account.terminal("-m", "wire/one", "--new") as program:
        program.ready()
        program.say("Wait")
        program.wait_for("2 of 2")
        program.type("\x1b")
        program.wait_for("interrupted")
        program.settled()
        program.leave()
    assert asked_models(wire) == ["one", "one"]


def test_side_question_and_window_of_the_other_model(account: Account, wire: Wire):
    configure(account, wire, "wire/two")
    wire.answers(completion("word " * 4000), BUSY, BUSY, completion("Aside."), BUSY, BUSY, completion("Small."))
    with account.terminal("-m", "wire/one") as program:
        program.ready()
        program.say("A long one")
        program.wait_for("● word")
        program.settled()
        program.say("/btw Why?")
        program.wait_for("Answered by wire/two, because wire/one is down.")
        program.say("Go on")
        program.wait_for("● Small.")
        program.settled()
        program.leave()
    assert asked_models(wire) == ["one", "one", "one", "two", "one", "one", "two"]
    assert len(wire.requests[-2].body) > 15_000 > len(wire.requests[-1].body)
    assert [data["purpose"] for _, _, data in account.rows("usage") if data.get("purpose")] == ["btw"] * 3


@pytest.mark.parametrize(("cap", "limit"), [(5, 2_000), (1.5, 1_500), (1, 0)])
def test_dearer_fallback_is_reserved_anew_under_a_cap(account: Account, wire: Wire, cap: float, limit: int):
    """The first model is free. A token of the second one costs a tenth of a cent, and its reply has 2,000 at most."""
    free, dear = "input_price = 0\noutput_price = 0\n", "input_price = 0\noutput_price = 1000\nmax_output = 2000\n"
    account.configure(
        f'fallback = ["wire/two"]\n[providers.wire]\nbase_url = "{wire.server.base_url}"\n'
        f'[models."wire/one"]\n{free}[models."wire/two"]\n{dear}[limits]\nrun_usd = {cap}\n'
    )
    wire.answers(BUSY, BUSY, completion("From two.", usage={"prompt_tokens": 9, "completion_tokens": limit}))
    result = account.run("-m", "wire/one", "-p", "Hello")
    if not limit:
        assert result.returncode == 3 and "it could take $1.03 more" in result.stderr
        assert asked_models(wire) == ["one", "one"]
        return
    assert (result.returncode, result.stdout.strip()) == (0, "From two.")
    assert asked_models(wire) == ["one", "one", "two"] and wire.requests[-1].json["max_tokens"] == limit
    spent = sum(data.get("cost") or 0 for _, _, data in account.rows("usage"))
    assert spent == pytest.approx(limit / 1_000) and spent <= cap


def test_all_are_down_and_the_last_reason_is_told(account: Account, wire: Wire):
    configure(account, wire, "nobody/x", "wire/two")
    wire.answers(*[BUSY] * 10)
    result = account.run("-m", "wire/one", "-p", "Hello")
    assert result.returncode != 0 and "Stopped after 8 attempts" in result.stderr
    assert asked_models(wire) == ["one"] * 2 + ["two"] * 8


def test_profile_doctor_and_validate_name_a_fallback_that_cannot_answer(account: Account, wire: Wire):
    configure(
        account, wire, "nobody/x", "openai/gpt-5", more='[profiles.p]\nfallback = ["wire/two:high", "xai/grok"]\n'
    )
    validated = account.run("config", "validate")
    assert validated.returncode == 2
    for words in (
        "The fallback nobody/x: There is no provider 'nobody'",
        "openai/gpt-5: There is no key for OpenAI",
        "xai/grok: ",
    ):
        assert words in validated.stdout
    found = json.loads(account.run("doctor", "--json").stdout)["findings"]
    said = {row["about"]: row["said"] for row in found if row["state"] == "warn"}
    assert "nobody/x" in said["fallback"] and "xai/grok" in said["fallback of p"]
    wrong = account.run("-p", "hi", IKIGAI_FALLBACK="gpt-5")
    refused(wrong, 2, "IKIGAI_FALLBACK cannot be")
    profile = figures_of(account.run("-c", "-p", "/profile", "-m", "wire/one", "--profile", "p", "--json"))
    assert profile["profiles"][0]["sets"]["fallback"] == ["wire/two:high", "xai/grok"]
