"""Search prompts that were sent before (Ctrl+R), while the input shows the chosen one.

search: some wor
❯ the newest text that has these words
  the newest text that has these words   amber-fox · 3 h ago
  an older one with some words           blue-owl · /srv/other · 2 days ago
"""

import os
import time
from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion
from prompt_toolkit.document import Document

from ikigai.core.search.prompt_history import EXACTLY, PromptMatches, SentPrompt, match_rank
from ikigai.core.text.sanitize import clean_line
from ikigai.terminal.input.sent_prompts import PromptHistory
from ikigai.terminal.render.text_width import cut

MAX_OFFERED_PROMPTS = 100
"""Prompts that are offered."""
TEXT_SHARE = 0.6
"""The share of the row for the text; the rest says where and when it was sent."""
MIN_TEXT_CELLS = 8
"""Cells for the text in any case."""
LEADING_CHARACTERS = 12
"""Characters shown before the first word found, where the beginning of the text has no room beside it."""

ABOVE_ALL_IDS = 1 << 62
"""An id above the ids of all events: prompts at hand are taken to be newer."""

StartSearch = Callable[[str, Callable[[Sequence[SentPrompt]], object]], Callable[[], object]]
"""Begins to search for a text in everything ever sent, calls back with matches, and returns a function that ends it."""


class PromptFinder:
    """One search, from Ctrl+R to Enter or Esc. `known` are the prompts at hand, newest first; `look` finds others.

    `input` shows the chosen text. It gets back its own text unless the chosen one is taken.
    """

    def __init__(
        self,
        input: Buffer,
        known: Sequence[SentPrompt],
        look: StartSearch,
        collapsed: Callable[[str], str],
        columns: Callable[[], int],
        changed: Callable[[], object],
    ) -> None:
        self._input, self._known, self._look = input, known, look
        self._collapsed, self._columns, self._changed = collapsed, columns, changed
        self._before = input.document
        self._stop: Callable[[], object] = lambda: None
        self._matches = PromptMatches("")
        self._offered: list[SentPrompt] = []
        self._at = 0
        self._moved = False
        self.typed("")

    @property
    def before(self) -> str:
        """The text of the input before the search."""
        return self._before.text

    @property
    def empty(self) -> bool:
        """True if nothing was found."""
        return not self._offered

    def typed(self, text: str) -> None:
        """Search for another text."""
        self._stop()
        self._matches, self._at, self._moved = PromptMatches(text), 0, False
        self._matches.add(self._known)
        matches = self._matches

        def found(more: Sequence[SentPrompt]) -> None:
            if self._matches is matches:
                matches.add(more)
                self._show()
                self._changed()

        self._show()
        self._stop = self._look(text, found)

    def move(self, by: int) -> None:
        """Choose an older text, or a newer one."""
        if self._offered:
            self._at = max(0, min(self._at + by, len(self._offered) - 1))
            self._moved = True
            self._show()

    def ended(self, take: bool) -> str | None:
        """End the search and restore the input. Return the chosen text if it is to be taken."""
        self._stop()
        self._input.set_document(self._before, bypass_readonly=True)
        self._input.complete_state = None
        return self._offered[self._at].text if take and self._offered else None

    def _show(self) -> None:
        chosen = self._offered[self._at].text if self._offered and self._moved else None
        self._offered = self._matches.best(MAX_OFFERED_PROMPTS)
        texts = [each.text for each in self._offered]
        self._at = texts.index(chosen) if chosen in texts else min(self._at, max(len(texts) - 1, 0))
        if not texts:
            self._input.set_document(self._before, bypass_readonly=True)
            self._input.complete_state = None
            return
        document = Document(self._collapsed(texts[self._at]))
        self._input.set_document(document, bypass_readonly=True)
        room = max(MIN_TEXT_CELLS, int(self._columns() * TEXT_SHARE))
        choices = [
            Completion(
                each.text,
                display=draw_excerpt(each.text, self._matches.typed, room),
                display_meta=describe_prompt(each),
            )
            for each in self._offered
        ]
        self._input.complete_state = CompletionState(document, choices, self._at)


def begin_search(
    input: Buffer,
    prompts: PromptHistory,
    look: StartSearch,
    collapsed: Callable[[str], str],
    columns: Callable[[], int],
    changed: Callable[[], object],
) -> PromptFinder:
    """Return a search that begins with the prompts at hand. Those that this program sent were sent here."""
    known = [SentPrompt(text, ABOVE_ALL_IDS - number, here=mine) for number, (text, mine) in enumerate(prompts.known())]
    return PromptFinder(input, known, look, collapsed, columns, changed)


def draw_excerpt(text: str, typed: str, room: int) -> str:
    """Return a text in one row of `room` cells: from its beginning, or from around the first word of `typed`."""
    line = clean_line(" ".join(text[:2000].split()))
    first = typed.lower().split()[:1]
    at = line.lower().find(first[0]) if first and match_rank(typed, text) == EXACTLY else 0
    if at > room - LEADING_CHARACTERS:
        line = "…" + line[max(0, at - LEADING_CHARACTERS) :]
    return cut(line, room)


def describe_prompt(earlier: SentPrompt) -> str:
    """Return where and when the prompt was sent: agent, directory if another, how long ago; "" where unknown."""
    if not earlier.at:
        return ""
    place = "" if earlier.here else shorten_home(earlier.directory)
    return clean_line(" · ".join(filter(None, (earlier.agent, place, format_ago(time.time() - earlier.at)))))


def shorten_home(place: str) -> str:
    """Return the path with ~ for the home folder."""
    home = os.path.expanduser("~")  # noqa: PTH111
    return "~" + place[len(home) :] if place == home or place.startswith(home + "/") else place


def format_ago(seconds: float) -> str:
    """Return a duration in the past, in its largest unit."""
    for unit, size in (("year", 31_536_000), ("month", 2_592_000), ("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1 and size >= 86_400)} ago"
    return "just now"
