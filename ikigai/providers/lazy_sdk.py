"""Import an SDK without the parts of it that nothing asks for.

The `__init__` of an SDK's packages re-exports thousands of types, and ikigai sends and reads its own JSON: of
Anthropic's 3,150 modules it needs 250. `defer_exports` installs an import hook for one SDK. In each `__init__` of it, a
statement `from .module import name` is not executed, if nothing else there needs the name; the first access to the name
imports its module. So all names of the SDK stay, and mean what they meant. Python 3.15 has lazy imports of its own.

# Known limits
Names that are deferred are not in `dir()` of their package until they were asked for. An `__init__` that is not
understood is executed as it is.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

NAMESPACE_READERS = {"locals", "globals", "vars", "dir"}
"""Functions with which an `__init__` looks at the names in its `__all__`."""


def defer_exports(sdk: str) -> None:
    """Have the packages of this SDK import what they re-export on first access. Call it before the SDK is imported."""
    if sdk not in sys.modules and not any(isinstance(each, _SdkFinder) and each.sdk == sdk for each in sys.meta_path):
        sys.meta_path.insert(0, _SdkFinder(sdk))


class _SdkFinder:
    """Finds the packages of one SDK as Python does, with a loader that defers their exports."""

    def __init__(self, sdk: str) -> None:
        self.sdk = sdk

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.sdk and (not name.startswith(f"{self.sdk}.") or "._" in name):
            return None  # private packages find out by an import what is installed
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.submodule_search_locations and type(spec.loader) is SourceFileLoader:
            spec.loader = _ExportLoader(spec.loader.name, spec.loader.path)
        return spec


class _ExportLoader(SourceFileLoader):
    """Executes an `__init__` without the statements that only re-export."""

    def exec_module(self, module: ModuleType) -> None:
        code, exports = split_exports(Path(self.path))
        if not exports:
            super().exec_module(module)
            return

        def __getattr__(name: str) -> object:
            if name not in exports:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            value = getattr(importlib.import_module(exports[name], module.__package__), name)
            setattr(module, name, value)
            return value

        names = module.__dict__
        names["__getattr__"] = __getattr__
        exec(code, names)
        # `import *` takes the names of `__all__`, and without it those that are there already.
        names.setdefault("__all__", [name for name in (*names, *exports) if not name.startswith("_")])


def split_exports(file: Path) -> tuple[CodeType, dict[str, str]]:
    """Return the code of an `__init__` that has to be executed, and where each name that it re-exports comes from, as
    a relative module name. Without such names the code is the whole file's.
    """
    tree = ast.parse(file.read_bytes(), file)
    needed = _needed_names(tree)
    exports, executed = dict[str, str](), list[ast.stmt]()
    for statement in tree.body:
        names = _exported_names(statement, file.parent)
        if isinstance(statement, ast.ImportFrom) and names and not needed.intersection(names):
            exports |= dict.fromkeys(names, "." * statement.level + (statement.module or ""))
        else:
            executed.append(statement)
    own_getattr = any(isinstance(each, ast.FunctionDef) and each.name == "__getattr__" for each in ast.walk(tree))
    if own_getattr or needed == {"*"}:
        exports, executed = {}, tree.body
    tree.body = executed
    return compile(tree, file, "exec", dont_inherit=True), exports


def _needed_names(tree: ast.Module) -> set[str]:
    """Return the names that an `__init__` itself uses; {"*"} where that cannot be known."""
    needed = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    if needed.isdisjoint(NAMESPACE_READERS):
        return needed
    listed = _listed_names(tree)
    return {"*"} if listed is None else needed | set(listed)


def _listed_names(tree: ast.Module) -> list[str] | None:
    """Return the names in `__all__`; None where it is missing, or not a list of strings."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name("__all__")], value=ast.List(elts=elements) | ast.Tuple(elts=elements)):
                names = [each.value for each in elements if isinstance(each, ast.Constant)]
                return [name for name in names if isinstance(name, str)]
            case _:
                pass
    return None


def _public_names(package: Path) -> list[str]:
    """Return the names that `import *` takes from an `__init__` which only re-exports, or lists them; [] elsewhere."""
    if not package.is_file():
        return []
    tree = ast.parse(package.read_bytes())
    names = _listed_names(tree)
    if names is None and all(isinstance(each, ast.ImportFrom) for each in tree.body):
        imported = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
        names = [alias.asname or alias.name for each in imported for alias in each.names]
    return [name for name in names or [] if name != "*" and not name.startswith("_")]


def _exported_names(statement: ast.stmt, folder: Path) -> list[str]:
    """Return the names that a statement re-exports from a module of the SDK under their own names; [] for none."""
    if not isinstance(statement, ast.ImportFrom) or not statement.level or not statement.module:
        return []
    source = folder.joinpath(*[".."] * (statement.level - 1), *statement.module.split("."))
    names = [each.name for each in statement.names]
    if names == ["*"]:
        names = _public_names(source / "__init__.py")
    elif any(each.asname not in (None, each.name) for each in statement.names):
        return []
    # To import a submodule binds its name in the package, so that a name like it would be found changed.
    is_clear = not any((folder / f"{name}.py").exists() or (folder / name).is_dir() for name in names)
    return names if is_clear else []
