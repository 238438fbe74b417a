"""Read the models that come with ikigai as data (registry.json), and find a model's family by its name.

A name is split into words and a version: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" is claude, sonnet, … and 4.5;
"openai/gpt-5.6-terra" is gpt, terra and 5.6; "llama3.1:8b" is llama, 8b and 3.1. The first matching family of the file
counts, so particular ones precede general ones and new versions old ones. That is how dated aliases, prefixes of
servers, and names newer than this file find their family.

`python -m tests.providers.refresh_registry` updates the contexts from the installed genai-prices.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from ikigai.core.events.record import Record

REGISTRY_FILE = Path(__file__).with_name("registry.json")

Version: TypeAlias = tuple[int, int]
NEWEST_VERSION: Version = (1_000, 0)
"""The version of a name without any number: "claude-opus-latest"."""
NO_VERSION: Version = (0, 0)
"""The version of a name with a date or the like but no version: "mistral-large-2411"."""


class ModelFamily(Record, frozen=True):
    """Models with shared traits: those with all of `words` in the name, and a version in [from, to).

    `context` and `output` are tokens, the most a model takes and gives; 0 is unknown. `thinking` and `levels` are as in
    `models.ModelTraits`, but "" is unknown and "none" is not at all, and no levels is unknown. `off` is thinking's
    value at level off, if it differs from the vendor's other models. `like` is the model of genai-prices,
    PROVIDER/NAME, whose context this is. A family without one has its context from the vendor's documentation or, if
    many serve it differently, from the table this project began with.
    """

    words: str
    context: int
    since: str = msgspec.field(default="", name="from")
    to: str = ""
    like: str = ""
    output: int = 0
    thinking: str = ""
    levels: tuple[str, ...] = ()
    off: str = ""
    images: bool = True


class ModelRegistry(Record, frozen=True):
    """The registry. `source` says whose contexts these are, `names` holds for each vendor the models it sells, best
    known first.
    """

    source: str
    names: dict[str, tuple[str, ...]]
    families: tuple[ModelFamily, ...]


@cache
def load() -> ModelRegistry:
    """Return the registry that came with this ikigai; read once, on first need."""
    return msgspec.json.decode(REGISTRY_FILE.read_bytes(), type=ModelRegistry)


@lru_cache(maxsize=4096)
def find(name: str) -> ModelFamily | None:
    """Return the family of a model by its name, which may have any prefix before a last /; None if it has none."""
    words, version = parse(name)
    for needed, since, to, family in _index():
        if needed <= words and since <= version and (to is None or version < to):
            return family
    return None


def parse(name: str) -> tuple[frozenset[str], Version]:
    """Return the words of a name and its version.

    Sizes (8b, 8x7b, 32k), numbers of three and more digits (dates, builds) and names like o3 and r1 are words too. The
    version is the first number, if it has one or two digits, and such a one right after it.
    """
    pieces = _PIECE.findall(_POINT.sub(".", name.lower().rpartition("/")[2]))
    numbers = [index for index, piece in enumerate(pieces) if piece.isdigit()]
    words = frozenset(piece for piece in pieces if not piece.isdigit() or len(piece) > 2)
    if not numbers:
        return words, NEWEST_VERSION
    major, *rest = pieces[numbers[0] :]
    if len(major) > 2:
        return words, NO_VERSION
    minor = rest[0] if rest and rest[0].isdigit() and len(rest[0]) <= 2 else "0"
    return words, (int(major), int(minor))


_POINT = re.compile(r"(?<=[0-9])p(?=[0-9])")  # as in llama-v3p1
_PIECE = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?:x[0-9]+)?[bkmt](?![a-z0-9])|(?<![a-z0-9])[or][0-9](?![a-z0-9])|[0-9]+|[a-z]+"
)


@cache
def _index() -> list[tuple[frozenset[str], Version, Version | None, ModelFamily]]:
    return [
        (frozenset(family.words.split()), _version(family.since) or NO_VERSION, _version(family.to), family)
        for family in load().families
    ]


def _version(text: str) -> Version | None:
    if not text:
        return None
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
