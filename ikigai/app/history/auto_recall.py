"""Recall turns for a message automatically, if `[context] auto_recall` says so."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ikigai.app.history.recall_commands import format_excerpts
from ikigai.core.errors import StoreError
from ikigai.core.search.recall_choice import (
    MAX_RECALLED_TURNS,
    RECALL_SHARE,
    RecallMatch,
    choose_turns,
    join_excerpts,
)
from ikigai.core.text.sanitize import clean_line
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.store.search.turn_recall import RecallScope

if TYPE_CHECKING:
    from ikigai.core.events.events import TurnsRecalled
    from ikigai.core.state.memory import Memory
    from ikigai.store.database import Database
    from ikigai.store.search.turn_recall import RecalledTurn

log = logging.getLogger(__name__)

RECALL_SECONDS = 1.0
"""Seconds after which a turn begins without what it might recall."""
CATCH_UP_SECONDS = 0.3
"""Seconds of them in which the index is brought up to date: print mode does not fill it in the background."""
ASKED_TURNS = 4 * MAX_RECALLED_TURNS
"""Turns that are ranked: not all of them can be recalled."""
OWN_SHARE = 0.5
"""Least share of a turn's score that is its own: one that only stands beside a match is not recalled."""
RARE_SHARE = 0.6
"""Least score of its own, as a share of the weight of a word that one message has: common words recall nothing."""
MAX_EXCERPT_TOKENS = 800
"""Tokens of the excerpts for one message: of three turns, and below 1 % of the default budget."""
FRAME_BYTES = 400
"""Bytes of the header and of the lines that name the messages."""


async def recall_for(
    database: Database, memory: Memory, message: str, max_tokens: int = MAX_EXCERPT_TOKENS
) -> TurnsRecalled | None:
    """Return the turns recalled for a message; None if nothing matches, or the database takes too long."""
    try:
        async with asyncio.timeout(RECALL_SECONDS):
            turns = await find_turns(database, memory, message, max_tokens, RECALL_SHARE, CATCH_UP_SECONDS)
    except (TimeoutError, StoreError):
        log.debug("nothing was recalled", exc_info=True)
        return None
    return join_excerpts(turns, max_tokens)


async def find_turns(
    database: Database, memory: Memory, message: str, max_tokens: int, least_share: float, catch_up: float
) -> tuple[RecallMatch, ...]:
    """Return the turns out of the window that match a message, best first, with excerpts of `max_tokens` in all.

    `least_share` is as in `choose_turns`; the index is brought up to date for `catch_up` seconds. Raise StoreError.
    """
    if memory.cutoff is None:
        return ()
    scope = RecallScope(await database.lineage(memory.agent), memory.cutoff)
    width = max(0, max_tokens * BYTES_PER_TOKEN - FRAME_BYTES) // MAX_RECALLED_TURNS
    found = await database.recall(message, ASKED_TURNS, ASKED_TURNS * width, scope, catch_up, width)
    least = RARE_SHARE * found.rare_weight
    own = [turn for turn in found.turns if turn.own_score >= max(OWN_SHARE * turn.word_score, least)]
    return choose_turns(memory, [_match(turn) for turn in own], found.weight, least_share)


def _match(turn: RecalledTurn) -> RecallMatch:
    """Return the match with what the user and the model said: nobody has asked for the output of a tool."""
    said = tuple(each for each in turn.messages if each.excerpt and each.kind in ("user", "assistant"))
    name = next((each.excerpt for each in said if each.id == turn.id), said[0].excerpt if said else "")
    excerpts = format_excerpts((replace(turn, messages=said),))
    ids = tuple(each.id for each in said)
    return RecallMatch(turn.first, turn.last, turn.word_score, excerpts, ids, turn.id, clean_line(name))
