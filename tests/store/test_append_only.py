"""The log only grows: the database itself refuses to change it."""

import psycopg
import pytest

from ikigai.core import events as ev
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
