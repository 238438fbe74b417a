"""Check that the database can be reached, has the right version, and keeps what it confirms."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.run.open_database import import_module, open_database
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.config import Config, unused_address
from ikigai.core.errors import IkigaiError, StoreError
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.store.database import Database

LOW_BYTES, CRITICAL_BYTES = 1_000_000_000, 100_000_000
"""Free bytes on the disk of the embedded database: worth a word, and too few to go on for long."""


async def check_database(config: Config) -> list[Finding]:
    findings: list[Finding] = []
    if config.database.dsn is None:
        await import_module("ikigai.store.embedded.server")
        from ikigai.store.embedded.server import embedded_status

        embedded = await asyncio.to_thread(embedded_status, paths.data_dir())
        if not embedded.exists and (problem := _cannot_be_made(embedded.folder)):
            return [problem, *_unused(config)]
        if not embedded.exists:
            text = f"none yet: the first start creates an embedded PostgreSQL {embedded.version} in {embedded.folder}"
            return [Finding("database", OK, text), *_unused(config), _disk()]
        findings.append(_disk())
    try:
        lease, database = await open_database(config, write=False)
    except IkigaiError as error:
        return [Finding("database", BAD, error.what, error.remedy), *findings]
    try:
        began = time.perf_counter()
        status = await database.status()
        milliseconds = (time.perf_counter() - began) * 1000
        probes = [*await _probe(database), *await _replication(config, database), *await _replica(database)]
    finally:
        await database.close()
        if lease:
            lease.close()
    await import_module("ikigai.store.schema.schema")
    from ikigai.store.schema.schema import SCHEMA_VERSION

    kind = "embedded PostgreSQL" if lease else "PostgreSQL"
    text = f"{kind} {status.server} {status.where}, answers in {milliseconds:.0f} ms"
    return [
        Finding("database", OK, text),
        _schema(status.schema_version, SCHEMA_VERSION),
        *probes,
        _durable(status.durable),
        Finding("holds", OK, f"{status.holds}, {status.size / 1e6:,.0f} MB"),
        *_unused(config),
        *findings,
    ]


async def _probe(database: Database) -> list[Finding]:
    """Return what the server does with a lock and a notification between two connections."""
    await import_module("ikigai.store.connection.server_probe")
    from ikigai.store.connection.driver_errors import CONNECT_DIRECTLY

    try:
        found = await database.probe()
    except StoreError as error:
        return [Finding("locks", WARN, f"could not be tried: {error.what}", error.remedy)]
    locks = "a session lock of one connection is refused to another"
    notices = "a notification of one connection reaches another"
    return [
        Finding("locks", OK, locks)
        if found.keeps_locks
        else Finding("locks", BAD, f"not so: {locks}", CONNECT_DIRECTLY),
        Finding("notifications", OK, notices)
        if found.notifies
        else Finding("notifications", BAD, f"not so: {notices}", CONNECT_DIRECTLY),
    ]


async def _replication(config: Config, database: Database) -> list[Finding]:
    """Return if commits wait for a standby, where the configuration asks for that or the server has one."""
    wanted = config.database.durability == "replicated"
    try:
        names = await database.standbys()
    except StoreError as error:
        return [Finding("replication", WARN, f"could not be read: {error.what}", error.remedy)]
    if names:
        return [Finding("replication", OK, f"commits wait for synchronous standbys: {names}")]
    if wanted:
        text = 'durability = "replicated", and the server has no synchronous standby: nothing can be stored'
        remedy = 'Set synchronous_standby_names on the server, or durability = "local".'
        return [Finding("replication", BAD, text, remedy)]
    return []


async def _replica(database: Database) -> list[Finding]:
    """Return how far the configured read replica is behind."""
    try:
        lag = await database.replica_lag()
    except StoreError as error:
        return [Finding("replica", WARN, f"the primary serves its reads: {error.what}", error.remedy)]
    if lag is None:
        return []
    behind = "never replayed anything" if lag.seconds is None else f"{lag.bytes:,} bytes behind"
    if lag.is_current:
        return [Finding("replica", OK, f"{lag.where} has all that the primary has")]
    age = "" if lag.seconds is None else f", its newest transaction is {lag.seconds:,.1f} s old"
    return [Finding("replica", WARN, f"{lag.where} is behind ({behind}{age}): the primary serves its reads")]


def _cannot_be_made(folder: Path) -> Finding | None:
    """Return the finding about a folder that the first start cannot make for the embedded database; None if it can."""
    above = folder
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        text = f"the first start cannot make {folder}: {above} is not a folder"
    elif not os.access(above, os.W_OK | os.X_OK) or os.statvfs(above).f_flag & os.ST_RDONLY:
        text = f"the first start cannot make {folder}: {above} is not writable"
    else:
        return None
    return Finding("database", BAD, text, "Make it writable, or set XDG_DATA_HOME, or IKIGAI_DATABASE_URL.")


def _unused(config: Config) -> list[Finding]:
    note = unused_address(config, os.environ)
    return [Finding("variable", OK, note)] if note else []


def _schema(version: int, known: int) -> Finding:
    if version > known:
        text = f"version {version}, newer than this ikigai supports ({known}): it can be read, not written"
        return Finding("schema", BAD, text, "Install a newer ikigai.")
    return Finding("schema", OK, f"version {version}")


def _durable(durable: bool) -> Finding:
    if durable:
        return Finding("durability", OK, "writes are durable (fsync, synchronous_commit)")
    text = "fsync or synchronous_commit is off: a power failure can lose confirmed writes"
    return Finding("durability", WARN, text, "Switch both on in the server's configuration.")


def _disk() -> Finding:
    folder = paths.data_dir()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:,.1f} GB free where {paths.data_dir()} is"
    if free < LOW_BYTES:
        return Finding("disk", BAD if free < CRITICAL_BYTES else WARN, text, "Free some space.")
    return Finding("disk", OK, text)
