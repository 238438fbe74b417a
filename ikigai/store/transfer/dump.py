"""Dump everything that ikigai keeps in a database into an archive of pg_dump, and restore it.

A restore takes only the rows out of the archive and copies them into a schema made by ikigai's own migrations, all in
one transaction. Ids stay, triggers are there, and no statement of the archive ever runs.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import LiteralString, TypeAlias

from ikigai.core.errors import BadDatabase, ConfigError, Rejected
from ikigai.store.connection.address import DEFAULT_SCHEMA, ServerAddress
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.embedded.libpq_variables import visible_environment
from ikigai.store.schema import schema
from ikigai.store.sql import agents, usage
from ikigai.store.sql import dump as queries
from ikigai.store.sql.fragments import quoted
from ikigai.store.transfer import pg_programs
from ikigai.system.atomic_file import check_target, write_atomically

DUMPED_TABLES: dict[str, LiteralString] = {
    "agents": queries.COPY_AGENTS,
    "messages": queries.COPY_MESSAGES,
    "drafts": queries.COPY_DRAFTS,
}
"""The tables, in the order of their references, with the statement that copies rows into each."""

PASSED_VARIABLES = {"HOME", "PATH", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "OPENSSL_CONF", "SSL_CERT_FILE", "SSL_CERT_DIR"}
PASSED_PREFIXES = ("PG", "KRB5")
"""The environment that PostgreSQL's programs get; keys of models are not passed on."""

ARCHIVE_MAGIC = b"PGDMP"
"""The beginning of an archive in pg_dump's custom format."""
NAME_A_DUMP = "Name a file that `ikigai db dump` wrote."

READ_AT_ONCE = 1 << 18
"""Bytes that are read from pg_restore at once."""
PROGRESS_POLL = 0.1
"""Seconds between two checks of the file's size."""


DumpProgress: TypeAlias = Callable[[int, int | None], None]
"""Called with the number of bytes so far, and their total if it is known."""


def ignore_progress(done: int, total: int | None) -> None:
    """Do nothing: for callers without a progress display."""


async def dump(
    dsn: str,
    binaries: Path | None,
    target: Path | None,
    on_progress: DumpProgress = ignore_progress,
    *,
    schema_name: str = DEFAULT_SCHEMA,
    replace: bool = False,
) -> None:
    """Write the archive to `target`, whole or not at all, readable by its owner alone; None is standard output.

    `binaries` is a folder of PostgreSQL's programs; the newest of those and of the ones on the PATH is used. Raise
    Rejected if there is a file already, unless `replace`.
    """
    if target:
        check_target(target, replace)
    pg_dump = pg_programs.find_newest("pg_dump", binaries)
    session = DatabaseSession(dsn, write=False, schema=schema_name)
    try:
        async with session.use():
            version = session.info.schema_version
    finally:
        await session.close()
    if not version:
        raise Rejected(
            f"There are no tables of ikigai in the schema {schema_name} of the database {session.place.database} "
            f"{session.place}.",
            "Name the database and the schema that hold your agents.",
        )
    if version < schema.SCHEMA_VERSION:
        raise schema.another_version(f"The database {session.place} has", version)
    place = quoted(schema_name)
    tables = [f"--table={place}.{table}" for table in ("ikigai_migrations", *DUMPED_TABLES)]
    address, secrets = pg_programs.without_secrets(session.parameters)
    command = [
        pg_dump,
        "--format=custom",
        "--no-password",
        "--strict-names",
        *tables,
        f"--dbname={address}",
    ]
    if target is None:
        await _finish(await _run(command, secrets, stdout=None))
        return
    await _write_file(target, replace, command, secrets, on_progress)


async def _write_file(
    target: Path, replace: bool, command: list[str], secrets: dict[str, str], on_progress: DumpProgress
) -> None:
    """Run pg_dump into a file that gets its name when it is whole."""
    with write_atomically(target, replace) as file:
        handle = file.fileno()
        # Standard output gets a second table of contents at its end.
        process = await _run([*command, f"--file=/dev/fd/{handle}"], secrets, stdout=DEVNULL, pass_fds=(handle,))
        watching = asyncio.create_task(_watch(handle, on_progress))
        try:
            await _finish(process)
        finally:
            watching.cancel()


async def _watch(file: int, on_progress: DumpProgress) -> None:
    """Report how the file with this descriptor grows."""
    while True:
        await asyncio.sleep(PROGRESS_POLL)
        on_progress(os.fstat(file).st_size, None)


async def restore(
    dsn: str,
    binaries: Path | None,
    file: Path,
    migrations: Path,
    on_progress: DumpProgress = ignore_progress,
    *,
    schema_name: str = DEFAULT_SCHEMA,
) -> int:
    """Fill a schema that has no agents yet; return how many events it has then.

    The rows may come from a schema of any name. Raise ConfigError if the file cannot be read, Rejected if it is not a
    dump or the schema is not empty: then nothing is changed.
    """
    pg_restore = pg_programs.find_newest("pg_restore", binaries)
    await asyncio.to_thread(_check_archive, file)
    dumped = await _version(pg_restore, file)
    if dumped != schema.SCHEMA_VERSION:
        raise schema.another_version(f"{file} has", dumped)
    session = DatabaseSession(dsn, schema=schema_name)
    try:
        async with session.use(patient=True) as cursor, cursor.connection.transaction():
            await schema.create(cursor.connection, session, migrations)
            events = await _fill(session.place, schema_name, cursor, pg_restore, file, on_progress)
            await cursor.execute(queries.CLAIM_AGENTS)
        await schema.analyze_tables(session)
    finally:
        await session.close()
    return events


async def _fill(
    where: ServerAddress, name: str, cursor: Cursor, pg_restore: str, file: Path, on_progress: DumpProgress
) -> int:
    copied = 0
    await cursor.execute(queries.RESTORE_TURN)
    await cursor.execute(queries.ALONE)
    await cursor.execute(queries.IS_EMPTY)
    if await cursor.fetchall() != [(True,)]:
        raise Rejected(
            f"The schema {name} of the database {where.database} {where} holds agents already; nothing was restored.",
            "Restore into a fresh database, or into another schema of it: --schema NAME.",
        )
    await cursor.execute(queries.BEGIN_COPY)
    for table, copy_in in DUMPED_TABLES.items():
        await cursor.execute(queries.COLUMNS, (table,))
        columns = [name for (name,) in await cursor.fetchall()]
        async with cursor.copy(copy_in) as copy:
            async for rows in _rows(pg_restore, file, table, columns):
                await copy.write(rows)
                on_progress(copied := copied + len(rows), None)
    await cursor.execute(queries.END_COPY)
    await cursor.execute(usage.FILL_HOURS)
    await cursor.execute(queries.SET_IDENTITY)
    await cursor.execute(agents.COUNT_EVENTS)
    ((events,),) = await cursor.fetchall()
    return events


def _check_archive(file: Path) -> None:
    """Raise ConfigError if the file cannot be read, Rejected if it is not an archive of pg_dump's."""
    try:
        with file.open("rb") as archive:
            head = archive.read(len(ARCHIVE_MAGIC))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", "Check the name.") from None
    if head != ARCHIVE_MAGIC:
        raise Rejected(f"{file} is not a dump of ikigai.", NAME_A_DUMP)


async def _version(pg_restore: str, file: Path) -> int:
    rows = b"".join([part async for part in _rows(pg_restore, file, "ikigai_migrations")])
    versions = [int(row.split(b"\t")[0]) for row in rows.splitlines()]
    if not versions:
        raise Rejected(f"{file} does not say which schema it has.", "Name a file that `ikigai db dump` wrote.")
    return max(versions)


async def _rows(pg_restore: str, file: Path, table: str, columns: list[str] | None = None) -> AsyncIterator[bytes]:
    """Yield the rows of a table in the archive, in COPY's text format and in pieces of any length.

    Raise Rejected if the archive has no such table, or not with just these columns, if any are named.
    """
    command = [pg_restore, "--data-only", f"--table={table}", "--file=-", str(file.absolute())]
    process = await _run(command, {}, stdout=PIPE)
    try:
        text = b""
        while not (start := re.search(rb"(?m)^COPY .*\((.*)\) FROM stdin;$", text)):
            text += await _more(process, file)
        if columns and start[1].decode().replace('"', "").split(", ") != columns:
            raise Rejected(
                f"{file} was written with another schema than that of this database.", "Restore into a fresh database."
            )
        # The first byte is one that was passed on already, or the line break before the first row.
        text = text[start.end() :]
        while (end := text.find(b"\n\\.\n")) < 0:
            cut = max(1, len(text) - 3)
            yield text[1:cut]
            text = text[cut - 1 :] + await _more(process, file)
        yield text[1 : end + 1]
        await _finish(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # `wait` alone never returns where more was printed than has been read


async def _more(process: Process, file: Path) -> bytes:
    assert process.stdout
    if part := await process.stdout.read(READ_AT_ONCE):
        return part
    await _finish(process)
    raise Rejected(f"{file} is not a dump of ikigai.", NAME_A_DUMP)


async def _run(
    command: list[str], environment: dict[str, str], stdout: int | None, pass_fds: tuple[int, ...] = ()
) -> Process:
    env = {
        name: value
        for name, value in visible_environment().items()
        if name in PASSED_VARIABLES or name.startswith(PASSED_PREFIXES)
    }
    everything = {**env, "LC_ALL": "C", **environment}
    return await asyncio.create_subprocess_exec(
        *command, env=everything, stdin=DEVNULL, stdout=stdout, stderr=PIPE, pass_fds=pass_fds
    )


async def _finish(process: Process) -> None:
    """Wait for the process to end.

    Raise BrokenPipeError if nobody reads its output, Rejected if that cannot be written, and BadDatabase with its own
    reason if it failed otherwise.
    """
    _, stderr = await process.communicate()
    if process.returncode == -signal.SIGPIPE:
        raise BrokenPipeError
    if process.returncode:
        lines = [line for line in stderr.decode(errors="replace").splitlines() if "error:" in line]
        reason = lines[0].partition("error:")[2].strip() if lines else "it gave no reason"
        if "could not write" in reason:
            why = reason.rpartition(": ")[2].rstrip(".")
            raise Rejected(f"The dump cannot be written: {why}.", "Write it where there is room.")
        raise BadDatabase(
            f"PostgreSQL's program could not do it: {reason.rstrip('.')}.",
            "Use the programs of the server's version or later." if "version" in reason else "",
        )
