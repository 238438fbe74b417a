"""The index of words is filled behind the log: a little at a time, over a connection of its own.

Within an agent events are committed in the order of `seq`, because there is one pen; so a number for each agent says
how far its log is indexed, and no slow transaction of another agent's is missed. Programs that index at once take
different agents. A lexeme is three letters for the stretch of ids and one of `lexer.keys`, so that every look-up is
bounded by its stretch.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import psycopg

from ikigai.core.codec import SEARCHED
from ikigai.core.errors import StoreError
from ikigai.store.connection import Cursor, Session
from ikigai.store.sql import search as queries

log = logging.getLogger(__name__)

SEGMENT_BITS = 14
"""Ids of a stretch, as a power of two; `migrations/0006_search.sql` and the statements say it, too."""
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"

EVENTS, CHARACTERS = 400, 100_000
"""That are indexed in one step, at most."""
STRETCH = 1_000_000
"""Characters of a longer event that are: the server unpacks all that is before them, each time."""
REST = 0.02
"""Seconds between two steps, at least; as long as the step took, if that is longer."""
SETTLE = 0.5
"""Seconds from the end of a turn until it is indexed: what the user waits for comes first."""
ASK_AGAIN = 30.0
"""Seconds after which a database that could not be reached is asked again."""

READ_ONLY = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)
"""What a database answers that is not to be written to."""


def segment(id: int) -> int:
    return id >> SEGMENT_BITS


def prefix(segment: int) -> str:
    """Three letters; they are the same again after 2^18 stretches, and ids tell those apart."""
    return "".join(_LETTERS[segment >> shift & 63] for shift in (12, 6, 0))


def agent_key(agent: str) -> str:
    """What stands for an agent in the index; ids that begin alike share it."""
    return f"@{agent[:8]}"


def kind_key(kind: str) -> str:
    return f"#{kind}"


class Piece(NamedTuple):
    message: int
    start: int
    length: int
    at: datetime
    terms: str


class _Event(NamedTuple):
    id: int
    seq: int
    kind: str
    at: datetime
    text: str | None


class Indexer:
    """Fills the index over `session`, which nobody appends over. `news` is set when there may be something to do."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.news = asyncio.Event()

    async def index_some(self) -> int:
        """Take the next few events into the index: at most 400, and of a long one a stretch; return how many.

        0 when everything is in it, or in another program's hands. Raises StoreError.
        """
        async with self._session.use() as cursor:
            await cursor.execute(queries.BEHIND, (16,), prepare=False)
            for (agent,) in await cursor.fetchall():
                if taken := await self._index(cursor, agent):
                    return taken
            return 0

    async def close_segment(self) -> bool:
        """List the words of one stretch that the ids have left behind; False when there is none."""
        async with self._session.use() as cursor, cursor.connection.transaction():
            await cursor.execute(queries.OPEN_SEGMENT, prepare=False)
            for (number,) in await cursor.fetchall():
                first, last = number << SEGMENT_BITS, (number + 1 << SEGMENT_BITS) - 1
                await cursor.execute(queries.CLOSE_SEGMENT, {"segment": number, "first": first, "last": last})
                return True
            return False

    async def catch_up(self, seconds: float) -> int:
        """Index for at most so long; return how many events are not in the index then.

        A database that can only be read is left as it is. Raises StoreError.
        """
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until and await self.index_some():
                pass
        except StoreError as error:
            if not isinstance(error.__cause__, READ_ONLY):
                raise
        async with self._session.use() as cursor:
            await cursor.execute(queries.BEHIND_BY, prepare=False)
            ((behind,),) = await cursor.fetchall()
        return behind

    async def run(self) -> None:
        """Index now, and again after every turn, until this is cancelled. Nobody waits for it, and no error leaves."""
        while True:
            try:
                self.news.clear()
                await self._all()
                await self.news.wait()
                await asyncio.sleep(SETTLE)
            except StoreError:
                log.debug("the index could not be filled", exc_info=True)
                await asyncio.sleep(ASK_AGAIN)

    async def _all(self) -> None:
        for step in (self.index_some, self.close_segment):
            began = time.monotonic()
            while await step():
                await asyncio.sleep(max(REST, time.monotonic() - began))
                began = time.monotonic()

    async def _index(self, cursor: Cursor, agent: UUID) -> int:
        """One step for one agent; 0 when another program is at it."""
        async with cursor.connection.transaction():
            await cursor.execute(queries.BEGIN_PROGRESS, (agent,))
            await cursor.execute(queries.TAKE_PROGRESS, (agent,))
            if not (rows := await cursor.fetchall()):
                return 0
            ((seq, place),) = rows
            which = {"agent": agent, "seq": seq, "place": place, "kinds": list(SEARCHED)}
            sizes = {"events": EVENTS, "most": CHARACTERS, "stretch": STRETCH}
            await cursor.execute(queries.NEXT_EVENTS, which | sizes, prepare=False)
            events = [_Event(*row) for row in await cursor.fetchall()]
            if not events:
                return 0
            pieces, seq, place = await asyncio.to_thread(_taken, str(agent), events, place)
            await _add(cursor, pieces)
            await cursor.execute(queries.SET_PROGRESS, (seq, place, agent))
        return len(events)


async def _add(cursor: Cursor, pieces: Sequence[Piece]) -> None:
    if pieces:
        columns = [list(column) for column in zip(*pieces, strict=True)]
        await cursor.execute(queries.ADD_PIECES, columns, prepare=False)
        touched = [segment(piece.message) for piece in pieces], [piece.at for piece in pieces]
        await cursor.execute(queries.ADD_SEGMENTS, touched, prepare=False)


def _taken(agent: str, events: Sequence[_Event], place: int) -> tuple[list[Piece], int, int]:
    """The pieces of these events, and how far the index is with them; the first begins at `place`.

    Of an event longer than one step only the first may be here, and then its last piece is left for the next step.
    """
    from ikigai.core.search import lexer as lexemes  # the start needs none of it

    made: list[Piece] = []
    for event in events:
        text = lexemes.searchable(event.kind, event.text or "")
        cut = list(lexemes.pieces(text))
        goes_on = len(text) == STRETCH and len(cut) > 1
        for start, piece in cut[:-1] if goes_on else cut:
            if keys := lexemes.keys(lexemes.fold(piece)):
                made.append(_piece(agent, event, place + start, piece, keys))
            elif piece.strip():  # nothing but punctuation, which can be searched for, too
                made.append(_piece(agent, event, place + start, piece, set()))
        if goes_on:
            return made, event.seq - 1, place + cut[-1][0]
        place = 0
    return made, events[-1].seq, 0


def _piece(agent: str, event: _Event, start: int, text: str, keys: set[str]) -> Piece:
    before = prefix(segment(event.id))
    terms = " ".join(before + key for key in (agent_key(agent), kind_key(event.kind), *keys))
    return Piece(event.id, start, len(text), event.at, terms)


async def forget(cursor: Cursor, ids: Sequence[int]) -> None:
    """Take these events out of the index, for a purge, within its transaction.

    The words of their stretches are listed anew later. Pages of the index keep a word that nothing holds any more
    until `reindex index search_terms`.
    """
    await cursor.execute(queries.FORGET_PIECES, (list(ids),))
    await cursor.execute(queries.FORGET_WORDS, (sorted({segment(id) for id in ids}),))
