"""Let processes that migrate a schema take turns, and tell the waiting ones how far the migration is.

The process that makes it names the file in the name of its connection, which every role may read.
"""

import asyncio
import re
from collections.abc import Callable
from typing import TypeAlias

import psycopg

from ikigai.store.connection.address import application_name, schema_number
from ikigai.store.sql import agents

MIGRATION_LOCK = int.from_bytes(b"ikim")
"""Key of the advisory lock under which one process at a time migrates."""
TURN_POLL = 0.1
"""Seconds between two looks at the lock of another process."""
_PROGRESS = re.compile(r"ikigai/.* (\d+)/(\d+)")

MigrationProgress: TypeAlias = Callable[[int, int], None]
"""Called with the number of the migration under way, and of all."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing: for callers without a progress display."""


async def wait_for_turn(
    connection: psycopg.AsyncConnection, schema: str, on_progress: MigrationProgress = ignore_progress
) -> None:
    """Wait until no other process migrates this schema, however long that takes, in the open transaction.

    `on_progress` gets the progress of the other process.
    """
    await connection.execute(agents.WITHOUT_LIMITS)
    key = MIGRATION_LOCK, schema_number(schema)
    while await (await connection.execute(agents.MIGRATION_TURN, key)).fetchall() != [(True,)]:
        await connection.execute(agents.READ_ACTIVITY_ANEW)
        migrating = await connection.execute(agents.MIGRATING, (key[0], key[1] & 0xFFFFFFFF))
        for (name,) in await migrating.fetchall():
            if progress := _PROGRESS.fullmatch(name or ""):
                on_progress(int(progress[1]), int(progress[2]))
        await asyncio.sleep(TURN_POLL)


async def tell_progress(connection: psycopg.AsyncConnection, done: int, total: int) -> None:
    """Tell processes that wait which migration is under way, until the open transaction ends."""
    await connection.execute(agents.NAME_CONNECTION, (f"{application_name()} {done}/{total}",))
