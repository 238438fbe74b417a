"""Find tokens of well-known formats in a text.

A search for each prefix costs 0.6 ms per megabyte, so that 100 of them cost 60. Nearly every token holds a run of at
least 20 characters of `[A-Za-z0-9_-]`, and ordinary source has few such runs. They are found in a translated copy of
the text, in which all these characters are one letter. Only the beginning of a run is looked up.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import msgspec

from ikigai.core.secrets.token_formats import FORMATS_ANYWHERE, FORMATS_AT_RUN, FORMATS_BEFORE_RUN, TokenFormat

MIN_RUN_CHARACTERS = 20
"""Characters of the shortest run that is looked at."""

_FOLDED = bytes(ord("a" if chr(code).isalnum() or chr(code) in "_-" else " ") for code in range(128)).ljust(256)
_NEEDLE = b"a" * MIN_RUN_CHARACTERS

_Hinted: TypeAlias = list[tuple[str, TokenFormat]]
"""Formats with a hint of each."""


def _by_hint(formats: tuple[TokenFormat, ...], length: int | None = None) -> dict[str, _Hinted]:
    """Return hints and their formats by the first `length` characters of the hint."""
    found: dict[str, _Hinted] = {}
    for token_format in formats:
        for hint in token_format.hints:
            found.setdefault(hint[:length], []).append((hint, token_format))
    return found


_AT_RUN = _by_hint(FORMATS_AT_RUN, 2)
_BEFORE_RUN = tuple(hint for token_format in FORMATS_BEFORE_RUN for hint in token_format.hints)
_ANYWHERE = _by_hint(FORMATS_ANYWHERE)

# The rest of an escape in a literal or from a terminal, or of a percent-encoding, may stand glued before a token.
_GLUED = re.compile(
    r"(?<=\\)(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv])|(?<=[\[;])\d*[mK]|(?<=%)[0-9A-F]{2}", re.ASCII
)
_MAY_BE_GLUED = frozenset("\\[;%")

_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
_PLACEHOLDER = re.compile(r"EXAMPLE|example|(.)\1{7}|[xX]{4}|your|YOUR|Your|\.\.\.")


class FoundToken(msgspec.Struct, frozen=True):
    """A token in a text: text[start:end] is secret."""

    start: int
    end: int
    name: str


def find_tokens(text: str) -> list[FoundToken]:
    """Return the tokens in `text` in their order; they do not overlap."""
    found = list(_tokens(text, _at_runs(text)))
    for hint, formats in _ANYWHERE.items():
        if (start := text.find(hint)) >= 0:
            found += _tokens(text, _at_hints(text, hint, start, formats))
    # Of two in one place the first has the better name: a GitHub token may be the password of an address.
    found.sort(key=lambda token: token.start)
    apart: list[FoundToken] = []
    for token in found:
        if not apart or token.start >= apart[-1].end:
            apart.append(token)
    return apart


def _tokens(text: str, candidates: Iterator[tuple[int, TokenFormat]]) -> Iterator[FoundToken]:
    for start, token_format in candidates:
        if match := _compiled(token_format.pattern).match(text, start):
            secret = match.re.groups
            if _is_random(match[secret], token_format):
                yield FoundToken(*match.span(secret), token_format.name)


def _at_hints(text: str, hint: str, start: int, formats: _Hinted) -> Iterator[tuple[int, TokenFormat]]:
    """Yield the places of a hint, the first of which is `start`, and the formats to try there."""
    while start >= 0:
        for _, token_format in formats:
            yield start, token_format
        start = text.find(hint, start + len(hint))


def _at_runs(text: str) -> Iterator[tuple[int, TokenFormat]]:
    """Yield the places of hints at the beginning of runs, and the formats to try there."""
    # One byte stands for each character, so that places are the same.
    folded = text.encode("ascii", "replace").translate(_FOLDED)
    start = folded.find(_NEEDLE)
    while start >= 0:
        if text[start : start + 2] in _AT_RUN:
            yield from _hinted(text, start)
        before = text[start - 1] if start else ""
        if before == ".":
            if text.endswith(_BEFORE_RUN, 0, start):
                yield from _before_run(text, start)
        elif before in _MAY_BE_GLUED and (glued := _GLUED.match(text, start)):
            yield from _hinted(text, glued.end())
        inside = start + MIN_RUN_CHARACTERS
        start = folded.find(_NEEDLE, inside)
        if start == inside:  # the same run still
            end = folded.find(b" ", inside)
            start = folded.find(_NEEDLE, end) if end >= 0 else -1


def _before_run(text: str, start: int) -> Iterator[tuple[int, TokenFormat]]:
    for token_format in FORMATS_BEFORE_RUN:
        for hint in token_format.hints:
            if text.endswith(hint, 0, start):
                yield start - len(hint), token_format


def _hinted(text: str, start: int) -> Iterator[tuple[int, TokenFormat]]:
    for hint, token_format in _AT_RUN.get(text[start : start + 2], ()):
        if text.startswith(hint, start):
            yield start, token_format


def _is_random(secret: str, token_format: TokenFormat) -> bool:
    """Return False for words and for the placeholders of documentation."""
    if not token_format.kinds:
        return True
    body = secret[max((len(hint) for hint in token_format.hints if secret.startswith(hint)), default=0) :][:100]
    return (
        len(set(body)) >= min(9, len(body) // 2)
        and sum(kind.search(body) is not None for kind in _KINDS) >= token_format.kinds
        and not _PLACEHOLDER.search(body)
        and not _counts_up(body)
    )


def _counts_up(body: str) -> bool:
    """Return True if most characters follow the one before, as in 1234567890 and abcdef: somebody made that up."""
    steps = sum(ord(after) - ord(before) in (1, -9) for before, after in pairwise(body))
    return 2 * steps > len(body)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
