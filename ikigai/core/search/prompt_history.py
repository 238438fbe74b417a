"""Search sent prompts by the typed words, or by the typed letters in their order.

split_words, loose_pattern   patterns of LIKE for a text, so that a database leaves out the rest
match_rank                   how well a text matches
PromptMatches                the matches, in the order in which they are offered
"""

from collections.abc import Iterable

from ikigai.core.events.record import Record
from ikigai.core.search.fuzzy import match_span

MATCHED_PREFIX = 200
"""Characters at the start of a text in which letters are looked for."""
EXACTLY, LOOSELY = 1, 2


class SentPrompt(Record, frozen=True):
    """A prompt that was sent. Later ones have a higher `id`; `at` is in seconds since 1970, 0 if unknown.

    `here` says that it was sent in the working directory of this program, else `directory` is the place.
    """

    text: str
    id: int
    at: float = 0.0
    agent: str = ""
    directory: str = ""
    here: bool = False


def split_words(typed: str) -> list[str]:
    """Return the pattern for each typed word."""
    return [f"%{_escaped(word)}%" for word in typed.split()]


def loose_pattern(typed: str) -> str:
    """Return the pattern for the typed letters in their order."""
    return "%" + "".join(f"{_escaped(letter)}%" for letter in "".join(typed.split()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def match_rank(typed: str, text: str) -> int:
    """Return EXACTLY where the text holds all words, LOOSELY where it has their letters close together, else 0."""
    low = text.lower()
    parts = typed.lower().split()
    if all(part in low for part in parts):
        return EXACTLY
    letters = "".join(parts)
    span = match_span(letters, low[:MATCHED_PREFIX]) if len(letters) > 2 else 0
    return LOOSELY if 0 < span <= 2 * len(letters) else 0


class PromptMatches:
    """The prompts that match `typed`, each text once: of this directory first, then of others; the newest first.

    Loose matches stand behind all exact ones.
    """

    def __init__(self, typed: str) -> None:
        self.typed = typed
        self._matches: dict[str, tuple[tuple[int, bool, int], SentPrompt]] = {}

    def add(self, earlier: Iterable[SentPrompt]) -> None:
        """Add prompts that may match. A text that was sent several times counts once: by its best match, then the
        newest one.
        """
        for each in earlier:
            how = match_rank(self.typed, each.text)
            if not how:
                continue
            rank = (how, not each.here, -each.id)
            old = self._matches.get(each.text)
            if old is None or (not each.at, rank) < (not old[1].at, old[0]):
                self._matches[each.text] = rank, each

    def best(self, limit: int) -> list[SentPrompt]:
        return [each for _, each in sorted(self._matches.values(), key=lambda found: found[0])[:limit]]

    def here(self) -> int:
        """The number of exact matches of this directory."""
        return sum(rank[:2] == (EXACTLY, False) for rank, _ in self._matches.values())
