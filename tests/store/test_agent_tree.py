"""The tree of agents: forked without a write lock, killed and revived with one, read whole however damaged it is."""

import asyncio
from uuid import uuid4

import psycopg
import pytest

from ikigai.core.agents.tree import ANCESTOR_CIRCLE, PARENT_MISSING, THIS_PROGRAM, build_tree
from ikigai.core.errors import AgentLocked, CorruptLineage, Rejected
from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import CallModel, Interrupted, Replied, SetMark, Submitted
from ikigai.core.state.loading import AskAncestry, AskControls, load_memory
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import new_event_id
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.core.encoders import encoder, limits
from tests.store.talk import Talk
from tests.store.test_loading import Counted, fill, turn


async def fork(database: Database, parent: Agent, name: str = "", at: int | None = None) -> Agent:
    at = await database.tree.fork_point(parent) if at is None else at
    return await database.tree.fork(parent, at, (ev.Forked(parent.name, at),), name)


def texts(talk: Talk) -> list[str]:
    return [message.text for turn in talk.memory.window.turns for message in turn.messages]


async def remembered(database: Database, agent: Agent) -> list[str]:
    memory = await database.reader(agent).load(load_memory(RUN, agent.id))
    return [message.text for turn in memory.window.turns for message in turn.messages]


async def test_busy_parent_is_forked_before_its_open_turn(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    await talk.happen(SetMark("here"))
    idle = await database.tree.fork_point(talk.agent)
    assert idle == (await database.reader(talk.agent).history(None, 1))[0].id, "what stands behind the turn is shared"
    await talk.happen(Submitted("two"))
    assert await database.tree.fork_point(talk.agent) == idle
    child = await Talk.open(database, await fork(database, talk.agent, "child"), RUN)
    assert texts(child) == ["one", "1"] and not child.memory.marks and child.memory.open is None
    own = [event for event in await database.reader(child.agent).history(None, 9) if event.agent == child.agent.id]
    first = own[0]
    assert first.seq == 1 and first.event == ev.Forked(talk.agent.name, idle)
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    await talk.happen(Replied(job, (Text("2"),), StopReason.END, ev.UsageReported(talk.memory.model)))
    await child.turn("other", "o")
    assert (texts(talk), texts(child)) == (["one", "1", "two", "2"], ["one", "1", "other", "o"])


async def test_first_turn_that_is_open_is_not_shared(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    child = await fork(database, talk.agent, "child")
    with psycopg.connect(database._session._conninfo) as other:  # a message that came before the agent was ever opened
        other.execute("insert into agents (id, name) values (%s, 'bare')", (bare := uuid4(),))
        other.execute(
            "insert into messages (agent_id, seq, event_id, kind, content) values (%s, 1, %s, 'user', '?')",
            (bare, uuid4()),
        )
    found = await database.agents.find("bare")
    assert await database.tree.fork_point(found) == 0
    silent = await database.agents.create(parent=child.id, forked_at=child.forked_at)
    assert await database.tree.fork_point(silent) == child.forked_at, "nothing of its own: what it shares"
    other = await Talk.open(database, child)
    await other.happen(Submitted("open"))
    grandchild = await fork(database, child, "grandchild")
    assert await remembered(database, grandchild) == ["one", "1"]


async def test_agent_held_by_another_program_is_forked(dsn: str) -> None:
    first, second = await Database.open(dsn, MIGRATIONS), await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(first)
    await talk.turn("one", "1")
    await talk.happen(Submitted("two"))
    with pytest.raises(AgentLocked):
        await second.open_agent(talk.agent)
    child = await Talk.open(second, await fork(second, talk.agent), RUN)
    assert texts(child) == ["one", "1"]
    held = {kin.name: (kin.holder, kin.in_turn) for kin in await second.tree.all()}
    assert held[child.agent.name] == (THIS_PROGRAM, False)
    assert held[talk.agent.name][0].endswith(f"pid {first._session.parameters['application_name'].split('/')[-1]}")
    assert held[talk.agent.name][1] is True
    await talk.happen(Interrupted())
    await second.close()
    await first.close()


async def test_place_of_an_event_is_the_end_of_its_turn(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    await talk.happen(SetMark("m"))
    await talk.turn("two", "2")
    await talk.happen(Submitted("three"))
    rows = await database.reader(talk.agent).history(None, 50)
    ends = [row.id for row in rows if isinstance(row.event, ev.TurnEnded)]
    opened = talk.memory.open
    assert opened
    for row in rows:
        if row.id >= opened.first:
            with pytest.raises(Rejected, match=f"The turn of event #{row.id} has not ended yet"):
                await database.tree.fork_point_at(row.id)
            continue
        end = next(end for end in ends if end >= row.id) if row.id <= ends[-1] else row.id
        between = isinstance(row.event, ev.Marked | ev.SettingsChanged)
        owner, at = await database.tree.fork_point_at(row.id)
        assert (owner.id, at) == (talk.agent.id, row.id if between else end)
    (asked,) = (row.id for row in rows if row.event == ev.UserMessage("one"))
    owner, at = await database.tree.fork_point_at(asked)
    child = await fork(database, owner, "then", at)
    assert await remembered(database, child) == ["one", "1"]
    for id in (0, 10**15, 2**63 - 2):
        with pytest.raises(Rejected, match="There is no event"):
            await database.tree.fork_point_at(id)


async def test_what_the_parent_forgets_later_stays_with_a_child_forked_earlier(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    await talk.turn("two", "2")
    rows = await database.reader(talk.agent).history(None, 50)
    first = next(row.id for row in rows if row.event == ev.UserMessage("one"))
    end = next(row.id for row in rows if isinstance(row.event, ev.TurnEnded))
    await talk.store((ev.Filtered("forget", "x", ((first, end),), (), 0, 2, 0, 0),))
    filtered = (await database.reader(talk.agent).history(None, 1))[0].id
    await talk.turn("three", "3")
    before, behind = await fork(database, talk.agent, "before", end), await fork(database, talk.agent, "behind")
    await talk.store((ev.Undone(filtered, "filter"),))
    assert await remembered(database, before) == ["one", "1"]
    assert await remembered(database, behind) == ["two", "2", "three", "3"]
    assert await remembered(database, talk.agent) == ["one", "1", "two", "2", "three", "3"]


async def test_fork_is_made_whole_or_not_at_all(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn()
    await fork(database, talk.agent, "taken")
    for name in ("taken", "two words", "🦉", "x" * 1024, "-x"):
        with pytest.raises(Rejected, match=r"named taken already|is not a name"):
            await fork(database, talk.agent, name)
    assert (await fork(database, talk.agent, "owl🦉")).name == "owl🦉"
    assert len(await database.tree.all()) == 3


async def test_renaming(database: Database) -> None:
    one, two = await database.agents.create("one"), await database.agents.create("two")
    await database.tree.rename(one, "first🦉")
    assert (await database.agents.find("first🦉")).id == one.id
    for name in ("two", "two words", "", "y" * 1024, "🦉", "\x1b[2J"):
        with pytest.raises(Rejected):
            await database.tree.rename(one, name)
    assert {agent.name for agent in await database.agents.all()} == {"first🦉", "two"}
    await database.tree.rename(two, "two")


async def test_agent_is_renamed_by_its_writer_or_while_nobody_writes_it(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    other = await Database.open(dsn, MIGRATIONS)
    with pytest.raises(AgentLocked, match=r"is open in another ikigai .* Rename it there"):
        await other.tree.rename(talk.agent, "theirs")
    with pytest.raises(Rejected, match="is not a name"):
        await other.tree.rename(talk.agent, "two words")
    await database.tree.rename(talk.agent, "ours")
    await talk.log.close()
    await other.tree.rename(talk.agent, "theirs")
    assert [agent.name for agent in await database.agents.all()] == ["theirs"]
    await other.close()


async def test_killed_agent_is_not_offered_and_its_history_stays(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    child = await Talk.open(database, await fork(database, talk.agent, "child"), RUN)
    await child.turn("needle", "2")
    await child.store((ev.AgentKilled(by="someone"),))
    await child.log.close()
    dead = await database.agents.find("child")
    assert dead.killed_at and [agent.name for agent in await database.agents.all()] == [talk.agent.name]
    last = await database.agents.last()
    assert last and last.id == talk.agent.id and (await database.agents.last(talk.agent.directory))
    assert {kin.name for kin in await database.tree.all()} == {talk.agent.name}
    assert [kin.killed for kin in await database.tree.all(unlisted=True)] == [False, True]
    assert [hit.agent for hit in (await database.search("needle")).hits] == ["child"]
    with pytest.raises(Rejected) as refused:
        await database.agents.find("nobody")
    assert "child" not in refused.value.remedy
    assert await remembered(database, dead) == ["one", "1", "needle", "2"]
    again = await Talk.open(database, dead)
    await again.store((ev.AgentRevived(),))
    alive = await database.agents.get(dead.id)
    assert alive and alive.killed_at is None and again.memory.status == "idle"


async def test_archived_agent_leaves_the_lists_with_its_forks_and_works_as_before(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("needle", "1")
    child = await fork(database, talk.agent, "child")
    early = await fork(database, child, "early")
    other = await database.agents.create("other")
    await (await database.open_agent(other)).close()
    assert await database.tree.archive(early) == 1
    assert await database.tree.archive(talk.agent) == 2, "the one below was archived before"
    assert [agent.name for agent in await database.agents.all()] == ["other"]
    assert [agent.name for agent in await database.tree.all()] == ["other"]
    everybody = {talk.agent.name, "child", "early", "other"}
    assert {agent.name for agent in await database.tree.all(unlisted=True)} == everybody
    await talk.turn("more", "2")
    last = await database.agents.last()
    assert last and last.id == other.id
    assert [hit.agent for hit in (await database.search("needle")).hits] == [talk.agent.name]
    found = await database.agents.find(talk.agent.name)
    assert found.archived_at and not found.killed_at
    assert await database.tree.list_again(found) == 2 and await database.tree.list_again(early) == 1
    assert {agent.name for agent in await database.agents.all()} == {talk.agent.name, "child", "early", "other"}


async def test_what_is_known_of_everybody(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "an answer")
    child = await fork(database, talk.agent, "child")
    (root, below) = await database.tree.all()
    assert (root.turns, root.model, root.last_words, root.in_turn) == (1, "chat/large", "an answer", False)
    assert (below.parent, below.turns, below.last_words, below.forked_at) == (talk.agent.id, 0, "", child.forked_at)
    await talk.happen(Submitted("more"))
    (root, _) = await database.tree.all()
    assert root.in_turn and root.last_words == "more" and root.holder == THIS_PROGRAM


async def damage(database: Database, statement: str, *values: object) -> None:
    with psycopg.connect(database._session._conninfo) as other:
        other.execute("alter table agents drop constraint if exists agents_parent_fkey")
        other.execute(statement.encode(), values)


async def test_circle_and_a_missing_parent_are_told_and_finite(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    await talk.log.close()
    two = await fork(database, talk.agent, "two")
    three = await fork(database, two, "three")
    lost = await fork(database, talk.agent, "lost")
    await damage(database, "update agents set parent = %s, forked_at = 5 where id = %s", three.id, talk.agent.id)
    await damage(database, "update agents set parent = %s where id = %s", uuid4(), lost.id)
    for agent, why in (
        (talk.agent, ANCESTOR_CIRCLE),
        (two, ANCESTOR_CIRCLE),
        (three, ANCESTOR_CIRCLE),
        (lost, PARENT_MISSING),
    ):
        damaged = await database.agents.get(agent.id)
        assert damaged and await database.tree.lineage_defect(damaged) == why
        with pytest.raises(CorruptLineage, match="is read-only: its "):
            await database.tree.check(damaged)
        await remembered(database, damaged)
        assert await database.tree.fork_point(damaged) >= 0
    assert "1" in await remembered(database, talk.agent)
    places = build_tree(await database.tree.all())
    assert len(places) == 4 and {place.problem for place in places} == {ANCESTOR_CIRCLE, PARENT_MISSING, ""}


def chain(dsn: str, root: Agent, depth: int) -> str:
    """Agents below the root, each a child of the one before with a turn of its own; the id of the last."""
    with psycopg.connect(dsn) as other:
        ((id,),) = other.execute("select max(id) from messages").fetchall()
        parent, rows = root.id, list[tuple[object, ...]]()
        for n in range(1, depth):
            child = uuid4()
            link = "insert into agents (id, name, parent, forked_at) values (%s, %s, %s, %s)"
            other.execute(link, (child, f"deep-{n}", parent, id))
            events = (ev.Forked("parent", id), *turn(id + 2, n))
            rows += (
                (id + seq, new_event_id(), child, seq, *codec.encode(event))
                for seq, event in enumerate(events, start=1)
            )
            parent, id = str(child), id + len(events)
        columns = "copy messages (id, event_id, agent_id, seq, kind, content, data) from stdin"
        with other.cursor().copy(columns) as copy:
            for row in rows:
                copy.write_row(row)
        other.execute("select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages")
    return parent


async def test_depth_does_not_cost_beyond_the_ancestry(database: Database, dsn: str) -> None:
    """200 agents, each a child of the one before with a turn of its own: the same rows, and a few questions more."""
    depth, run = 200, RunConfig({"model": "chat/large", "budget": 100_000}, limits, encoder)
    flat, root = await database.agents.create("flat"), await database.agents.create("root")
    fill(dsn, flat, depth)
    fill(dsn, root, 1)
    deep = await database.agents.get(chain(dsn, root, depth))
    assert deep
    costs = dict[str, tuple[int, int]]()
    for agent in (flat, deep):
        counted = Counted(run, agent)
        memory = await database.reader(agent).load(counted())
        assert len(memory.window.turns) == depth and not memory.window.older.turns
        of_turns = [asked for asked in counted.questions if not isinstance(asked, AskAncestry | AskControls)]
        costs[agent.name] = len(of_turns), counted.rows
    (few, rows), (some, more) = costs.values()
    assert some - few <= 6, costs
    assert more <= rows + 2 * depth, "an ancestor and a fork event each"
    assert await database.tree.lineage_defect(deep) == ""
    assert max(place.depth for place in build_tree(await database.tree.all())) == depth - 1


async def test_thousand_forks(database: Database, dsn: str) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    at = await database.tree.fork_point(talk.agent)
    with psycopg.connect(dsn) as other:
        other.execute(
            "insert into agents (id, name, parent, forked_at)"
            " select gen_random_uuid(), 'fork-' || n, %s, %s from generate_series(1, 990) n",
            (talk.agent.id, at),
        )
    made = await asyncio.gather(*(fork(database, talk.agent) for _ in range(10)))
    everybody = await database.tree.all()
    assert [place.depth for place in build_tree(everybody)] == [0, *[1] * 1_000]
    assert {agent.name for agent in made} <= {kin.name for kin in everybody}
    assert await remembered(database, made[-1]) == ["one", "1"]
