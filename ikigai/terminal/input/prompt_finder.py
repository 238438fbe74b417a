"""Ctrl+R: looking for something that was sent before, while the input shows what would be taken.

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

from ikigai.core.sanitize import clean_line
from ikigai.core.search.prompt_history import EXACTLY, Earlier, Finds, fits
from ikigai.terminal.input.prompt import Prompts
from ikigai.terminal.render.text_width import cut

MOST = 100
"""Texts that are offered."""
SHARE = 0.6
"""Of the row for the text; the rest says where and when it was."""
LEAST = 8
"""Cells for the text in any case."""
BEFORE = 12
"""Characters shown before the first word found, where the begin of the text has no room beside it."""

NEW = 1 << 62
"""Above the ids of all events: what is at hand is newer, as far as anybody knows."""

Look = Callable[[str, Callable[[Sequence[Earlier]], object]], Callable[[], object]]
"""Begins to look for what was typed, in everything ever sent; calls back with more, and returns what ends that."""


class Finder:
    """One search, from Ctrl+R to Enter or Esc. `known` is what is at hand, the newest first; `look` finds the rest.

    `input` shows the text that is chosen, and gets back what it held unless that is taken.
    """

    def __init__(
        self,
        input: Buffer,
        known: Sequence[Earlier],
        look: Look,
        collapsed: Callable[[str], str],
        columns: Callable[[], int],
        changed: Callable[[], object],
    ) -> None:
        self._input, self._known, self._look = input, known, look
        self._collapsed, self._columns, self._changed = collapsed, columns, changed
        self._before = input.document
        self._stop: Callable[[], object] = lambda: None
        self._finds = Finds("")
        self._offered: list[Earlier] = []
        self._at = 0
        self._moved = False
        self.typed("")

    @property
    def before(self) -> str:
        """What the input held."""
        return self._before.text

    @property
    def empty(self) -> bool:
        """Whether nothing was found."""
        return not self._offered

    def typed(self, text: str) -> None:
        """Something else is looked for."""
        self._stop()
        self._finds, self._at, self._moved = Finds(text), 0, False
        self._finds.add(self._known)
        finds = self._finds

        def found(more: Sequence[Earlier]) -> None:
            if self._finds is finds:
                finds.add(more)
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
        """End the search; the input is what it was before. Returns the text that was chosen if it is to be taken."""
        self._stop()
        self._input.set_document(self._before, bypass_readonly=True)
        self._input.complete_state = None
        return self._offered[self._at].text if take and self._offered else None

    def _show(self) -> None:
        chosen = self._offered[self._at].text if self._offered and self._moved else None
        self._offered = self._finds.best(MOST)
        texts = [each.text for each in self._offered]
        self._at = texts.index(chosen) if chosen in texts else min(self._at, max(len(texts) - 1, 0))
        if not texts:
            self._input.set_document(self._before, bypass_readonly=True)
            self._input.complete_state = None
            return
        document = Document(self._collapsed(texts[self._at]))
        self._input.set_document(document, bypass_readonly=True)
        room = max(LEAST, int(self._columns() * SHARE))
        choices = [
            Completion(each.text, display=excerpt(each.text, self._finds.typed, room), display_meta=about(each))
            for each in self._offered
        ]
        self._input.complete_state = CompletionState(document, choices, self._at)


def begun(
    input: Buffer,
    prompts: Prompts,
    look: Look,
    collapsed: Callable[[str], str],
    columns: Callable[[], int],
    changed: Callable[[], object],
) -> Finder:
    """A search that begins with the prompts at hand: of those that this program sent it is known that it was here."""
    known = [Earlier(text, NEW - number, here=mine) for number, (text, mine) in enumerate(prompts.known())]
    return Finder(input, known, look, collapsed, columns, changed)


def excerpt(text: str, typed: str, room: int) -> str:
    """A text in one row of so many cells: from its begin, or from where the first word stands that was looked for."""
    line = clean_line(" ".join(text[:2000].split()))
    first = typed.lower().split()[:1]
    at = line.lower().find(first[0]) if first and fits(typed, text) == EXACTLY else 0
    if at > room - BEFORE:
        line = "…" + line[max(0, at - BEFORE) :]
    return cut(line, room)


def about(earlier: Earlier) -> str:
    """Where and when: the agent, the directory if it is another, and how long ago; "" where that is not known."""
    if not earlier.at:
        return ""
    home = os.path.expanduser("~")  # noqa: PTH111
    place = "" if earlier.here else earlier.directory
    if place == home or place.startswith(home + "/"):
        place = "~" + place[len(home) :]
    return clean_line(" · ".join(filter(None, (earlier.agent, place, ago(time.time() - earlier.at)))))


def ago(seconds: float) -> str:
    """A stretch of time that has passed, in its largest unit."""
    for unit, size in (("year", 31_536_000), ("month", 2_592_000), ("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count > 1 and size >= 86_400)} ago"
    return "just now"
