"""The outputs of a reply in the Responses format: which of them an event of the stream is about."""

from typing import Any

from ikigai.core.request.reply import Delta
from ikigai.providers.json_shape import mapping, string


class Output:
    """One output: what of it came, and what of that waits until the outputs before it are through.

    `kind` is its item's type, `call` counts the calls before it.
    """

    def __init__(self, kind: str, call: int) -> None:
        self.kind = kind
        self.call = call
        self.came: list[str] = []
        self.part: tuple[str, object] = ("", 0)
        self.name = ""
        self.phase = ""
        self.known = False
        self.done = False
        self.waiting: list[Delta] = []


class Outputs:
    """The outputs that have begun, by their index and by their id; `calls` of them are calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._placed: dict[int, Output] = {}
        self._named: dict[str, Output] = {}

    def in_order(self) -> list[Output]:
        return [output for _, output in sorted(self._placed.items())]

    def about(self, event: dict[str, Any], kind: str = "") -> Output:
        """The output that an event is about, made if there is none yet.

        Servers that leave out its index, or give the same one to all, are understood by its id, or else it is the last
        of its kind.
        """
        item = mapping(event.get("item"))
        kind = kind or string(item.get("type"))
        place = event.get("output_index") if isinstance(event.get("output_index"), int) else None
        id = string(event.get("item_id")) or string(item.get("id"))
        if place is None and not id:
            id = string(item.get("call_id"))
        begins = event.get("type") == "response.output_item.added"
        found = self._named.get(id)
        if found and begins and found.known and (found.done or place not in (None, *self._placed)):
            found = None  # one id for several
        if found is None and place is not None:
            found = self._placed.get(place)
            if found and begins and found.known:
                found = None  # one index for all
        elif found is None and not id and not begins:
            found = next((o for o in reversed(self._placed.values()) if o.kind == kind and not o.done), None)
        if found is None:
            found = self._made(kind, place)
        if id:
            self._named[id] = found
        return found

    def _made(self, kind: str, place: int | None) -> Output:
        """A new one: at this place, or behind all others where there is none or it is taken."""
        made = Output(kind, self.calls)
        self.calls += kind == "function_call"
        if place is None or place in self._placed:
            place = max(self._placed, default=-1) + 1
        self._placed[place] = made
        return made
