"""This module moves the tables of earlier versions from the schema `public` into the schema of ikigai."""

import psycopg

from ikigai.core.errors import BadDatabase
from ikigai.store.address import quoted
from ikigai.store.connection import DatabaseSession
from ikigai.store.greeting import MOVED_VERSION
from ikigai.store.sql import agents, move


async def move_tables(connection: psycopg.AsyncConnection, session: DatabaseSession, newest: int) -> None:
    """Move all that earlier migrations have made, as it is, and leave the marker behind.

    Everything is in the open transaction, so other processes see the old state or the new one. Roles that may read or
    write the tables may use the new schema, too. Raise BadDatabase if the user does not own the tables, NewerSchema if
    their version is above `newest`.
    """
    target = quoted(session.schema)
    try:
        # First, as only their owner can: reading a table of another role with `public` in the search_path may run a
        # function of that role.
        await connection.execute(f"{move.FIRST_MOVE} set schema {target}".encode())
        ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
        if version > newest:
            raise session.newer_schema(version)
        await connection.execute(agents.SEARCH, ("public",))
        for introduced, statement in move.MOVES:
            if introduced <= version:
                await connection.execute(f"{statement} set schema {target}".encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise BadDatabase(
            f"The tables of ikigai must move to the schema {session.schema}, and the database user "
            f"{session.place.user} does not own them {session.place}.",
            'Their owner can run `ikigai db migrate`; or keep them there: schema = "public" under [database].',
        ) from error
    await connection.execute(agents.SEARCH, (target,))
    await connection.execute(move.GRANT_USAGE)
    await connection.execute(move.SET_PATHS)
    await connection.execute(move.LEAVE_MARKER.format(MOVED_VERSION).encode())
