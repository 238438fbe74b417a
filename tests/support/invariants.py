"""Check the invariants of a log after every fault."""

import time

from ikigai.core.events import codec
from ikigai.core.events.events import ToolStarted
from ikigai.core.events.messages import Role, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.loading import TURN_KINDS, load_memory
from ikigai.core.state.memory import AgentStatus, Memory, next_request
from ikigai.providers.openai.chat_api import ChatEncoder
from tests.core.memory_log import MemoryLog, StoredRow
from tests.support.kept_connections import query
from tests.support.usage_sums import check_sums

RUN = RunConfig(
    {"model": "scripted/demo", "level": "", "budget": 100_000, "system": ""},
    lambda _: ModelLimits(128_000, 8_192),
    lambda _: ChatEncoder(),
)


def _at_rest(dsn: str) -> bool:
    """Return True once no transaction is open, a moment after the program has ended."""
    left = "select from pg_stat_activity where datname = current_database() and state like 'idle in tr%'"
    until = time.monotonic() + 30
    while query(dsn, left) and time.monotonic() < until:
        time.sleep(0.02)
    return not query(dsn, left)


def check(dsn: str, idle: bool = True) -> dict[str, Memory]:
    """Check every agent of the database; with `idle` no turn may be open. Return their memories by name."""
    rows = query(
        dsn,
        "select m.id, a.name, m.seq, m.kind, m.content, m.data::text"
        " from messages m join agents a on a.id = m.agent_id where a.purged_at is null order by m.id",
    )
    names = [name for (name,) in query(dsn, "select name from agents where purged_at is null")]
    ((twice,),) = query(dsn, "select count(*) - count(distinct event_id) from messages")
    assert twice == 0 and _at_rest(dsn)
    log = MemoryLog()
    log.rows = [StoredRow(*row) for row in rows]
    memories: dict[str, Memory] = {}
    for name in names:
        log.create(name)
        own = [row for row in log.rows if row.agent == name]
        assert [row.seq for row in own] == list(range(1, len(own) + 1)), f"{name}: a gap or a repeat in seq"
        assert all(codec.KIND_OF.get(type(row.event().event)) == row.kind for row in own), f"{name}: an unreadable row"
        memory = memories[name] = log.load(load_memory(RUN, name))
        assert memory == log.load(load_memory(RUN, name)), "replayed twice it is the same"
        if idle:
            assert memory.status is AgentStatus.IDLE, f"{name}: {memory.status}"
        _check_turns(own)
        sound(next_request(memory))
    check_sums(dsn)
    return memories


def _check_turns(rows: list[StoredRow]) -> None:
    """Check that turns begin with user and end with turn_end; no call has two results or two starts."""
    is_open = False
    answered: list[tuple[str, str]] = []  # kind and call of what happened to the calls of the turn
    for row in rows:
        event = row.event().event
        if isinstance(event, ToolResult | ToolStarted):
            answered.append((row.kind, event.call_id))
            assert len(answered) == len(set(answered)), f"{row.kind} {row.id} comes twice"
        if row.kind == "user":
            answered = answered if is_open else []
            is_open = True
        elif row.kind == "turn_end":
            assert is_open, f"turn_end {row.id} ends nothing"
            is_open = False
        elif row.kind in TURN_KINDS:
            assert is_open, f"{row.kind} {row.id} belongs to no turn"


def sound(sent: Request) -> None:
    """Check that every call is answered once, right behind it, and that roles take turns."""
    messages = sent.messages
    for before, message in zip(messages, messages[1:], strict=False):
        if before.calls:
            assert message.role is Role.TOOL
            assert [b.call_id for b in message.blocks if isinstance(b, ToolResult)] == [c.id for c in before.calls]
    calls = [block.id for message in messages for block in message.blocks if isinstance(block, ToolCall)]
    answers = [block.call_id for message in messages for block in message.blocks if isinstance(block, ToolResult)]
    assert sorted(calls) == sorted(answers)
    assert not messages or not messages[-1].calls
