"""This module defines the base of all JSON objects, and the types of their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Dollars: TypeAlias = Annotated[Decimal | float | None, Meta(description="US dollars; null if no price is known")]
Id: TypeAlias = Annotated[int, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]


class JsonObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all that is printed as JSON."""


def timestamp(at: float) -> datetime:
    """Return a time in seconds since 1970 as it is printed."""
    return datetime.fromtimestamp(at, UTC)
