"""Purge ephemeral agents that no program has open: all rows of their logs except the usage."""

from collections.abc import Collection
from contextlib import suppress
from uuid import UUID

import psycopg

from ikigai.core.errors import AgentLocked
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.log import write_lock
from ikigai.store.search import segments
from ikigai.store.sql import purge


@retry_on_conflict
async def purge_ephemeral(session: DatabaseSession, own: Collection[str], min_age: float) -> list[str]:
    """Purge ephemeral agents that no other program has open and that are not among `own`, the ids of those open here.

    They were made `min_age` seconds ago or earlier. Return their ids. The rows are deleted in one transaction, which
    takes as long as these agents are large. Their bytes stay in the files of the server until it reuses the space, or
    until `ikigai db purge` rewrites the tables. Raise StoreError.
    """
    async with session.use() as cursor:
        await cursor.execute(purge.EPHEMERAL, (min_age,))
        agents: dict[UUID, str] = {id: name for id, name in await cursor.fetchall() if str(id) not in own}
        held: list[UUID] = []
        try:
            for id, name in agents.items():
                with suppress(AgentLocked):
                    await write_lock.acquire(session, cursor, id, name)
                    held.append(id)
            if held:
                async with cursor.connection.transaction():
                    await cursor.execute(purge.PURGING)
                    await segments.forget_agents(cursor, held)
                    for statement in purge.PURGE_AGENTS_WHOLE:
                        await cursor.execute(statement, {"agents": held}, prepare=False)
        finally:
            for id in held:
                with suppress(psycopg.Error, TimeoutError):
                    await write_lock.release(session, cursor, id)
    return [str(id) for id in held]
