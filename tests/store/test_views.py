"""The views over the log: what they show, on odd rows too, and that the newest rows are found by an index."""

import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.inputs import Clear, RewindTo, SetMark
from ikigai.store.database import Database
from tests.store.talk import Talk
from tests.support.examples import seeds

pytestmark = pytest.mark.fresh

SAID = ("user", "recall", "assistant", "tool_call", "tool_result")
VIEWS = (
    "turns",
    "transcript",
    "agent_tree",
    "filter_events",
    "usage",
    "usage_by_day",
    "usage_by_model",
    "prunes",
    "citations",
)


class Log:
    """A log written row by row, kinds that the program does not know yet among them."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.seqs: dict[UUID, int] = {}

    def agent(self, name: str = "", parent: UUID | None = None, forked_at: int | None = None) -> UUID:
        id = uuid4()
        self.connection.execute(
            "insert into agents (id, name, parent, forked_at) values (%s, %s, %s, %s)",
            (id, name or f"agent-{id}", parent, forked_at),
        )
        return id

    def put(self, agent: UUID, kind: str, content: str | None = None, data: Any = None, raw: str | None = None) -> int:
        seq = self.seqs[agent] = self.seqs.get(agent, 0) + 1
        ((id,),) = self.connection.execute(
            "insert into messages (event_id, agent_id, seq, kind, content, data) values (%s, %s, %s, %s, %s, %s)"
            " returning id",
            (uuid4(), agent, seq, kind, content, raw or (json.dumps(data) if data is not None else None)),
        ).fetchall()
        return id

    def turn(self, agent: UUID, asked: str = "?", said: str = "!", **data: Any) -> tuple[int, int]:
        """The first and the last id of a turn."""
        first = self.put(agent, "user", asked)
        self.put(agent, "assistant", said)
        return first, self.put(agent, "turn_end", data={"ending": "completed", "first": first, "size": 10, **data})

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), parameters).fetchall()

    def filtered(self, id: int) -> list[int]:
        ((ids,),) = self.rows("select filtered_message_ids from filter_events where id = %s", id)
        return ids


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Log(connection)


async def test_turns(dsn: str, database: Database, log: Log) -> None:
    talk = await Talk.open(database, await database.agents.create("amber-otter"))
    await talk.turn("  what\n\tis\n this" + " long" * 100, "an answer")
    await talk.happen(SetMark("m"))
    await talk.store((ev.UserMessage("second"),))
    call = ToolCall("c", "read", '{"path": "x"}')
    await talk.store((ev.AssistantMessage((Text("let me"),), StopReason.TOOLS), call))
    await talk.store((ToolResult("c", "its text"), ev.UserMessage("stop"), ev.TurnsRecalled("[said before]", (3,))))
    assert talk.memory.open
    await talk.store((ev.TurnEnded(ev.Ending.FAILED, "The provider gave up.", talk.memory.open.first, 77, tokens=5),))

    first, second = log.rows("select * from turns order by end_id")
    stored = log.rows("select id, kind, created_at, data from messages order by id")
    users = [row for row in stored if row[1] == "user"]
    ends = [row for row in stored if row[1] == "turn_end"]
    assert first[:6] == (UUID(talk.agent.id), "amber-otter", users[0][0], ends[0][0], "completed", "")
    failed = ("failed", "The provider gave up.")
    assert second[:6] == (UUID(talk.agent.id), "amber-otter", users[1][0], ends[1][0], *failed)
    for row, began, ended in ((first, users[0], ends[0]), (second, users[1], ends[1])):
        assert row[6:8] == (began[2], ended[2])
        assert float(row[8]) == pytest.approx((ended[2] - began[2]).total_seconds())
    assert (first[9], second[9]) == (2, 6)
    assert first[10] == ends[0][3]["size"] > 500 and first[11] == (first[10] + 3) // 4
    assert second[10:12] == (77, 5)
    assert first[12] == ("what is this" + " long" * 100)[:80].rstrip() and second[12] == "second"


async def test_transcript_reads_in_order(database: Database, log: Log) -> None:
    talk = await Talk.open(database, await database.agents.create("a"))
    await talk.turn("first", "answer")
    await talk.happen(SetMark("m"))
    await talk.store((ev.UserMessage("second"), ev.TurnsRecalled("[said before]", (3,))))
    await talk.store((ev.AssistantMessage(stop=StopReason.TOOLS), ToolCall("c", "read", '{"path": "x"}')))
    await talk.store((ToolResult("c", "its text"), ev.TurnEnded(ev.Ending.INTERRUPTED)))
    await talk.happen(RewindTo())
    await talk.happen(Clear())
    agent = UUID(talk.agent.id)
    log.seqs[agent] = log.rows("select max(seq) from messages")[0][0]
    log.put(agent, "filter", "the schema", {"mode": "forget"})
    log.put(agent, "undo", None, {"of": 12})
    mark = log.rows("select id from messages where kind = 'mark'")[0][0]
    assert log.rows("select kind, text from transcript where agent = 'a' order by id") == [
        ("user", "first"),
        ("assistant", "answer"),
        ("mark", "m"),
        ("user", "second"),
        ("recall", "[said before]"),
        ("assistant", ""),
        ("tool_call", 'read {"path": "x"}'),
        ("tool_result", "its text"),
        ("turn_end", "interrupted"),
        ("rewind", f"to {mark}"),
        ("clear", ""),
        ("filter", "forget the schema"),
        ("undo", "of 12"),
    ]
    assert log.rows("select id, at from transcript order by id") == log.rows(
        "select id, created_at from messages where kind not in ('settings', 'usage')"
        " and (kind <> 'turn_end' or data ->> 'ending' <> 'completed') order by id"
    )


def test_tree_of_agents(log: Log) -> None:
    root = log.agent("root")
    log.turn(root)
    child = log.agent("child", root, 3)
    log.turn(child)
    log.turn(child)
    log.agent("grandchild", child, 0)
    log.agent("another")
    columns = "agent, parent, depth, path, forked_at, events"
    assert log.rows(f"select {columns} from agent_tree order by path") == [
        ("another", None, 0, ["another"], None, 0),
        ("root", None, 0, ["root"], None, 3),
        ("child", "root", 1, ["root", "child"], 3, 6),
        ("grandchild", "child", 2, ["root", "child", "grandchild"], 0, 0),
    ]
    assert log.rows("select agent_id, last_used_at from agent_tree order by 1") == log.rows(
        "select id, last_used_at from agents order by 1"
    )


def test_circle_of_agents_is_finite(log: Log) -> None:
    one = log.agent("one")
    two = log.agent("two", one, 5)
    three = log.agent("three", two, 5)
    log.connection.execute("update agents set parent = %s, forked_at = 9 where id = %s", (three, one))
    put = log.put(one, "filter", "", {"ranges": [[1, 10**9]], "ids": [7]})
    assert log.rows("select agent, depth, path from agent_tree order by agent") == [
        ("one", 2, ["two", "three", "one"]),
        ("three", 2, ["one", "two", "three"]),
        ("two", 2, ["three", "one", "two"]),
    ]
    assert log.filtered(put) == [7]


def test_filter_events_have_the_messages_of_their_ranges(log: Log) -> None:
    agent = log.agent()
    turns = [log.turn(agent) for _ in range(3)]
    call = log.put(agent, "user", "with a tool")
    for kind in ("assistant", "tool_call", "tool_started", "tool_result", "usage", "assistant"):
        log.put(agent, kind, "x" if kind in SAID else None)
    with_tool = call, log.put(agent, "turn_end", None, {"first": call, "ending": "completed"})
    talk = log.turn(agent, "/forget it")
    whole = {
        "mode": "forget",
        "ranges": [turns[0], with_tool],
        "ids": [turns[1][0] + 1, turns[0][0]],
        "planning": talk[0],
        "before": 523,
        "after": 511,
    }
    id = log.put(agent, "filter", "the schema", whole)
    columns = (
        "id, agent_id, created_at, mode, criteria, filtered_message_ids, planning_start_id, planning_end_id,"
        " context_size_before, context_size_after, in_force"
    )
    ((row,), (at,)) = (
        log.rows(f"select {columns} from filter_events"),
        *log.rows("select created_at from messages where id = %s", id),
    )
    called = [call, call + 1, call + 2, call + 4, call + 6]
    ids = sorted([turns[0][0], turns[0][0] + 1, turns[1][0] + 1, *called])
    assert row == (id, agent, at, "forget", "the schema", ids, *talk, 523, 511, True)

    bare = log.put(agent, "filter", None, {"mode": "remember"})
    found = log.rows("select * from filter_events where id = %s", bare)[0]
    assert found[3:] == ("remember", "", [], None, None, 0, 0, True)


def test_ranges_reach_ancestors_as_far_as_the_forks_do(log: Log) -> None:
    root, stranger = log.agent(), log.agent()
    early = log.turn(root)
    log.turn(stranger)
    shared = log.turn(root)
    child = log.agent("", root, shared[1])
    late = log.turn(root)
    mine = log.turn(child)
    between = log.turn(child)
    grandchild = log.agent("", child, mine[1])
    own = log.turn(grandchild)
    everything = [[1, 10**9]]

    def said(*turns: tuple[int, int]) -> list[int]:
        return [id for first, _ in turns for id in (first, first + 1)]

    assert log.filtered(log.put(root, "filter", "", {"ranges": everything})) == said(early, shared, late)
    assert log.filtered(log.put(child, "filter", "", {"ranges": everything})) == said(early, shared, mine, between)
    filtered = log.put(grandchild, "filter", "", {"ranges": [[shared[0], own[1]]]})
    assert log.filtered(filtered) == said(shared, mine, own)
    alone = log.agent("", child, 0)
    assert log.filtered(log.put(alone, "filter", "", {"ranges": everything})) == []


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_in_force_is_what_no_undo_in_force_names(log: Log, seed: int) -> None:
    draw = random.Random(seed)
    agent, other = log.agent(), log.agent()
    kinds: dict[int, str] = {}
    undos: dict[int, int] = {}
    for _ in range(60):
        if kinds and draw.random() < 0.6:
            target = draw.choice([*list(kinds)[-5:], *kinds])
            id = log.put(agent, "undo", None, {"of": target})
            kinds[id], undos[id] = "undo", target
        else:
            kinds[id := log.put(agent, "filter", "x", {"mode": "forget"})] = "filter"
        if draw.random() < 0.2:
            log.put(other, "undo", None, {"of": id})  # of another agent: says nothing here

    def in_force(id: int) -> bool:
        return not any(of == id and in_force(undo) for undo, of in undos.items() if undo > id)

    expected = [(id, in_force(id)) for id, kind in kinds.items() if kind == "filter"]
    assert log.rows("select id, in_force from filter_events order by id") == expected
    assert {force for _, force in expected} == {True, False}


def test_long_chain_of_undos(log: Log) -> None:
    agent = log.agent()
    target = log.put(agent, "filter", "x", {"mode": "forget"})
    log.connection.execute(
        "insert into messages (event_id, agent_id, seq, kind, data)"
        " select gen_random_uuid(), %s, n + 1, 'undo', jsonb_build_object('of', %s::bigint + n - 1)"
        " from generate_series(1, 3001) n order by n",
        (agent, target),
    )
    assert log.rows("select in_force from filter_events") == [(False,)]
    log.seqs[agent] = 3002
    ((newest,),) = log.rows("select max(id) from messages")
    log.put(agent, "undo", None, {"of": newest})
    assert log.rows("select in_force from filter_events") == [(True,)]


ODD = (
    None,
    "{}",
    '{"ranges": 5, "ids": 7, "planning": "x", "before": [], "after": null, "mode": {}}',
    '{"ranges": [[]], "ids": [[], {}, "1", null, 1.5, -1, 1e300, 9223372036854775808]}',
    '{"ranges": [1, "a", null, {}, [1], ["1", "9"], [9, 1], [1, 1e300], [null, 5]], "planning": 1e300}',
    '{"ranges": {"a": [1, 2]}, "ids": {"a": 1}, "of": "x", "first": "x", "size": "x", "tokens": [], "ending": 5}',
    '{"first": 1e300, "size": 1e300, "tokens": -1, "of": 1e300, "ending": null, "to": {}, "name": []}',
    '{"first": 0.5, "of": 0, "size": null, "to": 1.5, "mode": 5}',
)


@pytest.mark.parametrize("raw", ODD)
def test_no_row_stops_a_view(log: Log, raw: str | None) -> None:
    agent = log.agent()
    log.turn(agent)
    for kind in ("turn_end", "filter", "undo", "rewind", "tool_call", "clear", "usage", "something"):
        log.put(agent, kind, None, raw=raw)
    for view in VIEWS:
        log.rows(f"select * from {view}")
    assert log.rows("select filtered_message_ids, planning_start_id, in_force from filter_events") == [
        ([7] if raw and '"ids": 7' in raw else [], None, True)
    ]
    assert len(log.rows("select * from turns")) == 2 and len(log.rows("select * from transcript")) == 8


def test_undo_of_itself_or_of_what_comes_later_is_none(log: Log) -> None:
    agent = log.agent()
    early = log.put(agent, "undo", None, {"of": 10**6})
    target = log.put(agent, "filter", "x", {"mode": "forget"})
    assert target > early
    log.connection.execute("alter sequence messages_id_seq restart with 1000000")
    later = log.put(agent, "filter", "x", {"mode": "forget"})
    itself = log.put(agent, "undo", None, {"of": 10**6 + 1})
    assert (later, itself) == (10**6, 10**6 + 1)
    assert log.rows("select in_force from filter_events") == [(True,), (True,)]


def test_views_of_a_schema_that_is_not_on_the_path(log: Log, dsn: str) -> None:
    """Whoever asks for them by their full names gets the same."""
    agent = log.agent()
    first, end = log.turn(agent)
    id = log.put(agent, "filter", "x", {"ranges": [[first, end]]})
    log.put(agent, "undo", None, {"of": id})
    with psycopg.connect(dsn) as other:
        other.execute("set search_path = pg_catalog")
        found = other.execute("select filtered_message_ids, in_force from ikigai.filter_events").fetchall()
        assert found == [([first, first + 1], False)]
        assert other.execute("select depth from ikigai.agent_tree").fetchall() == [(0,)]


NEWEST = {
    "turns": ("select * from turns where agent_id = %s order by end_id desc limit 20", "messages_turn_end"),
    "filter_events": ("select * from filter_events where agent_id = %s order by id desc limit 20", "messages_control"),
    "transcript": ("select * from transcript where agent_id = %s order by id desc limit 20", "messages_agent"),
}


def test_newest_rows_of_an_agent_are_found_by_an_index(log: Log) -> None:
    """Few rows are read, for an agent that wrote nearly everything and for one that wrote little long ago."""
    quiet, loud = log.agent("quiet"), log.agent("loud")
    for agent, turns in ((quiet, 30), (loud, 10_000)):
        log.connection.execute(
            """
            insert into messages (event_id, agent_id, seq, kind, content, data)
            select gen_random_uuid(), %s, 3 * n + place, kind, 'words', case kind
              when 'turn_end' then jsonb_build_object('first', start + 3 * n + 1, 'ending', 'completed')
              when 'filter' then '{"ranges": [[1, 9]]}' end
            from (select coalesce(max(id), 0) as start from messages) before, generate_series(0, %s) n,
              (values (1, 'user'), (2, 'assistant'), (3, 'turn_end')) as row (place, kind)
            order by n, place
            """,
            (agent, turns - 1),
        )
        log.seqs[agent] = 3 * turns
        for n in range(30):
            log.put(agent, "filter", str(n), {"ranges": [[1, 9]]})
    log.connection.execute("analyze messages")
    for agent, (query, index) in product((quiet, loud), NEWEST.values()):
        found = log.rows("explain (analyze, buffers, format json) " + query, agent)[0][0][0]["Plan"]
        # Where the log is read whole, be it once for each row, it is more than 20,000.
        assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] < 1_500, json.dumps(found)
        assert agent == loud or f'"{index}"' in json.dumps(found)
        assert len(log.rows(query, agent)) == 20
    ((pages,),) = log.rows("select pg_relation_size('messages') / 8192")
    assert pages > 300


async def test_every_column_of_every_view_is_explained(database: Database, dsn: str):
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("""
            select relname, attname from pg_class join pg_attribute on attrelid = pg_class.oid
            where relkind = 'v' and relnamespace = 'ikigai'::regnamespace and attnum > 0
              and col_description(attrelid, attnum) is null
            order by 1, attnum
        """).fetchall()
        ((views,),) = connection.execute(
            "select count(*) from pg_views where schemaname = 'ikigai'"
            " and obj_description(to_regclass(format('ikigai.%I', viewname))) <> ''"
        ).fetchall()
    assert rows == [] and views == 10
