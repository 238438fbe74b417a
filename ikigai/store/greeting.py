"""This module greets a server: it applies the settings of a new connection, and refuses a server or schema that
ikigai cannot use.
"""

from typing import Any, NamedTuple, TypeAlias

import psycopg

from ikigai.core.errors import BadDatabase, Misconfigured, Unavailable
from ikigai.store.address import DEFAULT_SCHEMA, ServerAddress, quoted
from ikigai.store.sql import agents

OLDEST_SERVER = 150000
"""The oldest version of PostgreSQL that serves, as the server numbers it."""

MOVED_VERSION = 9999
"""The version that stands in `public` once the tables have moved. Programs that would make new ones there refuse to,
because they know no schema as new as this.
"""

NewConnection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]


class ConnectionGreeting(NamedTuple):
    """The server's greeting on a new connection: the pid of its process, and the version of ikigai's schema.

    `users_behind` says that users lack what this version gives them, and that this role may give it. `unmoved` says
    that there is no such schema, and that an earlier version left its tables in `public`.
    """

    backend: int
    schema_version: int
    users_behind: bool = False
    unmoved: bool = False


class ConnectionTerms(NamedTuple):
    """The terms of a connection: the name of the `schema` and of the `user` that owns new agents, whether it may only
    read, the `newest` version of the schema that it may write (None: any), and whether its commits wait for a standby.
    """

    schema: str
    user: str
    read_only: bool
    newest: int | None
    replicated: bool


async def greet(
    connection: NewConnection, place: ServerAddress, terms: ConnectionTerms, again: bool
) -> ConnectionGreeting:
    """Apply the terms to a new connection, `again` behind a lost one. Raise BadDatabase if the server or the schema is
    unsuitable, Unavailable if the server may serve in a moment.
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
    settings = quoted(terms.schema), terms.user, terms.read_only, terms.newest
    unmoved = False
    try:
        rows = await connection.execute(agents.greet(terms.schema), settings)
    except psycopg.errors.UndefinedTable:
        unmoved = await _is_unmoved(connection, place, terms.schema)
        rows = await connection.execute(agents.GREET_EMPTY, settings)
    except psycopg.errors.InsufficientPrivilege as error:
        raise await no_rights(connection, place, terms.schema) or error from None
    *_, backend, version, users_behind = (await rows.fetchall())[0]
    if terms.replicated and not terms.read_only:
        await _wait_for_standbys(connection, place, again)
    if version == MOVED_VERSION:
        raise BadDatabase(
            f"The tables of ikigai have moved from the schema {terms.schema} to {DEFAULT_SCHEMA}.",
            f"Set schema to {DEFAULT_SCHEMA} under [database], or leave it out.",
        )
    return ConnectionGreeting(backend, version, users_behind, unmoved)


async def _wait_for_standbys(connection: NewConnection, place: ServerAddress, again: bool) -> None:
    """Let each commit of the connection wait for a standby. Raise Misconfigured if there is none to wait for,
    Unavailable if there was one before: a server that took over may not have found it yet.
    """
    ((_, names),) = await (await connection.execute(agents.REPLICATED)).fetchall()
    if not names.strip():
        error = Unavailable if again else Misconfigured
        raise error(
            f"The database {place} has no synchronous standby, which [database] durability asks for.",
            'Set synchronous_standby_names on the server, or durability = "local".',
        )


async def _is_unmoved(connection: NewConnection, place: ServerAddress, schema: str) -> bool:
    """Return True if an earlier version's tables are in `public`; see `schema.make_current`.

    Such programs had no schema of their own, only the search_path of the connection. Raise BadDatabase if it leads to
    tables in another schema: there may be several, and none is taken for the one that is meant.
    """
    if schema != DEFAULT_SCHEMA:
        return False
    found = await (await connection.execute(agents.EARLIER_SCHEMA)).fetchall()
    if not found or found == [("public",)]:
        return bool(found)
    raise BadDatabase(
        f"The search_path of {place.user} finds tables of ikigai in the schema {found[0][0]}.",
        f'Set schema = "{found[0][0]}" under [database], or in IKIGAI_DATABASE_SCHEMA.',
    )


async def no_rights(connection: NewConnection, place: ServerAddress, schema: str) -> BadDatabase | None:
    """Return the error for a schema that the user may not use; None if it may."""
    if await (await connection.execute(agents.MAY_USE_SCHEMA, (schema,))).fetchall() == [(True,)]:
        return None
    return Misconfigured(
        f"The database user {place.user} may not use the schema {schema} {place}.",
        f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {quoted(place.user)};",
    )
