"""The live state records the present of an agent, for the view that is attached."""

from ikigai.core.events.events import AssistantMessage, Event, StoredEvent, ToolStarted, UserMessage
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.state.fold import empty_memory, evolve
from ikigai.core.state.memory import Memory
from ikigai.core.views.live_state import MAX_OUTPUT_CHARACTERS, LiveState
from tests.core.agent import RUN

ASKED = (UserMessage("List it."),)
CALLED = (*ASKED, AssistantMessage((Text("Look:"),)), ToolCall("a", "shell"), ToolCall("b", "shell"), ToolStarted("a"))


def memory(*events: Event) -> Memory:
    made = empty_memory(RUN, "a")
    for id, event in enumerate(events, 1):
        made = evolve(made, StoredEvent(id, "a", id, 0.0, event))
    return made


def test_live_state_keeps_a_reply_until_memory_asks_for_another():
    live = LiveState()
    live.changed(memory(*ASKED))
    reply = live.reply_to(1)
    live.changed(memory(*ASKED))
    assert live.reply is reply is live.reply_to(1), "nothing of it has been stored"
    live.changed(memory(*CALLED))
    assert live.reply is None
    assert live.reply_to(9) is not reply


def test_live_state_keeps_the_newest_output_of_running_calls():
    live = LiveState()
    live.changed(memory(*CALLED))
    for call in ("a", "b"):
        live.progress(call, "x" * MAX_OUTPUT_CHARACTERS)
        live.progress(call, call)
    assert all(len(text) == MAX_OUTPUT_CHARACTERS and text.endswith(call) for call, text in live.outputs.items())
    live.changed(memory(*CALLED, ToolResult("a", "done")))
    assert list(live.outputs) == ["b"], "a result takes the place of what its call wrote"
    live.changed(memory())
    assert not live.outputs
