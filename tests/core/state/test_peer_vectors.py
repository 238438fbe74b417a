"""These tests compare budgets, iterations and truncation with two other programs; some differ by design."""

from typing import Any

import pytest
from msgspec.structs import replace

from ikigai.core.events.events import UserMessage
from ikigai.core.events.messages import Message, Role, Text, ToolCall, ToolResult
from ikigai.core.request.build import window_notice
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import empty_memory, history_bytes
from ikigai.core.state.inputs import Change, Submitted
from ikigai.core.state.memory import next_request, output_reserve
from ikigai.core.state.open_turn import OpenTurn, TurnBuilder
from ikigai.core.state.tool_results import ToolResultLimits
from ikigai.core.text import tokens
from tests.core.agent import Agent
from tests.core.encoders import Chat, encoder
from tests.core.vectors import cases

TRUNCATION = "peer_truncation.json"
TERMS = ToolResultLimits(10**6, keep_first=0, keep_last=0), lambda: False, Chat().message


def run_of(context: int, max_output: int, rules: WindowRules = WindowRules(0), budget: int = 10**9) -> RunConfig:  # noqa: B008
    given = ModelLimits(context, max_output)
    return RunConfig({"model": "chat/x", "budget": budget}, lambda model: given, encoder, rules=rules)


@pytest.mark.parametrize("case", cases("token_estimate_text"), ids=lambda case: case["id"])
def test_text_is_counted_like_there_but_rounded_up(case: dict[str, Any]) -> None:
    """They round each text down, so that short ones cost nothing; ikigai rounds the sum of all bytes up, once."""
    size = len(case["input"]["text"].encode())
    assert tokens.count_tokens("chat", "x", size) == case["expected"] + (size % 4 > 0)


@pytest.mark.parametrize("case", cases("config_defaults"), ids=lambda case: case["id"])
def test_defaults(case: dict[str, Any]) -> None:
    """Both agree but for `max_history_tokens`: the budget is the ceiling, and no lower cap limits the history."""
    rules, theirs = WindowRules(), case["expected"]
    assert rules.max_history == 0 != theirs["max_history_tokens"]
    assert rules.result_limits == ToolResultLimits(
        theirs["max_tool_result_tokens"],
        theirs["tool_result_truncation"],
        theirs["tool_result_keep_first"],
        theirs["tool_result_keep_last"],
    )


@pytest.mark.parametrize("case", cases("loop_token_budget"), ids=lambda case: case["id"])
def test_room_of_a_request(case: dict[str, Any]) -> None:
    given = case["input"]
    assert empty_memory(run_of(given["max_input_tokens"], given["max_output_tokens"]), "a").room == case["expected"]


@pytest.mark.parametrize("case", cases("render_budget"), ids=lambda case: case["id"])
def test_history_fits_its_budget_and_a_notice_counts_the_rest(case: dict[str, Any]) -> None:
    """The budgets are theirs. ikigai fits whole turns by real bytes; system prompt and tools always count. The newest
    turn always stays, where they send the notice alone (a defect)."""
    given, theirs = case["input"], case["expected"]
    rules = WindowRules(max_history=given["max_history_tokens"])
    memory = empty_memory(run_of(given["max_input_tokens"], given["max_output_tokens"], rules), "a")
    if not given["tools"]:
        assert memory.room == theirs["available"]
        allowed = theirs["available"] * 4 - memory.envelope
        if given["max_history_tokens"]:
            allowed = min(allowed, theirs["history_budget"] * 4)
        assert history_bytes(memory) == allowed
    told = window_notice(theirs["omitted"])
    assert (told.text if told else None) == theirs["notice"]
    agent = Agent(run_of(given["max_input_tokens"], given["max_output_tokens"], rules))
    users = [message["content"] for message in given["messages"] if message["role"] in ("user", "steering")]
    for text in users:
        agent.turn(text, "!")
    sent = next_request(agent.memory).messages
    assert [message.text for message in sent[-2:]] == [users[-1], "!"], "the newest turn stays"
    older = 2 * (len(users) - len(agent.memory.window.turns))
    assert (sent[0] == window_notice(older)) is (older > 0)
    assert agent.memory.window.size + len(",") <= history_bytes(agent.memory) or len(agent.memory.window.turns) == 1


def played(messages: list[dict[str, Any]]) -> OpenTurn:
    """Return the turn of a vector's messages; calls get unique ids, as from the loop."""
    turn, calls, answered = TurnBuilder(OpenTurn(1, 1), *TERMS), 0, 0
    for id, message in enumerate(messages, start=1):
        if message["role"] in ("user", "steering"):
            turn.add(id, UserMessage(message["content"]))
        for call in message.get("tool_calls", ()):
            calls += 1
            made = ToolCall(f"c{calls}", call["function"]["name"], call["function"]["arguments"])
            turn.add(id, made)
        if message["role"] == "tool":
            answered += 1
            turn.add(id, ToolResult(f"c{answered}", message["content"]))
    return turn.turn() or OpenTurn(1, 1)


def shrunk(turn: OpenTurn, most: int) -> OpenTurn:
    builder = TurnBuilder(turn, *TERMS)
    builder.shrink(most)
    return builder.turn() or turn


@pytest.mark.parametrize("case", cases("iteration_groups"), ids=lambda case: case["id"])
def test_iterations_leave_one_by_one_and_what_a_user_said_stays(case: dict[str, Any]) -> None:
    """The newest of their groups never leaves here."""
    turn = played(case["input"]["messages"])
    for left in range(1, len(case["expected"])):
        turn = shrunk(turn, turn.size - 1)
        gone = {index for group in case["expected"][:left] for index in group}
        kept = [message for n, message in enumerate(case["input"]["messages"]) if n not in gone]
        roles = [{"steering": "user"}.get(message["role"], message["role"]) for message in kept]
        assert [message.role.value for message in turn.messages] == roles
        assert turn.size == sum(map(Chat().message, turn.messages))
    assert shrunk(turn, 0) == turn


@pytest.mark.parametrize("case", cases("iteration_group_drop"), ids=lambda case: case["id"])
def test_single_iteration_is_never_dropped(case: dict[str, Any]) -> None:
    turn = played(case["input"]["messages"])
    assert shrunk(turn, 4 * case["input"]["token_budget"]) == turn
    assert len(turn.messages) == len(case["expected"]["kept_indices"])


INSTEAD = {
    "roo-code/max_output_tokens/002": 50_000,
    "roo-code/max_output_tokens/003": 50_000,
    "roo-code/max_output_tokens/014": 2_048,
}
"""They give thinking models 8,192 or the value of a setting, others a fifth of the context; ikigai up to a quarter."""


@pytest.mark.parametrize("case", cases("max_output_tokens", TRUNCATION), ids=lambda case: case["id"])
def test_output_reserve(case: dict[str, Any]) -> None:
    model = case["input"]["model"]
    if "maxTokens" in model:
        reserve = output_reserve(ModelLimits(model["contextWindow"], model["maxTokens"]))
        assert reserve == INSTEAD.get(case["id"], case["expected"])
    else:  # a table of models knows, or guesses; the quarter holds for whatever it says
        assert output_reserve(ModelLimits(model["contextWindow"], 10**9)) == model["contextWindow"] // 4


@pytest.mark.parametrize("case", cases("context_decision", TRUNCATION), ids=lambda case: case["id"])
def test_when_turns_have_to_leave(case: dict[str, Any]) -> None:
    """Both take the context less reply less a tenth, but here the reply takes a quarter at most, and a request that
    takes the room exactly fits. There are no thresholds in per cent: the vectors' thresholds belong to condensing.
    """
    given = case["input"]
    reply = 8_192 if given["max_tokens"] is None else given["max_tokens"]
    room = empty_memory(run_of(given["context_window"], reply), "a").room
    total = given["total_tokens_excl_last"] + given["last_message_tokens"]
    saved = max(0, reply - given["context_window"] // 4)
    leaves_there = case["expected"]["outcome"] == "truncate"
    assert (total + saved > room) is leaves_there


@pytest.mark.parametrize("case", cases("truncate_conversation", TRUNCATION), ids=lambda case: case["id"])
def test_whole_turns_leave_where_they_hide_messages(case: dict[str, Any]) -> None:
    """They hide an even number of messages behind the first one, even the newest. Here as many messages leave as
    whole turns behind the first turn, and the newest turn never leaves."""
    given = case["input"]
    turns, hidden = given["message_count"] // 2, case["expected"]["messages_removed"]
    agent = Agent(run_of(200_000, 8_000, WindowRules(0, keep_first_turn=True)))
    for n in range(turns):
        agent.turn(f"{n}?" + "x" * 90, "y" * 90)
    leave = max(0, min(hidden // 2, turns - 2))
    whole = next_request(agent.memory).messages
    told = window_notice(2 * leave)
    kept = (*whole[:2], *((told,) if told else ()), *whole[2 + 2 * leave :]) if whole else ()
    size = encoder("chat/x").weight(replace(next_request(agent.memory), messages=kept))
    agent.happen(Change({"budget": -(-size // 4)}))
    assert next_request(agent.memory).messages == kept
    assert agent.memory.window.older.messages == 2 * leave
    if given["message_count"] % 2:  # the message just sent is the open turn, sent whatever it takes
        agent.happen(Submitted("and?"))
        assert next_request(agent.memory).messages == (*kept, Message(Role.USER, (Text("and?"),)))


@pytest.mark.parametrize("case", cases("truncate_conversation_repeated", TRUNCATION), ids=lambda case: case["id"])
def test_halving_again_and_again_ends_with_the_newest_turn_and_one_notice(case: dict[str, Any]) -> None:
    """Their markers pile up, one for each round. Here there is one notice with a growing number."""
    turns = case["input"]["message_count"] // 2
    agent = Agent(run_of(200_000, 8_000))
    for n in range(turns):
        agent.turn(f"{n}?" + "x" * 90, "y" * 90)
    left = turns
    for _ in range(case["input"]["rounds"]):
        if left == 1:
            break
        agent.happen(Change({"budget": max(1, int(agent.memory.used * case["input"]["fraction"]))}))
        sent = next_request(agent.memory).messages
        notices = [message for message in sent if message.text.startswith("[conversation truncated")]
        assert notices == [window_notice(2 * (turns - len(agent.memory.window.turns)))]
        assert len(agent.memory.window.turns) < left
        left = len(agent.memory.window.turns)
    assert left == 1 and next_request(agent.memory).messages[1].text.startswith(f"{turns - 1}?")
