"""Choose the turns that are recalled for a message automatically: they match it and have left the window.

A turn matches by its score as a share of what the message weighs: of the score of a message of average length that has
each of its words. A turn that was cleared, rewound, forgotten or purged is never recalled, nor are excerpts that an
earlier message in the window has brought back already.
"""

from collections.abc import Sequence

from ikigai.core.events.events import TurnsRecalled
from ikigai.core.events.messages import Role
from ikigai.core.events.record import Record
from ikigai.core.relocation.redact import PURGED_TEXT
from ikigai.core.state.memory import Memory
from ikigai.core.text.tokens import BYTES_PER_TOKEN

CLEAR_SHARE = 0.68
"""Least score of a turn that is suggested, as a share of what the message weighs.

Measured on 60 conversations of LongMemEval with 490 messages each (2026-11-26): at 0.68 something is suggested for 80 %
of the questions that the conversation answers, and the answer is in it for 72 %; something is also suggested for 15 %
of questions and 9 % of messages of other conversations. At 0.5 these are 93, 78, 35 and 26 %.
"""
RECALL_SHARE = 0.25
"""Least score of a turn whose excerpts are sent along. The model judges them, so they need not match clearly."""
BEST_SHARE = 0.6
"""Least score of a turn, as a share of the score of the best one."""
MAX_RECALLED_TURNS = 3
HEADER = "[excerpts of earlier turns of this conversation that are no longer in context and match the message above]"


class RecallMatch(Record, frozen=True):
    """A turn that matches a message: its events from `first` to `last` (None while it is open), the score of its words,
    and excerpts of the events `ids`. `best` is the event that matches best, `name` are words of it in one line.
    """

    first: int
    last: int | None
    score: float
    excerpts: str
    ids: tuple[int, ...]
    best: int = 0
    name: str = ""


def is_recallable(memory: Memory, match: RecallMatch) -> bool:
    """Return True if the turn belongs to memory, and only the window or a summary leaves it out of the context."""
    start, kept, first, last = memory.cutoff, memory.window.first, match.first, match.last
    if start is None or last is None or last >= start or first <= (memory.cleared or 0):
        return False
    if kept and kept.id <= last and first <= kept.end:
        return False
    if any(memory.has_removed(id, id) for id in (match.best, *match.ids)):
        return False
    return not any(low < last and first < high for low, high in memory.excluded_intervals)


def choose_turns(
    memory: Memory, matches: Sequence[RecallMatch], weight: float, least_share: float
) -> tuple[RecallMatch, ...]:
    """Return the turns to recall of these matches, in their order. `weight` is what the message weighs.

    A turn whose excerpts are in the window already takes the place of a worse one, and is left out.
    """
    able = [each for each in matches if is_recallable(memory, each) and PURGED_TEXT not in each.excerpts]
    least = max(least_share * weight, BEST_SHARE * max((each.score for each in able), default=0.0))
    chosen = [each for each in able if each.score >= least][:MAX_RECALLED_TURNS]
    return tuple(each for each in chosen if not _is_quoted(memory, each.excerpts))


def _is_quoted(memory: Memory, excerpts: str) -> bool:
    """Return True if a message of the user in the window has these excerpts already."""
    first = (memory.window.first,) if memory.window.first else ()
    turns = (*first, *memory.window.turns)
    said = (message for turn in turns for message in turn.messages if message.role is Role.USER)
    return any(excerpts in message.text for message in said)


def join_excerpts(turns: Sequence[RecallMatch], max_tokens: int) -> TurnsRecalled | None:
    """Return the excerpts of these turns that fit, best first; None if none does."""
    text, ids = HEADER, list[int]()
    for each in turns:
        longer = f"{text}\n\n{each.excerpts}"
        if len(longer.encode()) <= max_tokens * BYTES_PER_TOKEN:
            text, ids = longer, [*ids, *each.ids]
    return TurnsRecalled(text, tuple(ids)) if ids else None
