"""Connect to PostgreSQL with a limit on every wait for an answer."""

import asyncio
import logging
import select
from typing import Any, Self, TypeAlias

import psycopg
from psycopg import waiting
from psycopg.abc import RV, PQGen, PQGenConn
from psycopg.rows import tuple_row

from ikigai.store.connection import sqlstate

STATEMENT_DEADLINE = 20.0
"""Seconds that a statement may take before its connection is given up. The server's own limit is 15, but a server that
is stopped or cut off keeps no limit.
"""


# The driver warns of rollbacks that fail on a lost connection; without a handler that would land on the screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that is closed when an answer is late or its wait is cancelled."""

    deadline: float | None = STATEMENT_DEADLINE
    """Seconds to wait for an answer; None for no limit."""

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        """Connect as the driver does, but include the SQLSTATE of a refusal in the error."""
        return cls((yield from sqlstate.connect(conninfo)), row_factory=tuple_row)

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:  # noqa: ASYNC109
        """Wait for an answer, within the deadline."""
        # The driver's own wait asks the server to cancel, and gives it five seconds for that: a stopped server would
        # hold up every Esc for so long.
        try:
            async with asyncio.timeout(self.deadline):
                return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except (TimeoutError, asyncio.CancelledError):
            self.pgconn.finish()
            raise


Cursor: TypeAlias = psycopg.AsyncCursor[tuple[Any, ...]]


def is_alive(connection: psycopg.AsyncConnection) -> bool:
    """Return True if the connection is open. Read a farewell of the server that has arrived meanwhile.

    Call it only while no statement waits for an answer: the answer would be read here, and awaited until the deadline.
    """
    try:
        while not connection.closed and _has_input(connection.pgconn.socket):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not connection.closed


def _has_input(socket: int) -> bool:
    poll = select.poll()  # `select.select` refuses descriptors from 1024 on
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
