"""Read the JSON schema of --schema, and check replies against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from ikigai.core.errors import ConfigError

MAX_ERROR_CHARACTERS = 300
"""Characters of a reason, which may quote the whole reply."""
_OF_DATABASE = "With -p, IKIGAI_DATABASE_SCHEMA={} chooses the schema of the database."
_REMEDY = "Name a file with a JSON schema: --schema FILE. Nothing was sent."


class ReplySchema:
    """A JSON schema that replies have to match; `text` is the schema as it is sent."""

    def __init__(self, file: str) -> None:
        """Read the schema. Raise ConfigError if it cannot be read, is not JSON, or is not a schema."""
        try:
            value: Any = msgspec.json.decode(Path(file).read_bytes())
        except OSError as error:
            remedy = _REMEDY if "." in file or "/" in file else f"{_REMEDY} {_OF_DATABASE.format(file)}"
            raise ConfigError(f"The schema {file} cannot be read: {error.strerror}.", remedy) from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"The schema {file} is not JSON: {error}.", _REMEDY) from None
        if not isinstance(value, dict) or not value:
            raise ConfigError(f"{file} is not a JSON schema: it is not an object with keywords.", _REMEDY)
        kind: Any = validator_for(value, default=Draft202012Validator)
        try:
            kind.check_schema(value)
        except SchemaError as error:
            raise ConfigError(f"{file} is not a JSON schema: {_describe(error)}.", _REMEDY) from None
        if missing := _missing_reference(value):
            raise ConfigError(f"The schema {file} refers to {missing}, which is not in it.", _REMEDY)
        self.text = msgspec.json.encode(value).decode()
        self._validator = kind(value, registry=Registry())  # nothing is fetched

    def parse(self, reply: str) -> tuple[Any, str]:
        """Return the value of the reply and ""; for a reply that does not match, None and why, in a sentence."""
        try:
            value: Any = msgspec.json.decode(reply)
        except msgspec.DecodeError as error:
            return None, f"The reply does not match the schema: it is not JSON ({error})."
        if error := best_match(self._validator.iter_errors(value)):
            return None, f"The reply does not match the schema: {_describe(error)}."
        return value, ""


def _missing_reference(schema: dict[str, Any]) -> str:
    """Return the first reference to something that is not in the schema, or ""."""
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            return reference
    return ""


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _describe(error: Any) -> str:
    text, place = error.message, error.json_path
    text = text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]}…"
    return text + (f" (at {place})" if place != "$" else "")
