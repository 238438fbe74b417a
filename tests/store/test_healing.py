"""A program stores again what a server lost which took over: here the newest rows of the log are taken away."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from ikigai.app.unsaved.spool import spool
from ikigai.app.unsaved.unsaved_events import put_back
from ikigai.core.errors import AgentLocked, LogDiverged
from ikigai.core.events import events as ev
from ikigai.core.relocation import known_tail
from ikigai.core.relocation.unsaved import Unsaved, read
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state import grants
from ikigai.core.state.loading import load_memory
from ikigai.store.database import Database
from ikigai.store.log import healing
from ikigai.store.sql.usage import FILL_HOURS
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.core.memory_log import seal
from tests.store.talk import Talk
from tests.support.usage_sums import check_sums

LOSE = f"""
select set_config('ikigai.purge', pg_current_xact_id()::text, true);
delete from drafts;
delete from messages where seq > {{}};
delete from usage_hours;
{FILL_HOURS};
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where application_name like 'ikigai/%' and datname = current_database();
"""


def lose(dsn: str, after: int, more: str = "") -> None:
    """Take away every event behind this seq, with its sums, as a server lacks them that was behind, and end all
    connections.
    """
    with psycopg.connect(dsn) as other:
        other.execute((LOSE.format(after) + more).encode())


def rows(dsn: str) -> list[tuple[int, int, UUID, str, str, object]]:
    with psycopg.connect(dsn) as other:
        query = "select id, seq, event_id, kind, coalesce(content, ''), created_at from messages order by id"
        return other.execute(query).fetchall()


async def talk_of(dsn: str, turns: int = 3) -> tuple[Database, Talk, list[str]]:
    """Return a database, an agent with some turns in it, and the messages that it will report."""
    database = await Database.open(dsn, MIGRATIONS)
    talk, told = await Talk.open(database), list[str]()
    talk.log.report = told.append
    for n in range(turns):
        await talk.turn(f"q{n}", f"a{n}")
    return database, talk, told


def messages(talk: Talk) -> list[object]:
    return [turn.messages for turn in talk.memory.full_window.turns]


async def test_lost_events_come_back_as_they_were(dsn: str) -> None:
    database, talk, told = await talk_of(dsn)
    before, memory = rows(dsn), talk.memory
    lose(dsn, 3)
    await talk.turn("q3", "a3")
    assert rows(dsn)[: len(before)] == before, "ids, seq, event_id and times"
    assert [row[1] for row in rows(dsn)] == list(range(1, len(rows(dsn)) + 1))
    assert told == [
        f"The database lost {len(before) - 3} events of agent {talk.agent.name} when another server took over. "
        "They are stored again."
    ]
    assert (await talk.reloaded()) == talk.memory != memory
    lose(dsn, 3)
    await talk.turn("q4", "a4")
    assert len(told) == 2 and rows(dsn)[: len(before)] == before
    assert check_sums(dsn) == 5, "what is stored again counts as it did"
    await database.close()


async def test_nothing_is_stored_where_nothing_was_lost(dsn: str) -> None:
    database, talk, told = await talk_of(dsn)
    lose(dsn, 1000)
    await talk.turn("q3", "a3")
    assert not told and len({row[2] for row in rows(dsn)}) == len(rows(dsn))
    await database.close()


async def test_reply_draft_comes_back(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn, 1)
    last = rows(dsn)[-1][0]
    await talk.log.save_draft(Draft(last, "so far"))
    lose(dsn, 1)
    await talk.reloaded()
    assert await talk.log.draft() == Draft(last, "so far")
    await talk.turn("q", "a")
    lose(dsn, 1, f"insert into drafts (agent_id, asked_by, text) values ('{talk.agent.id}', {last}, 'so far');")
    await talk.reloaded()
    assert await talk.log.draft() is None, "the reply is stored"
    await database.close()


async def test_agent_that_the_server_lacks_is_made_again(dsn: str) -> None:
    database, talk, told = await talk_of(dsn, 1)
    before = rows(dsn)
    lose(dsn, 0, "delete from search_behind; delete from agent_uses; delete from agents;")
    await talk.turn("q1", "a1")
    assert rows(dsn)[: len(before)] == before and told
    assert (await database.agents.find(talk.agent.name)).id == talk.agent.id
    await database.close()


async def test_agent_whose_end_the_server_lacks_is_killed_again(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn, 1)
    await talk.log.append((ev.AgentKilled(),))
    before = rows(dsn)
    lose(dsn, 2, "update agents set killed_at = null;")
    await talk.log.draft()
    found = await database.agents.get(talk.agent.id)
    assert rows(dsn) == before and found and found.killed_at
    await talk.log.append((ev.AgentRevived(),))
    lose(dsn, 2, "update agents set killed_at = now();")
    await talk.log.draft()
    found = await database.agents.get(talk.agent.id)
    assert found and found.killed_at is None
    await database.close()


async def test_subagent_that_the_server_lacks_is_made_again_as_one(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn, 1)
    at = await database.tree.fork_point(talk.agent)
    made = await database.tree.fork(talk.agent, at, (ev.Forked(talk.agent.name, at),), "kid", made=uuid4())
    kid = await Talk.open(database, made)
    lose(
        dsn,
        1000,
        f"delete from messages where agent_id = '{made.id}'; delete from search_behind;"
        f" delete from agent_uses; delete from agents where id = '{made.id}';",
    )
    await kid.turn("q", "a")
    assert [node.name for node in await database.mail.tree(talk.agent.id)] == [talk.agent.name, "kid"]
    await database.close()


async def test_events_get_other_ids_where_theirs_were_given_again(dsn: str) -> None:
    database, talk, told = await talk_of(dsn)
    before = rows(dsn)
    third = before[3][0]
    other = "insert into agents (id, name) values (gen_random_uuid(), 'other');"
    other += f"""
        insert into messages (agent_id, id, event_id, seq, kind, content) overriding system value
        select id, {third + 1}, gen_random_uuid(), 1, 'mark', 'x' from agents where name = 'other';
    """
    lose(dsn, 3, other)
    with pytest.raises(AgentLocked, match=r"They are stored again. Some have other ids now. To go on: /switch"):
        await talk.turn("q3", "a3")
    assert not told
    again = [row for row in rows(dsn) if row[3] != "mark"]
    assert [row[1:] for row in again] == [row[1:] for row in before]
    assert [row[0] for row in again[:4]] == [row[0] for row in before[:4]] and again[4][0] > before[-1][0]
    await talk.log.close()
    anew = await Talk.open(database, talk.agent)
    assert messages(anew) == messages(talk), "references moved with the events"
    await database.close()


async def test_events_that_waited_follow_the_moved_ones(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn, 1)
    first = rows(dsn)[-1][0]
    taken = f"update pg_class set relname = relname where false; select setval('messages_id_seq', {first - 1});"
    lose(dsn, rows(dsn)[-1][1] - 1, taken)
    with psycopg.connect(dsn) as other:
        other.execute("insert into agents (id, name) values (gen_random_uuid(), 'other')")
        insert = (
            "insert into messages (agent_id, event_id, seq, kind) select id, gen_random_uuid(), 1, 'mark' from agents"
        )
        other.execute(insert + " where name = 'other'")
    waits = (ev.TurnEnded(ev.Ending.COMPLETED, "", first, 1),)
    with pytest.raises(AgentLocked):
        await talk.log.append(waits)
    (moved,) = (event for event in talk.log.unsaved(waits).events if isinstance(event, ev.TurnEnded))
    assert moved.first == max(id for id, *_ in rows(dsn)) != first
    await database.close()


async def test_tail_is_a_fork_where_another_program_went_on(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn)
    database.seal_with(seal)
    known = rows(dsn)
    lose(dsn, 3)
    other = await Database.open(dsn, MIGRATIONS)
    thief = await other.open_agent(talk.agent)
    await thief.append((ev.Marked("foreign"),))
    await other.close()
    with pytest.raises(LogDiverged, match="another program went on"):
        await talk.turn("q3", "a3")
    unsaved = talk.log.unsaved((ev.Marked("waits"),))
    place = await database.locate_unsaved(unsaved)
    child = await database.fork_with(talk.agent, place, unsaved)
    seen = await database.reader(child).history(None, 100)
    contents = [getattr(event.event, "label", "") for event in seen]
    assert "waits" in contents and "foreign" not in contents
    (forked,) = (event for event in seen if isinstance(event.event, ev.Forked))
    assert forked.seq == 1 and forked.event == grants.sealed(
        ev.Forked(talk.agent.name, child.forked_at, talk.agent.id), child.id, 1, seal
    )
    assert {row[2] for row in known} <= {row[2] for row in rows(dsn)}, "each event is in one of the two"
    await database.close()


async def test_too_few_known_events_are_reported(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_tail, "MAX_TAIL_BYTES", 1)
    database, talk, _ = await talk_of(dsn)
    lose(dsn, 2)
    with pytest.raises(AgentLocked, match=r"lost more events of agent .* than this program still knows"):
        await talk.turn("q3", "a3")
    assert len(talk.log.unsaved(()).events) > 0, "what is known is kept"
    await database.close()


async def test_events_of_a_program_that_ended_come_back_from_the_next_one(dsn: str) -> None:
    database, talk, _ = await talk_of(dsn)
    await database.close()
    before = rows(dsn)
    database = await Database.open(dsn, MIGRATIONS)
    again = await Talk.open(database, talk.agent)
    lose(dsn, 2)
    await again.turn("q3", "a3")
    assert rows(dsn)[: len(before)] == before, "it had read them"
    await database.close()


@pytest.mark.parametrize("step", ["heal", "on_confirmed"], ids=["before they are stored", "before the file is removed"])
async def test_next_start_is_right_after_a_kill(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    database, talk, _ = await talk_of(dsn)
    files, removed = list[Path](), list[bool]()
    await talk.log.close()

    def keep(unsaved: Unsaved) -> Callable[[], None]:
        files.append(spool(unsaved).path)
        return lambda: removed.append(True)

    database.logs.keep_events = keep
    again = await Talk.open(database, talk.agent)
    before = rows(dsn)
    lose(dsn, 2)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(healing.LogTail, step, killed)
        with pytest.raises(KeyboardInterrupt):
            await again.turn("q3", "a3")
    assert len(files) == 1 and not removed
    assert read("x", files[0].read_bytes()).numbers == tuple(row[0] for row in before)
    again.log.closed = True  # a killed program does not close it
    await database.close()
    database = await Database.open(dsn, MIGRATIONS)
    log = await database.open_agent(talk.agent)
    assert len(await put_back(files, log)) == (step == "heal"), "one message, or nothing to say"
    assert rows(dsn) == before and not files[0].exists()
    assert await log.load(load_memory(RUN, log.agent)) == again.memory
    await database.close()


async def test_exit_after_a_loss_heals_first(dsn: str) -> None:
    database, _, told = await talk_of(dsn)
    before = rows(dsn)
    lose(dsn, 2)
    await database.close()
    assert rows(dsn) == before and told


async def test_purged_agent_stays_purged(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    agent = await database.agents.create(ephemeral=True)
    talk = await Talk.open(database, agent)
    await talk.turn()
    lose(dsn, 0, "update agents set purged_at = now();")
    with pytest.raises(AgentLocked):
        await talk.turn()
    assert not rows(dsn)
    await database.close()
