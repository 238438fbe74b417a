"""Make the schema from the SQL files that describe it, and refuse one with another number."""

import logging
from pathlib import Path

import psycopg

from ikigai.core.errors import BadDatabase, NewerSchema, StoreError
from ikigai.store.connection.address import ServerAddress
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.session_settings import remedy
from ikigai.store.schema.migration_turn import MigrationProgress, ignore_progress, tell_progress, wait_for_turn
from ikigai.store.sql import agents
from ikigai.store.sql.fragments import quoted

log = logging.getLogger(__name__)

SCHEMA_VERSION = 36
"""The number of the schema that the files make. Each change of a file that another program would stumble over raises
it.
"""


def schema_files(folder: Path) -> list[Path]:
    """Return the SQL files that make the schema, in their order."""
    files = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert files, folder
    return files


async def make_current(
    session: DatabaseSession,
    folder: Path,
    write: bool,
    on_progress: MigrationProgress = ignore_progress,
) -> int:
    """Make the schema if it does not exist and `write` is set; return its number.

    Each new connection returns the number when its settings are applied, so a schema that is there takes no further
    query. Raise NewerSchema for a newer one that is to be written, or BadDatabase if there is no schema to read, an
    older one, or no right to make one.
    """
    async with session.use():
        version = session.info.schema_version
    if not version and write:
        async with session.use(patient=True) as cursor, cursor.connection.transaction():
            version = await create(cursor.connection, session, folder, on_progress)
    elif not version:
        raise BadDatabase(
            f"There are no tables of ikigai in the schema {session.schema} of the database {session.place.database} "
            f"{session.place}.",
            "Run: ikigai db migrate",
        )
    if version == SCHEMA_VERSION or (version > SCHEMA_VERSION and not write):
        return version
    raise another_version(f"The database {session.place} has", version)


def another_version(what: str, version: int) -> BadDatabase:
    """Return the error for a schema of another number; `what` begins the sentence."""
    if version > SCHEMA_VERSION:
        return NewerSchema(
            f"{what} schema {version}, and this ikigai knows schema {SCHEMA_VERSION}.",
            "Install a newer ikigai to write to it.",
        )
    return BadDatabase(
        f"{what} schema {version}, and this ikigai needs schema {SCHEMA_VERSION}.",
        "Export its conversations with the ikigai that wrote them and import them here: docs/operations/install.md has "
        "the script bring-over.sh for it.",
    )


async def create(
    connection: psycopg.AsyncConnection,
    session: DatabaseSession,
    folder: Path,
    on_progress: MigrationProgress = ignore_progress,
) -> int:
    """Make the schema from its files, unless it is there now; return its number.

    All of it happens in the open transaction: whatever ends the program leaves nothing, and the next start begins anew.
    Processes that start at once take turns; `on_progress` also gets the progress of another one.
    """
    where, name, files = session.place, session.schema, schema_files(folder)
    await wait_for_turn(connection, name, on_progress)
    ((exists,),) = await (await connection.execute(agents.HAS_SCHEMA, (name,))).fetchall()
    if not exists:
        try:
            async with connection.transaction():
                await connection.execute(f"create schema {quoted(name)}".encode())
        except psycopg.errors.InsufficientPrivilege as error:
            raise await _no_schema(connection, where, name) from error
    # Temporary tables come last: none is taken for a table of ikigai by the functions that keep this search_path.
    await connection.execute(agents.SEARCH, (f"{quoted(name)}, pg_temp",))
    if version := await read_version(connection):
        return version
    await connection.execute(agents.ACT_AS_OWNER, (name,))
    for number, file in enumerate(files, 1):
        on_progress(number, len(files))
        await tell_progress(connection, number, len(files))
        try:
            await connection.execute(file.read_bytes())
        except psycopg.DatabaseError as error:
            if failure := _creation_error(error, file, session):
                raise failure from error
            raise
    await connection.execute(agents.CREATED, (SCHEMA_VERSION,))
    return SCHEMA_VERSION


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


async def read_version(connection: psycopg.AsyncConnection) -> int:
    """Return the number of the schema in the database now, or 0."""
    ((exists,),) = await (await connection.execute(agents.HAS_MIGRATIONS)).fetchall()
    if not exists:
        return 0
    ((version,),) = await (await connection.execute(agents.SCHEMA_VERSION)).fetchall()
    return version or 0


async def _no_schema(connection: psycopg.AsyncConnection, where: ServerAddress, name: str) -> BadDatabase:
    """Return the error for a schema that does not exist, and that the role may not make."""
    grant = f"GRANT CREATE ON DATABASE {quoted(where.database)} TO {quoted(where.user)};"
    return BadDatabase(
        f"There is no schema {name} in the database {where.database} {where}, and {where.user} may not create one.",
        await remedy(connection, grant),
    )


def _creation_error(error: psycopg.DatabaseError, file: Path, session: DatabaseSession) -> BadDatabase | None:
    """Return the error for failures that only the making of a schema has; None for failures of any statement."""
    where, schema = session.place, quoted(session.schema)
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return BadDatabase(
                f"The database user {where.user} may not create tables in the schema {session.schema} {where}.",
                f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA {schema} TO {quoted(where.user)};",
            )
        case psycopg.errors.DuplicateTable():
            return BadDatabase(
                f"The schema {session.schema} of the database {where.database} {where} has tables with these names "
                "that do not belong to ikigai.",
                "Choose another one: --schema, schema under [database], or IKIGAI_DATABASE_SCHEMA.",
            )
        case psycopg.ProgrammingError() | psycopg.IntegrityError() | psycopg.DataError():
            return BadDatabase(
                f"{file.name} failed on the database {where}: {error.diag.message_primary}.",
                "It changed nothing; the log file has the details.",
            )
    return None
