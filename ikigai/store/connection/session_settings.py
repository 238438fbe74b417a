"""Apply the settings of a new connection, and refuse a server or schema that ikigai cannot use."""

from typing import Any, NamedTuple, TypeAlias

import psycopg

from ikigai.core.errors import BadDatabase, Misconfigured, Unavailable
from ikigai.store.connection.address import ServerAddress
from ikigai.store.sql import agents
from ikigai.store.sql.fragments import quoted

OLDEST_SERVER = 150000
"""The oldest version of PostgreSQL that serves, as the server numbers it."""

NewConnection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]


class SessionInfo(NamedTuple):
    """The server's answer on a new connection: the pid of its process, and the schema's number, or 0."""

    backend: int
    schema_version: int


class SessionSettings(NamedTuple):
    """The settings of a connection: the name of the `schema`, whether it may only read, the `newest` version of the
    schema that it may write (None: any), and whether its commits wait for a standby.
    """

    schema: str
    read_only: bool
    newest: int | None
    replicated: bool


async def apply_settings(
    connection: NewConnection, place: ServerAddress, settings: SessionSettings, again: bool
) -> SessionInfo:
    """Apply the settings to a new connection, `again` behind a lost one. Raise BadDatabase if the server or the schema
    is unsuitable, Unavailable if the server may serve in a moment.
    """
    info = connection.info
    if info.server_version < OLDEST_SERVER:
        raise BadDatabase(
            f"The database {place} is PostgreSQL {info.server_version // 10000}; ikigai needs 15 or later.",
            "Upgrade the server, or use another one.",
        )
    encoding = info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BadDatabase(
            f"The database {place} is encoded in {encoding}, which cannot store every text.",
            "Create one with: createdb --encoding=UTF8 --template=template0 ikigai",
        )
    parameters = quoted(settings.schema), settings.read_only, settings.newest
    try:
        rows = await connection.execute(agents.apply_settings(settings.schema), parameters)
    except psycopg.errors.UndefinedTable:
        rows = await connection.execute(agents.SETTINGS_WITHOUT_SCHEMA, parameters)
    except psycopg.errors.InsufficientPrivilege as error:
        raise await no_rights(connection, place, settings.schema) or error from None
    *_, backend, version = (await rows.fetchall())[0]
    if settings.replicated and not settings.read_only:
        await _wait_for_standbys(connection, place, again)
    return SessionInfo(backend, version)


async def _wait_for_standbys(connection: NewConnection, place: ServerAddress, again: bool) -> None:
    """Let each commit of the connection wait for a standby. Raise Misconfigured if no schema is to be expected,
    Unavailable if there was one before: a server that took over may not have found it yet.
    """
    ((_, names),) = await (await connection.execute(agents.REPLICATED)).fetchall()
    if not names.strip():
        error = Unavailable if again else Misconfigured
        raise error(
            f"The database {place} has no synchronous standby, which [database] durability asks for.",
            'Set synchronous_standby_names on the server, or durability = "local".',
        )


async def no_rights(connection: NewConnection, place: ServerAddress, schema: str) -> BadDatabase | None:
    """Return the error for a schema that the user may not use, or a user that is dropped; None if it may."""
    try:
        ((may_use, _),) = await (await connection.execute(agents.MAY_USE_SCHEMA, (schema,))).fetchall()
    except psycopg.errors.UndefinedObject:
        return Misconfigured(
            f"The user {place.user} was removed from the database {place}.",
            "Ask its administrator for another one, and write it in the address.",
        )
    if may_use:
        return None
    return Misconfigured(
        f"The database user {place.user} may not use the schema {schema} {place}.",
        await remedy(connection, f"GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {quoted(place.user)};"),
    )


async def remedy(connection: NewConnection, grant: str) -> str:
    """Return what helps a role that may not use or make a schema: one that it may use, or the `grant`."""
    found = await (await connection.execute(agents.USABLE_SCHEMAS)).fetchall()
    names = " or ".join(f"--schema {name}" for (name,) in found)
    return f"Use {names}, or let its owner run: {grant}" if names else f"Let its owner run: {grant}"
