"""Measure FORK: opening an agent at the end of 200 forks, against the same turns in one agent.

Each fork has a turn of its own, and both have the same turns in the window. The ancestry query alone, which no line of
forks can do without, is a figure of its own.
"""

import asyncio
import time
from uuid import uuid4

import psycopg

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Text
from ikigai.core.state.loading import load_memory
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import new_event_id
from ikigai.store.sql import reading as queries
from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.generator import RUN

WORDS = "a dozen words of what somebody says in a turn, again and again " * 3


def measure(quick: bool) -> list[Figure]:
    with histories.empty() as dsn:
        return asyncio.run(compare(dsn, 20 if quick else 200, rounds=3 if quick else 40))


async def compare(dsn: str, depth: int, rounds: int) -> list[Figure]:
    flat, deep = fill(dsn, depth, forks=False), fill(dsn, depth, forks=True)
    database = await Database.open(dsn, histories.MIGRATIONS, write=False)
    taken: dict[str, list[float]] = {"flat": [], "deep": [], "ancestry": []}
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("analyze")
            for _ in range(rounds + 1):
                for name, id in (("flat", flat), ("deep", deep)):
                    agent = await database.agents.get(id)
                    assert agent
                    began = time.perf_counter()
                    memory = await database.reader(agent).load(load_memory(RUN, id))
                    taken[name].append(time.perf_counter() - began)
                    assert len(memory.window.turns) == depth
                began = time.perf_counter()
                connection.execute(queries.ANCESTRY.encode(), (deep,)).fetchall()
                taken["ancestry"].append(time.perf_counter() - began)
    finally:
        await database.close()
    both = zip(taken["deep"][1:], taken["ancestry"][1:], strict=True)
    above = [max(0.0, deep - ancestry) for deep, ancestry in both]  # either may be disturbed
    what = f"an agent loaded at depth {depth}"
    beside = f"the same {depth} turns in one agent"
    return [
        Figure("FORK", what, "s", taken["deep"][1:], beside, taken["flat"][1:]),
        Figure("FORK", f"{what}, the ancestry query apart", "s", above, beside, taken["flat"][1:], 2.0),
    ]


def fill(dsn: str, turns: int, forks: bool) -> str:
    """Make an agent with `turns` turns, or a line of agents with a turn each; return the id of the last."""
    agent, parent, seq = str(uuid4()), None, 0
    with psycopg.connect(dsn) as connection:
        ((id,),) = connection.execute("select coalesce(max(id), 0) from messages").fetchall()
        rows = list[tuple[object, ...]]()
        for n in range(turns):
            events: tuple[ev.Event, ...] = ()
            if forks and n:
                agent, parent, seq = str(uuid4()), agent, 0
                events = (ev.Forked("parent", id),)
            if not seq:
                at = id if parent else None
                link = "insert into agents (id, name, parent, forked_at) values (%s, %s, %s, %s)"
                connection.execute(link, (agent, f"agent-{agent}", parent, at))
            first = id + len(events) + 1
            events += (
                ev.UserMessage(WORDS),
                ev.AssistantMessage((Text(WORDS),)),
                ev.UsageReported("chat/large"),
                ev.TurnEnded(ev.Ending.COMPLETED, "", first, 500, ev.Totals(n, 2 * n, 500 * n)),
            )
            for event in events:
                id, seq = id + 1, seq + 1
                rows.append((id, new_event_id(), agent, seq, *codec.encode(event)))
        columns = "copy messages (id, event_id, agent_id, seq, kind, content, data) from stdin"
        with connection.cursor().copy(columns) as copy:
            for row in rows:
                copy.write_row(row)
        connection.execute("select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages")
    return agent
