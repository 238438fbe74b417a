"""Tests of `ikigai models`, of thinking levels from flag, configuration and prompt, and of keys of a provider."""

import json
from pathlib import Path

import pytest

from tests.e2e.account import ECHO, Account, Wire, lines_of, refused
from tests.support.wire_server import Answer, failure

JSON = {"Content-Type": "application/json"}
SECRET = "sk-canary-of-the-test-0123456789"
THINKER = '[models."wire/x"]\nlevels = ["low", "high"]\n'


def listing(*models: dict[str, object]) -> Answer:
    return Answer(json.dumps({"object": "list", "data": models}).encode(), 200, JSON)


def configure(account: Account, wire: Wire, *more: str) -> None:
    table = f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
    account.configure("".join((*more[:1], table, *more[1:])))


# -- the list ----------------------------------------------------------------------------------------------------


def test_models_lists_known_models_without_a_request(account: Account):
    result = account.run("models", "--json", ANTHROPIC_API_KEY=SECRET)
    assert (result.returncode, result.stderr) == (0, "")
    rows = lines_of(result.stdout)
    assert len(rows) > 5 and {row["provider"] for row in rows} == {"anthropic"}
    for row in rows:
        assert row["model"].startswith("anthropic/claude-")
        assert row["context"] >= 100_000 and row["max_output"] > 1_000 and row["images"] is True
        assert set(row["levels"]) <= {"off", "min", "low", "med", "high"}
        assert 0 < row["input_price"] < row["output_price"] < 1_000
    table = account.run("models", "anthropic", ANTHROPIC_API_KEY=SECRET).stdout.splitlines()
    assert table[0].split() == ["model", "context", "output", "levels", "images", "$/M", "in", "$/M", "out"]
    assert [line.split()[0] for line in table[1:]] == [row["model"] for row in rows]


def test_only_those_that_a_key_is_at_hand_for(account: Account):
    def providers(**env: str) -> set[str]:
        return {row["provider"] for row in lines_of(account.run("models", "--json", **env).stdout)}

    assert providers(OPENAI_API_KEY="k") == {"openai"}
    assert providers(OPENAI_API_KEY="k", GOOGLE_API_KEY="k") == {"openai", "google"}
    refused(account.run("models"), 1, "There is no key, and no local model.", "ikigai login")
    refused(account.run("models", "google"), 1, "There is no key for Google.", "ikigai login google")
    refused(account.run("models", "nobody"), 2, "There is no provider 'nobody'")


def test_refresh_asks_the_server_and_caches_its_list(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/mine"\n', '[models."wire/mine"]\ninput_price = 2\noutput_price = 4.5\n')
    assert [row["model"] for row in lines_of(account.run("models", "--json").stdout)] == ["wire/mine"]
    wire.answers(listing({"id": "big", "context_length": 65_536}, {"id": "small"}))
    result = account.run("models", "wire", "--refresh", "--json", WIRE_KEY=SECRET)
    assert (result.returncode, result.stderr) == (0, "")
    assert wire.requests[0].path == "/v1/models" and wire.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    found = {row["model"]: row for row in lines_of(result.stdout)}
    assert list(found) == ["wire/big", "wire/small", "wire/mine"]
    assert found["wire/big"]["context"] == 65_536 and found["wire/big"]["input_price"] is None
    assert (found["wire/mine"]["input_price"], found["wire/mine"]["output_price"]) == (2, 4.5)
    assert account.run("models", "--json").stdout == result.stdout and len(wire.requests) == 1
    with account.terminal(columns=120) as program:
        program.ready()
        program.type("/model wire/")
        program.wait(lambda: "/model wire/" in program.text(), "the echo")
        program.type("b")
        program.wait_for("wire/big")
        program.type("\x03")
        program.leave()


def test_those_that_do_not_answer_are_said_beside_the_list(account: Account, wire: Wire):
    wire.answers(listing({"id": "one"}))
    result = account.run("models", "--refresh")
    assert result.returncode == 0
    assert "dead cannot be reached at http://127.0.0.1:1/v1" in result.stderr and "wire/one" in result.stdout


@pytest.mark.ordinary("answer1-*")
@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (failure(401, f"bad {SECRET}"), 1, "did not accept the key (401)"),
        (failure(503, "busy"), 75, "could not answer (503)"),
    ],
)
def test_when_nobody_answers(account: Account, wire: Wire, answer: Answer, code: int, words: str):
    wire.answers(answer)
    result = account.run("models", "wire", "--refresh", WIRE_KEY=SECRET)
    refused(result, code, words)
    assert SECRET not in result.stderr + account.log_file()


# -- levels ------------------------------------------------------------------------------------------------------


def test_level_on_the_command_line_is_used_or_refused(account: Account, wire: Wire):
    configure(account, wire, "", THINKER)
    result = account.run("-m", "wire/x:med", "-c", "-p", "hi")
    refused(result, 2, "x has no thinking level med; it has low, high", "another model")
    refused(
        account.run("-c", "-p", "hi", IKIGAI_MODEL="wire/x:off"), 2, "x cannot think less than low; it has low, high"
    )
    assert not wire.requests and account.rows("user") == []
    assert account.run("-m", "wire/x:high", "-c", "-p", "hi").returncode == 0
    assert wire.requests[0].json["reasoning_effort"] == "high"


@pytest.mark.ordinary("hgih")
@pytest.mark.parametrize("word", ["hgih", "HIGH", ""])
def test_mistyped_level_is_not_part_of_the_name(account: Account, wire: Wire, word: str):
    env = {"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_BASE_URL": wire.server.base_url}
    for way in ({"IKIGAI_MODEL": f"anthropic/claude-sonnet-5-5:{word}"}, {}):
        account.configure(f'model = "anthropic/claude-sonnet-5-5:{word}"\n')
        result = account.run("-p", "hi", **env, **way)
        refused(
            result, 2, f"claude-sonnet-5-5 has no thinking level {word or chr(39) * 2}; it has off, low, med, high."
        )
    assert not wire.requests and account.rows("user") == []


def test_name_with_a_colon_is_kept(account: Account, wire: Wire):
    configure(account, wire)
    assert account.run("-m", "wire/qwen3:8b", "-p", "hi").returncode == 0
    assert wire.requests[0].json["model"] == "qwen3:8b"


def test_configured_level_that_the_model_lacks_is_reported_and_ignored(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/x:med"\n', THINKER)
    result = account.run("-c", "-p", "hi")
    assert result.returncode == 0
    assert "x has no thinking level med; it has low, high. The level in the configuration is not used" in result.stderr
    assert "reasoning_effort" not in wire.requests[0].json and wire.requests[0].json["model"] == "x"
    with account.terminal(columns=120) as program:
        program.ready()
        program.wait_for("⚠ x has no thinking level med")
        assert " wire/x · ctx" in program.status()
        program.leave()


def test_levels_at_the_prompt(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/x:high"\n', THINKER)
    with account.terminal(columns=120) as program:
        program.ready()
        program.say("/think")
        program.wait_for("wire/x thinks at high (from configuration")
        program.wait_for("levels: low, high; /think LEVEL chooses one")
        program.say("/think med")
        program.wait_for("x has no thinking level med; it has low, high.")
        program.say("/model wire/x:min")
        program.wait_for("x cannot think less than low; it has low, high.")
        assert "wire/x:high · ctx" in program.status()
        program.say("/think low")
        program.wait(lambda: "wire/x:low · ctx" in program.status(), "the level in the status line")
        program.say("/status")
        program.wait_for("model        wire/x:low")
        program.say("hello")
        program.wait_for("● You said: hello")
        assert wire.requests[-1].json["reasoning_effort"] == "low"
        program.settled()
        program.say("/think default")
        program.wait(lambda: "wire/x:high · ctx" in program.status(), "the configured level")
        program.say("/model wire/y")  # the other model had the level
        program.wait(lambda: "wire/y · ctx" in program.status(), "the other model")
        program.say("/think")
        program.wait_for("wire/y thinks at the model's own default")
        program.say("/model default")
        program.wait(lambda: "wire/x:high · ctx" in program.status(), "the configured model")
        program.leave()
    with account.terminal(columns=120) as program:
        program.ready()
        assert "wire/x:high · ctx" in program.status()
        program.leave()


def test_level_belongs_to_the_model_it_was_chosen_with(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/z"\n', THINKER)
    with account.terminal("-m", "wire/x", columns=120) as program:
        program.ready()
        program.say("/think low")
        program.wait(lambda: "wire/x:low · ctx" in program.status(), "the level")
        program.say("/model wire/y")
        program.wait(lambda: "wire/y:low · ctx" in program.status(), "the model typed now")
        program.leave()
    with account.terminal(columns=120, env={"IKIGAI_MODEL": "wire/x"}) as program:
        program.ready()
        program.wait(lambda: "wire/x · ctx" in program.status(), "no level: it was chosen for another model")
        program.say("/think high")
        program.wait(lambda: "wire/x:high · ctx" in program.status(), "the level, chosen with this model")
        program.leave()
    with account.terminal("-m", "wire/y:high", columns=120) as program:
        program.ready()
        program.say("/think low")
        program.wait(lambda: "wire/y:low · ctx" in program.status(), "the level typed now")
        program.leave()


def test_another_model_keeps_the_level_that_was_chosen_if_it_has_it(account: Account, wire: Wire):
    levels = '[models."wire/x"]\nlevels = ["low", "high"]\n[models."wire/y"]\nlevels = ["off", "high"]\n'
    configure(account, wire, 'model = "wire/x"\n', f'{levels}[models."wire/z"]\nlevels = ["low"]\n')
    with account.terminal(columns=120) as program:
        program.ready()
        program.say("/think high")
        program.wait(lambda: "wire/x:high · ctx" in program.status(), "the level")
        program.say("/model wire/y")
        program.wait(lambda: "wire/y:high · ctx" in program.status(), "the other model at the level")
        program.say("/model wire/z")
        program.wait_for(
            "⚠ z cannot think more than low; it has low. Its default thinking level is used; /think chooses"
        )
        program.wait(lambda: "wire/z · ctx" in program.status(), "the third model at its own default")
        program.say("/model wire/y")
        program.wait(lambda: "wire/y · ctx" in program.status(), "a level that is gone stays so")
        program.leave()


def test_think_is_refused_by_a_model_that_does_not_think(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/x"\n', '[models."wire/x"]\nlevels = ["off"]\n')
    with account.terminal(columns=120) as program:
        program.ready()
        program.say("/think")
        program.wait_for("wire/x does not think.")
        program.say("/think low")
        program.wait_for("x does not think; its only level is off.")
        program.leave()


# -- how turns are counted, how a server is spoken to ------------------------------------------------------------


def test_how_turns_are_counted(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/x"\n', '[context]\ntoken_counter = "calibrated"\n')
    assert account.run("-c", "-p", "hi").returncode == 0
    [(_, _, end)] = account.rows("turn_end")
    assert end["counted"] == "calibrated wire/x" and end["tokens"] > 0
    assert account.run("-c", "-p", "hi", IKIGAI_TOKEN_COUNTER="bytes").returncode == 0
    assert "counted" not in account.rows("turn_end")[1][2]


def test_api_of_a_provider_is_configurable(account: Account, wire: Wire):
    configure(account, wire, "", f'[providers.other]\napi = "responses"\nbase_url = "{wire.server.base_url}"\n')
    wire.answers(failure(400, "no"))
    refused(account.run("-m", "other/x", "-c", "-p", "hi"), 1, "other refused the request (400): no.")
    wire.answers(failure(400, "no"))
    refused(account.run("-m", "wire/x", "-c", "-p", "hi", IKIGAI_PROVIDERS_WIRE_API="responses"), 1, "wire refused")
    assert [request.path for request in wire.requests] == ["/v1/responses"] * 2
    assert account.run(*ECHO, "-c", "-p", "hi").returncode == 0


# -- the SDK -----------------------------------------------------------------------------------------------------


@pytest.mark.own_interpreter
def test_another_model_s_sdk_is_loaded_when_it_is_chosen(account: Account, wire: Wire):
    """The Enter that sends the next message does not load it: that takes a second."""
    table = f'[providers.claude]\nbase_url = "{wire.server.base_url}"\napi = "anthropic"\n'
    account.configure(f'model = "scripted/echo"\n{table}')

    def loaded() -> bool:  # of the SDK's modules one is a library of its own
        return "jiter" in Path(f"/proc/{program.process.pid}/maps").read_text()

    with account.terminal(columns=120) as program:
        program.ready()
        program.say("hello")
        program.wait_for("● hello")
        assert not loaded()
        program.say("/model claude/x")
        program.wait(loaded, "the SDK")
        assert not wire.requests
        program.leave()


def test_model_typed_now_overrides_flag_and_variable(account: Account, wire: Wire):
    configure(account, wire, 'model = "wire/z"\n', THINKER)
    for flags, env in ((("-m", "wire/x"), {}), ((), {"IKIGAI_MODEL": "wire/x"})):
        with account.terminal(*flags, columns=120, env=env) as program:
            program.ready()
            program.wait(lambda: "wire/x · ctx" in program.status(), "the start")
            program.say("/model wire/y")
            program.wait(lambda: "wire/y · ctx" in program.status(), "the model typed now")
            program.say("/clear")
            program.say("hi")
            program.wait_for("● You said: hi")
            assert wire.requests[-1].json["model"] == "y"
            program.say("/fork --model wire/z")
            program.wait(lambda: "wire/z · ctx" in program.status(), "the fork's model")
            program.leave()
    with account.terminal(columns=120) as program:
        program.ready()
        assert "wire/z · ctx" in program.status(), "the agent's own choice goes on"
        program.leave()
