"""Read the manifest of a plugin, `plugin.json`, as Agent Plugins 1.0.0 defines it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ikigai.core.text.sanitize import clean_line

MANIFEST_FILE = "plugin.json"
SCHEMAS = "https://agent-plugins.org/schemas/1.0.0/"
"""Where the schemas of the format are named; nothing is fetched from there."""


class Author(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    email: str = ""
    url: str = ""


class Manifest(msgspec.Struct, frozen=True):
    """The fields of a manifest."""

    schema: str = msgspec.field(name="$schema")
    name: Annotated[str, Meta(max_length=64, pattern=r"^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z")]
    version: str = ""
    description: str = ""
    author: Author = msgspec.field(default_factory=Author)
    homepage: str = ""
    repository: str = ""
    license: str = ""
    keywords: tuple[str, ...] = ()
    extensions: dict[str, Any] = msgspec.field(default_factory=dict)


def read_manifest(content: bytes) -> tuple[Manifest, list[str]]:
    """Return the manifest, and clauses about what is ignored in it. Raise ValueError, with a clause."""
    fields = read_object(content, MANIFEST_FILE, "plugin.schema.json")
    known = [field.encode_name for field in msgspec.structs.fields(Manifest)]
    unknown = [clean_line(name)[:60] for name in fields if name not in known]
    ignored = [f"{MANIFEST_FILE} has an unknown field {name!r}" for name in unknown]
    if not isinstance(fields.get("extensions", {}), dict):
        ignored.append(f"{MANIFEST_FILE} has extensions that are not an object")
        del fields["extensions"]
    try:
        return msgspec.convert(fields, Manifest), ignored
    except msgspec.ValidationError as error:
        raise ValueError(f"{MANIFEST_FILE} is not valid: {clean_line(str(error))}") from None


def read_object(content: bytes, file: str, schema: str) -> dict[str, Any]:
    """Return the object in a file that names this schema. Raise ValueError, with a clause."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file} is not a JSON object: {clean_line(str(error))}") from None
    if found.get("$schema") != SCHEMAS + schema:
        named = clean_line(str(found.get("$schema", "no $schema")))[:100]
        raise ValueError(f"{file} is not of Agent Plugins 1.0.0: it names {named}, not {SCHEMAS}{schema}")
    return found
