"""What was sent before, and which of it is looked for: by the words that were typed, or by their letters in order.

words, loosely   what a text has to hold, as patterns of LIKE, so that a database leaves out the rest
fits             whether it does
Finds            what was found, in the order in which it is offered
"""

from collections.abc import Iterable

from ikigai.core.record import Record
from ikigai.core.search.fuzzy import scattered

HEAD = 200
"""Characters at the start of a text in which letters are looked for."""
EXACTLY, LOOSELY = 1, 2


class Earlier(Record, frozen=True):
    """A text that was sent. `id` is higher the later that was; `at` are seconds since 1970, 0 where nobody knows.

    `here` says that it was in the working directory of this program, else `directory` is where.
    """

    text: str
    id: int
    at: float = 0.0
    agent: str = ""
    directory: str = ""
    here: bool = False


def words(typed: str) -> list[str]:
    """What each word that was typed has to match."""
    return [f"%{_escaped(word)}%" for word in typed.split()]


def loosely(typed: str) -> str:
    """What the letters that were typed have to match."""
    return "%" + "".join(f"{_escaped(letter)}%" for letter in "".join(typed.split()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def fits(typed: str, text: str) -> int:
    """EXACTLY where the text holds all words, LOOSELY where it has their letters close together, else 0."""
    low = text.lower()
    parts = typed.lower().split()
    if all(part in low for part in parts):
        return EXACTLY
    letters = "".join(parts)
    span = scattered(letters, low[:HEAD]) if len(letters) > 2 else 0
    return LOOSELY if 0 < span <= 2 * len(letters) else 0


class Finds:
    """What fits what was `typed`, each text once: of this directory first, then of others; the newest first.

    What fits only loosely stands behind all that fits exactly.
    """

    def __init__(self, typed: str) -> None:
        self.typed = typed
        self._found: dict[str, tuple[tuple[int, bool, int], Earlier]] = {}

    def add(self, earlier: Iterable[Earlier]) -> None:
        """What may fit; of a text that was sent several times the best counts, one that says when it was most."""
        for each in earlier:
            how = fits(self.typed, each.text)
            if not how:
                continue
            rank = (how, not each.here, -each.id)
            old = self._found.get(each.text)
            if old is None or (not each.at, rank) < (not old[1].at, old[0]):
                self._found[each.text] = rank, each

    def best(self, most: int) -> list[Earlier]:
        return [each for _, each in sorted(self._found.values(), key=lambda found: found[0])[:most]]

    def here(self) -> int:
        """How many of this directory fit exactly."""
        return sum(rank[:2] == (EXACTLY, False) for rank, _ in self._found.values())
