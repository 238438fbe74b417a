"""Keywords of `replace` calls: `msgspec.structs.replace` takes any, and no type checker compares them with fields."""

import ast
from collections.abc import Iterator

from tests.test_style import PRODUCT

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_alias(node: ast.AnnAssign) -> bool:
    return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"


def find_fields(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Return the fields of each class whose name is not also an alias; an instantiated record has no subclass."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    aliases = {
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_alias(node)
    }
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name not in aliases]
    return {
        each.name: {
            item.target.id
            for item in each.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        for each in classes
    }


def find_calls(node: ast.AST, types: dict[str, str]) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call of `replace` with keywords, and the class of its first argument; "" if that is not annotated.

    `types` has the annotated names of the functions around the node.
    """
    if isinstance(node, ast.ClassDef):
        types = {**types, "self": node.name}
    elif isinstance(node, Function):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        types = {**types, **{each.arg: _class_name(each.annotation) for each in arguments if each.annotation}}
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        types[node.target.id] = _class_name(node.annotation)
    elif isinstance(node, ast.Call) and node.args and node.keywords and _called(node.func).endswith("replace"):
        yield node, types.get(ast.unparse(node.args[0]), "")
    for child in ast.iter_child_nodes(node):
        yield from find_calls(child, types)


def _class_name(annotation: ast.expr) -> str:
    return ast.unparse(annotation).strip("'\"").split(".")[-1]


def _called(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")


def find_wrong(sources: list[str]) -> tuple[list[str], int]:
    """Return the calls whose keywords are no fields: of the annotated class, else of any one class. Also return the
    number of calls.
    """
    trees = [ast.parse(source) for source in sources]
    fields = find_fields(trees)
    pairs = zip(sources, trees, strict=True)
    calls = [call for source, tree in pairs if "replace(" in source for call in find_calls(tree, {})]
    wrong = list[str]()
    for call, name in calls:
        keywords = {keyword.arg for keyword in call.keywords if keyword.arg}
        candidates = [fields[name]] if name in fields else fields.values()
        if not any(keywords <= each for each in candidates):
            wrong.append(ast.unparse(call))
    return wrong, len(calls)


def test_keywords_of_replace_are_fields_of_the_record() -> None:
    wrong, calls = find_wrong([file.read_text() for file in PRODUCT])
    assert not wrong
    assert calls > 60


def test_wrong_keyword_is_found_by_the_annotation_or_in_all_records() -> None:
    records = "class A(Record):\n  x: int\n  y: int\nclass B(Record):\n  z: int\n"
    annotated = "def f(a: 'A', b):\n  replace(a, x=1)\n  replace(a, z=1)\n  structs.replace(b, z=1)\n"
    unknown = "class A2(Record):\n  x: int\n  def f(self, b):\n    replace(self, y=1)\n    replace(b, x=1, z=2)\n"
    assert find_wrong([records, annotated, unknown]) == (
        ["replace(a, z=1)", "replace(self, y=1)", "replace(b, x=1, z=2)"],
        5,
    )
