"""Tests of /copy: it takes the newest words of the model that memory holds, or a block of code in them."""

import pytest

from ikigai.app.commands import info_commands as answers
from ikigai.core.errors import Rejected
from ikigai.core.events.events import AssistantMessage, Event, UserMessage
from ikigai.core.events.messages import Text, Thinking, ToolCall, ToolResult
from ikigai.core.state.inputs import Clear, Submitted
from ikigai.core.text.sanitize import clean
from ikigai.repl.commands import completions as completing
from ikigai.repl.commands import copy_answer as copying
from tests.core.agent import Agent
from tests.terminal.test_foreign import HOSTILE, memory

CODE = "```\none\n```\n\n> ~~~py\n> two\n> ~~~\n\n1. x\n\n       three\n\n`none` and\n\n    four\n"


def said(*texts: str) -> AssistantMessage:
    return AssistantMessage(tuple(map(Text, texts)))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ((), ""),
        ((UserMessage("?"),), ""),
        ((UserMessage("?"), said("One.")), "One."),
        ((UserMessage("?"), said("One."), ToolCall("c", "ls"), ToolResult("c", "x"), said("Two.")), "Two."),
        ((UserMessage("?"), said("One."), ToolCall("c", "ls"), ToolResult("c", "x")), "One."),
        ((UserMessage("?"), said("One."), AssistantMessage((Thinking("Hm."),)), ToolCall("c", "ls")), "One."),
        ((UserMessage("?"), said("A", "B")), "A\n\nB"),
    ],
)
def test_last_answer_is_found(events: tuple[Event, ...], found: str):
    assert copying.last_answer(memory(*events)) == found
    if not found:
        with pytest.raises(Rejected, match=r"There is no answer"):
            copying.choose_copy(memory(*events), "")


def test_that_of_an_earlier_turn_where_the_open_one_has_none():
    agent = Agent()
    agent.turn("?", "First.")
    agent.turn("?", "Second.")
    agent.happen(Submitted("?"))
    assert agent.memory.open and copying.last_answer(agent.memory) == "Second."
    agent.reply(Text("Third."))
    assert copying.last_answer(agent.memory) == "Third."
    agent.happen(Clear())
    assert copying.last_answer(agent.memory) == ""


def test_blocks_of_code_wherever_they_stand():
    made = memory(UserMessage("?"), said(CODE))
    assert [copying.choose_copy(made, str(n))[0] for n in (1, 2, 3, 4)] == ["one", "two", "three", "four"]
    assert copying.choose_copy(made, "002")[1] == "code block 2 of 4"
    assert completing.complete_code(made) == {
        "1": "one",
        "2": "two",
        "3": "three",
        "4": "four",
    } and not completing.complete_code(None)


def test_open_comment_in_a_quoted_list_hides_no_code():
    assert completing.complete_code(memory(UserMessage("?"), said("```\na\n```\n\n> - <!--\n>"))) == {"1": "a"}


@pytest.mark.parametrize("argument", ["0", "-1", "x", "1 2", "１", "5", "9" * 40])
def test_numbers_that_are_none(argument: str):
    with pytest.raises(
        Rejected,
        match=r"^('.+' is not the number of a code block|The last answer has 4 code blocks\. Write a number up to 4\.)",
    ):
        copying.choose_copy(memory(UserMessage("?"), said(CODE)), argument)


def test_print_mode_refuses_it():
    with pytest.raises(Rejected, match=r"^/copy is not available in print mode\."):
        answers.print_command("/copy 2")


def test_copied_text_is_safe():
    made = memory(UserMessage("?"), said(f"{HOSTILE}\n\n```\n{HOSTILE}\n```\n"))
    whole, block = copying.choose_copy(made, "")[0], copying.choose_copy(made, "1")[0]
    assert clean(whole) == whole and clean(block) == block and "<U+202E>" in block
