"""Place the context rule, the line on the screen where the context begins, and report when it moves.

The rule stands before the oldest turn of the window if turns have left or a summary replaces them (`Memory.cutoff`),
else behind the summary or the clear that the context begins with. A first turn that is kept stands before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.events.events import Event, Filtered, Rewound, SettingsChanged, Summarized, Undone
from ikigai.core.events.messages import Role
from ikigai.core.events.record import Record

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory


class ContextRule(Record, frozen=True):
    """The line where the context begins: `turns` are out of it, `before` is the id of the first event in it.

    `words` are the first words of that turn. A summary stands for `summarized` turns before all these. With `cleared`
    the context begins behind the event `before`, a clear or such a summary. Where turns have just left, `left` is their
    number, and the request shrank from `used_before` to `used` tokens.
    """

    before: int
    turns: int
    words: str
    cleared: bool = False
    left: int = 0
    used_before: int = 0
    used: int = 0
    summarized: int = 0


_RULE_CHARACTERS = 80
"""Characters of the first message that the rule quotes; no more words than that fit."""


def context_rule(memory: Memory) -> ContextRule | None:
    """Return the context rule at its place; None while nothing is out of context."""
    older, summary = memory.window.older.turns, memory.summary
    if older or (summary and memory.cutoff is not None):
        first = memory.first_after_rule
        messages = first.messages if first else ()
        words = next((message.text for message in messages if message.role is Role.USER), "")
        condensed = summary.turns if summary else 0
        # Each append looks at the rule twice: a pasted megabyte is not split for its first words.
        beginning = " ".join(words.split(None, _RULE_CHARACTERS)[:_RULE_CHARACTERS])[:_RULE_CHARACTERS]
        return ContextRule(memory.cutoff or 0, older, beginning, summarized=condensed)
    if summary:
        return ContextRule(summary.id, 0, "", cleared=True)
    if memory.cleared is not None:
        return ContextRule(memory.cleared, 0, "", cleared=True)
    return None


def redraws_rule(event: Event) -> bool:
    """Return True if the rule is drawn again behind this event: the user moved it, or looks for it."""
    match event:
        case Rewound() | Filtered() | Undone():
            return True
        case Summarized(closed=closed):
            return not closed
        case SettingsChanged(_, origins):
            return origins.get("budget") == "agent" or origins.get("profile") == "agent"
        case _:
            return False
