"""Tests of the tool by which a model asks the user."""

import msgspec
import pytest

from ikigai.agent.jobs import SettingsInForce
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.tools.ask_user import CANNOT_ASK, AskUserTool
from ikigai.tools.registry import ToolRegistry
from tests.tools.calls import run_call


async def ask(answer: QuestionAnswer, **arguments: object) -> tuple[ToolResult, list[Question]]:
    """Run a call of the tool to its end, as the loop does, with this answer of the user."""
    asked = list[Question]()

    async def user(question: Question) -> QuestionAnswer:
        asked.append(question)
        return answer

    registry = ToolRegistry([AskUserTool()])
    call = ToolCall("c", "ask_user", msgspec.json.encode(arguments).decode())
    started = await registry.start(call, 1, SettingsInForce({}), user)
    assert not started.refusal and started.decision is None, "a question needs no approval"
    return await registry.run(call, lambda text: None), asked


@pytest.mark.parametrize(
    ("answer", "text", "failed"),
    [
        (QuestionAnswer("2"), "blue", False),
        (QuestionAnswer("t", "green, please"), "green, please", False),
        (QuestionAnswer("n"), "The user gave no answer.", False),
        (QuestionAnswer("n", not_asked=True), CANNOT_ASK, True),
    ],
)
async def test_answer_of_the_user_is_the_result(answer: QuestionAnswer, text: str, failed: bool) -> None:
    result, asked = await ask(answer, question="Which\x1b[2J color?", choices=["red", "blue"])
    assert (result.content, result.is_error) == (text, failed)
    assert [choice.label for choice in asked[0].choices] == ["red", "blue", "another answer", "no answer"]
    assert "\x1b" not in asked[0].lines[0], "the terminal obeys nothing of a question"


async def test_more_choices_than_keys_are_refused() -> None:
    registry = ToolRegistry([AskUserTool()])
    arguments = msgspec.json.encode({"question": "Which?", "choices": [str(n) for n in range(10)]}).decode()
    result = await run_call(registry, ToolCall("c", "ask_user", arguments))
    assert result.is_error and "cannot take these arguments" in result.content
