"""Names are found by a part of them, or by letters in their order."""

from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.search import fuzzy
from ikigai.core.search.fuzzy import ENOUGH_MATCHES, PATHS_PER_STEP, FuzzySearch, PathIndex


def best(paths: list[str], typed: str, recent: dict[str, int] | None = None) -> list[str]:
    names = PathIndex()
    names.add(paths)
    search = FuzzySearch(names, typed, recent or {})
    for _ in search:
        pass
    return search.best(100)


def test_few_names_are_found_by_their_begin_then_by_a_part_then_by_letters():
    known = ["clear", "rewind", "recall", "condense", "agents"]
    assert fuzzy.match_names("re", known) == ["rewind", "recall"]
    assert fuzzy.match_names("EN", known) == ["condense", "agents"]
    assert fuzzy.match_names("cnd", known) == ["condense"]
    assert fuzzy.match_names("xyz", known) == []
    assert fuzzy.match_names("", known) == known


@given(st.text("abc", max_size=4), st.text("abcd", max_size=8))
def test_letters_are_scattered_in_a_stretch_that_begins_and_ends_with_them(typed: str, text: str):
    span = fuzzy.match_span(typed, text)
    rest = iter(text)
    assert bool(span) == (bool(typed) and all(letter in rest for letter in typed))
    assert span == 0 or len(typed) <= span <= len(text)


def test_last_part_of_a_path_counts_more_than_the_folders_above_it():
    paths = ["main/x.py", "a/domain.py", "b/main.py", "c/my-art-in.py", "m/a/i/n/y.py"]
    assert best(paths, "main") == ["b/main.py", "a/domain.py", "c/my-art-in.py", "main/x.py", "m/a/i/n/y.py"]


def test_folder_is_ranked_by_its_own_name():
    paths = ["tests/test_a.py", "lib/notes.txt", "tests/", "attests/"]
    assert best(paths, "tes") == ["tests/", "tests/test_a.py", "attests/", "lib/notes.txt"]
    assert best(["a/tx-es/", "texts/es.py"], "tes") == ["a/tx-es/", "texts/es.py"]


def test_shorter_ones_and_those_mentioned_before_come_first():
    paths = ["src/deep/main.py", "src/main.py", "lib/main.py"]
    assert best(paths, "main") == ["lib/main.py", "src/main.py", "src/deep/main.py"]
    assert best(paths, "main", {"src/deep/main.py": 0})[0] == "src/deep/main.py"


def test_case_folders_odd_names_and_wide_characters():
    paths = ["README.md", "a b.txt", "日本語/ファイル.txt", "new\nline.txt", "İstanbul.txt", "a.b*c[d].txt"]
    assert best(paths, "readme") == ["README.md"]
    assert best(paths, "a b") == ["a b.txt"]
    assert best(paths, "ファ") == ["日本語/ファイル.txt"]
    assert best(paths, "w\nl") == ["new\nline.txt"]
    assert best(paths, "stan") == ["İstanbul.txt"]
    assert best(paths, "b*c[") == ["a.b*c[d].txt"]
    assert best(paths, "]^") == best(paths, "zz") == []
    assert best(["src/app/main.py", "src/main.py"], "app/ma") == ["src/app/main.py"]


def test_accents_do_not_matter_in_either():
    paths = ["Szülők/Árvíztűrő.md", "cafe\u0301.txt", "ガイド.txt", "plain.txt"]
    assert best(paths, "arviz") == best(paths, "ÁRVÍZ") == best(paths, "szu/arv") == paths[:1]
    assert best(paths, "café") == ["cafe\u0301.txt"] and best(paths, "pläin") == ["plain.txt"]
    assert best(paths, "ガイ") == ["ガイド.txt"]
    assert best(["o.txt", "ö.txt"], "ö") == ["ö.txt", "o.txt"] and best(["ö.txt", "o.txt"], "o")[0] == "o.txt"
    assert fuzzy.match_names("elo", ["Előadás", "b"]) == ["Előadás"] and fuzzy.match_names("EŐD", ["Előadás"]) == [
        "Előadás"
    ]


@given(st.lists(st.text("ab/._\n", min_size=1, max_size=8), max_size=12), st.text("ab/._\n", min_size=1, max_size=3))
def test_what_is_found_is_what_has_the_letters_in_their_order(paths: list[str], typed: str):
    wanted = {path for path in paths if fuzzy.match_span(typed, f"/{path}")}
    assert set(best(paths, typed)) == wanted


def test_hundred_thousand_paths_are_looked_through_in_steps_and_no_further_than_needed():
    names = PathIndex()
    names.add(f"src/folder{n % 100}/file{n}.py" for n in range(100_000))
    assert names.count == 100_000
    assert all(len(each.paths) <= PATHS_PER_STEP for each in names.slices)
    common, rare = FuzzySearch(names, "file", {}), FuzzySearch(names, "le99999.", {})
    assert sum(1 for _ in common) <= -(-ENOUGH_MATCHES // PATHS_PER_STEP) + 1
    assert sum(1 for _ in rare) == 3 * len(names.slices)
    assert rare.best(1) == ["src/folder99/file99999.py"]
    assert len(common.best(50)) == 50


def test_paths_that_come_while_the_search_goes_on_are_looked_at_too():
    names = PathIndex()
    names.add(["one.py"])
    search = FuzzySearch(names, "py", {})
    steps = iter(search)
    next(steps)
    names.add(["two.py"])
    for _ in steps:
        pass
    assert search.best(5) == ["one.py", "two.py"]
