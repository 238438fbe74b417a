"""This module makes the keys of the index of words: folded words, kinds of events and agents, by segments of ids."""

from collections.abc import Iterable, Iterator

from ikigai.store.search.fill import TextPiece

SEGMENT_BITS = 14
"""Ids of a segment, as a power of two; `migrations/0006_search.sql` and the statements contain it, too."""
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"


def segment_of(id: int) -> int:
    return id >> SEGMENT_BITS


def segment_prefix(segment: int) -> str:
    """Return three letters; they repeat after 2^18 segments, which the ids tell apart."""
    return "".join(_LETTERS[segment >> shift & 63] for shift in (12, 6, 0))


def agent_key(agent: str) -> str:
    """Return the key of an agent in the index; ids that begin alike share it."""
    return f"@{agent[:8]}"


def kind_key(kind: str) -> str:
    return f"#{kind}"


def keyed_pieces(pieces: Iterable[TextPiece]) -> Iterator[tuple[TextPiece, set[str]]]:
    """Yield the pieces that can be found, each with its keys."""
    from ikigai.core.search import lexer

    for piece in pieces:
        keys = lexer.index_keys(lexer.fold(piece.text))
        if keys or piece.text.strip():  # only punctuation can be searched for, too
            yield piece, keys
