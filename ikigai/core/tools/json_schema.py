"""Build the JSON schema of a Struct in the form that vendors accept for a tool's arguments: one object, without empty
titles.
"""

from functools import cache

import msgspec


@cache
def build_schema(arguments: type[msgspec.Struct]) -> str:
    """Return the schema in JSON."""
    _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    whole = parts.pop(arguments.__name__)
    whole.pop("title", None)
    whole.pop("description", None)  # the tool's own says it
    return msgspec.json.encode({**whole, **({"$defs": parts} if parts else {})}).decode()
