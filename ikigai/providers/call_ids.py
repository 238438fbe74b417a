"""Give tool calls their ids: the model's own, unless it is missing or was used before."""

from collections.abc import Callable, Iterable
from uuid import uuid4

from ikigai.core.request import build
from ikigai.core.request.build import Request


def new_id(prefix: str = "call") -> str:
    """Return a fresh id: the vendor's prefix and 24 hexadecimal digits, as vendors make them themselves."""
    return f"{prefix}_{uuid4().hex[:24]}"


class CallIds:
    """The ids of calls in one conversation: one that is missing or `taken` is replaced by a new one."""

    def __init__(self, taken: Iterable[str], new: Callable[[], str]) -> None:
        self._taken = set(taken)
        self._new = new

    def own(self, id: str) -> str:
        """The id for a call that the server calls `id`."""
        given = id if id and id not in self._taken else self._new()
        self._taken.add(given)
        return given


def call_ids(request: Request) -> frozenset[str]:
    """Return the ids of the calls in a request."""
    return frozenset(build.call_ids(request.messages))
