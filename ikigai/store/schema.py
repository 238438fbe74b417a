"""The schema of the database: numbered SQL files, each applied once, in one transaction with its number."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import psycopg

from ikigai.core.errors import BadDatabase, StoreError
from ikigai.store.address import Place
from ikigai.store.connection import Session
from ikigai.store.sql import agents as queries

log = logging.getLogger(__name__)

NAMESPACE = int.from_bytes(b"ikim")
"""Of the lock under which one program migrates at a time, as another is of the pens."""


class Migration(NamedTuple):
    version: int
    file: Path


def migrations(folder: Path) -> list[Migration]:
    """The migrations in `folder`, by version: 1, 2, 3 … from files named `0001_name.sql`."""
    found = sorted(Migration(int(file.name[:4]), file) for file in folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert found and [migration.version for migration in found] == list(range(1, len(found) + 1)), folder
    return found


Told: TypeAlias = Callable[[int, int], None]
"""Hears which migration of how many is under way."""


def nobody(done: int, total: int) -> None:
    """For those who do not ask."""


async def make_current(session: Session, folder: Path, write: bool, told: Told = nobody) -> int:
    """Bring the schema up to this program's, when it writes; return its version.

    One query, sent with every new connection, tells the version; the rest is done only when there is something to do.
    Raises NewerSchema, and BadDatabase when there is no schema to read or no right to make one.
    """
    known = migrations(folder)
    async with session.use():
        version = session.greeting.schema_version
    if version > len(known) and write:
        raise session.newer_schema()
    if version >= len(known):
        return version
    if not write:
        raise BadDatabase(
            f"The database {session.place} has schema {version}, and this ikigai needs {len(known)}."
            if version
            else f"There is nothing of ikigai's in the database {session.place.database} {session.place}.",
            "Run: ikigai db migrate",
        )
    return await migrate(session, known, told)


async def migrate(session: Session, wanted: list[Migration], told: Told = nobody) -> int:
    """Apply those that are not applied yet, in order; return the version reached. Programs that do so take turns."""
    before = session.greeting.schema_version
    version = 0
    for migration in wanted:
        told(migration.version, len(wanted))
        async with session.use(patient=True) as cursor:
            version = await apply(cursor.connection, migration, session.place)
    if 0 < before < version:
        await analyze(session)
    return version


async def analyze(session: Session) -> None:
    """Have the server look at what the tables hold, so that it plans for that: after many rows came at once.

    It would do so by itself, but not before a minute is over, and the embedded server may have stopped by then. Where
    it cannot be done, only the plans are worse.
    """
    try:
        async with session.use(patient=True) as cursor:
            await cursor.connection.execute(queries.ANALYZE)
    except StoreError as error:
        log.warning("the tables were not analyzed: %s", error)


async def apply(connection: psycopg.AsyncConnection, migration: Migration, where: Place) -> int:
    """Apply one unless it is applied already, within a transaction if there is one; return the version reached."""
    try:
        async with connection.transaction():
            await connection.execute(queries.MIGRATION_TURN, (NAMESPACE,))
            version = await version_of(connection)
            if version < migration.version:
                await connection.execute(migration.file.read_bytes())
                version = migration.version
                await connection.execute(queries.MIGRATED, (version, migration.file.stem[5:]))
    except psycopg.DatabaseError as error:
        if found := _told(error, migration, where):
            raise found from error
        raise
    return version


async def version_of(connection: psycopg.AsyncConnection) -> int:
    """The version of the schema in the database now; 0 when there is none."""
    ((exists,),) = await (await connection.execute(queries.HAS_MIGRATIONS)).fetchall()
    if not exists:
        return 0
    ((version,),) = await (await connection.execute(queries.SCHEMA_VERSION)).fetchall()
    return version


def _told(error: psycopg.DatabaseError, migration: Migration, where: Place) -> BadDatabase | None:
    """What only a migration can fail of; None for what may happen to any statement."""
    match error:
        case psycopg.errors.InsufficientPrivilege():
            denied = re.search(r"schema (\S+)", str(error))
            return BadDatabase(
                f"The database user {where.user} may not make tables in the database {where.database} {where}.",
                f"Let its owner run: GRANT CREATE ON SCHEMA {denied[1] if denied else 'public'} TO {where.user};",
            )
        case psycopg.errors.DuplicateTable():
            return BadDatabase(
                f"The database {where.database} {where} has tables of these names that are not ikigai's.",
                "Give ikigai a database of its own (createdb ikigai), or a schema: …?options=-csearch_path%3Dikigai",
            )
        case psycopg.ProgrammingError() | psycopg.IntegrityError() | psycopg.DataError() if error.sqlstate != "3F000":
            return BadDatabase(
                f"Migration {migration.file.name} failed on the database {where}: {error.diag.message_primary}.",
                "It changed nothing; look into the log file.",
            )
    return None
