"""Tests of servers of models on this machine, as the user meets them: found, offered once, and asked without tools."""

import time

from tests.e2e.account import Account, Wire, lines_of
from tests.support.machine_servers import OLLAMA_MODELS, ollama
from tests.support.wire_server import Answer, completion, failure

LOOKING = {"IKIGAI_TERMINAL_FIND_SERVERS": "true"}
TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}
REFUSED = "does not support tools: it is offered none from now on."


def configure(account: Account, wire: Wire, more: str = "") -> None:
    """Put Ollama where the test's server listens, and the others where none does."""
    names = ("lmstudio", "llamacpp", "vllm")
    tables = {"ollama": wire.server.base_url, **dict.fromkeys(names, "http://127.0.0.1:1/v1")}
    account.configure(more + "".join(f'[providers.{name}]\nbase_url = "{url}"\n' for name, url in tables.items()))


def test_server_is_offered_once_and_its_models_are_listed(account: Account, wire: Wire):
    configure(account, wire)
    wire.server.answer = ollama
    with account.terminal(env=LOOKING, columns=110) as program:
        program.wait_for("Ollama runs on this machine. To use it: /model ollama/gemma3:4b (8.2k context, no tools).")
        assert "/model lists 2 more." in program.words()
        program.say("/model ollama/llama3.2:3b")
        program.wait_for("ollama/llama3.2:3b")
        program.say("Hello")
        program.wait_for("● llama3.2:3b answers.")
        program.settled()
        program.say("/status")
        program.wait_for("16.4k")
        program.leave()
    assert account.endings() == ["completed"]
    with account.terminal(env=LOOKING, columns=110) as program:
        program.ready()
        program.say("/model")
        program.wait(lambda: "ollama/old:latest" in program.words(), "the list of models")
        assert "ollama/gemma3:4b" in program.words() and "4.1k context" in program.words()
        program.type("\x1b")
        program.wait(lambda: "Enter chooses" not in program.text(), "the end of the list")
        assert "runs on this machine" not in program.words()
        program.leave()
    listed = {row["model"]: row["context"] for row in lines_of(account.run("models", "--json").stdout)}
    assert listed == {"ollama/gemma3:4b": 8192, "ollama/llama3.2:3b": 16_384, "ollama/old:latest": 4096}
    wire.requests.clear()
    refreshed = lines_of(account.run("models", "ollama", "--refresh", "--json").stdout)
    assert {row["model"]: row["context"] for row in refreshed} == listed and wire.requests[0].path == "/api/tags"


def test_port_with_something_else_changes_nothing(account: Account, wire: Wire):
    configure(account, wire)
    wire.server.answer = lambda _: Answer(b'{"models": [{"name": "\x1b]0;pwned\x07"}]}', end="hang")
    with account.terminal(env=LOOKING) as program:
        program.ready()
        assert wire.asked()
        program.say("/help model")
        program.wait_for("/model")
        assert "runs on this machine" not in program.words() and "pwned" not in program.words()
        program.leave()
    assert not list(account.home.rglob("offered.json"))


def test_no_server_is_looked_for_with_a_key_or_switched_off(account: Account, wire: Wire):
    configure(account, wire)
    wire.server.answer = ollama
    for env in ({"OPENAI_API_KEY": "k"} | LOOKING, {}):
        with account.terminal(env=env) as program:
            program.ready()
            program.say("/status")
            program.wait_for("database")
            time.sleep(1)  # nothing to wait for
            program.leave()
    assert wire.requests == []


def test_model_that_refuses_tools_is_asked_without_them_and_that_is_remembered(account: Account, wire: Wire):
    configure(account, wire)
    wire.server.answer = ollama
    with account.terminal("-m", "ollama/old:latest", env=TOOLS) as program:
        program.ready()
        program.say("Hello")
        program.wait_for("● old:latest answers.")
        program.settled()
        assert program.words().count(REFUSED) == 1
        program.say("Again")
        program.wait(lambda: program.words().count("● old:latest answers.") == 2, "the second answer")
        program.say("/tools")
        program.wait_for("old:latest does not support tools: it is offered none of these.")
        program.leave()
    assert [bool(request.json.get("tools")) for request in wire.requests] == [True, False, False]
    assert [data.get("failure", "") for _, _, data in account.rows("usage")] == ["no_tools", "", ""]
    result = account.run("-m", "ollama/old:latest", "-p", "Once more", **TOOLS)
    assert (result.stdout, result.stderr) == ("old:latest answers.\n", "")
    assert "tools" not in wire.requests[-1].json
    with account.terminal("-c", "-m", "ollama/old:latest", env=TOOLS | LOOKING) as program:
        program.ready()
        shown = ["/api/show"] * len(OLLAMA_MODELS)
        program.wait(lambda: [each.path for each in wire.requests if each.path in shown] == shown, "the description")
        program.wait(lambda: "ctx" in program.status() and "/2." in program.status(), "the context of 4096 tokens")
        program.say("And now?")
        program.wait(lambda: account.turns() == ["completed"] * 4, "the answer")
        program.settled()
        assert REFUSED not in program.words()
        program.leave()
    assert wire.requests[-1].path == "/v1/chat/completions" and "tools" not in wire.requests[-1].json
    assert account.endings() == ["completed"] * 4


def test_other_servers_words_for_it_and_a_promise_of_the_configuration(account: Account, wire: Wire):
    table = f'[providers.wire]\nbase_url = "{wire.server.base_url}"\n'
    account.configure(table)
    for message in (
        "tools param requires --jinja flag",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "No endpoints found that support tool use. To learn more about provider routing, visit: …",
        "Function calling is not enabled for models/gemma-3-27b-it",
    ):
        wire.answers(failure(500 if "jinja" in message else 400, message), completion("Without."))
        model = f"wire/{len(message)}"
        first = account.run("-m", model, "-p", "Hello", **TOOLS)
        assert first.stdout == "Without.\n" and first.stderr.count(REFUSED) == 1
    account.configure(table + '[models."wire/x"]\ntools = "yes"\n')
    wire.answers(failure(400, "x does not support tools"))
    result = account.run("-m", "wire/x", "-p", "Hello", **TOOLS)
    assert result.returncode == 1 and 'Remove tools = "yes" under [models]' in result.stderr
    account.configure(table + '[models."wire/y"]\ntools = "no"\n')
    wire.answers("Fine.")
    assert account.run("-m", "wire/y", "-p", "Hello", **TOOLS).stdout == "Fine.\n"
    assert "tools" not in wire.requests[-1].json
