"""Tests of the pages that people write: the size of the README, and the links of files outside the site."""

import ast
import re
from collections.abc import Iterator

import pytest

from ikigai import __version__
from tests import ROOT
from tests.docs.blocks import BLOCK, PAGES

MOST_WORDS = 900
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)|(?:src|href)=\"([^\"#]+)")


def test_readme_is_short() -> None:
    assert 200 < len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page, without blocks, tables and the targets of links."""
    for pattern in (BLOCK, re.compile(r"^\|.*$", re.MULTILINE), re.compile(r"<!--.*?-->", re.DOTALL)):
        text = pattern.sub("", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-#]|\d+\. )", text):
        yield from re.split(r"(?<=[.!?:])\s+(?=[^a-z])|(?<=;)\s", " ".join(paragraph.split()))


def test_sentences_are_short() -> None:
    """At most 25 words, but for one in fifty, which has 40 at most."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    found = [(len(each.split()), each) for page in pages for each in sentences(page.read_text(encoding="utf-8"))]
    long = [each for each in found if each[0] > 25]
    assert len(found) > 800
    assert len(long) <= len(found) / 50 and max(words for words, _ in found) <= 40, sorted(long)


def test_changelog_names_this_version_with_a_date() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(__version__)}\] - 20\d\d-\d\d-\d\d$", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_outside_the_site_lead_to_files(name: str) -> None:
    """The strict build checks those between pages."""
    targets = [found[1] or found[3] for found in LINK.finditer((ROOT / name).read_text())]
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def defined_in(file: str) -> set[str]:
    """Return the classes and functions of a module, and the methods as Class.method."""
    kinds, names = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef), set[str]()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, kinds):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{each.name}" for each in node.body if isinstance(each, kinds))
    return names


def test_walk_of_a_message_names_what_its_files_define() -> None:
    """Each name stands in the next file of its paragraph, else in the one before; one placed before needs none."""
    page = (ROOT / "docs/development/architecture.md").read_text(encoding="utf-8")
    walk = page.partition("## The life of one message")[2].partition("### How many modules")[0]
    placed = set[str]()
    for paragraph in re.split(r"\n\n|\n(?=\d+\. )", walk):
        spans: list[str] = re.findall(r"`([^`]+)`", paragraph)
        for number, name in enumerate(spans):
            if not name.endswith(".py") and name not in placed:
                files = [each for each in (*spans[number:], *reversed(spans[:number])) if each.endswith(".py")]
                assert name in defined_in(files[0]), f"{name} in {files[0]}"
                placed.add(name)
    assert len(placed) > 30


def test_architecture_names_the_folders_of_each_package() -> None:
    _, _, section = (ROOT / "docs" / "development" / "architecture.md").read_text().partition("### Folders inside")
    named = {
        row[1]: set(re.findall(r"`(\w+)`", row[2])) for row in re.finditer(r"^\| `(\w+)` \| (.*) \|$", section, re.M)
    }
    top = ROOT / "ikigai"
    folders = {package.name: {file.parent.name for file in package.rglob("*/__init__.py")} for package in top.iterdir()}
    assert named == {name: inside for name, inside in folders.items() if inside}
