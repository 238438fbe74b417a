"""These tests check the double of the store, which the tests of the core rely on."""

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Text
from ikigai.core.ports import Log
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.loading import load_memory
from tests.core.agent import RUN, Agent
from tests.core.memory_log import LogOf, MemoryLog


def forked(log: MemoryLog, child: str, parent: str, at: int | None) -> list[str]:
    log.create(child, parent, at)
    log.append(child, (ev.Forked(parent, at), ev.UserMessage(child)))
    return [row.event.text for row in log.history(child) if isinstance(row.event, ev.UserMessage)]


def test_fork_at_0_differs_from_a_fork_without_limit() -> None:
    log = MemoryLog()
    log.create("a")
    log.append("a", (ev.UserMessage("1"), ev.UserMessage("2")))
    assert forked(log, "none", "a", 0) == ["none"]
    assert forked(log, "one", "a", 1) == ["1", "one"]
    assert forked(log, "all", "a", None) == ["1", "2", "all"]
    log.append("a", (ev.UserMessage("3"),))
    assert forked(log, "grandchild", "all", None) == ["1", "2", "3", "all", "grandchild"]


def test_child_forked_within_inherited_events_shares_no_more_than_those() -> None:
    log = MemoryLog()
    log.create("a")
    log.append("a", tuple(ev.UserMessage(str(n)) for n in range(1, 5)))
    assert forked(log, "b", "a", 3) == ["1", "2", "3", "b"]
    assert forked(log, "c", "b", 2) == ["1", "2", "c"]


async def test_agent_log_implements_the_port_of_the_loop() -> None:
    logs = MemoryLog()
    logs.create("a")
    log: Log = LogOf(logs, "a")
    await log.save_draft(Draft(1, "I was\0 say"))
    assert await log.draft() == Draft(1, "I was\ufffd say")
    rows = (await log.append((ev.UserMessage("?"), ev.UsageReported("m")))).rows
    assert [(row.id, row.seq, row.agent) for row in rows] == [(1, 1, "a"), (2, 2, "a")]
    assert await log.draft() is not None, "a user's message ends no reply"
    appended = await log.append((ev.AssistantMessage((Text("!"),)),), load_memory(RUN, "a"))
    assert await log.draft() is None
    assert appended.memory == await log.load(load_memory(RUN, "a")) == logs.load(load_memory(RUN, "a"))
    assert appended.rows[0].seq == 3 and Agent(RUN, logs).memory.window.turns
