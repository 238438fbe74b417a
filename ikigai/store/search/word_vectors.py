"""Compute how similar texts are in meaning to a question, by the word vectors of an installed package.

The package wordllama holds 32,000 vectors of English and the tokens that they belong to. Its two files are read; its
code is not run. The vector of a word is the sum of the vectors of its tokens. A word of the question counts as
much as the word of the text that is the most similar to it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import util
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.search.lexer import MAX_KEY_CHARACTERS, is_unspaced
from ikigai.system.install_command import extra_command

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANGUAGE = "english"
WEIGHTS_FILE, TOKENS_FILE = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR, NUMBER_FORMAT, NUMBER_BYTES = "embedding.weight", "F16", 2
MAX_HEADER_BYTES = 100_000
DAMAGES = OSError, ValueError, RecursionError, struct.error
"""Errors of reading a damaged file."""
WORD_START = "▁"
"""Stands in a token where a word begins."""
MAX_KEPT_WORDS = 1 << 14
"""Words whose tokens are kept."""
WORDS_AT_ONCE, TOKENS_AT_ONCE = 512, 1_024
"""Words and tokens whose vectors of 1 KiB are in memory at the same time."""
MAX_ASKED_WORDS = 16
"""Words of a question that are compared: those that weigh most."""
MIN_LENGTH = 1e-6
"""Least length of a vector that is divided by it."""
SIMILARITY_DIGITS = 5
"""Decimals of a similarity: sums of other processors differ in those behind."""


class _Vocabulary(msgspec.Struct):
    vocab: dict[str, int]


class _Tokenizer(msgspec.Struct):
    model: _Vocabulary


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


def folder() -> Path | None:
    """Return the folder of the package; None if it or numpy is not installed."""
    if util.find_spec("numpy") is None or (spec := util.find_spec("wordllama")) is None:
        return None
    return next((Path(each) for each in spec.submodule_search_locations or ()), None)


@cache
def load_installed() -> WordVectors | None:
    """Return the word vectors of this installation; None without the extra. Raise ConfigError if they are damaged."""
    found = folder()
    return load(found) if found else None


def load(folder: Path) -> WordVectors:
    """Return the word vectors in the folder of the package. Raise ConfigError if they cannot be read."""
    try:
        tokens = msgspec.json.decode((folder / TOKENS_FILE).read_bytes(), type=_Tokenizer).model.vocab
        if min(tokens.values(), default=-1) < 0:
            raise ValueError("it holds other tokens than expected")
        return WordVectors(_open_weights(folder / WEIGHTS_FILE, max(tokens.values()) + 1), tokens)
    except (*DAMAGES, msgspec.MsgspecError, ImportError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error).strip() or type(error).__name__
        remedy = f"Install them again: {extra_command('semantic')}"
        why = reason.splitlines()[0]
        raise ConfigError(f"The word vectors in {folder} cannot be read: {why}.", remedy) from error


class _Weights:
    """Vectors in a file. They are read, not mapped: of a mapped file far more enters memory than is used."""

    def __init__(self, file: Path, begin: int, width: int) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self._begin, self._width = begin, width

    def __getitem__(self, rows: Iterable[int]) -> NDArray[Any]:
        import numpy as np

        size = NUMBER_BYTES * self._width
        read = b"".join(os.pread(self._descriptor, size, self._begin + size * int(row)) for row in rows)
        return np.frombuffer(read, np.dtype("<f2")).reshape(-1, self._width)


def _open_weights(file: Path, rows: int) -> _Weights:
    """Return the vectors in a file. Raise ValueError if not all `rows` are there."""
    with file.open("rb") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        header = opened.read(min(length, MAX_HEADER_BYTES))
    tensor = msgspec.json.decode(header, type=dict[str, _Tensor]).get(TENSOR)
    if tensor is None or tensor.dtype != NUMBER_FORMAT or tensor.shape[0] < rows:
        raise ValueError("it holds other data than expected")
    first, last = tensor.data_offsets
    is_whole = first >= 0 and file.stat().st_size >= 8 + length + last
    if not is_whole or last - first != NUMBER_BYTES * tensor.shape[0] * tensor.shape[1]:
        raise ValueError("its file is truncated")
    return _Weights(file, 8 + length + first, tensor.shape[1])


class _Word(NamedTuple):
    """The rows of the tokens of a word, and the length of the sum of their vectors."""

    rows: tuple[int, ...]
    length: float


class WordVectors:
    """Vectors of tokens, one a row, and the row of each token."""

    def __init__(self, vectors: _Weights, rows: dict[str, int]) -> None:
        self._vectors, self._rows = vectors, rows
        self._words: dict[str, _Word] = {}

    def similarities(self, question: Sequence[tuple[str, float]], texts: Sequence[Iterable[str]]) -> list[float]:
        """Return how similar each text is to a question, from -1 to 1. A text is its words, a question its words with
        their weights.
        """
        import numpy as np

        weighed = sorted((each for each in question if _is_spaced(each[0])), key=lambda each: (-each[1], each[0]))
        weighed, words_of = weighed[:MAX_ASKED_WORDS], [set(filter(_is_spaced, text)) for text in texts]
        places = {word: place for place, word in enumerate({word for words in words_of for word in words})}
        if not weighed or not places:
            return [0.0] * len(texts)
        with np.errstate(all="ignore"):  # of damaged vectors: a warning would be written across the screen
            near = self._compare([word for word, _ in weighed], list(places))
        weights = np.array([weight for _, weight in weighed], np.float32)
        weights /= weights.sum()
        found = [
            float(weights @ near[[places[word] for word in words]].max(axis=0)) if words else 0.0 for words in words_of
        ]
        return [round(each, SIMILARITY_DIGITS) for each in found]

    def _compare(self, asked: Sequence[str], words: Sequence[str]) -> NDArray[Any]:
        """Return the similarity of each of these words, a row, to each of those asked for, a column."""
        import numpy as np

        known = self._look_up([*asked, *words])
        wanted, found = [known[word] for word in asked], [known[word] for word in words]
        rows, starts = _joined(found)
        used, places = np.unique(rows, return_inverse=True)
        against = self._sums(wanted) / np.array([word.length for word in wanted], np.float32)[:, None]
        # Not a product of matrices: for one this small, threads of the library behind it would only wait.
        of_tokens = np.concatenate(
            [
                np.einsum("ij,kj->ik", self._read(used[first : first + TOKENS_AT_ONCE]), against)
                for first in range(0, len(used), TOKENS_AT_ONCE)
            ]
        )
        lengths = np.array([word.length for word in found], np.float32)
        return np.nan_to_num(np.add.reduceat(of_tokens[places], starts) / lengths[:, None])

    def _look_up(self, words: Iterable[str]) -> dict[str, _Word]:
        """Return the words that are kept, these among them."""
        import numpy as np

        if len(self._words) > MAX_KEPT_WORDS:
            self._words = {}  # another thread may still read the old ones
        known = self._words
        new = [word for word in dict.fromkeys(words) if word not in known]
        for first in range(0, len(new), WORDS_AT_ONCE):
            part = new[first : first + WORDS_AT_ONCE]
            split = [_Word(self.split(word[:MAX_KEY_CHARACTERS]), 0.0) for word in part]
            sums = self._sums(split)
            lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", sums, sums)), MIN_LENGTH).tolist()
            for word, each, length in zip(part, split, lengths, strict=True):
                known[word] = each._replace(length=length)
        return known

    def _sums(self, words: Sequence[_Word]) -> NDArray[Any]:
        """Return the sum of the vectors of the tokens of each word."""
        import numpy as np

        rows, starts = _joined(words)
        return np.add.reduceat(self._read(rows), starts)

    def _read(self, rows: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        import numpy as np

        return self._vectors[rows].astype(np.float32)

    def split(self, word: str) -> tuple[int, ...]:
        """Return the rows of the tokens of a word: of two that stand beside each other, those are joined first whose
        token has the smallest row.
        """
        whole = self._rows.get(WORD_START + word)
        if whole is not None:
            return (whole,)
        parts = [WORD_START, *word]
        while joined := [
            (row, place)
            for place, pair in enumerate(pairwise(parts))
            if (row := self._rows.get("".join(pair))) is not None
        ]:
            _, place = min(joined)
            parts[place : place + 2] = ["".join(parts[place : place + 2])]
        return tuple(row for part in parts for row in self._rows_of(part))

    def _rows_of(self, part: str) -> Iterable[int]:
        """Return the row of a token, or the rows of its bytes for a character without one."""
        if (row := self._rows.get(part)) is not None:
            return (row,)
        return (self._rows.get(f"<0x{byte:02X}>", 0) for byte in part.encode())


def _is_spaced(word: str) -> bool:
    return word.isascii() or not is_unspaced(word)


def _joined(words: Sequence[_Word]) -> tuple[list[int], list[int]]:
    """Return the rows of all words one after the other, and the place of the first one of each word."""
    starts = [0, *accumulate(len(word.rows) for word in words)]
    return [row for word in words for row in word.rows], starts[:-1]
