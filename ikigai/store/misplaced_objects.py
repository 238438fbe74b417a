"""This module mends what an administrator who is a user, too, once made in the schema of their index.

Connections of a user find that schema first. Programs of earlier versions applied migrations there: functions were made
that find no tables, and tables that went when the index was made anew.
"""

from collections.abc import Sequence
from pathlib import Path

import psycopg

from ikigai.store.sql import misplaced
from ikigai.store.sql.roles import INDEX_INFIX

COMMENTS_VERSION = 25
"""A migration of comments alone: it leaves no trace, and can be repeated."""


async def mend_misplaced(connection: psycopg.AsyncConnection, schema: str, files: Sequence[Path]) -> None:
    """Drop what is in the schemas of indexes and no index, and repeat the migrations that made it, in the open
    transaction. `files` are the migrations in their order.
    """
    prefix = schema + INDEX_INFIX
    found = await (await connection.execute(misplaced.MISPLACED_VERSIONS, {"prefix": prefix})).fetchall()
    if not found:
        return
    dropped = await (await connection.execute(misplaced.MISPLACED_OBJECTS, {"prefix": prefix})).fetchall()
    for (name,) in dropped:  # as the server quotes it
        await connection.execute(f"drop {name} cascade".encode())
    for version in sorted({COMMENTS_VERSION, *(version for (version,) in found)}):
        await connection.execute(files[version - 1].read_bytes())
