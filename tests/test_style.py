"""Rules of names and docstrings that a machine can check."""

import re
from collections import Counter, defaultdict
from pathlib import Path

from tests import ROOT

PRODUCT = sorted((ROOT / "ikigai").rglob("*.py"))
EVERYTHING = [*PRODUCT, *sorted((ROOT / "tests").rglob("*.py"))]

CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
DOCSTRING = re.compile(r'^ *[rR]?"""\s*(\S.*)', re.MULTILINE)
"""Its first line. Strings that are no docstrings stand behind something."""
NO_BEGINNING = re.compile(r"(The same|This module|This package|What|Whether)\b")
"""Docstrings say "Return …" instead, or name the thing itself."""

PROSE = re.compile(r'^ *[rR]?"""(?:[^"]|"(?!""))*"""|(?:^|  )# [^\n]*', re.MULTILINE)
"""Docstrings and comments."""
NO_PHRASE = re.compile(r",\s+too\b|\b(?:that|those)\s+of\b|\bthere\s+(?:is|are)\s+none\b")
"""A reader has to look back for what these mean. The noun itself is said instead, or "also" before the verb."""
ARTICLE = re.compile(r"^(?:async )?def (test_(?:a|an|the)_\w+|test_(?:a|an|the))\(", re.MULTILINE)
"""A test that is named by an article says nothing before its second word."""

OPEN_TO_ALL = re.compile(
    r"""(\.write_text\(|\.write_bytes\(|\.touch\(|\bmakedirs\(|\bparents=True|\bumask\(|\.open\(["'][wax]"""
    r"""|(?<!_private\()(?<![.\w])open\([^()]*, ?["'][wax]b?["']|\.mkdir\((?!mode=))"""
)
"""Calls that make a file or folder with the modes of the umask, which is the user's; or that change the umask."""
SETS_NO_MODE = {
    "ikigai/tools/files/safe_paths.py": "os.mkdir of folders of the user's",
    "ikigai/store/embedded/keeper.py": "the umask of a process of its own",
}

OF_THEIR_FOLDER = {
    "__init__", "agent_tree", "agents", "database", "dump", "factory", "models", "paging", "provider",
    "purge", "reading", "search", "transfer", "usage", "window_history",
}  # fmt: skip
"""Names of several modules that their folders tell apart: the statements of a part of the store, the provider of a
vendor, the page of `ikigai doctor` about it.
"""


MAX_MODULES_IN_FOLDER = 15
"""More of them are no list to choose from: a reader has to know the name. In `core` subpackages count also."""


def find(pattern: re.Pattern[str], files: list[Path]) -> list[tuple[str, str]]:
    """Return the first group of each match, with its file and line."""
    texts = ((file, file.read_text()) for file in files)
    return [
        (each[1], f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, each.start(1)) + 1}")
        for file, text in texts
        for each in pattern.finditer(text)
    ]


def test_class_names_are_unique_in_the_program() -> None:
    places = defaultdict[str, list[str]](list)
    for name, place in find(CLASS, PRODUCT):
        places[name].append(place)
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [(place, text) for text, place in find(DOCSTRING, EVERYTHING) if NO_BEGINNING.match(text)]
    assert not found


def test_docstrings_and_comments_say_nouns_instead_of_pointing_at_them() -> None:
    assert not [
        f"{file.relative_to(ROOT)}: {prose[max(0, each.start() - 60) : each.end()]}"
        for file in EVERYTHING
        for prose in PROSE.findall(file.read_text())
        for each in NO_PHRASE.finditer(prose)
    ]
    assert all(NO_PHRASE.search(f"Return {each}") for each in ("it, too.", "those\n    of a row", "0 if there is none"))
    assert not NO_PHRASE.search("It is too long: there is no other one of that kind, also none of those.")


def test_test_names_begin_with_their_subject() -> None:
    assert not find(ARTICLE, EVERYTHING)


def test_own_files_get_their_modes_where_they_are_made() -> None:
    """The umask cannot do it: programs of tools inherit it."""
    found = [place for _, place in find(OPEN_TO_ALL, PRODUCT)]
    assert {place.partition(":")[0] for place in found} == {*SETS_NO_MODE}, found
    assert all(OPEN_TO_ALL.search(f"    x = {call}") for call in (
        'path.open("w")', "path.write_text(text)", "os.umask(0o077)", "folder.mkdir(exist_ok=True)", 'open(path, "ab")',
        "path.mkdir(mode=0o700, parents=True)", "os.makedirs(folder)",
    ))  # fmt: skip


def test_patterns_find_classes_and_docstrings_in_all_files() -> None:
    """Else the tests above would hold where nothing is found."""
    assert "StoredEvent" in {name for name, _ in find(CLASS, PRODUCT)}
    assert len(find(CLASS, PRODUCT)) > 400 and len(find(DOCSTRING, EVERYTHING)) > 3_000
    assert NO_BEGINNING.match("Whether it is.") and not NO_BEGINNING.match("Whatever is given.")
    assert ARTICLE.match("def test_a_turn(") and not ARTICLE.match("def test_attachment(")


def test_module_names_are_unique_but_for_those_of_their_folder() -> None:
    """A name that has become unique leaves its list, so that it cannot be given twice again."""
    names = [file.stem for file in PRODUCT]
    assert len(names) > 300
    assert {name for name in names if names.count(name) > 1} == OF_THEIR_FOLDER


def test_folders_have_few_modules() -> None:
    counts = Counter(file.parent for file in PRODUCT if file.stem != "__init__")
    core = ROOT / "ikigai" / "core"
    counts[core] += len({file.parent for file in PRODUCT if file.parent.parent == core})
    assert len(counts) > 50 and counts[core] > 10
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES_IN_FOLDER} == {}
