"""A query as typed becomes terms; each knows the keys an index has of it, and its pattern in a text.

    word        at the beginning of a word              "two words"   these words in a row, whole
    *word*      anywhere in a word                      word*         the same as word
    a.b()       just so, from the beginning of a word   =>            just so; no index helps

A hit holds every term of the query, in the same piece of its text; `lexer` says what is folded.
"""

import re
from enum import StrEnum

from ikigai.core.errors import Refused
from ikigai.core.record import Record
from ikigai.core.search.lexer import LONGEST_KEY, UNSPACED, WORD, fold, is_unspaced, pairs, tokens

LONGEST_QUERY = 1_000
"""Characters."""
MOST_TERMS = 32

_QUOTES = str.maketrans("“”„«»", '"""""')
_AROUND = "()[]{}<>'`,;:!?."
"""What stands around words in sentences and is not meant."""

_ENDS = rf"(?:(?![{WORD}])|(?=[{UNSPACED}]))"
_BETWEEN = rf"[^{WORD}{UNSPACED}]"


class How(StrEnum):
    """How a key has to be met by one of the index."""

    WHOLE = "whole"
    START = "start"
    PART = "part"


class Key(Record, frozen=True):
    text: str
    how: How


class Term(Record, frozen=True):
    """One thing that every hit holds, folded. `words` are those of `text`; a phrase leaves open what is between them.

    `begins` and `ends` say that it does so where a word does.
    """

    text: str
    words: tuple[str, ...]
    phrase: bool = False
    begins: bool = True
    ends: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        """Keys that are in the index wherever the term is in the text; none if no index helps."""
        found: list[Key] = []
        for at, word in enumerate(self.words):
            first, last = at == 0, at == len(self.words) - 1
            if is_unspaced(word):
                found += [Key(word[n : n + 2], How.WHOLE) for n in range(len(word) - 1)] or [Key(word, How.START)]
            elif first and not self.begins and len(word) <= LONGEST_KEY:
                found.append(Key(word, How.PART))
            elif len(word) > LONGEST_KEY:
                found += [Key(word[:LONGEST_KEY], How.WHOLE)] if self.begins or not first else []
            else:
                found.append(Key(word, How.START if last and self._open else How.WHOLE))
        whole = self.words[not self.begins : len(self.words) - self._open]
        found += [Key(pair, How.WHOLE) for pair in pairs(whole)]
        return tuple(dict.fromkeys(found))

    @property
    def _open(self) -> bool:
        """Whether the last word may go on."""
        return not self.ends and self.text.endswith(self.words[-1:] or ("",))

    @property
    def proven(self) -> bool:
        """Whether the keys alone say that the term is there."""
        if len(self.words) != 1 or self.words[0] != self.text:
            return False
        if is_unspaced(self.text):
            return len(self.text) <= 2
        return self.begins and len(self.text) <= LONGEST_KEY

    @property
    def pattern(self) -> str:
        """A regular expression for the places of the term in a folded text."""
        first = re.escape(self.words[0] if self.phrase else self.text)
        found = first
        if self.begins and self.words and self.text.startswith(self.words[0]) and not is_unspaced(self.words[0]):
            # Behind the letters: a pattern that begins with them is found much faster.
            found += rf"(?:(?<![{WORD}]{first})|(?<=[{UNSPACED}]{first}))"
        if self.phrase:
            for before, word in zip(self.words, self.words[1:], strict=False):
                some = "*" if is_unspaced(before) or is_unspaced(word) else "+"
                found += f"{_BETWEEN}{some}{re.escape(word)}"
        if self.ends and self.words and not is_unspaced(self.words[-1]):
            found += _ENDS
        return found


def parse(query: str) -> tuple[Term, ...]:
    """The terms of a query as typed. A quote that is not closed goes on to the end.

    Raises Refused when there is nothing to search for, or far too much.
    """
    if len(query) > LONGEST_QUERY:
        raise Refused(f"A query has {LONGEST_QUERY:,} characters at most.", "Search for a few words of it.")
    found: list[Term] = []
    for at, part in enumerate(query.translate(_QUOTES).split('"')):
        made = [_phrase(part)] if at % 2 else [_term(chunk) for chunk in part.split()]
        found += filter(None, made)
    terms = tuple(dict.fromkeys(found)) or tuple(filter(None, [_literal(query.strip())]))
    if not terms:
        raise Refused("There is nothing to search for.", 'Write words, "a phrase", the start of a word* or a *part*.')
    if len(terms) > MOST_TERMS:
        raise Refused(f"A query has {MOST_TERMS} words at most.", "Search for those that matter.")
    return terms


def _term(chunk: str) -> Term | None:
    begins, bare = not chunk.startswith("*"), chunk.strip("*")
    ends = not begins and not chunk.endswith("*")
    text = fold(bare).strip(_AROUND).strip()
    words = tuple(tokens(text))
    if words:
        return Term(text, words, begins=begins, ends=ends)
    return _literal(chunk) if bare.strip(_AROUND) else None


def _phrase(part: str) -> Term | None:
    words = tuple(tokens(fold(part)))
    if not words:
        return _literal(part.strip())
    text = words[0] if len(words) == 1 else " ".join(words)
    return Term(text, words, phrase=True, ends=not part.rstrip().endswith("*"))


def _literal(text: str) -> Term | None:
    """What has no words: found just so."""
    folded = fold(text).strip()
    return Term(folded, (), begins=False) if folded else None


def widened(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same terms, found within words, too; phrases stay whole."""
    return tuple(
        Term(term.text, term.words, begins=False, ends=term.ends) if term.words and not term.phrase else term
        for term in terms
    )


MOST_ASKED = 24


def asked(question: str) -> tuple[Term, ...]:
    """The words of a question, each a term of its own, the longest first: those say most. Empty if it has none."""
    words = list(dict.fromkeys(tokens(fold(question))))
    found: list[str] = []
    for word in words:
        unspaced = is_unspaced(word) and len(word) > 2
        found += [word[n : n + 2] for n in range(len(word) - 1)] if unspaced else [word[:LONGEST_KEY]]
    chosen = sorted(dict.fromkeys(found), key=len, reverse=True)[:MOST_ASKED]
    return tuple(Term(word, (word,), ends=not is_unspaced(word) and len(word) < 4) for word in chosen)
