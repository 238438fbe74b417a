"""Tests of the messages that are neither in the log nor shown as waiting."""

from types import SimpleNamespace
from typing import cast

from ikigai.agent.input_queue import InputQueue
from ikigai.core.events.events import UserMessage
from ikigai.core.state.inputs import Submitted
from ikigai.repl.active_agent import ActiveAgent


def test_message_that_equals_one_shown_as_waiting_is_unstored_too():
    shown: list[tuple[str, ...]] = []
    queue = InputQueue(SimpleNamespace(queued=shown.append), lambda: (UserMessage("go on"),))  # type: ignore[arg-type]
    queue.note_entered(Submitted("go on"))
    queue.show()
    queue.note_entered(Submitted("go on"))
    live, loop = SimpleNamespace(live_state=SimpleNamespace(waiting=shown[-1])), SimpleNamespace(queue=queue)
    agent = SimpleNamespace(open_agent=SimpleNamespace(view=live, agent_loop=loop), _being_read="")
    assert ActiveAgent._unstored_texts(cast("ActiveAgent", agent)) == ["go on"]
