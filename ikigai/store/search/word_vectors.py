"""Compute how similar texts are in meaning to a question, by the word vectors of an installed package.

The package wordllama holds 32,000 vectors of English and the tokens that they belong to. Its two files are read; its
code is not run. The vector of a word is the sum of the vectors of its tokens. A word of the question counts as
much as the word of the text that is the most similar to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ikigai.core.errors import ConfigError
from ikigai.core.search.lexer import MAX_KEY_CHARACTERS, is_unspaced
from ikigai.system.install_command import extra_command

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

LANGUAGE = "english"
WEIGHTS_FILE, TOKENS_FILE = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"
WORDS_AT_ONCE = 512
"""Words whose vectors of 1 KiB are in memory at the same time."""
MAX_ASKED_WORDS = 16
"""Words of a question that are compared: those that weigh most."""
MIN_LENGTH = 1e-6
"""Least length of a vector that is divided by it."""
SIMILARITY_DIGITS = 5
"""Decimals of a similarity: sums of other processors differ in those behind."""


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
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        vectors = load_file(folder / WEIGHTS_FILE)[TENSOR]
        tokenizer = Tokenizer.from_file(str(folder / TOKENS_FILE))
        rows, _ = vectors.shape
        if not 0 <= max(tokenizer.get_vocab().values(), default=-1) < rows:
            raise ValueError("it holds other tokens than expected")
        return WordVectors(vectors, tokenizer)
    except Exception as error:  # the tokenizer raises no narrower class
        reason = (isinstance(error, OSError) and error.strerror) or str(error).strip() or type(error).__name__
        remedy = f"Install them again: {extra_command('semantic')}"
        why = reason.splitlines()[0]
        raise ConfigError(f"The word vectors in {folder} cannot be read: {why}.", remedy) from error


class WordVectors:
    """Vectors of tokens, one a row, and the tokenizer that numbers them."""

    def __init__(self, vectors: NDArray[Any], tokenizer: Tokenizer) -> None:
        self._vectors, self._tokenizer = vectors, tokenizer

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

        against, parts = self._directions(asked), range(0, len(words), WORDS_AT_ONCE)
        # Not a product of matrices: for one this small, threads of the library behind it would only wait.
        found = [np.einsum("ij,kj->ik", self._directions(words[n : n + WORDS_AT_ONCE]), against) for n in parts]
        return np.nan_to_num(np.concatenate(found))

    def _directions(self, words: Sequence[str]) -> NDArray[Any]:
        """Return the sum of the vectors of the tokens of each word, at length 1."""
        import numpy as np

        cut = [word[:MAX_KEY_CHARACTERS] for word in words]
        tokens = self._tokenizer.encode(cut, is_pretokenized=True, add_special_tokens=False)
        rows, of = np.array(tokens.ids, int), np.array(tokens.word_ids, int)
        place = np.arange(len(of)) - np.searchsorted(of, of)  # of each token in its word
        sums = np.zeros((len(words), self._vectors.shape[1]), np.float32)
        for n in range(place.max(initial=-1) + 1):  # `np.add.at` takes ten times as long
            sums[of[place == n]] += self._vectors[rows[place == n]]
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), MIN_LENGTH)


def _is_spaced(word: str) -> bool:
    return word.isascii() or not is_unspaced(word)
