"""Lists of agents: pages, what stands beside an agent in the tree, and how much of the database they read.

What the statements read is counted with some agents and with ten times as many: the lists must not read more.
"""

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from ikigai.app.agents import agent_tree
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Usage
from ikigai.store.agents.agents import Agent, id_bounds
from ikigai.store.database import Database
from ikigai.store.sql import agent_lists, agents
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh

FEW, MANY = 300, 3_000
"""Agents that are there."""
PAGE = 20
OLD = "2026-01-01"
"""The day on which the filling was used; other agents are newer."""
# Every tenth agent is a fork of the second one before it, every thirteenth is archived; each has a turn.
FILL = """
with made as (
  insert into agents (id, name, parent, forked_at, directory, created_at, last_used_at, archived_at)
  select md5('a' || n)::uuid, 'fill-' || n, case when n %% 10 = 0 then md5('a' || n - 2)::uuid end,
         case when n %% 10 = 0 then 0 end, '/srv/' || n, moment, moment, case when n %% 13 = 0 then moment end
  from generate_series(%(first)s::integer, %(last)s) n
  cross join lateral (select timestamptz '2026-01-01' + n * interval '1 second' as moment) at
  returning id, name, directory
), used as (
  insert into agent_uses (role, agent_id, directory, used_at)
  select session_user, id, directory, '2026-01-01' from made where name like '%%2'
)
insert into messages (event_id, agent_id, seq, kind, content, data)
select gen_random_uuid(), id, n, (array['user', 'assistant', 'turn_end'])[n], 'words of ' || name, '{}'
from made cross join generate_series(1, 3) n
"""


def fill(other: psycopg.Connection, first: int, last: int) -> None:
    """Make agents with a turn each, without the triggers that keep lists for the indexes."""
    other.execute("set session_replication_role = replica")
    other.execute(FILL.encode(), {"first": first, "last": last})
    other.execute("set session_replication_role = origin")
    other.execute("vacuum analyze agents, messages, agent_uses, search_behind")


def pages_read(other: psycopg.Connection, statement: str, which: Any) -> int:
    """Return how many pages of 8 KB a statement reads, planned as a program's connection plans it."""
    other.execute("set enable_bitmapscan = off")
    ((plan,),) = other.execute(f"explain (analyze, buffers, format json) {statement}".encode(), which).fetchall()
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


def statements(own: Agent, ids: list[str]) -> dict[str, tuple[str, Any]]:
    """Return the statements of lists with their parameters."""
    first = {"after": None, "id": None, "limit": PAGE}
    state = {"unlisted": False, "levels": 20, "ids": ids}
    beside = {"agent": ids[0], "parent": None}
    found: dict[str, tuple[str, Any]] = {
        f"newest, {unlisted=}": (agent_lists.newest_ids(unlisted), {"limit": PAGE}) for unlisted in (False, True)
    }
    found |= {
        f"names, {unlisted=}": (agent_lists.newest_names(unlisted), {"limit": PAGE}) for unlisted in (False, True)
    }
    found |= {
        f"page, {everything=}": (agent_lists.agent_page(everything), {**first, "typed": "", "stretch": PAGE})
        for everything in (False, True)
    }
    found |= {
        "page with a typed text": (agent_lists.agent_page(False), {**first, "typed": "nowhere", "stretch": 100}),
        "next page": (
            agent_lists.agent_page(False),
            {**first, "after": f"{OLD} 00:04:00", "id": str(uuid4()), "typed": "", "stretch": PAGE},
        ),
        "chosen by words": (agent_lists.agents_to_choose(False), {"ids": ids}),
        "state": (agent_lists.AGENT_INFOS, state),
        "names of some": (agent_lists.NAMES, (ids,)),
        "open ones": (agent_lists.MAYBE_OPEN, ()),
        "subtree": (agent_lists.SUBTREE, {"agent": own.id}),
        "newest child": (agent_lists.NEWEST_CHILD, beside),
        "parent": (agent_lists.PARENT, {**beside, "parent": ids[0]}),
        "elder root": (agent_lists.ROOTS.left, beside),
        "younger root": (agent_lists.ROOTS.right, beside),
        "elder sibling": (agent_lists.SIBLINGS.left, {**beside, "parent": ids[0]}),
        "younger sibling": (agent_lists.SIBLINGS.right, {**beside, "parent": ids[0]}),
        "by the start of an id": (agents.AGENTS_BETWEEN_IDS, id_bounds("abcdef01")),
        "by name": (agents.AGENT_BY_NAME, ("fill-100",)),
        "last": (agents.LAST_AGENT, ()),
        "last in a folder": (agents.LAST_AGENT_IN, ("/srv/102",)),
        "last in a folder that was never used": (agents.LAST_AGENT_IN, ("/nowhere",)),
    }
    return found


def newest_filled(other: psycopg.Connection) -> list[str]:
    rows = other.execute("select id::text from agents where name like 'fill-%' order by last_used_at desc limit 20")
    return [id for (id,) in rows.fetchall()]


async def test_lists_read_as_much_of_ten_times_as_many_agents(database: Database, dsn: str) -> None:
    own = await database.agents.create("own")
    read: list[dict[str, int]] = []
    with psycopg.connect(dsn, autocommit=True) as other:
        for first, last in ((1, FEW), (FEW + 1, MANY)):
            fill(other, first, last)
            each = statements(own, newest_filled(other))
            read.append({name: pages_read(other, *statement) for name, statement in each.items()})
    few, many = read
    # An index of ten times as many rows has one more level.
    grown = {name: (few[name], pages) for name, pages in many.items() if pages > 1.2 * few[name] + 12}
    assert grown == {}


async def test_relatives(database: Database, dsn: str) -> None:
    made: dict[str, Agent] = {}
    for name, parent in (
        ("a", None), ("b", None), ("a1", "a"), ("a2", "a"), ("a3", "a"), ("a11", "a1"), ("under", "a2"),
    ):  # fmt: skip
        above = made[parent].id if parent else None
        made[name] = await database.agents.create(name, parent=above, forked_at=0 if above else None)
    with psycopg.connect(dsn) as other:
        other.execute("update agents set killed_at = now() where name = 'a2'")

    async def ways(name: str) -> list[str | None]:
        found = [await database.tree.relative(made[name], way) for way in ("up", "down", "left", "right")]
        return [agent.name if agent else None for agent in found]

    assert await ways("a") == [None, "a3", None, "b"]
    assert await ways("b") == [None, None, "a", None]
    assert await ways("a1") == ["a", "a11", None, "a3"]
    assert await ways("a3") == ["a", None, "a1", None]
    assert await ways("under") == [None, None, None, None], "its parent is killed"
    below = [link.name for link in await database.tree.subtree(made["a"].id)]
    assert sorted(below) == ["a", "a1", "a11", "a2", "a3", "under"] and below[-1] == "a"
    assert below.index("a11") < below.index("a1") and below.index("under") < below.index("a2")
    assert await database.tree.subtree(str(uuid4())) == []


async def test_list_has_the_last_used_agents_and_those_above_them(database: Database, dsn: str) -> None:
    root = await database.agents.create("root")
    child = await database.agents.create("child", parent=root.id, forked_at=0)
    talks = [await Talk.open(database) for _ in range(4)]
    below = await Talk.open(database, await database.agents.create("below", parent=child.id, forked_at=0))
    names = [talk.agent.name for talk in talks]

    async def listed(limit: int | None, unlisted: bool = False) -> tuple[list[str], bool]:
        lines, are_more = await agent_tree.list_newest(database, limit, unlisted=unlisted)
        return [f"{line.node.depth}{line.node.agent.name}" for line in lines], are_more

    assert await listed(2) == (["0root", "1child", "2below", f"0{names[-1]}"], True)
    everything = ["0root", "1child", "2below", *(f"0{name}" for name in names)]
    assert await listed(None) == await listed(7) == (everything, False)
    assert (await listed(6))[1]
    assert [info.name for info in await database.tree.all(ids=[child.id])] == ["root", "child"]
    assert set(await database.tree.open_ids()) == {talk.agent.id for talk in [*talks, below]}
    with psycopg.connect(dsn) as other:
        other.execute("update agents set archived_at = now() where name = 'child'")
    lines, _ = await agent_tree.list_newest(database, 1)
    assert [(line.node.agent.name, line.node.problem) for line in lines] == [
        ("below", "child of child, which is not listed")
    ]
    assert await listed(None, unlisted=True) == (everything, False)


async def test_list_has_no_more_than_some_levels_of_agents_above(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikigai.store.forks.agent_tree.LEVELS_ABOVE", 3)
    agent = await database.agents.create("n0")
    for n in range(1, 9):
        agent = await database.agents.create(f"n{n}", parent=agent.id, forked_at=0)
    lines, _ = await agent_tree.list_newest(database, 1)
    assert [line.node.agent.name for line in lines] == ["n5", "n6", "n7", "n8"]
    assert lines[0].parent == "n4", "which is told"


async def test_size_of_the_context_outlives_a_reply_that_was_cut(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.log.append((UsageReported("x/y", Usage(1_200, 34)),))
    await talk.log.append((UsageReported("x/y", Usage(), failure="interrupted"),))
    assert [info.tokens for info in await database.tree.all()] == [1_234]


async def test_state_of_many_agents_is_read_in_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikigai.store.forks.agent_tree.AGENTS_PER_STATEMENT", 2)
    made = [await database.agents.create() for _ in range(5)]
    assert [info.name for info in await database.tree.all()] == [agent.name for agent in made]


async def test_pages_have_each_agent_once(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikigai.store.forks.agent_tree.STRETCH_AGENTS", 4)
    with psycopg.connect(dsn, autocommit=True) as other:
        fill(other, 1, 40)
        other.execute("update agents set made = true where name = 'fill-8'")

    async def walk(typed: str = "", everything: bool = False) -> tuple[list[str], int]:
        names, after, count = list[str](), None, 0
        while count == 0 or after:
            page = await database.tree.page(3, after, typed=typed, everything=everything)
            names += [agent.name for agent in page.agents]
            after, count = page.next, count + 1
        return [int(name.removeprefix("fill-")) for name in names], count  # pyright: ignore[reportReturnType]

    own = [*range(40, 0, -1)]
    assert (await walk(everything=True))[0] == own
    assert (await walk())[0] == [n for n in own if n % 13 and n != 8]
    assert (await walk("FILL-3"))[0] == [*(n for n in range(39, 29, -1) if n % 13), 3]
    assert (await walk("/srv/12"))[0] == [12]
    names, count = await walk("nowhere")
    assert names == [] and count > 4, "a statement looks through four agents"
    chosen = await database.tree.to_choose([agent.id for agent in (await database.tree.page(3)).agents][1:])
    assert [agent.name for agent in chosen] == ["fill-38", "fill-37"]
