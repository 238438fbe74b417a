"""This module makes, lists and removes the roles of the people who share a database.

Each has indexes of their own, made from what they may read: common ones would tell by words, counts and times what
others say. Connections find them before the common ones.
"""

import logging

from psycopg import errors, sql

from ikigai.core.errors import BadDatabase, Rejected
from ikigai.core.record import Record
from ikigai.store.address import MAX_NAME_BYTES, quoted
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.driver_connection import Cursor
from ikigai.store.migration_turn import wait_for_turn
from ikigai.store.sql import roles

log = logging.getLogger(__name__)

NO_SUCH_USER = "`ikigai db users list` shows the users."


class UserSummary(Record, frozen=True):
    """An owner of agents, or a role that may use them. `user` is the name among those who share the role, "" for all.

    `shared` counts the agents of others that are shared with it; `last_used_at` is in seconds since 1970. `kind` is
    "owner" for the owner of the tables, "user" for a role that was added, and "" for one without indexes here.
    """

    role: str
    user: str
    agents: int
    shared: int
    last_used_at: float | None
    kind: str


class Removed(Record, frozen=True):
    """The outcome of a removal: how many agents went to the heir, and if the role was dropped."""

    given: int
    dropped: bool


class Users:
    """The roles of a database. Made by `Database`; only the owner of the tables may change them."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._prefix = session.schema + roles.INDEX_INFIX

    async def all(self) -> list[UserSummary]:
        """Return the owners of agents that this role may read, and the roles that may use agents."""
        async with self._session.use() as cursor:
            return await self._read(cursor)

    async def exists(self, name: str) -> bool:
        """Return True if the server has a role of this name."""
        async with self._session.use() as cursor:
            return await _has_role(cursor, name)

    async def check_owner(self, line: str) -> str:
        """Return the owner of the tables. Raise Rejected, with the command `line`, unless this role may act for it."""
        async with self._session.use() as cursor:
            return await _check_owner(cursor, line)

    async def add(self, name: str, password: str = "") -> None:
        """Give a role the rights to use agents, and indexes of its own. Make the role with this password if there is
        none.

        The server gets of the password only what it stores, so that its log cannot have it. Raise Rejected, or
        BadDatabase with the right that is missing.
        """
        room = MAX_NAME_BYTES - len(self._prefix.encode())
        if not name or len(name.encode()) > room:
            raise Rejected(f"{name[:80]!r} cannot be the name of a user.", f"Use a name of 1 to {room} bytes.")
        async with self._session.use(patient=True) as cursor:
            owner = await _check_owner(cursor, f"ikigai db users add {name}")
            if name == owner:
                raise Rejected(f"{name} owns the tables, and may use them already.", "Nothing was changed.")
            try:
                async with cursor.connection.transaction():
                    if not await _has_role(cursor, name):
                        await _make_role(cursor, name, password)
                    await self._grant(cursor, name, owner)
            except errors.InsufficientPrivilege as error:
                raise self._missing_right(error) from error

    @repeat_on_conflict
    async def remove(self, name: str, heir: str = "") -> Removed:
        """Take all rights from a role, and drop it if ikigai made it. Its agents go to the role `heir`.

        Raise Rejected while it owns agents and there is no heir, BadDatabase with a right that is missing.
        """
        async with self._session.use(patient=True) as cursor:
            owner = await _check_owner(cursor, f"ikigai db users remove {name}")
            kinds = {each.role: each.kind for each in await self._read(cursor)}
            if name not in kinds:
                raise Rejected(f"There is no user {name!r}.", NO_SUCH_USER)
            if name == owner:
                raise Rejected(f"{name} owns the tables.", "Nothing was changed.")
            if heir and (heir == name or not (heir == owner or kinds.get(heir))):
                raise Rejected(f"{heir!r} cannot get the agents.", NO_SUCH_USER)
            try:
                async with cursor.connection.transaction():
                    return await self._remove(cursor, name, heir)
            except errors.InsufficientPrivilege as error:
                raise self._missing_right(error) from error

    @repeat_on_conflict
    async def refresh(self) -> None:
        """Give the users that do not have them the rights to what migrations have made, and indexes of the present
        form.

        It needs no right but to own the tables: the schemas of the indexes stay. A process that ends within it leaves
        the other users to the next one that the owner starts.
        """
        async with self._session.use(patient=True) as cursor:
            owner = await _check_owner(cursor, "ikigai db migrate")
            for name in await self._behind(cursor):
                try:
                    async with cursor.connection.transaction():
                        await wait_for_turn(cursor.connection, self._session.schema)
                        await cursor.execute(roles.WAIT_BRIEFLY)
                        if name in await self._behind(cursor):
                            await self._grant(cursor, name, owner)
                except errors.LockNotAvailable:  # they must not keep the owner from starting
                    log.warning("%s did not get their rights: a table of their index is in use", name)

    async def _behind(self, cursor: Cursor) -> list[str]:
        """Return the users whose indexes were made by another version."""
        await cursor.execute(roles.USERS_BEHIND, (self._prefix,))
        return [name for (name,) in await cursor.fetchall()]

    async def _read(self, cursor: Cursor) -> list[UserSummary]:
        await cursor.execute(roles.USERS, {"prefix": self._prefix})
        return [UserSummary(*row) for row in await cursor.fetchall()]

    async def _grant(self, cursor: Cursor, name: str, owner: str) -> None:
        """Grant a role its rights, and make its indexes anew, to be filled by its own programs."""
        role, schema = sql.Identifier(name), sql.Identifier(self._session.schema)
        await cursor.execute(sql.SQL("grant usage on schema {} to {}").format(schema, role))
        for table, rights in roles.RIGHTS.items():
            grant = sql.SQL("grant {} on {} to {}")
            await cursor.execute(grant.format(sql.SQL(rights), sql.Identifier(self._session.schema, table), role))
        await cursor.execute(roles.VIEWS)
        for (view,) in await cursor.fetchall():
            await cursor.execute(
                sql.SQL("grant select on {} to {}").format(sql.Identifier(self._session.schema, view), role)
            )
        sequence = sql.Identifier(self._session.schema, "messages_id_seq")  # imports take ids from it, dumps read it
        await cursor.execute(sql.SQL("grant usage, select on sequence {} to {}").format(sequence, role))
        index = sql.Identifier(self._prefix + name)
        await cursor.execute(roles.INDEX_SCHEMA, {"schema": self._prefix + name, "owner": owner})
        if await cursor.fetchall():  # only who may create schemas in the database could make it again
            await cursor.execute(roles.INDEX_TABLES, (self._prefix + name,))
            for (table,) in await cursor.fetchall():
                old = sql.Identifier(self._prefix + name, table)
                await cursor.execute(sql.SQL("drop table {} cascade").format(old))
        else:
            await cursor.execute(sql.SQL("drop schema if exists {} cascade").format(index))
            await cursor.execute(sql.SQL("create schema {} authorization {}").format(index, sql.Identifier(owner)))
        await cursor.execute(roles.MADE_TABLES, (list(roles.RIGHTS),))
        for (table,) in await cursor.fetchall():
            copy, table_of_all = sql.Identifier(self._prefix + name, table), sql.Identifier(self._session.schema, table)
            await cursor.execute(sql.SQL("create table {} (like {} including all)").format(copy, table_of_all))
            await cursor.execute(sql.SQL("alter table {} owner to {}").format(copy, sql.Identifier(owner)))
            await cursor.execute(sql.SQL("grant select, insert, update, delete on {} to {}").format(copy, role))
        await cursor.execute(sql.SQL("grant usage on schema {} to {}").format(index, role))
        await cursor.execute(roles.LIST_ACCESSIBLE, (name,))
        await cursor.execute(roles.MADE_BY)
        ((made_by,),) = await cursor.fetchall()
        await cursor.execute(sql.SQL("comment on schema {} is {}").format(index, sql.Literal(made_by)))

    async def _remove(self, cursor: Cursor, name: str, heir: str) -> Removed:
        await cursor.execute(roles.COUNT_OWNED, (name,))
        ((owned,),) = await cursor.fetchall()
        if owned and not heir:
            raise Rejected(
                f"{name} owns {owned:,} agent{'s' * (owned != 1)}.",
                f"Say who gets them: ikigai db users remove {name} --give-to USER",
            )
        await cursor.execute(roles.GIVE, {"old": name, "heir": heir})
        for statement in roles.FORGET:
            await cursor.execute(statement, (name,))
        await cursor.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(self._prefix + name)))
        if not await _has_role(cursor, name):  # it was dropped, or has another name now
            return Removed(owned, False)
        role, schema = sql.Identifier(name), sql.Identifier(self._session.schema)
        for what in ("all tables in schema", "all sequences in schema", "schema"):
            await cursor.execute(sql.SQL("revoke all on {} {} from {}").format(sql.SQL(what), schema, role))
        await cursor.execute(roles.WAS_MADE_HERE, (roles.MADE_HERE, name))
        if await cursor.fetchall() != [(True,)]:
            return Removed(owned, False)
        try:
            async with cursor.connection.transaction():
                await cursor.execute(sql.SQL("drop role {}").format(role))
        except errors.DependentObjectsStillExist:
            return Removed(owned, False)
        return Removed(owned, True)

    def _missing_right(self, error: errors.InsufficientPrivilege) -> BadDatabase:
        """Return the error for a right that this role lacks, with the statement that gives it."""
        user, database = self._session.place.user, self._session.place.database
        if "role" in (error.diag.message_primary or ""):
            return BadDatabase(
                f"The database user {user} may not make roles.",
                f"Let an administrator run: ALTER ROLE {quoted(user)} CREATEROLE;",
            )
        return BadDatabase(
            f"The database user {user} may not do it: {error.diag.message_primary}.",
            f"Let the owner of the database run: GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)};",
        )


async def _has_role(cursor: Cursor, name: str) -> bool:
    await cursor.execute(roles.HAS_ROLE, (name,))
    return await cursor.fetchall() == [(True,)]


async def _check_owner(cursor: Cursor, line: str) -> str:
    await cursor.execute(roles.OWNER_OF_TABLES)
    ((owner, may_act),) = await cursor.fetchall()
    if not may_act:
        raise Rejected(f"Only {owner}, who owns the tables, may change the users.", f"Let {owner} run: {line}")
    return owner


async def _make_role(cursor: Cursor, name: str, password: str) -> None:
    stored = cursor.connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    role = sql.Identifier(name)
    await cursor.execute(sql.SQL("create role {} login password {}").format(role, sql.Literal(stored)))
    await cursor.execute(sql.SQL("comment on role {} is {}").format(role, sql.Literal(roles.MADE_HERE)))
