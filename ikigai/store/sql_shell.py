"""SQL by hand where psql is not installed: statements out of a text, and what the database answers to one, as text."""

import re
from typing import NamedTuple

import psycopg

from ikigai.core.errors import Refused
from ikigai.store.connection import Session
from ikigai.store.sql import shell as queries

MOST_ROWS = 1000
"""Of an answer; the rest is not taken apart."""

_PIECE = re.compile(
    r"--[^\n]*|/\*.*?\*/"
    r"|[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|\"[^\"]*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
    r"|(?P<end>;)|(?P<open>/\*|[eE]?'|\"|\$\w*\$)|[^-/'\"$;eE]+|.",
    re.DOTALL,
)
"""A comment, a quoted text, the end of a statement, the beginning of what does not end here, or anything else."""


class Answer(NamedTuple):
    """`rows` has at most MOST_ROWS of the `total` rows; None is null. Without `columns` it is no table."""

    columns: tuple[str, ...]
    rows: list[tuple[str | None, ...]]
    total: int
    status: str
    """What the server says has been done, such as "SELECT 3"."""


def statements(text: str) -> tuple[list[str], str]:
    """The statements that end in this text, and the rest, which is still to go on; comments alone are none."""
    found: list[str] = []
    start, says = 0, False
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            says = True
            break
        if piece["end"]:
            found += [text[start : piece.start()].strip()] * says
            start, says = piece.end(), False
        elif not says:  # what stands before the first word is dropped
            says = not piece[0].startswith(("--", "/*")) and not piece[0].isspace()
            start = start if says else piece.end()
    return found, text[start:].lstrip() if says else ""


class Shell:
    """A connection that only reads, as far as the database is asked to see to that: it guards against slips."""

    def __init__(self, dsn: str) -> None:
        self._session = Session(dsn, write=False)

    async def run(self, statement: str) -> Answer:
        """Raises Refused with the server's own words when it does not do it, StoreError when it is out of reach."""
        return await self._ask(statement, None)

    async def relations(self) -> Answer:
        """The tables and views, with what they are for."""
        return await self._ask(queries.RELATIONS, None)

    async def columns(self, relation: str) -> Answer:
        """The columns of one of them."""
        return await self._ask(queries.COLUMNS_TOLD, (relation,))

    async def close(self) -> None:
        await self._session.close()

    async def _ask(self, statement: str, parameters: tuple[str, ...] | None) -> Answer:
        async with self._session.use(patient=True) as cursor:
            await cursor.execute(queries.NO_HURRY)
            asked = cursor.connection.cursor()  # one that is answered in text
            try:
                await asked.execute(statement.encode(), parameters)
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise Refused(f"{_said(error)}.", "This is for reading alone; use psql to change something.") from None
            except psycopg.Error as error:
                if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
                    raise
                raise Refused(f"{_said(error)}.", error.diag.message_hint or "Correct the statement.") from None
            result = asked.pgresult
            assert result
            columns = tuple(column.name for column in asked.description or ())
            rows = [
                tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
                for row in range(min(result.ntuples, MOST_ROWS))
            ]
            return Answer(columns, rows, result.ntuples, asked.statusmessage or "")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _said(error: psycopg.Error) -> str:
    return f"The database refused: {(error.diag.message_primary or str(error)).rstrip('.')}"
