"""This module applies the schema: numbered SQL files, each applied once, in one transaction with its number."""

import logging
from pathlib import Path
from typing import NamedTuple

import psycopg

from ikigai.core.errors import BadDatabase, StoreError
from ikigai.store.address import DEFAULT_SCHEMA, quoted
from ikigai.store.connection import DatabaseSession
from ikigai.store.greeting import MOVED_VERSION
from ikigai.store.migration_turn import MigrationProgress, ignore_progress, tell_progress, wait_for_turn
from ikigai.store.sql import agents

log = logging.getLogger(__name__)

SECURED_VERSION = 22
"""The version from which on row security holds. What later migrations make is secured with them."""

MENDING_VERSION = 29
"""The version before which migrations may have made something in the schema of a user's index."""


class Migration(NamedTuple):
    version: int
    file: Path


def read_migrations(folder: Path) -> list[Migration]:
    """Return the migrations in `folder`, by version: 1, 2, 3 … from files named `0001_name.sql`."""
    migrations = sorted(Migration(int(file.name[:4]), file) for file in folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert [each.version for each in migrations] == list(range(1, len(migrations) + 1)) != [], folder
    return migrations


async def make_current(
    session: DatabaseSession,
    folder: Path,
    write: bool,
    on_progress: MigrationProgress = ignore_progress,
    old: bool = False,
) -> int:
    """Bring the schema up to this program's, if `write`; return its version.

    Each new connection returns the version with its greeting, so a current schema takes no further query. A program
    that ended behind the last migration left the users to the next one that `write`s. `on_progress` also gets the
    progress of another process that migrates. Raise NewerSchema, or BadDatabase if there is no schema to read, an older
    one unless `old` allows it, or no right to make one.
    """
    known = read_migrations(folder)
    async with session.use():
        version = session.greeting.schema_version
    if version > len(known) and write:
        raise session.newer_schema()
    if version >= len(known) and write and session.greeting.users_behind:
        try:
            await _refresh_users(session)
        except BadDatabase as error:  # the owner can work, and the next start tries it again
            log.warning("users did not get their rights: %s", error)
    if version >= len(known) or (old and version):
        return version
    if not write:
        raise BadDatabase(
            f"The database {session.place} has schema {version}, and this ikigai needs {len(known)}."
            if version
            else f"An earlier version left its tables in the schema public {session.place}; they must be moved first."
            if session.greeting.unmoved
            else f"There are no tables of ikigai in the database {session.place.database} {session.place}.",
            "Run: ikigai db migrate",
        )
    return await migrate(session, known, on_progress)


async def migrate(
    session: DatabaseSession, migrations: list[Migration], on_progress: MigrationProgress = ignore_progress
) -> int:
    """Apply the missing migrations, in order; return the version reached. Processes that migrate take turns."""
    before, version, total = session.greeting.schema_version, 0, len(migrations)
    if not before:  # all or nothing: where the schema exists, it may hold tables that are not ikigai's
        async with session.use(patient=True) as cursor, cursor.connection.transaction():
            await prepare(cursor.connection, session, total, on_progress)
            for migration in migrations:
                on_progress(migration.version, total)
                version = await apply(cursor.connection, migration, session, total)
        return version
    for migration in migrations:
        on_progress(migration.version, total)
        async with session.use(patient=True) as cursor:
            version = await apply(cursor.connection, migration, session, total, on_progress)
    if before < version:
        await analyze_tables(session)
        if before >= SECURED_VERSION:
            await _refresh_users(session)
    return version


async def _refresh_users(session: DatabaseSession) -> None:
    from ikigai.store.users import Users

    await Users(session).refresh()


async def prepare(
    connection: psycopg.AsyncConnection,
    session: DatabaseSession,
    newest: int,
    on_progress: MigrationProgress = ignore_progress,
) -> None:
    """Make the schema if it does not exist, and move the tables of an earlier version into it, in the open
    transaction.

    Programs of earlier versions kept their tables in `public`; see `greeting.MOVED_VERSION`.
    """
    where, name = session.place, session.schema
    await wait_for_turn(connection, name, on_progress)
    ((exists,),) = await (await connection.execute(agents.HAS_SCHEMA, (name,))).fetchall()
    if not exists:
        try:
            await connection.execute(f"create schema {quoted(name)}".encode())
        except psycopg.errors.InsufficientPrivilege as error:
            raise BadDatabase(
                f"The database user {where.user} may not create the schema {name} in the database {where.database} "
                f"{where}.",
                f"Let its owner run: GRANT CREATE ON DATABASE {quoted(where.database)} TO {quoted(where.user)};",
            ) from error
        if name == DEFAULT_SCHEMA:  # a program of an earlier version would make tables of its own in `public`
            from ikigai.store.sql import move

            await connection.execute(move.LEAVE_MARKER.format(MOVED_VERSION).encode())
    if session.greeting.unmoved and not await read_version(connection):
        from ikigai.store.move_tables import move_tables

        await move_tables(connection, session, newest)


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


async def apply(
    connection: psycopg.AsyncConnection,
    migration: Migration,
    session: DatabaseSession,
    total: int,
    on_progress: MigrationProgress = ignore_progress,
) -> int:
    """Apply a migration of `total` unless it is applied already, in the open transaction if there is one; return the
    version reached.
    """
    try:
        async with connection.transaction():
            await wait_for_turn(connection, session.schema, on_progress)
            version = await read_version(connection)
            if version < migration.version:
                await tell_progress(connection, migration.version, total)
                # A role that was added as a user has the schema of its index first, and would make new functions there.
                await connection.execute(agents.SEARCH, (quoted(session.schema),))
                if version:
                    await connection.execute(agents.ACT_AS_OWNER)
                if version > SECURED_VERSION and migration.version == MENDING_VERSION:
                    await _mend_misplaced(connection, session.schema, migration.file.parent)
                await connection.execute(migration.file.read_bytes())
                version = migration.version
                await connection.execute(agents.MIGRATED, (version, migration.file.stem[5:]))
                if version > SECURED_VERSION:
                    await connection.execute(agents.SECURE)
    except psycopg.DatabaseError as error:
        if failure := _migration_error(error, migration, session):
            raise failure from error
        raise
    return version


async def _mend_misplaced(connection: psycopg.AsyncConnection, schema: str, folder: Path) -> None:
    from ikigai.store.misplaced_objects import mend_misplaced

    await mend_misplaced(connection, schema, [each.file for each in read_migrations(folder)])


async def read_version(connection: psycopg.AsyncConnection) -> int:
    """Return the version of the schema in the database now; 0 if there is none."""
    ((exists,),) = await (await connection.execute(agents.HAS_MIGRATIONS)).fetchall()
    if not exists:
        return 0
    ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
    return version


def _migration_error(
    error: psycopg.DatabaseError, migration: Migration, session: DatabaseSession
) -> BadDatabase | None:
    """Return the error for failures that only a migration has; None for those of any statement."""
    where, schema = session.place, quoted(session.schema)
    match error:
        case psycopg.errors.InsufficientPrivilege() if session.greeting.schema_version:
            return BadDatabase(
                f"The schema {session.schema} {where} is of an earlier version, and only the owner of its tables may "
                "bring it up to date.",
                "Let its owner run: ikigai db migrate",
            )
        case psycopg.errors.InsufficientPrivilege():
            return BadDatabase(
                f"The database user {where.user} may not create tables in the schema {session.schema} {where}.",
                f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA {schema} TO {quoted(where.user)};",
            )
        case psycopg.errors.DuplicateTable():
            return BadDatabase(
                f"The schema {session.schema} of the database {where.database} {where} has tables with these names "
                "that do not belong to ikigai.",
                "Choose another one: schema under [database], or IKIGAI_DATABASE_SCHEMA.",
            )
        case psycopg.ProgrammingError() | psycopg.IntegrityError() | psycopg.DataError():
            return BadDatabase(
                f"Migration {migration.file.name} failed on the database {where}: {error.diag.message_primary}.",
                "It changed nothing; the log file has the details.",
            )
    return None
