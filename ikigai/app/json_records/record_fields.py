"""Base of all JSON objects, and the types of their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import Meta, Struct

Id: TypeAlias = Annotated[int, Meta(ge=0)]
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]


class JsonObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all that is printed as JSON."""


class PrintedRecord(JsonObject):
    """The base of the objects on a line of their own."""


class AgentObject(JsonObject):
    """The base of the objects that begin with their agent."""

    agent: str
    agent_id: str


_Object = TypeVar("_Object", bound=JsonObject)


def record_of(kind: type[_Object], source: object, /, **others: Any) -> _Object:
    """Return an object of this kind: `others`, and for all fields besides the attributes of `source` with their names.

    A field that `source` does not have keeps its default.
    """
    names = (name for name in kind.__struct_fields__ if name not in others and hasattr(source, name))
    return kind(**{name: getattr(source, name) for name in names}, **others)


def timestamp(at: float) -> datetime:
    """Return a time in seconds since 1970 as it is printed."""
    return datetime.fromtimestamp(at, UTC)
