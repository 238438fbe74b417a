"""The log only grows: the database itself refuses to change it."""

import uuid

import psycopg
import pytest

from ikigai.core.errors import AgentLocked
from ikigai.core.events import events as ev
from ikigai.store.database import Database

CHANGES = (
    "update messages set content = 'other'",
    "update messages set content = 'other' where false",
    "delete from messages",
    "truncate messages",
    "truncate agents cascade",
    "delete from agents",
    "insert into messages (event_id, agent_id, seq, kind) select event_id, agent_id, 2, 'user' from messages"
    " on conflict (event_id) do update set kind = 'clear'",
)


@pytest.fixture
async def stored(database: Database, dsn: str) -> str:
    log = await database.open_agent(await database.agents.create())
    await log.append((ev.UserMessage("stays"),))
    return dsn


async def test_changes_are_refused(stored: str) -> None:
    with psycopg.connect(stored, autocommit=True) as other:
        for change in CHANGES:
            with pytest.raises((psycopg.errors.RestrictViolation, psycopg.errors.ForeignKeyViolation)):
                other.execute(change.encode())
        assert other.execute("select seq, kind, content from messages").fetchall() == [(1, "user", "stays")]


async def test_purge_names_its_transaction(stored: str) -> None:
    with psycopg.connect(stored, autocommit=True) as other:
        other.execute("select set_config('ikigai.purge', pg_current_xact_id()::text, false)")
        with pytest.raises(psycopg.errors.RestrictViolation):
            other.execute("delete from messages")
        with other.transaction():
            other.execute("select set_config('ikigai.purge', pg_current_xact_id()::text, true)")
            other.execute("delete from messages")
        assert other.execute("select count(*) from messages").fetchall() == [(0,)]


IMPOSSIBLE = (
    "gen_random_uuid(), agent_id, 1, 'user', null",
    "event_id, agent_id, 2, 'user', null",
    "gen_random_uuid(), agent_id, 0, 'user', null",
    "gen_random_uuid(), agent_id, 2, '', null",
    "gen_random_uuid(), gen_random_uuid(), 1, 'user', null",
    "gen_random_uuid(), agent_id, 2, 'user', '[1]'::jsonb",
)


async def test_rows_that_cannot_be_are_refused(stored: str) -> None:
    with psycopg.connect(stored, autocommit=True) as other:
        for row in IMPOSSIBLE:
            with pytest.raises(psycopg.errors.IntegrityError):
                other.execute(
                    f"insert into messages (event_id, agent_id, seq, kind, data) select {row} from messages".encode()
                )


INSERT = """
insert into messages (event_id, agent_id, seq, kind, content)
select gen_random_uuid(), %s, number, 'user', 'planted' from unnest(%s::integer[]) number
"""


@pytest.mark.parametrize("numbers", [[3], [2**31 - 1], [2, 4], [4, 2], [3, 4], [2, 3, 5]])
async def test_events_behind_a_gap_are_refused(stored: str, numbers: list[int]) -> None:
    with psycopg.connect(stored, autocommit=True) as other:
        ((agent,),) = other.execute("select id from agents").fetchall()
        with pytest.raises(psycopg.errors.ExclusionViolation, match="does not follow the newest one"):
            other.execute(INSERT, (agent, numbers))
        copied = "copy messages (event_id, agent_id, seq, kind) from stdin"
        with pytest.raises(psycopg.errors.ExclusionViolation), other.cursor() as cursor, cursor.copy(copied) as copy:
            for number in numbers:
                copy.write_row((uuid.uuid4(), agent, number, "user"))
        # Tables of one's own are not looked at.
        other.execute("create temp table messages as select * from messages")
        other.execute("insert into pg_temp.messages select * from messages")
        with pytest.raises(psycopg.errors.ExclusionViolation):
            other.execute(INSERT.replace("into messages", "into ikigai.messages").encode(), (agent, numbers))
        assert other.execute("select seq from ikigai.messages").fetchall() == [(1,)]


@pytest.mark.parametrize("numbers", [[2], [2, 3, 4], [4, 3, 2]])
async def test_events_that_follow_are_stored_in_any_order(stored: str, numbers: list[int]) -> None:
    with psycopg.connect(stored, autocommit=True) as other:
        ((agent,),) = other.execute("select id from agents").fetchall()
        other.execute(INSERT, (agent, numbers))
        assert other.execute("select seq from messages order by seq").fetchall() == [
            (n,) for n in range(1, len(numbers) + 2)
        ]


async def test_event_behind_one_that_is_not_committed_is_refused(stored: str) -> None:
    with psycopg.connect(stored) as first, psycopg.connect(stored, autocommit=True) as second:
        ((agent,),) = first.execute("select id from agents").fetchall()
        first.execute(INSERT, (agent, [2]))
        with pytest.raises(psycopg.errors.ExclusionViolation):
            second.execute(INSERT, (agent, [3]))


async def test_program_whose_number_is_taken_stores_nothing_and_says_so(database: Database, dsn: str) -> None:
    log = await database.open_agent(await database.agents.create())
    await log.append((ev.UserMessage("mine"),))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(INSERT, (log.agent, [2]))
    for events in ((ev.UserMessage("later"),), (ev.AssistantMessage(), ev.TurnEnded(ev.Ending.COMPLETED))):
        with pytest.raises(AgentLocked, match="Another program wrote"):
            await log.append(events)
    with psycopg.connect(dsn, autocommit=True) as other:
        assert other.execute("select count(*) from messages").fetchall() == [(2,)]
