"""The pen of an agent: a lock of the database's, held by the one connection that writes.

It is a session-level advisory lock, so it is lost with the connection and never outlives the program. The database
would give it to the same connection twice: whoever takes it sees to it that it is taken once.
"""

import asyncio
import os
from typing import NamedTuple
from uuid import UUID

from ikigai.core.errors import Busy, Unavailable
from ikigai.store.address import this_host
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import agents as queries

NAMESPACE = int.from_bytes(b"ikig")
"""The first of the lock's two numbers; the second is made of the agent's id."""

PATIENCE = 5.0
"""Seconds to wait for a holder that is known to be dead; for a living one nobody waits."""


class Holder(NamedTuple):
    """Who has the pen: the server process of its connection, and the name that it goes by there."""

    backend: int
    program: str

    @property
    def host_and_pid(self) -> tuple[str, str]:
        """Where an ikigai runs; empty for a program that is none."""
        name, _, rest = self.program.partition("/")
        host, _, pid = rest.rpartition("/")
        return (host, pid) if name == "ikigai" else ("", "")

    def __str__(self) -> str:
        host, pid = self.host_and_pid
        return f"{host}, pid {pid}" if host else self.program or "another program"

    def is_dead(self) -> bool:
        """Whether it was a program on this machine that has ended."""
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


def number(agent: UUID) -> int:
    """The second number of the lock."""
    return int.from_bytes(agent.bytes[-4:], signed=True)


def key(agent: UUID) -> int:
    """The second number of the lock as the server lists it: without a sign."""
    return number(agent) & 0xFFFFFFFF


async def take(session: Session, cursor: Cursor, agent: UUID, name: str) -> None:
    """Take the pen, or raise Busy at once with who has it.

    What a connection of this program that was lost, or a program that died, still holds is waited for a little.
    """
    until = asyncio.get_running_loop().time() + PATIENCE
    while True:
        await cursor.execute(queries.TAKE_PEN, (NAMESPACE, number(agent)))
        if await cursor.fetchall() == [(True,)]:
            return
        holder = await holder_of(cursor, agent)
        if holder is not None:
            ours = holder.backend in session.lost and holder.program == session.parameters["application_name"]
            if not ours and not holder.is_dead():
                raise Busy(
                    f"Agent {name} is being written by another program ({holder}).",
                    "Go on there, or use another agent: /new or /switch here, --new at the start.",
                    str(holder),
                )
            if asyncio.get_running_loop().time() > until:
                raise Unavailable(
                    f"The database {session.place} still serves a connection that was lost.", "Try again in a moment."
                )
            if ours:
                await cursor.execute(queries.END_BACKEND, (holder.backend,))
        await asyncio.sleep(0.05)


async def drop(cursor: Cursor, agent: UUID) -> None:
    await cursor.execute(queries.DROP_PEN, (NAMESPACE, number(agent)))


async def holder_of(cursor: Cursor, agent: UUID) -> Holder | None:
    """Who has the pen now."""
    await cursor.execute(queries.PEN_HOLDER, (NAMESPACE, key(agent)))
    rows = await cursor.fetchall()
    return Holder(*rows[0]) if rows else None
