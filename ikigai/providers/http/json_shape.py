"""Read JSON of any shape: a value of the wrong type becomes an empty one."""

from typing import Any


def as_mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return `value` as a count: 0 if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
