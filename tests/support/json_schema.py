"""Make the JSON Schema of all that the program prints, and check output against the published one.

python -m tests.support.json_schema      writes docs/reference/json-schema.json anew
"""

import importlib
import inspect
import json
import pkgutil
import re
from functools import cache
from typing import Any, Union

import msgspec
from jsonschema import Draft202012Validator, FormatChecker

from ikigai.app import json_records
from ikigai.app.json_records.record_fields import PrintedRecord
from tests import ROOT

FILE = ROOT / "docs" / "reference" / "json-schema.json"
ABOUT = (
    "Every line that ikigai prints when JSON is asked for (--json, --output-format json or stream-json) is one of "
    "these objects; `type` says which. An object of an error stands where the command did nothing, or not all; the "
    "exit code of the program is its `code`."
)


formats = FormatChecker(())


@formats.checks("date-time")
def _is_rfc3339(value: object) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", str(value)))


def make() -> dict[str, Any]:
    """Return the schema of the records that the program prints."""
    for module in pkgutil.iter_modules(json_records.__path__, f"{json_records.__name__}."):
        importlib.import_module(module.name)
    records = Union[tuple(sorted(PrintedRecord.__subclasses__(), key=lambda each: each.__name__))]  # noqa: UP007
    (root,), definitions = msgspec.json.schema_components([records], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON output of ikigai",
        "description": ABOUT,
        **_plain(root),
        "$defs": {name: _plain(each) for name, each in sorted(definitions.items())},
    }


def _plain(schema: Any) -> Any:
    """Return the schema as JSON Schema has it: without what only OpenAPI knows, and with money as numbers."""
    if isinstance(schema, list | tuple):
        return [_plain(each) for each in schema if each != {"type": "string", "format": "decimal"}]
    if not isinstance(schema, dict):
        return inspect.cleandoc(schema) if isinstance(schema, str) else schema
    if schema.get("type") == "object" and "properties" in schema:
        schema = {**schema, "additionalProperties": False}
    return {key: _plain(value) for key, value in schema.items() if key != "discriminator"}


@cache
def _validator(kind: str) -> Draft202012Validator:
    """Return the validator of the published schema, for objects of this type."""
    schema = json.loads(FILE.read_text())
    references = [each["$ref"] for each in schema["anyOf"]]
    kinds = {schema["$defs"][each.rpartition("/")[2]]["properties"]["type"]["enum"][0]: each for each in references}
    reference = kinds[kind]
    whole = {"$ref": reference, "$defs": schema["$defs"], "$schema": schema["$schema"]}
    return Draft202012Validator(whole, format_checker=formats)


def check(output: str) -> list[dict[str, Any]]:
    """Check that every line of the output is an object of the published schema; return the objects."""
    records = [json.loads(line) for line in output.splitlines()]
    for record in records:
        _validator(record["type"]).validate(record)
    return records


if __name__ == "__main__":
    FILE.write_text(json.dumps(make(), indent=2, ensure_ascii=False) + "\n")
