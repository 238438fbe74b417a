"""Text that is not ours in every place that shows some: it reaches no terminal as anything but text."""

import re
from collections.abc import Callable

import pytest
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from ikigai.core.events import AssistantMessage, Event, StoredEvent, UserMessage
from ikigai.core.fold import blank, evolve
from ikigai.core.memory import Memory
from ikigai.core.messages import Text, ToolCall
from ikigai.core.ports import Limits
from ikigai.core.questions import yes_or_no
from ikigai.core.reply import ThinkingDelta, ToolCallDelta, Waiting
from ikigai.core.run import Run
from ikigai.terminal import render
from ikigai.terminal.area import Area
from ikigai.terminal.dialog import Dialog
from ikigai.terminal.live import LiveReply
from ikigai.terminal.prompt import Visible
from ikigai.terminal.theme import Theme
from tests.core.encoders import encoder

HOSTILE = "a\x1b]52;c;eA==\x07 \x9b31m\u202eb \x1b[2J\x00\x08c"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
PLAIN = Theme(plain=True)
"""Draws no escape sequence of our own."""


def memory(*events: Event, model: str = "m/n") -> Memory:
    made = blank(
        Run({"model": model, "budget": 1_000}, lambda _: Limits(8_000, 100), lambda _: encoder("chat/tiny")), "a"
    )
    for id, event in enumerate(events, start=1):
        made = evolve(made, StoredEvent(id, "a", id, 0.0, event))
    return made


CALLED = (UserMessage("?"), AssistantMessage((Text("!"),)), ToolCall("c", HOSTILE, "{}"))


def agent(area: Area) -> None:
    area.agent = HOSTILE


def model(area: Area) -> None:
    area.memory = memory(model=f"m/{HOSTILE}")


def queue(area: Area) -> None:
    area.queue = (HOSTILE,)


def tools(area: Area) -> None:
    area.memory = memory(*CALLED)


def output(area: Area) -> None:
    area.memory = memory(*CALLED[:2], ToolCall("c", "look", "{}"))
    area.outputs = {"c": HOSTILE}


def replying(area: Area, *deltas: ThinkingDelta | ToolCallDelta | Waiting) -> None:
    area.memory, area.reply = memory(UserMessage("?")), LiveReply(1)
    for delta in deltas:
        area.reply.add(delta)


def calling(area: Area) -> None:
    replying(area, ToolCallDelta(0, "c", HOSTILE))


def thinking(area: Area) -> None:
    replying(area, ThinkingDelta(HOSTILE))


def waiting(area: Area) -> None:
    replying(area, Waiting(7.0, 3, HOSTILE))


def question(area: Area) -> None:
    area.dialog = Dialog(yes_or_no(HOSTILE, ()))


def completions(area: Area) -> None:
    area.buffer.complete_state = CompletionState(Document(""), [Completion(HOSTILE)])


@pytest.mark.parametrize("put", [agent, model, queue, tools, output, calling, thinking, waiting, question, completions])
async def test_around_the_input(put: Callable[[Area], None]):
    area = Area(PLAIN, Buffer())
    area.memory = memory()
    put(area)
    above, below = area.around(1, 160, 60)
    shown_as_text("\n".join((*above, *below)))


@pytest.mark.parametrize(
    "drawn",
    [
        render.plain(HOSTILE, 80),
        render.notice(HOSTILE, 80, PLAIN),
        render.thought(HOSTILE, 3.0, 80, PLAIN),
        render.thought(HOSTILE, 3.0, 80, PLAIN, full=True),
        render.reply(HOSTILE, 80, PLAIN),
    ],
    ids=["the answer of a command", "a notice", "how thoughts begin", "whole thoughts", "a reply"],
)
def test_in_the_scrollback(drawn: str):
    shown_as_text(drawn)


def test_in_the_input():
    typed = TransformationInput(BufferControl(), Document(HOSTILE), 0, lambda at: at, [("", HOSTILE)], 80, 24)
    shown_as_text("".join(fragment[1] for fragment in Visible().apply_transformation(typed).fragments))


def shown_as_text(drawn: str) -> None:
    assert not OBEYED.search(drawn), repr(drawn)
    assert "<U+202E>" in drawn, "it is there, and can be seen"
