"""Find the SQLSTATEs of refused connections. libpq has them only in the verbose text of the error.

The text of a server is in the language of the server, its SQLSTATE is not.
"""

import ctypes
import re
import sys
from typing import NamedTuple

import psycopg
from psycopg import pq, waiting
from psycopg.abc import PQGenConn
from psycopg.pq.abc import PGconn
from psycopg.pq.misc import find_libpq_full_path

_DEFAULT, _VERBOSE = 1, 2  # PGVerbosity of libpq
_REFUSAL = r":  ([0-9A-Z]{5}): (.*)"


class ConnectionRefusal(NamedTuple):
    """A server's refusal of a connection: its SQLSTATE and its first line."""

    state: str
    text: str


def refusals(text: str) -> list[ConnectionRefusal]:
    """Return the refusals in the text of a connection error; nothing if no server answered."""
    return [ConnectionRefusal(*match) for match in re.findall(_REFUSAL, text)]


def connect(conninfo: str) -> PQGenConn[PGconn]:
    """Connect as the driver does, but so that the text of an error has the SQLSTATE of the refusal."""
    connection = pq.PGconn.connect_start(conninfo.encode())
    _set_verbosity(connection, _VERBOSE)
    while connection.status != pq.ConnStatus.BAD and (polled := connection.connect_poll()) != pq.PollingStatus.OK:
        needed = waiting.WAIT_W if polled == pq.PollingStatus.WRITING else waiting.WAIT_R
        while polled != pq.PollingStatus.FAILED and not (yield connection.socket, needed):
            pass
    if connection.status == pq.ConnStatus.BAD:
        text = connection.get_error_message()
        connection.finish()
        raise psycopg.OperationalError(f"connection failed: {text}")
    _set_verbosity(connection, _DEFAULT)
    connection.nonblocking = 1
    return connection


def _set_verbosity(connection: PGconn, verbosity: int) -> None:
    # The driver has no call for this, but its libpq is found through its module.
    path = find_libpq_full_path() if pq.__impl__ == "python" else sys.modules[pq.PGconn.__module__].__file__
    pointer = ctypes.c_void_p(connection.pgconn_ptr)  # pyright: ignore[reportAttributeAccessIssue]
    ctypes.CDLL(path).PQsetErrorVerbosity(pointer, verbosity)
