"""The models that come with ikigai as data (registry.json), and how a name finds what is known of it.

A name is taken apart into words and a version: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" is claude, sonnet, … and
4.5; "openai/gpt-5.6-terra" is gpt, terra and 5.6; "llama3.1:8b" is llama, 8b and 3.1. The first family of the file that
fits counts, so particular ones stand before general ones and new versions before old. That is how dated aliases,
prefixes of servers, and names newer than this file find their family.

`python -m tests.providers.refresh_registry` brings the contexts up to date with the installed genai-prices.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from ikigai.core.record import Record

FILE = Path(__file__).with_name("registry.json")

Version: TypeAlias = tuple[int, int]
NEWEST: Version = (1_000, 0)
"""The version of a name without any number: "claude-opus-latest"."""
UNDATED: Version = (0, 0)
"""The version of a name with a date or the like but no version: "mistral-large-2411"."""


class Family(Record, frozen=True):
    """Models that share what is known of them: those with all of `words` in the name, and a version in [from, to).

    `context` and `output` are tokens, the most a model takes and gives; 0 is not known. `thinking` and `levels` are as
    in `models.Traits`, but "" is not known and "none" is not at all, and no levels is not known. `off` is what thinking
    is set to at level off, where that is not what the vendor's others take. `like` is the model of genai-prices,
    PROVIDER/NAME, whose context this is; a family without one has its context from the vendor's documentation or, where
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


class Registry(Record, frozen=True):
    """`source` says whose contexts these are, `names` holds for each vendor the models it sells, best known first."""

    source: str
    names: dict[str, tuple[str, ...]]
    families: tuple[Family, ...]


@cache
def load() -> Registry:
    """The registry that came with this ikigai; read once, when it is first needed."""
    return msgspec.json.decode(FILE.read_bytes(), type=Registry)


@lru_cache(maxsize=4096)
def find(name: str) -> Family | None:
    """The family of a model by its name, which may have anything before a last /; None if it is of none."""
    words, version = parse(name)
    for needed, since, to, family in _index():
        if needed <= words and since <= version and (to is None or version < to):
            return family
    return None


def parse(name: str) -> tuple[frozenset[str], Version]:
    """The words of a name and its version.

    Sizes (8b, 8x7b, 32k), numbers of three and more digits (dates, builds) and names like o3 and r1 are words too. The
    version is the first number, if it has one or two digits, and such a one right behind it.
    """
    pieces = _PIECE.findall(_POINT.sub(".", name.lower().rpartition("/")[2]))
    numbers = [index for index, piece in enumerate(pieces) if piece.isdigit()]
    words = frozenset(piece for piece in pieces if not piece.isdigit() or len(piece) > 2)
    if not numbers:
        return words, NEWEST
    major, *rest = pieces[numbers[0] :]
    if len(major) > 2:
        return words, UNDATED
    minor = rest[0] if rest and rest[0].isdigit() and len(rest[0]) <= 2 else "0"
    return words, (int(major), int(minor))


_POINT = re.compile(r"(?<=[0-9])p(?=[0-9])")  # as in llama-v3p1
_PIECE = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?:x[0-9]+)?[bkmt](?![a-z0-9])|(?<![a-z0-9])[or][0-9](?![a-z0-9])|[0-9]+|[a-z]+"
)


@cache
def _index() -> list[tuple[frozenset[str], Version, Version | None, Family]]:
    return [
        (frozenset(family.words.split()), _version(family.since) or UNDATED, _version(family.to), family)
        for family in load().families
    ]


def _version(text: str) -> Version | None:
    if not text:
        return None
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
