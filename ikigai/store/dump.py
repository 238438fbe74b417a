"""Dump and restore: everything ikigai keeps in a database, as an archive of pg_dump's.

A restore takes only the rows out of the archive and copies them into a schema made by ikigai's own migrations, all in
one transaction: ids stay, triggers are there, and no statement of the archive's is ever run.
"""

import asyncio
import contextlib
import os
import re
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import LiteralString, TypeAlias

from ikigai.core.errors import BadDatabase, NewerSchema, Refused
from ikigai.store import pg_programs as programs
from ikigai.store import schema
from ikigai.store.address import Place
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import agents as queries
from ikigai.store.sql import dump as own

TABLES: dict[str, LiteralString] = {
    "agents": own.COPY_AGENTS,
    "messages": own.COPY_MESSAGES,
    "drafts": own.COPY_DRAFTS,
}
"""In the order in which they refer to one another."""

PASSED_ON = {"HOME", "PATH", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "OPENSSL_CONF", "SSL_CERT_FILE", "SSL_CERT_DIR"}
PREFIXES = ("PG", "KRB5")
"""What PostgreSQL's programs may know of the environment; keys of models are none of their business."""

READ_AT_ONCE = 1 << 18
"""Bytes."""
LOOK = 0.1
"""Seconds between two looks at how far it is."""


Told: TypeAlias = Callable[[int, int | None], None]
"""Hears how many bytes there are by now."""


def nobody(done: int, total: int | None) -> None:
    """For those who do not ask."""


async def dump(dsn: str, binaries: Path | None, target: Path | None, told: Told = nobody) -> None:
    """Write the archive to `target`, whole or not at all, readable by its owner alone; None is standard output.

    `binaries` is the folder of PostgreSQL's programs, None the PATH.
    """
    pg_dump = _program("pg_dump", binaries)
    session = Session(dsn, write=False)
    try:
        async with session.use() as cursor:
            await cursor.execute(own.TABLE_SCHEMA)
            rows = await cursor.fetchall()
    finally:
        await session.close()
    if not rows:
        raise Refused(
            f"There is nothing of ikigai's in the database {session.place.database} {session.place}.",
            "Name the database that holds your agents.",
        )
    quoted = '"' + rows[0][0].replace('"', '""') + '"'
    tables = [f"--table={quoted}.{table}" for table in ("ikigai_migrations", *TABLES)]
    address, secrets = programs.without_secrets(session.parameters)
    command = [pg_dump, "--format=custom", "--no-password", "--strict-names", *tables, f"--dbname={address}"]
    if target is None:
        return await _finish(await _run(command, secrets, stdout=None))
    made: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        os.close(handle)
        made = Path(name)
        process = await _run([*command, f"--file={made}"], secrets, stdout=DEVNULL)
        watching = asyncio.create_task(_watch(made, told))
        try:
            await _finish(process)
        finally:
            watching.cancel()
        made.replace(target)
    except OSError as error:
        raise Refused(
            f"{target} cannot be written ({error.strerror}).", "Name another file, or - for the standard output."
        ) from None
    finally:
        if made:
            made.unlink(missing_ok=True)


async def _watch(file: Path, told: Told) -> None:
    """Look at how the file grows."""
    while True:
        await asyncio.sleep(LOOK)
        with contextlib.suppress(OSError):
            told(file.stat().st_size, None)


async def restore(dsn: str, binaries: Path | None, file: Path, migrations: Path, told: Told = nobody) -> int:
    """Fill a database in which ikigai has kept nothing yet; return how many events there are then.

    Raises Refused when the file is no dump or the database is not empty: then nothing is changed.
    """
    known = schema.migrations(migrations)
    pg_restore = _program("pg_restore", binaries)
    dumped = await _version(pg_restore, file)
    if dumped > len(known):
        raise NewerSchema(
            f"{file} has schema {dumped}, and this ikigai knows schemas up to {len(known)}.", "Install a newer ikigai."
        )
    session = Session(dsn)
    try:
        async with session.use(patient=True) as cursor, cursor.connection.transaction():
            for migration in known[:dumped]:
                await schema.apply(cursor.connection, migration, session.place)
            events = await _fill(session.place, cursor, pg_restore, file, told)
            for migration in known[dumped:]:
                await schema.apply(cursor.connection, migration, session.place)
        await schema.analyze(session)
    finally:
        await session.close()
    return events


async def _fill(where: Place, cursor: Cursor, pg_restore: str, file: Path, told: Told) -> int:
    copied = 0
    await cursor.execute(own.RESTORE_TURN)
    await cursor.execute(own.ALONE)
    await cursor.execute(own.IS_EMPTY)
    if await cursor.fetchall() != [(True,)]:
        raise Refused(
            f"The database {where.database} {where} holds agents already; nothing was restored.",
            "Restore into a fresh database.",
        )
    for table, copy_in in TABLES.items():
        await cursor.execute(own.COLUMNS, (table,))
        columns = [name for (name,) in await cursor.fetchall()]
        async with cursor.copy(copy_in) as copy:
            async for rows in _rows(pg_restore, file, table, columns):
                await copy.write(rows)
                told(copied := copied + len(rows), None)
    await cursor.execute(own.SET_IDENTITY)
    await cursor.execute(queries.COUNT_EVENTS)
    ((events,),) = await cursor.fetchall()
    return events


async def _version(pg_restore: str, file: Path) -> int:
    columns = ["version", "name", "applied_at"]
    rows = b"".join([part async for part in _rows(pg_restore, file, "ikigai_migrations", columns)])
    return max(int(row.split(b"\t")[0]) for row in rows.splitlines())


async def _rows(pg_restore: str, file: Path, table: str, columns: list[str]) -> AsyncIterator[bytes]:
    """The rows of a table in the archive, in COPY's text format and in pieces of any length.

    Raises Refused when the archive has no such table with just these columns.
    """
    command = [pg_restore, "--data-only", f"--table={table}", "--file=-", str(file.absolute())]
    process = await _run(command, {}, stdout=PIPE)
    try:
        text = b""
        while not (start := re.search(rb"(?m)^COPY .*\((.*)\) FROM stdin;$", text)):
            text += await _more(process, file)
        if start[1].decode().replace('"', "").split(", ") != columns:
            raise Refused(
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
            await process.wait()


async def _more(process: Process, file: Path) -> bytes:
    assert process.stdout
    if part := await process.stdout.read(READ_AT_ONCE):
        return part
    await _finish(process)
    raise Refused(f"{file} is no dump of ikigai's.", "Name a file that `ikigai db dump` wrote.")


def _program(name: str, binaries: Path | None) -> str:
    found = programs.find(name, binaries)
    if not found:
        raise BadDatabase(f"{name} is not installed.", "Install PostgreSQL's client programs (postgresql-client).")
    return found


async def _run(command: list[str], environment: dict[str, str], stdout: int | None) -> Process:
    kept = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PREFIXES)}
    everything = {**kept, "LC_ALL": "C", **environment}
    return await asyncio.create_subprocess_exec(*command, env=everything, stdin=DEVNULL, stdout=stdout, stderr=PIPE)


async def _finish(process: Process) -> None:
    """Wait for its end; raise BadDatabase with its own reason when it failed."""
    _, told = await process.communicate()
    if process.returncode:
        lines = [line for line in told.decode(errors="replace").splitlines() if "error:" in line]
        reason = lines[0].partition("error:")[2].strip() if lines else "it gave no reason"
        raise BadDatabase(
            f"PostgreSQL's program could not do it: {reason.rstrip('.')}.",
            "Use the programs of the server's version or later." if "version" in reason else "",
        )
