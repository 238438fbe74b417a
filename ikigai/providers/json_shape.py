"""JSON that a server may have shaped in any way: what is not what it should be reads as nothing."""

from typing import Any


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """A count: 0 for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
