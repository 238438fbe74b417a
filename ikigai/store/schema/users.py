"""Make, list and remove the roles of people, each with a schema of its own, and schemas that several roles use.

PostgreSQL's grants guard a schema. Nothing in it protects its users from one another.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import LiteralString

from psycopg import errors, sql

from ikigai.core.errors import BadDatabase, Rejected
from ikigai.core.events.record import Record
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.connection.retry_on_conflict import retry_on_conflict
from ikigai.store.sql import roles
from ikigai.store.sql.fragments import quoted

ROLES_LOCK = int.from_bytes(b"ikir")
"""The key of the lock under which one program at a time changes roles and their schemas."""
SEE_USERS = "`ikigai db users list` shows them."
NAME_PATTERN = r"(?!pg_|(public|none|information_schema)\Z)[A-Za-z_][A-Za-z0-9_-]{0,62}"
"""Names of a role and its schema: those that [database] schema takes, and that PostgreSQL does not keep for itself."""


class SchemaSummary(Record, frozen=True):
    """A schema, its owner, and the roles that use it; `shared` if several may. `size` counts the bytes of its log."""

    schema: str
    owner: str
    shared: bool
    roles: tuple[str, ...]
    size: int


class Users:
    """The roles of a server and their schemas in one database. The role of the session has to be an administrator."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def list_schemas(self) -> list[SchemaSummary]:
        """Return the schemas that hold tables of ikigai, and those that were made for some."""
        async with self._session.use() as cursor:
            await cursor.execute(roles.SCHEMAS, (roles.MADE_HERE,))
            return [
                SchemaSummary(schema, owner, not logs_in, tuple(members) if not logs_in else (owner,), size)
                for schema, owner, logs_in, members, size in await cursor.fetchall()
            ]

    async def exists(self, name: str) -> bool:
        """Return True if the server has a role of this name."""
        async with self._session.use() as cursor:
            return await _role(cursor, name) is not None

    @retry_on_conflict
    async def add(self, name: str, password: str = "") -> bool:
        """Make a schema for a role of the same name; make the role, with this password, if it is missing. Return False
        if the role had the schema already.

        The server gets of the password only what it stores, so that its log cannot have it. Raise Rejected, or
        BadDatabase with the right that is missing.
        """
        _check_name(name)
        async with self._transaction() as cursor:
            if await _role(cursor, name) is None:
                connection = cursor.connection.pgconn
                stored = connection.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
                await _run(cursor, "create role {} login password {}", name, sql.Literal(stored))
                await _run(cursor, "comment on role {} is {}", name, sql.Literal(roles.MADE_HERE))
            return await self._make_schema(cursor, name, ())

    @retry_on_conflict
    async def add_shared(self, name: str, users: Sequence[str]) -> list[str]:
        """Make a schema that these roles all use, or let further roles use it; return all that use it.

        It belongs to a role of the same name of which they are members. Raise as `add`.
        """
        _check_name(name)
        async with self._transaction() as cursor:
            for user in users:
                if await _role(cursor, user) is None:
                    raise Rejected(f"There is no role {user[:80]!r}.", "Make it first: ikigai db users add NAME")
            match await _role(cursor, name):
                case None:
                    await _run(cursor, "create role {} nologin", name)
                    await _run(cursor, "comment on role {} is {}", name, sql.Literal(roles.MADE_HERE))
                case (False, True):
                    pass
                case _:
                    raise Rejected(f"There is a role {name} already.", "Use another name for the schema.")
            for user in users:
                await _run(cursor, "grant {} to {}", name, sql.Identifier(user))
            await self._make_schema(cursor, name, users)
            found = await _members(cursor, name)
            if left_out := [user for user in users if user not in found]:
                raise Rejected(
                    f"{left_out[0]} does not inherit the rights of {name}.",
                    f"Let an administrator run: ALTER ROLE {quoted(left_out[0])} INHERIT; and the command again.",
                )
        return found

    async def _make_schema(self, cursor: Cursor, name: str, users: Sequence[str]) -> bool:
        """Make the schema of this role; what any of `users` makes in it, all members of the role may use. Return False
        if it was there.
        """
        owner = await _owner(cursor, name)
        if owner not in (None, name):
            raise Rejected(f"The schema {name} belongs to {owner} already.", "Use another name.")
        if owner is None:
            async with _membership(cursor, name):
                await _run(cursor, "create schema {} authorization {}", name, sql.Identifier(name))
                await _run(cursor, "revoke all on schema {} from public", name)
        for user in users:
            async with _membership(cursor, user):
                for objects in ("tables", "sequences", "functions", "types"):
                    grant = f"alter default privileges for role {{}} in schema {{}} grant all on {objects} to {{}}"
                    await _run(cursor, grant, user, sql.Identifier(name), sql.Identifier(name))
        return owner is None

    @retry_on_conflict
    async def leave(self, user: str, name: str) -> None:
        """Let a role no longer use a shared schema. What it stored stays there. Raise as `add`."""
        async with self._transaction() as cursor:
            if user not in await _members(cursor, name):
                raise Rejected(f"{user[:80]} does not use the schema {name[:80]}.", SEE_USERS)
            await _run(cursor, "revoke {} from {}", name, sql.Identifier(user))

    @retry_on_conflict
    async def remove(self, name: str, heir: str = "", delete: bool = False) -> bool:
        """Remove a schema and its role; return False if the role stays, as it owns more or ikigai did not make it.

        What the schema holds goes to the role `heir`, and stays there; `delete` deletes it. Raise Rejected if it holds
        anything and neither is said, BadDatabase with a right that is missing.
        """
        async with self._transaction() as cursor:
            role = await _role(cursor, name)
            if role is None or await _owner(cursor, name) != name:
                raise Rejected(f"There is no schema {name[:80]!r} of a role of that name.", SEE_USERS)
            if heir and (heir == name or await _role(cursor, heir) is None):
                raise Rejected(f"{heir[:80]!r} cannot get the conversations.", SEE_USERS)
            async with _membership(cursor, name):
                if heir:
                    async with _membership(cursor, heir):  # who gets a table must be able to make one in its schema
                        await _run(cursor, "alter schema {} owner to {}", name, sql.Identifier(heir))
                        await cursor.execute(roles.OBJECTS, {"schema": name, "heir": heir})
                        for (statement,) in await cursor.fetchall():
                            await cursor.execute(statement.encode())
                elif delete:
                    await _run(cursor, "drop schema {} cascade", name)
                else:
                    await _drop_unused(cursor, name)
            return role[1] and await _drop_role(cursor, name)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Cursor]:
        """Yield a cursor in a transaction. A right that is missing leaves as BadDatabase, with who can give it."""
        async with self._session.use(patient=True) as cursor:
            try:
                async with cursor.connection.transaction():
                    await cursor.execute(roles.TURN, (ROLES_LOCK,))
                    yield cursor
            except errors.InsufficientPrivilege as error:
                raise self._missing_right(error) from error

    def _missing_right(self, error: errors.InsufficientPrivilege) -> BadDatabase:
        user, database = self._session.place.user, self._session.place.database
        said = error.diag.message_primary or ""
        if of := re.search('ADMIN .*"(.*)"', error.diag.message_detail or ""):
            return BadDatabase(
                f"The database user {user} may not do it: {said}.",
                f"Let an administrator run the command, or: GRANT {quoted(of[1])} TO {quoted(user)} "
                "WITH ADMIN TRUE, INHERIT FALSE;",
            )
        if re.search("role|option", said):
            return BadDatabase(
                f"The database user {user} may not change roles: {said}.",
                f"Let an administrator run the command, or: ALTER ROLE {quoted(user)} CREATEROLE;",
            )
        return BadDatabase(
            f"The database user {user} may not do it: {said}.",
            f"Let the owner of the database run: GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)};",
        )


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise Rejected(
            f"{name[:80]!r} cannot be the name of a role and its schema.",
            "Begin with a letter, and use up to 63 of a-z, A-Z, 0-9, _ and -. Names with pg_ at the beginning are "
            "PostgreSQL's own.",
        )


async def _run(cursor: Cursor, statement: LiteralString, name: str, *parts: sql.Composable) -> None:
    await cursor.execute(sql.SQL(statement).format(sql.Identifier(name), *parts))


async def _role(cursor: Cursor, name: str) -> tuple[bool, bool] | None:
    """Return if the role can log in, and if ikigai made it; None if there is no such role."""
    await cursor.execute(roles.ROLE, (roles.MADE_HERE, name))
    return next(iter(await cursor.fetchall()), None)


async def _members(cursor: Cursor, name: str) -> list[str]:
    """Return the members of the role who have its rights."""
    await cursor.execute(roles.MEMBERS, (name,))
    return next((members for (members,) in await cursor.fetchall()), [])


async def _owner(cursor: Cursor, schema: str) -> str | None:
    """Return the role that owns the schema; None if there is no such schema."""
    await cursor.execute(roles.SCHEMA_OWNER, (schema,))
    return next((owner for (owner,) in await cursor.fetchall()), None)


async def _drop_unused(cursor: Cursor, name: str) -> None:
    """Drop a schema that holds nothing. Raise Rejected for another one."""
    try:
        async with cursor.connection.transaction():
            await _run(cursor, "drop schema {}", name)
    except errors.DependentObjectsStillExist:
        held = "tables"
        if await _holds_agents(cursor, name):
            await _run(cursor, roles.COUNT_AGENTS, name)
            ((count,),) = await cursor.fetchall()
            held = f"{count:,} conversation{'s' * (count != 1)}"
        raise Rejected(
            f"The schema {name} holds {held}.",
            f"Say who gets them: ikigai db users remove {name} --give-to ROLE; or --delete deletes them.",
        ) from None


async def _holds_agents(cursor: Cursor, schema: str) -> bool:
    await cursor.execute(roles.HAS_AGENTS, (schema,))
    return await cursor.fetchall() == [(True,)]


@asynccontextmanager
async def _membership(cursor: Cursor, name: str) -> AsyncIterator[None]:
    """Let the role of the session have the rights of another one meanwhile, if it has not got them."""
    await cursor.execute(roles.HAS_RIGHTS_OF, (name,))
    if await cursor.fetchall() == [(True,)]:
        yield
        return
    await _run(cursor, "grant {} to current_user", name)
    yield
    await _run(cursor, "revoke {} from current_user", name)


async def _drop_role(cursor: Cursor, name: str) -> bool:
    """Drop the role; return False if it owns anything. Nothing that it owns is dropped with it."""
    try:
        async with cursor.connection.transaction():
            await cursor.execute(roles.DEFAULT_PRIVILEGES, {"role": name})
            for giver, revoke in await cursor.fetchall():
                async with _membership(cursor, giver):
                    await cursor.execute(revoke.encode())
            await _run(cursor, "drop role {}", name)
    except errors.DependentObjectsStillExist:
        return False
    return True
