"""Rows that another program stored in the log of an open agent run no tool and send no request here."""

import asyncio

import pytest

from ikigai.agent.jobs import SettingsInForce
from ikigai.core.events.events import AssistantMessage, Ending, Event, ToolStarted, TurnEnded, UserMessage
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.state.inputs import Change, Clear, Input, Offered, SetMark, Submitted, Undo
from ikigai.providers.scripted import ScriptedCall, ScriptedPause
from ikigai.tools.registry import NOT_DECIDED, ToolRegistry
from tests.agent.test_loop import AGENT, Session, Toy, Watcher
from tests.tools.calls import run_call

CALL = ToolCall("c1", "look", '{"n": 1}')
BEGUN = (UserMessage("Go."), AssistantMessage((Text("Yes."),)), CALL)
PLANTED: dict[str, tuple[Event, ...]] = {
    "a message": BEGUN[:1],
    "a message for which no reply is wanted": (UserMessage("Go.", alone=True),),
    "a call": BEGUN,
    "a call that has started": (*BEGUN, ToolStarted("c1")),
    "a result to go on from": (*BEGUN, ToolStarted("c1"), ToolResult("c1", "done")),
}
RELOADING: dict[str, Input] = {
    "a setting": Change({"budget": 50_000}),
    "an undo": Undo(0),
    "other tools": Offered(()),
}


def looking(ran: list[object]) -> ToolRegistry:
    async def look(arguments: dict[str, object]) -> str:
        ran.append(arguments)
        return "seen"

    return ToolRegistry([Toy("look", look)])


@pytest.mark.parametrize("incoming", RELOADING.values(), ids=RELOADING)
@pytest.mark.parametrize("rows", PLANTED.values(), ids=PLANTED)
async def test_turn_of_another_program_is_closed_when_memory_is_loaded_again(
    rows: tuple[Event, ...], incoming: Input
) -> None:
    ran: list[object] = []
    session = Session(["Hello."], looking(ran))
    async with session.running():
        session.tell(Submitted("Hi."))
        await session.idle(1)
        session.tell(SetMark("a"))
        session.tell(Clear())
        await session.until(lambda: session.runtime.memory.cleared is not None)
        session.logs.append(AGENT, rows)
        session.tell(incoming)
        await session.until(lambda: len(session.ended()) == 2)
        await asyncio.sleep(0.05)
        assert not ran and len(session.provider.requests) == 1 and session.runtime.memory.open is None
        assert any("Another program" in str(text) for kind, text in session.view.seen if kind == "notice")
        session.tell(Submitted("Still there?"))
        await session.idle(3)
    assert session.ended()[0] is session.ended()[2] is Ending.COMPLETED


@pytest.mark.parametrize(
    "rows",
    [(ToolCall("c2", "look", '{"n": 2}'), ToolStarted("c2")), (UserMessage("Go on."),), (TurnEnded(Ending.COMPLETED),)],
    ids=["a further call", "a message", "its end"],
)
async def test_own_turn_ends_when_another_program_wrote_into_it(rows: tuple[Event, ...]) -> None:
    ran: list[object] = []
    session = Session([["Hm.", ScriptedPause(60), "Well."], "Late."], looking(ran))
    async with session.running():
        session.tell(Submitted("Hi."))
        await session.until(lambda: bool(session.provider.requests))
        session.logs.append(AGENT, (AssistantMessage((Text("Yes."),)), *rows))
        session.tell(Offered(()))
        await session.idle(1)
        await asyncio.sleep(0.05)
        assert not ran and len(session.provider.requests) == 1


async def test_own_turn_goes_on_when_memory_is_loaded_again() -> None:
    ran: list[object] = []
    session = Session([[ScriptedCall("look", '{"n": 1}')], "Seen."], looking(ran))
    async with session.running():
        session.tell(Submitted("Look."))
        session.tell(Offered(()))
        await session.idle(1)
    assert len(ran) == 1 and session.ended() == [Ending.COMPLETED]


@pytest.mark.parametrize(
    "call",
    [CALL, ToolCall("c1", "look", '{"n": 7}'), ToolCall("c9", "look", '{"n": 1}'), ToolCall("c1", "other", '{"n": 1}')],
    ids=["run before", "other arguments", "another id", "another tool"],
)
async def test_tool_runs_only_for_the_call_that_was_decided(call: ToolCall) -> None:
    ran: list[object] = []
    tools = looking(ran)
    if call == CALL:
        assert (await run_call(tools, CALL)).content == "seen"
        ran.clear()
    else:
        assert not (await tools.start(CALL, 1, SettingsInForce({}), Watcher().ask)).refusal
    result = await tools.run(call, lambda text: None)
    assert result.is_error and result.content == NOT_DECIDED and not ran
