"""An SDK whose exports are deferred has the same names as without, and loads far fewer modules."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ikigai.providers.lazy_sdk import split_exports

LOOK = """
import importlib, json, sys, types
sdk, deferred, packages = sys.argv[1], sys.argv[2] == "deferred", json.loads(sys.argv[3])
if deferred:
    from ikigai.providers.lazy_sdk import defer_exports
    defer_exports(sdk)
root = importlib.import_module(sdk)
loaded = sum(name.partition(".")[0] == sdk for name in sys.modules)
found = {}
for package in packages:
    module = importlib.import_module(package)
    names = found[package] = {}
    for name in json.loads(sys.argv[4])[package] if deferred else sorted(vars(module)):
        value = None if name.startswith("_") else getattr(module, name, "missing")
        if name.isidentifier() and value is not None and type(value) is not types.ModuleType:
            names[name] = [type(value).__name__]
            if isinstance(value, (type, types.FunctionType)):
                names[name] += [value.__module__, value.__qualname__]
try:
    root.no_such_name
except AttributeError as error:
    found["missing"] = {"no_such_name": [str(error)]}
print(json.dumps([loaded, found]))
"""
PACKAGES = {
    "anthropic": ["anthropic", "anthropic.types", "anthropic.types.beta", "anthropic.lib.vertex"],
    "openai": ["openai", "openai.types", "openai.types.responses", "openai.types.chat"],
}


def look(sdk: str, how: str, names: object = None) -> tuple[int, dict[str, dict[str, list[str]]]]:
    """Return the number of the SDK's modules that importing it loads, and the names in its packages."""
    command = [sys.executable, "-c", LOOK, sdk, how, json.dumps(PACKAGES[sdk]), json.dumps(names)]
    loaded, found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return loaded, found


@pytest.mark.ordinary("anthropic")
@pytest.mark.parametrize("sdk", PACKAGES)
def test_deferred_exports_are_those_of_the_sdk(sdk: str) -> None:
    whole, names = look(sdk, "whole")
    deferred, same = look(sdk, "deferred", {package: sorted(names[package]) for package in PACKAGES[sdk]})
    pairs = {(package, name): (of[name], same[package].get(name)) for package, of in names.items() for name in of}
    assert not {at: (before, now) for at, (before, now) in pairs.items() if before != now}
    assert same["missing"] == names["missing"]
    assert deferred < whole / 2, (deferred, whole)


@pytest.mark.parametrize(
    ("text", "deferred"),
    [
        ("from .a import A as A, B\n", {"A", "B"}),
        ("from ..up import C\n", {"C"}),
        ("from .a import A\nprint(A)\n", set[str]()),
        ("from .a import A\ndef make(): return A()\n", set[str]()),
        ("from .a import A as Other\n", set[str]()),
        ("from . import a\n", set[str]()),
        ("from json import loads\n", set[str]()),
        ("from .a import sub\n", set[str]()),
        ("from .a import A, B\n__all__ = ['A']\nfor each in __all__: locals()[each]\n", set[str]()),
        ("from .a import A\nfrom .b import B\n__all__ = ['A']\nfor each in __all__: locals()[each]\n", {"B"}),
        ("from .a import A\n__all__ = make()\nvars()\n", set[str]()),
        ("from .a import A\ndef __getattr__(name): return 1\n", set[str]()),
        ("from .package import *\n", {"D", "E"}),
        ("from .a import *\n", set[str]()),
    ],
)
def test_export_that_is_only_passed_on_is_deferred(tmp_path: Path, text: str, deferred: set[str]) -> None:
    for folder in ("sub", "package"):
        (tmp_path / folder).mkdir()
    (tmp_path / "package/__init__.py").write_text("from .d import D, E, F\n__all__ = ['D', 'E']\n")
    (tmp_path / "__init__.py").write_text(text)
    _, exports = split_exports(tmp_path / "__init__.py")
    assert set(exports) == deferred
