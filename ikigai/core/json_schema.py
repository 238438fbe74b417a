"""The JSON schema of a Struct, as vendors want that of a tool's arguments: one object, without what says nothing."""

from functools import cache

import msgspec


@cache
def schema(arguments: type[msgspec.Struct]) -> str:
    """The schema in JSON."""
    _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    whole = parts.pop(arguments.__name__)
    whole.pop("title", None)
    whole.pop("description", None)  # the tool's own says it
    return msgspec.json.encode({**whole, **({"$defs": parts} if parts else {})}).decode()
