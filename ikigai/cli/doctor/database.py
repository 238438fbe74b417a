"""Whether the database can be reached, is of the right version, and keeps what it says it keeps."""

from __future__ import annotations

import asyncio
import shutil
import time

from ikigai.app.open_database import imported, open_database
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.config import Config
from ikigai.core.errors import IkigaiError
from ikigai.system import paths

LITTLE, HARDLY_ANY = 1_000_000_000, 100_000_000
"""Free bytes on the disk of the embedded database: worth a word, and too few to go on for long."""


async def findings(config: Config) -> list[Finding]:
    found: list[Finding] = []
    if config.database.dsn is None:
        embedded = await imported("ikigai.store.embedded.server")
        there = await asyncio.to_thread(embedded.status, paths.data_dir())
        if not there.exists:
            said = f"none yet: the first start makes an embedded PostgreSQL {there.version} in {there.folder}"
            return [Finding("database", OK, said), _disk()]
        found.append(_disk())
    try:
        lease, database = await open_database(config, write=False)
    except IkigaiError as error:
        return [Finding("database", BAD, error.what, error.remedy), *found]
    try:
        began = time.perf_counter()
        status = await database.status()
        took = (time.perf_counter() - began) * 1000
    finally:
        await database.close()
        if lease:
            lease.close()
    schema = await imported("ikigai.store.schema")
    kind = "embedded PostgreSQL" if lease else "PostgreSQL"
    said = f"{kind} {status.server} {status.where}, answers in {took:.0f} ms"
    holds = f"{status.agents:,} agents, {status.events:,} events, {status.size / 1e6:,.0f} MB"
    return [
        Finding("database", OK, said),
        _schema(status.schema_version, len(schema.migrations(paths.shipped("migrations")))),
        Finding("connection", OK, "to a server process of its own: no pooler in transaction mode is between"),
        _durable(status.durable),
        Finding("holds", OK, holds),
        *found,
    ]


def _schema(version: int, known: int) -> Finding:
    if version > known:
        said = f"version {version}, which is newer than this ikigai knows ({known}): it can be read, not written"
        return Finding("schema", BAD, said, "Install a newer ikigai.")
    return Finding("schema", OK, f"version {version}")


def _durable(durable: bool) -> Finding:
    if durable:
        return Finding("durability", OK, "what is confirmed is on the disk (fsync, synchronous_commit)")
    said = "fsync or synchronous_commit is off: a power failure can lose what was confirmed"
    return Finding("durability", WARN, said, "Switch both on in the server's configuration.")


def _disk() -> Finding:
    folder = paths.data_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:,.1f} GB free where {paths.data_dir()} is"
    if free < LITTLE:
        return Finding("disk", BAD if free < HARDLY_ANY else WARN, said, "Make room.")
    return Finding("disk", OK, said)
