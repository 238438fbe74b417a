"""Keep the connections by which tests look at their databases.

A look takes 0.3 ms of the processor, and 9 with a new one: the server makes a process for it. Tests look many times.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

NAME = "tests"
"""The application_name of these connections."""

Kept = psycopg.Connection[tuple[Any, ...]]
_kept: dict[str, Kept | None] = {}


def keep(dsn: str) -> None:
    """Keep the connection to this address from now on. Those to others are closed after each statement."""
    _kept.setdefault(dsn)


def connection(dsn: str) -> Kept:
    """Return the kept connection, in which each statement is a transaction of its own."""
    found = _kept[dsn]
    if found is None or found.closed:
        found = _kept[dsn] = _connect(dsn)
    return found


def query(dsn: str, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Execute a statement; return its rows, [] if it has none. Connect again if a test has ended the connection."""
    if dsn not in _kept:
        with _connect(dsn) as once:
            return _execute(once, statement, values)
    if kept := _kept[dsn]:
        try:
            return _execute(kept, statement, values)
        except psycopg.OperationalError:
            if not kept.closed:
                raise
    return _execute(connection(dsn), statement, values)


def _connect(dsn: str) -> Kept:
    # No statement is prepared: a test may change the tables that it reads.
    return psycopg.connect(dsn, autocommit=True, application_name=NAME, prepare_threshold=None)


def _execute(kept: Kept, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor = kept.execute(statement.encode(), values or None)
    return cursor.fetchall() if cursor.description is not None else []


def close(dsn: str = "") -> None:
    """Close the connection to this address, or all of them."""
    for each in [dsn] if dsn else _kept:
        if kept := _kept[each]:
            kept.close()
            _kept[each] = None
