"""Whole turns at servers that behave as other vendors' do, in the ways that broke turns of other programs."""

import json
from typing import Any

import pytest

from tests.e2e.account import Account, Wire
from tests.support.wire_server import DONE, Answer, Received, call_delta, chunk, completion, failure, sse

TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}
LINE = "a line to be seen"
LOOK = {"name": "read_file", "arguments": '{"path": "seen.txt"}'}
USAGE = {"prompt_tokens": 50, "completion_tokens": 7}


def configure(account: Account, wire: Wire, more: str = "") -> None:
    account.configure(f'model = "wire/m"\n[providers.wire]\nbase_url = "{wire.server.base_url}"\n{more}')
    (account.home / "seen.txt").write_text(LINE)


def said(received: Received) -> list[dict[str, Any]]:
    """Return the messages of the model in a request."""
    return [message for message in received.json["messages"] if message["role"] == "assistant"]


def call_chunks(id: str = "c", call: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    """Return the end of a reply that looks at the file; `call` are further fields of the call."""
    looks = call_delta(0, id=id, **LOOK) | (call or {})
    return [chunk({"tool_calls": [looks]}), chunk(finish="tool_calls", **more)]


def deepseek(received: Received) -> Answer:
    """Refuse a call whose thinking does not come back, in every turn."""
    if any("reasoning_content" not in each for each in said(received) if each.get("tool_calls")):
        return failure(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    if received.json["messages"][-1]["role"] == "tool":
        return completion("Seen.")
    return Answer(sse(chunk({"reasoning_content": "I look."}), *call_chunks(f"c{len(said(received))}"), DONE))


def gemini(received: Received) -> Answer:
    """Refuse a call whose thought signature does not come back."""
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    for each in said(received):
        if any(call.get("extra_content") != signed["extra_content"] for call in each.get("tool_calls", [])):
            return failure(400, "Function call is missing a thought_signature in functionCall parts.")
    if received.json["messages"][-1]["role"] == "tool":
        return completion("Seen.")
    return Answer(sse(*call_chunks(f"c{len(said(received))}", signed), DONE))


def mistral(received: Received) -> Answer:
    """Send content as a list of parts, and want the thinking back in it."""
    if received.json["messages"][-1]["role"] == "tool":
        parts = [{"type": "text", "text": "Se"}], [{"type": "text", "text": "en."}]
        return Answer(sse(*(chunk({"content": part}) for part in parts), chunk(finish="stop", usage=USAGE), DONE))
    if any(not isinstance(each["content"], list) for each in said(received) if each.get("tool_calls")):
        return failure(400, "thinking is missing")
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "I look."}]}
    return Answer(sse(chunk({"content": [thought]}), *call_chunks(f"c{len(said(received))}"), DONE))


def kimi(received: Received) -> Answer:
    """Count the calls from 0 in every request, and refuse an id twice."""
    ids = [call["id"] for each in said(received) for call in each.get("tool_calls", [])]
    if len(ids) != len(set(ids)):
        return failure(400, "tool_use ids must be unique")
    if received.json["messages"][-1]["role"] == "tool":
        return completion("Seen.")
    usage = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "usage": USAGE}]}
    looks = call_delta(0, id="functions.read_file:0", **LOOK)
    return Answer(sse(chunk({"tool_calls": [looks]}), usage, DONE))


def legacy(received: Received) -> Answer:
    """Send calls in the form before tool_calls, and thinking between tags."""
    if received.json["messages"][-1]["role"] == "tool":
        return completion("<think>I saw.</think>Seen.")
    called = {"function_call": {"name": LOOK["name"], "arguments": LOOK["arguments"]}}
    return Answer(sse(chunk(called), chunk(finish="function_call", usage=USAGE), DONE))


def no_stream(received: Received) -> Answer:
    """Answer a request for a stream with whole JSON."""
    message: dict[str, Any] = {"role": "assistant", "content": "Seen."}
    if received.json["messages"][-1]["role"] != "tool":
        call = {"id": "c", "type": "function", "function": {"name": LOOK["name"], "arguments": LOOK["arguments"]}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return Answer(json.dumps(whole | {"usage": USAGE}).encode(), 200, {"Content-Type": "application/json"})


SERVERS = {each.__name__: each for each in (deepseek, gemini, mistral, kimi, legacy, no_stream)}


@pytest.mark.ordinary("deepseek", "no_stream")
@pytest.mark.parametrize("name", SERVERS)
def test_two_turns_with_calls(account: Account, wire: Wire, name: str):
    configure(account, wire)
    wire.server.answer = SERVERS[name]
    for _ in range(2):
        result = account.run("-c", "-p", "Look.", **TOOLS)
        assert (result.returncode, result.stdout) == (0, "Seen.\n"), (result.stdout, result.stderr)
    assert [data.get("failure", "") for _, _, data in account.rows("usage")] == [""] * 4, "nothing was sent twice"
    results = account.said("tool_result")
    assert len(results) == 2 and all(LINE in each for each in results)
    assert account.endings() == ["completed"] * 2


def test_ids_of_calls_that_come_back_into_the_context_differ(account: Account, wire: Wire):
    configure(account, wire)
    wire.server.answer = kimi
    for words in ("Look.", "/clear", "Look again.", "/undo", "And now?"):
        assert account.run("-c", "-p", words, **TOOLS).returncode == 0
    calls = [call["id"] for each in said(wire.requests[-1]) for call in each.get("tool_calls", [])]
    assert len(set(calls)) == len(calls) == 3
    assert account.endings() == ["completed"] * 3


def test_turn_ends_when_replies_are_cut_within_a_call_again_and_again(account: Account, wire: Wire):
    configure(account, wire, '[models."wire/m"]\nmax_output = 300\n')
    begun = call_delta(0, id="c", name="write_file", arguments='{"path": "a", "content": "long')
    wire.server.answer = lambda _: Answer(sse(chunk({"tool_calls": [begun]}), chunk(finish="length"), DONE))
    result = account.run("-p", "Write.", **TOOLS)
    assert result.returncode == 1 and len(wire.requests) == 3
    assert "wire/m reached its output limit of 300 tokens within a tool call 3 times in a row." in result.stderr
    assert "max_output under [models]" in result.stderr and account.endings() == ["failed"]


def test_cut_calls_between_whole_ones_do_not_end_the_turn(account: Account, wire: Wire):
    configure(account, wire)
    begun = call_delta(0, id="c", name="write_file", arguments='{"path": "a", "content": "long')
    cut = Answer(sse(chunk({"tool_calls": [begun]}), chunk(finish="length"), DONE))
    whole = Answer(sse(*call_chunks(), DONE))
    wire.answers(cut, cut, whole, cut, cut, completion("Done."))
    result = account.run("-p", "Write.", **TOOLS)
    assert (result.returncode, result.stdout) == (0, "Done.\n") and len(wire.requests) == 6


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("max_tokens is too large: 8192. This model supports at most 4096 completion tokens", "max_output under"),
        ("Unrecognized request argument supplied: reasoning_effort", "/think default"),
    ],
)
def test_refusal_names_the_setting(account: Account, wire: Wire, message: str, remedy: str):
    configure(account, wire)
    wire.answers(failure(400, message))
    result = account.run("-p", "Hello.")
    assert result.returncode == 1 and message in result.stderr and remedy in result.stderr
