"""Turn a text into the stems that recall compares, each with its count.

The language is the one whose function words are the most frequent; without any the text is taken as English. Stems come
from Snowball's algorithms in Python, so that they are the same with every server. Writing without spaces is held as
pairs of characters, as in `lexer`.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import msgspec

from ikigai.core.search.lexer import MAX_KEY_CHARACTERS, fold, is_unspaced, remove_marks, split_tokens

ANALYSIS = 5
"""Number of this way to make stems and postings; an index that was made in another way is made anew."""
FUNCTION_WORDS_FILE = Path(__file__).with_name("function_words.json")
"""The function words of each language that has a stemmer. With other words stems are made in another way."""
DEFAULT_LANGUAGE = "english"
MAX_SAMPLED_WORDS = 400
"""Words from which the language of a text is inferred."""
MAX_QUERY_WORDS = 48
"""Different words of a question that are looked up, the longest."""
MIN_FUNCTION_WORDS = 2
"""Function words that tell another language than English."""


class QueryWord(NamedTuple):
    """A word of a question, the stems that it is looked up by, and how often the question has it."""

    word: str
    stems: tuple[str, ...]
    times: int


@cache
def function_words() -> dict[str, list[str]]:
    """Return the function words by language."""
    return msgspec.json.decode(FUNCTION_WORDS_FILE.read_bytes(), type=dict[str, list[str]])


@cache
def _languages() -> dict[str, tuple[str, ...]]:
    """Return the languages of each function word."""
    found: dict[str, tuple[str, ...]] = {}
    for language, words in function_words().items():
        for word in words:
            found[word] = (*found.get(word, ()), language)
    return found


@cache
def _function_words(language: str) -> frozenset[str]:
    """Return the function words of a language, as they are and without their accents."""
    words = function_words()[language]
    return frozenset((*words, *map(fold, words)))


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    import snowballstemmer

    # Its own choice would be another package where that is installed, in whatever version.
    module = import_module(f"{snowballstemmer.__name__}.{language}_stemmer")
    stem = getattr(module, f"{language.capitalize()}Stemmer")().stemWord
    return lru_cache(maxsize=1 << 16)(lambda word: fold(stem(word)))


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, with their accents. Marks of which no letter has one go: they would cut
    a word in two.
    """
    return split_tokens(remove_marks(unicodedata.normalize("NFC", text).lower()).replace("_", " "))


def detect_language(words: Iterable[str], default: str = DEFAULT_LANGUAGE) -> str:
    """Return the language whose function words are the most frequent among these words; `default` if there are few."""
    languages, found = _languages(), Counter[str]()
    for word in words:
        for language in languages.get(word, ()):
            found[language] += 1
    best = max(function_words(), key=lambda language: found[language])
    return best if found[best] >= MIN_FUNCTION_WORDS else default


def is_common(word: str, language: str) -> bool:
    """Return True for a function word of the language."""
    return word in _function_words(language)


def count_words(text: str) -> tuple[str, list[tuple[str, str, int]]]:
    """Return the language of a text, and its words without function words: each folded, with its stem and its count."""
    words = split_words(text)
    language = detect_language(words[:MAX_SAMPLED_WORDS])
    stem, common = _stemmer(language), _function_words(language)
    found: list[tuple[str, str, int]] = []
    for word, count in Counter(words).items():
        if not word.isascii() and is_unspaced(word):
            found += [(pair, pair, count) for pair in _pairs(word)]
        elif word not in common:
            folded = word if word.isascii() else fold(word)
            found.append((folded[:MAX_KEY_CHARACTERS], stem(word[:MAX_KEY_CHARACTERS]), count))
    return language, found


def content_words(text: str, language: str) -> set[str]:
    """Return the words of a text that are no function words of the language."""
    return set(split_words(text)) - _function_words(language)


def query_words(question: str, languages: Iterable[str]) -> list[QueryWord]:
    """Return the words of a question, with their stems in the question's language and in `languages`.

    Words that are function words in the question's language are left out, if there are others.
    """
    words = split_words(question)
    language = detect_language(words)
    common = _function_words(language)
    counts = Counter(word for word in words if word not in common) or Counter(words)
    chosen = sorted(counts, key=lambda word: (-len(word), word))[:MAX_QUERY_WORDS]
    stemmers = [_stemmer(each) for each in dict.fromkeys((language, *languages))]
    found: list[QueryWord] = []
    for word in chosen:
        if is_unspaced(word):
            found += (QueryWord(pair, (pair,), counts[word]) for pair in dict.fromkeys(_pairs(word)[:MAX_QUERY_WORDS]))
        else:
            stems = dict.fromkeys(stem(word[:MAX_KEY_CHARACTERS]) for stem in stemmers)
            found.append(QueryWord(word, tuple(stems), counts[word]))
    return found


def _pairs(run: str) -> list[str]:
    """Return the pairs of characters of a run of writing without spaces; of a single character, itself."""
    folded = fold(run)
    return [folded[n : n + 2] for n in range(len(folded) - 1)] or [folded]
