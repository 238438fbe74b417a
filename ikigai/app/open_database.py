"""The database of a configuration: found or started, connected, its schema brought up to date."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from typing import TYPE_CHECKING, Any

from ikigai.config import Config
from ikigai.system import paths

PREPARING = "Preparing the database"
"""What is said of it while that takes long."""

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.system.progress import Far


async def imported(module: str) -> Any:
    """Import a heavy module in a thread."""
    return await asyncio.to_thread(importlib.import_module, module)


async def locate_database(config: Config) -> tuple[Lease | None, str]:
    """The DSN of this configuration and, where that is the embedded server, the lease that keeps it running."""
    if config.database.dsn is not None:
        return None, config.database.dsn
    embedded = await imported("ikigai.store.embedded.server")
    given_up = threading.Event()
    try:
        lease = await asyncio.to_thread(embedded.start, paths.data_dir(), given_up.is_set)
    except asyncio.CancelledError:
        given_up.set()  # else the program would not end before the thread
        raise
    return lease, lease.dsn


def is_first(config: Config) -> bool:
    """Whether the embedded database is wanted and is not there yet, so that it is going to take seconds, here or in the
    program that makes it.
    """
    if config.database.dsn is not None:
        return False
    from ikigai.store.embedded.location import folder_of

    return not os.access(folder_of(paths.data_dir()) / "data", os.F_OK)


async def open_database(
    config: Config, write: bool = True, told: Far = lambda done, total: None
) -> tuple[Lease | None, Database]:
    """The database of this configuration: connected and, with `write`, its schema brought up to date.

    `told` hears of the versions it is brought through.
    """
    lease, dsn = await locate_database(config)
    revive = (lambda: asyncio.to_thread(lease.renew)) if lease else None
    try:
        module = await imported("ikigai.store.database")
        migrations = paths.shipped("migrations")
        return lease, await module.Database.open(dsn, migrations, write=write, revive=revive, told=told)
    except BaseException:
        if lease:
            lease.close()
        raise
