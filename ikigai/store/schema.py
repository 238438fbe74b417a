"""This module applies the schema: numbered SQL files, each applied once, in one transaction with its number."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import psycopg

from ikigai.core.errors import BadDatabase, StoreError
from ikigai.store.address import ServerAddress
from ikigai.store.connection import DatabaseSession
from ikigai.store.sql import agents

log = logging.getLogger(__name__)

MIGRATION_LOCK = int.from_bytes(b"ikim")
"""Key of the advisory lock under which one process at a time migrates."""


class Migration(NamedTuple):
    version: int
    file: Path


def read_migrations(folder: Path) -> list[Migration]:
    """Return the migrations in `folder`, by version: 1, 2, 3 … from files named `0001_name.sql`."""
    migrations = sorted(Migration(int(file.name[:4]), file) for file in folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert [each.version for each in migrations] == list(range(1, len(migrations) + 1)) != [], folder
    return migrations


MigrationProgress: TypeAlias = Callable[[int, int], None]
"""Called with the number of the migration under way, and of all."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing: for callers without a progress display."""


async def make_current(
    session: DatabaseSession, folder: Path, write: bool, on_progress: MigrationProgress = ignore_progress
) -> int:
    """Bring the schema up to this program's, if `write`; return its version.

    Each new connection returns the version with its greeting, so a current schema takes no further query. Raise
    NewerSchema, or BadDatabase if there is no schema to read or no right to make one.
    """
    known = read_migrations(folder)
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
    return await migrate(session, known, on_progress)


async def migrate(
    session: DatabaseSession, migrations: list[Migration], on_progress: MigrationProgress = ignore_progress
) -> int:
    """Apply the missing migrations, in order; return the version reached. Processes that migrate take turns."""
    before = session.greeting.schema_version
    version = 0
    for migration in migrations:
        on_progress(migration.version, len(migrations))
        async with session.use(patient=True) as cursor:
            version = await apply(cursor.connection, migration, session.place)
    if 0 < before < version:
        await analyze_tables(session)
    return version


async def analyze_tables(session: DatabaseSession) -> None:
    """Have the server sample the tables after many rows came at once, so that its plans fit.

    It would do so by itself, but only after a minute, and the embedded server may have stopped by then. A failure only
    makes the plans worse.
    """
    try:
        async with session.use(patient=True) as cursor:
            await cursor.connection.execute(agents.ANALYZE)
    except StoreError as error:
        log.warning("the tables were not analyzed: %s", error)


async def apply(connection: psycopg.AsyncConnection, migration: Migration, where: ServerAddress) -> int:
    """Apply a migration unless it is applied already, in the open transaction if there is one; return the version
    reached.
    """
    try:
        async with connection.transaction():
            await connection.execute(agents.MIGRATION_TURN, (MIGRATION_LOCK,))
            version = await read_version(connection)
            if version < migration.version:
                await connection.execute(migration.file.read_bytes())
                version = migration.version
                await connection.execute(agents.MIGRATED, (version, migration.file.stem[5:]))
    except psycopg.DatabaseError as error:
        if failure := _migration_error(error, migration, where):
            raise failure from error
        raise
    return version


async def read_version(connection: psycopg.AsyncConnection) -> int:
    """Return the version of the schema in the database now; 0 if there is none."""
    ((exists,),) = await (await connection.execute(agents.HAS_MIGRATIONS)).fetchall()
    if not exists:
        return 0
    ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
    return version


def _migration_error(error: psycopg.DatabaseError, migration: Migration, where: ServerAddress) -> BadDatabase | None:
    """Return the error for failures that only a migration has; None for those of any statement."""
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
