"""Tests of the request of a side question."""

from ikigai.app.commands.side_question import side_request
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Role, StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.inputs import Approved, CallModel, Replied, RunTool, StartTool, Steered, Submitted, ToolDone
from tests.core.agent import Agent


def roles(agent: Agent) -> list[str]:
    return [message.role.value for message in side_request(agent.memory, {}, "And that?").messages]


def test_roles_take_turns_whatever_waits():
    agent = Agent()
    assert roles(agent) == ["user"]
    agent.turn("one", "First.")
    assert roles(agent) == ["user", "assistant", "user"]
    agent.happen(Submitted("two"))
    assert roles(agent) == ["user", "assistant", "user"]
    agent.happen(Steered("and three"))
    last = side_request(agent.memory, {}, "And that?").messages[-1]
    assert last.role is Role.USER and [block.text[:10] for block in last.blocks if isinstance(block, Text)][-1] == (
        "[Side ques"
    )
    call = ToolCall("c", "look")
    agent.happen(Replied(agent.job(CallModel), (call,), StopReason.TOOLS, ev.UsageReported("m")))
    assert roles(agent)[-1] == "user" and "And that?" in str(side_request(agent.memory, {}, "And that?").messages[-1])
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("c", "Seen.")))
    assert roles(agent)[-3:] == ["assistant", "tool", "user"]
