"""Queries, keys and snippets agree: every text that a query describes is found, whatever it holds."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ikigai.core.errors import Rejected
from ikigai.core.search import lexer as lexemes
from ikigai.core.search import snippets
from ikigai.core.search.lexer import MAX_KEY_CHARACTERS, PIECE_CHARACTERS, fold, index_keys, split_pieces
from ikigai.core.search.query import IndexKey, MatchMode, Term, parse, widen_terms
from ikigai.core.search.snippets import MarkedText, TermFinder
from ikigai.core.text.sanitize import clean

ODD = st.text(alphabet="aAbé ßéİﬁ①Σς한日本ｶ\u0301_ǅx\u200d\n\x1b[", max_size=40)


def finds(query: str, text: str) -> bool:
    return TermFinder(parse(query)).finds(text)


def wanted(query: str) -> list[tuple[str, str]]:
    return [(key.text, key.how.value) for term in parse(query) for key in term.keys]


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("window", "The Window is open", True),
        ("wind", "The Window is open", True),
        ("wind*", "The Window is open", True),
        ("indow", "The Window is open", False),
        ("*indow", "The Window is open", True),
        ("*indow", "all windows", False),
        ("*indow*", "all windows", True),
        ('"wind"', "The Window is open", False),
        ('"the window"', "The  \nwindow, open", True),
        ('"the window"', "the big window", False),
        ('"the wind"', "the window", False),
        ('"the wind*"', "the window", True),
        ("open the", "The Window is open", True),
        ("open shut", "The Window is open", False),
        ("cafe", "Le CAFÉ", True),
        ("café", "le cafe", True),
        ("cafe", "le cafe\u0301", True),
        ("strasse", "Straße", True),
        ("file", "ﬁle", True),
        ("日本", "東京は日本の首都", True),
        ("本日", "東京は日本の首都", False),
        ("首", "東京は日本の首都", True),
        ("都", "東京は日本の首都", True),
        ("python日本", "python日本", True),
        ("日本 python", "python日本", True),
        ("안녕", "안녕하세요", True),
        ("नमस्ते", "नमस्ते दुनिया", True),
        ("🎉", "done 🎉!", True),
        ("get_user", "call get_user(1)", True),
        ("user", "call get_user(1)", True),
        ("foo.bar", "x = foo.bar.baz", True),
        ("foo.bar", "foo bar", False),
        ("c++", "in C++ and C", True),
        ("c++", "in C", False),
        ("--flag", "use --flag here", True),
        ("=>", "a => b", True),
        ("what?", "what is it", True),
        ("'; DROP TABLE x;--", "x'; drop table x;--", True),
        ('"unbalanced quo', "an unbalanced quo", True),
        ('say "', "say it", True),
        ("“the window”", "the window", True),
        ("a", "b a c", True),
        ("the of", "the end of it", True),
        ("İstanbul", "istanbul", True),
        ("ΟΔΟΣ", "οδος", True),
    ],
)
def test_what_is_found(query: str, text: str, found: bool):
    assert finds(query, text) is found
    if found:
        assert all(_met(key, index_keys(fold(text))) for term in parse(query) for key in term.keys), (
            "the index offers it"
        )


def _met(key: IndexKey, index: set[str]) -> bool:
    match key.how:
        case MatchMode.WHOLE:
            return key.text in index
        case MatchMode.START:
            return any(each.startswith(key.text) for each in index)
        case MatchMode.PART:
            return any(key.text in each for each in index)


@pytest.mark.parametrize("query", ["", "   ", '"', '""', '" "', "\n\t"])
def test_nothing_to_search_for(query: str):
    if query == '"' or query == '""' or query == '" "':
        assert [term.words for term in parse(query)] == [()], "a quote can be searched for"
    else:
        with pytest.raises(Rejected, match="Add the words to search for"):
            parse(query)


def test_too_much():
    with pytest.raises(Rejected, match="1,000 characters"):
        parse("x" * 1001)
    with pytest.raises(Rejected, match="32 words"):
        parse(" ".join(f"w{n}" for n in range(33)))
    assert len(parse("same " * 100)) == 1


def test_keys_of_a_query():
    assert wanted("foo") == wanted("foo*") == [("foo", "start")]
    assert wanted('"foo"') == [("foo", "whole")]
    assert wanted("*foo*") == [("foo", "part")]
    assert wanted("日本語") == [("日本", "whole"), ("本語", "whole")]
    assert wanted("日") == [("日", "start")]
    assert wanted('"of the"') == [("of", "whole"), ("the", "whole"), ("of+the", "whole")]
    assert wanted('"of the*"') == [("of", "whole"), ("the", "start")]
    assert wanted('"of a zebra"')[-1] == ("of+a", "whole")
    assert wanted("=>") == []
    assert wanted("x" * 100) == [("x" * MAX_KEY_CHARACTERS, "whole")]


def test_what_the_index_proves():
    proven = {
        query: parse(query)[0].proven for query in ("foo", '"foo"', "日", "日本", "日本語", "*foo*", "a.b", "=>", "c++")
    }
    assert [query for query, is_so in proven.items() if is_so] == ["foo", '"foo"', "日", "日本"]


def test_widened():
    assert [key.how for term in widen_terms(parse('foo "bar baz"')) for key in term.keys] == [
        MatchMode.PART,
        MatchMode.WHOLE,
        MatchMode.WHOLE,
    ]
    assert TermFinder(widen_terms(parse("indow"))).finds("window")
    assert widen_terms(parse('"a phrase"')) == parse('"a phrase"')


@settings(deadline=None)
@given(ODD, ODD)
def test_whatever_is_found_is_offered_by_the_index(query: str, text: str):
    try:
        terms = parse(query)
    except Rejected:
        return
    for each in (terms, widen_terms(terms)):
        if TermFinder(each).finds(text):
            assert all(_met(key, index_keys(fold(text))) for term in each for key in term.keys)


@settings(deadline=None)
@given(ODD)
def test_text_is_found_by_its_words(text: str):
    assert fold(text) == fold(unicodedata.normalize("NFC", text)) == fold(fold(text))
    for word in lexemes.split_tokens(fold(text)):
        assert finds(f'"{word}"', text)


@settings(deadline=None)
@given(st.text(alphabet="ab \n", min_size=1, max_size=60).map(lambda unit: unit * 2_000))
def test_pieces(text: str):
    cut = list(split_pieces(text))
    assert cut[0][0] == 0 and all(text[start : start + len(piece)] == piece for start, piece in cut)
    assert all(len(piece.encode()) <= 1 << 16 for _, piece in cut)
    for (start, piece), (after, _) in zip(cut, cut[1:], strict=False):
        assert start < after < start + len(piece), "pieces overlap"
    assert cut[-1][0] + len(cut[-1][1]) == len(text)


def test_longest_piece_of_wide_characters_is_below_64_kb():
    assert max(len(piece.encode()) for _, piece in split_pieces("𠀀" * 100_000)) <= 1 << 16
    assert len(list(split_pieces("x" * PIECE_CHARACTERS))) == 1 and not list(split_pieces(""))


def test_json_of_a_call_is_read_as_words():
    text = lexemes.searchable_text("tool_call", '{"text":"one\\ntwo \\"three\\""}')
    assert {"two", "three"} <= index_keys(fold(text)) and len(text) == len('{"text":"one\\ntwo \\"three\\""}')


def test_snippet_shows_the_places():
    text = "x " * 300 + "Le Café\n\n\x1b[31mest   bon, zwei   Wort und cafés " + "y " * 300
    found = TermFinder(parse('cafe "zwei wort"')).snippet(text, 160)
    assert [found.text[a:b] for a, b in found.places] == ["Café", "zwei Wort", "café"]
    assert found.text.startswith("… ") and found.text.endswith(" …") and "\x1b" not in found.text
    assert "Café est bon, zwei Wort und cafés" in found.text


def test_snippet_stands_where_most_terms_are_together():
    text = f"one {'.' * 500} one two {'.' * 500} two"
    found = TermFinder(parse("one two")).snippet(text, 160)
    assert [found.text[a:b] for a, b in found.places] == ["one", "two"]


def test_short_text_is_its_own_snippet():
    assert TermFinder(parse("b")).snippet("a b c", 160) == MarkedText("a b c", ((2, 3),))
    assert TermFinder(parse("zzz")).snippet("a b c", 160) == MarkedText("a b c")


@settings(deadline=None)
@given(ODD, ODD, st.booleans(), st.booleans())
@example("ab", "ab abab 日ab ab日 xab abx ab", True, True)
@example("aa", "aaa aa aaaa", True, True)
def test_borders_of_a_word_are_those_of_its_pattern(words: str, text: str, begins: bool, ends: bool):
    for word in lexemes.split_tokens(fold(words)):
        term = Term(word, (word,), begins=begins, ends=ends)
        assert snippets._finder(term)(fold(text)) == [each.span() for each in re.finditer(term.pattern, fold(text))]


@settings(deadline=None)
@given(ODD, ODD)
def test_places_are_what_was_searched_for(query: str, text: str):
    try:
        terms = parse(query)
    except Rejected:
        return
    finder = TermFinder(terms)
    found = finder.snippet(text, 160)
    assert clean(found.text) == found.text and "\n" not in found.text
    assert all(0 <= a < b <= len(found.text) for a, b in found.places)
    assert list(found.places) == sorted(found.places)


def test_what_is_more_relevant():
    finder = TermFinder(parse("window open"))

    def better(one: str, two: str) -> bool:
        return finder.score(one) > finder.score(two)

    assert better("the window is open", "the windows are opened")
    assert better("window open", f"window {'x ' * 500} open")
    assert better("window open, window open, window open", "window open, and so on, and so forth, again")


def test_folded_characters_are_folded_to_themselves() -> None:
    """So a text is folded one different letter at a time, in any order, or with many of them all at once."""
    every = [chr(code) for code in range(0x80, 0x20000) if not 0xD800 <= code < 0xE000]
    folded = "".join({fold(each) for each in every})
    assert [each for each in set(folded) if fold(each) != each] == []
    for letters in every[:1000], every[:50], every[200:250]:
        assert fold("".join(letters)) == "".join(map(fold, letters))
