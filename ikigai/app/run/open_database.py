"""Open the database of a configuration: locate or start it, connect, and migrate its schema."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import threading
from typing import TYPE_CHECKING

from ikigai.config import Config
from ikigai.core.errors import BadDatabase, StoreError
from ikigai.system import paths

MAX_PROBED_SERVERS = 100
"""Servers that are remembered, the newest."""
PREPARING_DATABASE = "Preparing the database"
"""The message while opening the database takes long."""

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ikigai.store.connection.connection import DatabaseSession
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.system.progress import OnProgress


_imported = set[str]()
"""Modules that `import_module` has imported. Others in `sys.modules` may be under way in another thread: only a private
name tells.
"""


async def import_module(module: str) -> None:
    """Import a heavy module in a thread, so that an import statement behind this takes no time.

    For one that was imported here already a thread would take 8 ms while another one imports.
    """
    if module not in _imported:
        await asyncio.to_thread(importlib.import_module, module)
        _imported.add(module)


async def locate_database(config: Config) -> tuple[Lease | None, str]:
    """Return the DSN of this configuration, and the lease that keeps the embedded server running, None without it."""
    if config.database.dsn is not None:
        return None, config.database.dsn
    await import_module("ikigai.store.embedded.server")
    from ikigai.store.embedded import server

    given_up = threading.Event()
    try:
        lease = await asyncio.to_thread(server.start, paths.data_dir(), given_up.is_set)
    except asyncio.CancelledError:
        given_up.set()  # else the program would not end before the thread
        raise
    return lease, lease.dsn


def is_first(config: Config) -> bool:
    """Return True if the embedded database does not exist yet: creating it takes seconds."""
    if config.database.dsn is not None:
        return False
    from ikigai.store.embedded.location import folder_of

    return not os.access(folder_of(paths.data_dir()) / "data", os.F_OK)


async def open_database(
    config: Config, write: bool = True, on_progress: OnProgress = lambda done, total: None
) -> tuple[Lease | None, Database]:
    """Connect to the database of this configuration and, with `write`, make its schema if it has none.

    `on_progress` gets the versions of the migration.
    """
    replicated = config.database.durability == "replicated"
    if replicated and config.database.dsn is None:
        what = "The embedded database has no standby, which [database] durability asks for."
        raise BadDatabase(what, 'Name a server of your own under [database], or set durability = "local".')
    lease, dsn = await locate_database(config)
    revive = (lambda: asyncio.to_thread(lease.renew)) if lease else None
    try:
        await import_module("ikigai.store.database")
        from ikigai.store.database import Database

        migrations = paths.shipped_path("migrations")
        name, check = config.database.schema, check_server if write and lease is None else None
        database = await Database.open(
            dsn,
            migrations,
            write,
            revive=revive,
            on_progress=on_progress,
            name=name,
            check=check,
            replicated=replicated,
        )
        if lease is None and (replica := config.database.replica_dsn) is not None:
            database.read_from(replica)
        return lease, database
    except BaseException:
        if lease:
            lease.close()
        raise


async def check_server(session: DatabaseSession) -> None:
    """Probe a server that no program of this user has probed yet. Raise BadDatabase if it lacks what ikigai needs.

    Where a second connection cannot be had, or the server takes no writes now, the next start tries again.
    """
    async with session.use():
        server = session.server
    file, known = paths.state_dir() / "probed_servers", list[str]()
    with contextlib.suppress(OSError):
        known = file.read_text(errors="replace").splitlines()
    if server in known:
        return
    await import_module("ikigai.store.connection.server_probe")
    from ikigai.store.connection.server_probe import probe

    try:
        found = await probe(session)
    except StoreError:
        return
    found.check(session.place)
    with contextlib.suppress(OSError):
        paths.make_private(paths.state_dir())
        with paths.open_private(file, "wb") as out:
            out.writelines(f"{line}\n".encode() for line in (*known, server)[-MAX_PROBED_SERVERS:])


@contextlib.asynccontextmanager
async def opened_database(config: Config, write: bool = True) -> AsyncIterator[tuple[Lease | None, Database]]:
    """Yield the database of this configuration, and the lease of the embedded server; close both at the end.

    The wait is shown on standard error.
    """
    from ikigai.system.progress import show_waiting

    async with show_waiting(PREPARING_DATABASE) as on_progress:
        lease, database = await open_database(config, write, on_progress)
    try:
        yield lease, database
    finally:
        await close_database(lease, database)


async def close_database(lease: Lease | None, database: Database) -> None:
    """Close the database, then let its server stop."""
    await database.close()
    if lease:
        lease.close()
