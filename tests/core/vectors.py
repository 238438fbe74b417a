"""Read the test vectors of two other programs, copied into tests/golden."""

import json
from typing import Any

from tests import GOLDEN


def cases(feature: str, file: str = "peer_window.json") -> list[dict[str, Any]]:
    """Return the vectors of one feature, their long strings written out."""
    found = json.loads((GOLDEN / file).read_text())["cases"]
    return [_whole(case) for case in found if case["feature"] == feature]


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$concat"}:
            return "".join(_whole(part) for part in value["$concat"])
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
