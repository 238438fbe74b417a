"""Much is loaded only when it is wanted, by the loop or in threads: two that load at once must not stop one another.

Python locks a module while it is loaded, before the package that it is in. Where modules need one another in a circle,
and two threads enter that by different ones, each holds what the other waits for, and one of them fails with a
deadlock that the interpreter has seen. So into each circle there is one way only.
"""

import ast
import builtins
import contextlib
import importlib._bootstrap
import itertools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

bootstrap: Any = importlib._bootstrap
NAMED = ("import_module", "imported")
"""Functions that load the module of this name."""


@pytest.mark.timeout(600)  # it loads every SDK, in forks several times
@pytest.mark.parametrize("way", ["recorded", pytest.param("forked", marks=pytest.mark.long)])
def test_one_way_into_each_circle(way: str) -> None:
    """Take the loads of each function from a record of all of them, which takes a third of what forks take."""
    command, statements = [sys.executable, "-m", "tests.test_imports", way], json.dumps(longest(set(late())))
    ran = subprocess.run(command, cwd=ROOT, input=statements, stdout=subprocess.PIPE, text=True, check=True)
    loads = [tuple(load) for load in json.loads(ran.stdout)]
    wanted = {name for _, name in loads}
    assert {
        "markdown_it",
        "rich.console",
        "anthropic",
        "openai",
        "google.genai",
        "ikigai.app.tools.build_tools",
        "httpx2",
    } <= wanted
    needs = defaultdict[str, set[str]](set)
    for holder, name in loads:
        needs[name] |= {name.rpartition(".")[0]} - {""}
        if holder:
            needs[holder].add(name)
    found = circles(needs)
    assert found, "there are none: nothing was found out"
    for circle in found:
        ways = defaultdict[str, set[str]](set)
        for holder, name in loads:
            inside = holder.partition(".")[0] == name.partition(".")[0]  # of the package itself, which is there by then
            if name in circle and holder not in circle and not inside:
                ways[name].add(holder or "ikigai, where it runs")
        assert len(ways) <= 1, f"two threads may stop one another in here: {dict(ways)}"


def imported_in_functions(file: Path) -> set[str]:
    """Return the libraries that functions of a module import."""
    found = set[str]()
    functions = (
        node
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    for node in itertools.chain.from_iterable(map(ast.walk, functions)):
        if isinstance(node, ast.Import):
            found.update(each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - {"ikigai"}


def comment_on_imports(folder: Path) -> str:
    """Return the comment of a package about the imports in functions; "" for none."""
    comment = re.search(r"(?:^#.*\n)+", (folder / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    return comment[0] if comment and comment[0].startswith("# Imports inside functions") else ""


@pytest.mark.parametrize(
    "package", ["agent", "app", "cli", "config", "headless", "providers", "repl", "store", "terminal", "tools"]
)
def test_package_says_what_its_functions_import(package: str) -> None:
    """The folder of a module says it, or a folder above."""
    top = ROOT / "ikigai" / package
    assert comment_on_imports(top)
    for file in top.rglob("*.py"):
        folders = [each for each in file.parents if each.is_relative_to(top)]
        said = set(re.findall(r"\w+", "".join(map(comment_on_imports, folders))))
        assert imported_in_functions(file) <= said, file


def longest(statements: set[str]) -> list[str]:
    """Return the statements that are not the beginning of others, which load all that these load."""
    ordered = sorted(f"{each}\n" for each in statements)
    return [each for each, after in pairwise([*ordered, ""]) if not after.startswith(each)]


def late() -> Iterator[str]:
    """The imports that each function does while the program runs; not the imports of programs that it starts."""
    for file in (ROOT / "ikigai").rglob("*.py"):
        if file.stem.endswith("_child"):
            continue
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                nodes = (
                    node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
                )
                statements = (
                    _load(node, file) for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
                )
                if together := "\n".join(filter(None, statements)):
                    yield together


def _load(node: ast.stmt | ast.expr, file: Path) -> str:
    """The import that this is, with its name in full."""
    match node:
        case ast.ImportFrom(level=1):  # no module goes higher
            here = ".".join(file.relative_to(ROOT).parent.parts)
            return ast.unparse(ast.ImportFrom(f"{here}.{node.module or ''}".rstrip("."), node.names, 0))
        case ast.Import() | ast.ImportFrom():
            return ast.unparse(node)
        case ast.Call(args=[*_, ast.Constant(value=str(name))]) if _called(node) in NAMED:
            return f"import {name}" if name.replace(".", "").isidentifier() else ""
        case _:
            return ""


def _called(node: ast.expr) -> str:
    """Of what is called, or given to a thread to be called there."""
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return next((name for each in names if (name := each.id if isinstance(each, ast.Name) else each.attr) in NAMED), "")


def circles(needs: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that all need one another."""

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for name in needs.get(waiting.pop(), set()) - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    after = {name: reached(name) for name in needs}
    found: list[set[str]] = []
    for name, seen in after.items():
        if name in seen and not any(name in circle for circle in found):
            found.append({each for each in seen if name in after.get(each, set())})
    return found


def _loads(statement: str) -> list[tuple[str, str]]:
    """Who holds what while it loads what, when these run; "" for the statements themselves."""
    held, loads, load = [""], list[tuple[str, str]](), bootstrap._find_and_load

    def watched(name: str, import_: object) -> object:
        loads.append((held[-1], name))
        held.append(name)
        try:
            return load(name, import_)
        finally:
            held.pop()

    bootstrap._find_and_load = watched
    with contextlib.suppress(ImportError):  # of a package that not everybody has
        exec(statement, {})
    return loads


def _forked_loads(statements: list[str]) -> set[tuple[str, str]]:
    """Each in a process of its own, that has loaded what is there before there are two threads."""
    found = set[tuple[str, str]]()
    for statement in statements:
        read, write = os.pipe()
        if not (child := os.fork()):
            os.close(read)
            with open(write, "w") as file:
                json.dump(_loads(statement), file)
            os._exit(0)
        os.close(write)
        with open(read) as file:
            found |= {(holder, name) for holder, name in json.load(file)}
        os.waitpid(child, 0)
    return found


def _requests(statements: list[str]) -> dict[str, list[str]]:
    """Run all of them; return what each statement and each module asks for, loaded already or not, in its order."""
    asked = defaultdict[str, list[str]](list)
    held, load, plain = [""], bootstrap._find_and_load, builtins.__import__

    def loading(name: str, import_: object) -> object:
        asked[held[-1]].append(name)
        held.append(name)
        try:
            return load(name, import_)
        finally:
            held.pop()

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        full = resolve_name("." * level + name, globals["__package__"] or globals["__name__"]) if level else name
        holder = held[-1]
        asked[holder].append(full)
        found = plain(name, globals, locals, fromlist, level)
        asked[holder] += [inside for part in fromlist or () if (inside := f"{full}.{part}") in sys.modules]
        return found

    bootstrap._find_and_load, builtins.__import__ = loading, importing
    for statement in statements:
        held[:] = [statement]
        with contextlib.suppress(ImportError):  # of a package that not everybody has
            exec(statement, {})
    bootstrap._find_and_load, builtins.__import__ = load, plain
    return asked


def _recorded_loads(statements: list[str]) -> set[tuple[str, str]]:
    """Work out what forks would load: a module that is asked for first loads its package, then what it asks for.

    Packages that load a part when its attribute is read may do so for one module only. Forks see these for each.
    """
    before = set(sys.modules)
    asked = _requests(statements)
    found = set[tuple[str, str]]()

    def enter(holder: str, name: str, loaded: set[str]) -> None:
        if name in loaded:
            return
        found.add((holder, name))
        if package := name.rpartition(".")[0]:
            enter(name, package, loaded)
        if name in sys.modules and name not in loaded:
            loaded.add(name)
            for each in asked[name]:
                enter(name, each, loaded)

    for statement in statements:
        loaded = set(before)
        for each in asked[statement]:
            enter("", each, loaded)
    return found


if __name__ == "__main__":
    import ikigai.app.run.services
    import ikigai.repl.repl
    import ikigai.terminal.screen  # noqa: F401

    loads_of = _forked_loads if sys.argv[1:] == ["forked"] else _recorded_loads
    json.dump(sorted(loads_of(json.load(sys.stdin))), sys.stdout)
