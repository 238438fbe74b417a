"""Write lock of an agent: an advisory lock of the connection that writes.

It says which process may write. Which user may, `write_access` says.
It is a session-level lock, so it is lost with the connection and never outlives the process. The database would give it
to the same connection twice: the caller acquires it only once.
"""

import asyncio
import os
from typing import NamedTuple
from uuid import UUID

from ikigai.core.errors import AgentLocked, Unavailable
from ikigai.store.connection.address import schema_number, this_host
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.sql import agents

WRITE_LOCK = int.from_bytes(b"ikig")
"""The first of the lock's two numbers; the second is made of the agent's id."""
WAITING_LOCK = int.from_bytes(b"ikia")
"""The first number of the lock that marks an owner that waits for its user; the second is the write lock's."""

DEAD_OWNER_TIMEOUT = 5.0
"""Seconds to wait for the lock of a process that is known to be dead; a living one fails at once."""


class LockOwner(NamedTuple):
    """The lock owner: the server process of its connection, and its name there. `is_waiting` says that it waits for
    its user.
    """

    backend: int
    program: str
    is_waiting: bool = False

    @property
    def host_and_pid(self) -> tuple[str, str]:
        """Host and pid of an ikigai; empty for another program."""
        name, _, rest = self.program.partition("/")
        host, _, pid = rest.rpartition("/")
        return (host, pid) if name == "ikigai" else ("", "")

    def __str__(self) -> str:
        host, pid = self.host_and_pid
        return f"{host}, pid {pid}" if host else self.program or "another program"

    def is_dead(self) -> bool:
        """Return True if the owner was a process on this machine that has ended."""
        host, pid = self.host_and_pid
        if host != this_host() or not pid.isdecimal():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
        return False


def lock_number(agent: UUID, schema: str) -> int:
    """Return the second number of the lock of an agent in this schema; another schema may have the same agent."""
    return int.from_bytes(agent.bytes[-4:], signed=True) ^ schema_number(schema)


def lock_key(agent: UUID, schema: str) -> int:
    """Return the second number of the lock as the server lists it: without a sign."""
    return lock_number(agent, schema) & 0xFFFFFFFF


async def acquire(session: DatabaseSession, cursor: Cursor, agent: UUID, name: str) -> None:
    """Acquire the write lock, or raise AgentLocked with its owner at once.

    Wait a little for a lock that a dead process or a lost connection of this one still holds.
    """
    until = asyncio.get_running_loop().time() + DEAD_OWNER_TIMEOUT
    while True:
        await cursor.execute(agents.ACQUIRE_LOCK, (WRITE_LOCK, lock_number(agent, session.schema)))
        if await cursor.fetchall() == [(True,)]:
            return
        owner = await read_owner(session, cursor, agent)
        ours = bool(owner and owner.backend in session.lost and owner.program == session.parameters["application_name"])
        if owner and not ours and not owner.is_dead():
            raise AgentLocked(
                f"Agent {name} is open in another ikigai ({owner}).",
                "Use it there, or use another agent: /new or /switch here, --new at the start.",
                str(owner),
            )
        if asyncio.get_running_loop().time() > until:
            raise Unavailable(
                f"The database {session.place} has not yet closed a lost connection.", "Try again in a moment."
            )
        if owner and ours:
            await cursor.execute(agents.END_BACKEND, (owner.backend,))
        await asyncio.sleep(0.05)


async def set_waiting(session: DatabaseSession, cursor: Cursor, agent: UUID, waits: bool) -> None:
    """Mark the owner, whose connection this is, as waiting for its user, or not."""
    statement = agents.ACQUIRE_LOCK if waits else agents.RELEASE_LOCK
    await cursor.execute(statement, (WAITING_LOCK, lock_number(agent, session.schema)))


async def release(session: DatabaseSession, cursor: Cursor, agent: UUID) -> None:
    await cursor.execute(agents.RELEASE_LOCK, (WRITE_LOCK, lock_number(agent, session.schema)))


async def read_owner(session: DatabaseSession, cursor: Cursor, agent: UUID) -> LockOwner | None:
    """Return the lock owner, or None, also while the lock of a connection that has just ended is still listed."""
    await cursor.execute(agents.LOCK_OWNER, (WAITING_LOCK, WRITE_LOCK, lock_key(agent, session.schema)))
    rows = await cursor.fetchall()
    return LockOwner(*rows[0]) if rows else None
