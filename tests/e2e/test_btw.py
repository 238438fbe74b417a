"""Tests of /btw: an answer beside the conversation, of which only the usage is kept."""

from collections.abc import Callable

import pytest

from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program
from tests.providers.anthropic import messages_wire
from tests.providers.openai.test_responses_api import STREAMS
from tests.support.wire_server import Answer, chunk, failure, sse

ENV = {"WIRE_KEY": "a-key-of-the-wire", "IKIGAI_DEFAULT_SYSTEM_PROMPT": "true", "IKIGAI_TOOLS_ENABLED": "true"}


def content(text: str) -> Answer:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return Answer(sse({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2}}))


def chat(text: str) -> Answer:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    return Answer(sse(chunk({"content": text}), chunk(finish="stop", usage=usage)))


def responses(text: str) -> Answer:
    stream = (STREAMS / "text.sse").read_text("utf-8").replace('"delta":"Hello"', f'"delta":"{text}"')
    return Answer(stream.replace(" 👩‍👩‍👧,", "").replace(" é!", "").replace("Hello", text).encode())


def ask(program: Program, account: Account, text: str) -> None:
    turns = len(account.turns())
    program.say(text)
    program.wait(lambda: len(account.turns()) == turns + 1, "the end of the turn")
    program.settled()


FILE = "one @notes.txt with its text"


@pytest.mark.ordinary("chat-*")
@pytest.mark.parametrize(
    ("api", "answer", "first"),
    [
        ("anthropic", messages_wire.answer, "one"),
        ("google", content, "one"),
        ("chat", chat, FILE),
        ("responses", responses, "one"),
        pytest.param("anthropic", messages_wire.answer, FILE, marks=pytest.mark.long),
        pytest.param("google", content, FILE, marks=pytest.mark.long),
        pytest.param("responses", responses, FILE, marks=pytest.mark.long),
    ],
)
def test_next_request_is_what_it_would_have_been(
    account: Account, wire: Wire, api: str, answer: Callable[[str], Answer], first: str
):
    (account.home / "notes.txt").write_text("An owl is awake.\n")
    address = wire.server.base_url if api in ("chat", "responses") else wire.server.base_url.removesuffix("/v1")
    account.configure(
        f'[providers.wire]\nbase_url = "{address}"\napi = "{api}"\napi_key_env = "WIRE_KEY"\n'
        '[models."wire/x"]\ninput_price = 1000000\noutput_price = 0\n'
    )
    wire.answers(*map(answer, ("First.", "It is an aside.", "Second.", "First.", "Second.")))
    with account.terminal(*WIRE, columns=110, env=ENV) as program:
        program.ready()
        ask(program, account, first)
        before = account.rows()
        program.say("/btw What was that?")
        program.wait_for("│ It is an aside.")
        program.settled()
        program.wait(lambda: len(account.rows()) == len(before) + 1, "the usage row")
        kind, _, data = account.rows()[-1]
        assert (kind, data["purpose"], account.rows()[:-1]) == ("usage", "btw", before)
        program.say("/cost")
        program.wait_for("this session")
        ask(program, account, "two")
        program.leave()
    with account.terminal("--new", *WIRE, env=ENV) as program:
        ask(program.ready(), account, first)
        ask(program, account, "two")
        program.leave()
    bodies = [each.body for each in wire.requests if each.body]
    assert len(bodies) == 5 and bodies[2] == bodies[4] and b"aside" not in bodies[2]
    asked, following = wire.requests[-4].json, wire.requests[-3].json
    assert (b"An owl is awake." in bodies[1]) == ("@" in first)
    key = {"google": "contents", "responses": "input"}.get(api, "messages")
    assert {**asked, key: 0} == {**following, key: 0}, "tools and system prompt are those of the next request"
    assert asked[key][:-1] == following[key][:-1], "so a provider's cache serves both"
    exported = account.run("history", "export", "--agent", account.agents()[0]).stdout
    assert "First." in exported and "aside" not in exported and "btw" not in exported


def test_it_is_answered_while_the_agent_is_busy_and_esc_stops_it_alone(account: Account, wire: Wire):
    hang = Answer(cut=0, end="hang")
    wire.answers(hang, chat("Beside it."), hang)
    with account.terminal(*WIRE, columns=110, env=ENV) as program:
        program.ready()
        program.say("one")
        program.wait(lambda: len(wire.requests) == 1, "the request of the turn, which is answered first")
        program.say("/btw And that?")
        program.wait_for("│ Beside it.")
        system, message = wire.messages()
        assert (
            (system["role"], message["role"]) == ("system", "user")
            and "And that?" in str(message["content"])
            and "one" in str(message["content"])
        )
        program.say("/btw Once more?")
        program.wait(lambda: len(wire.requests) == 3, "the second side question")
        program.type("\x1b")
        program.wait_for("The command was stopped.")
        assert account.turns() == [], "the turn goes on"
        program.type("\x1b")
        program.wait_for("interrupted")
        program.leave()
    assert account.endings() == ["interrupted"]
    assert [data.get("purpose") for _, _, data in account.rows("usage")] == ["btw", "btw", None]


def test_errors_are_told_and_a_question_is_needed(account: Account, wire: Wire):
    wire.answers(failure(400, "Nothing doing."))
    with account.terminal(*WIRE, columns=110, env=ENV) as program:
        program.ready()
        program.say("/btw")
        program.wait_for("Usage: /btw QUESTION")
        program.say("/btw Who?")
        program.wait_for("Nothing doing.")
        program.wait(lambda: len(account.rows()) == 1, "the usage row")
        program.leave()
    assert [kind for kind, _, _ in account.rows()] == ["usage"]
