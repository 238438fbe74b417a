"""Keep the outputs of a reply in the Responses format, and find the one that an event is about."""

from typing import Any

from ikigai.core.request.reply import Delta
from ikigai.providers.http.json_shape import as_mapping, as_string


class ResponseOutput:
    """One output: the pieces that came, and the deltas that wait for earlier outputs.

    `kind` is its item's type, `call` the number of calls before it. `unsigned` is a whole reasoning item that came
    without its encrypted content.
    """

    def __init__(self, kind: str, call: int) -> None:
        self.kind = kind
        self.call = call
        self.pieces: list[str] = []
        self.part: tuple[str, object] = ("", 0)
        self.name = ""
        self.phase = ""
        self.known = False
        self.done = False
        self.waiting: list[Delta] = []
        self.unsigned: dict[str, Any] = {}


class ResponseOutputs:
    """The outputs that have begun, by their index and by their id; `calls` of them are calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._placed: dict[int, ResponseOutput] = {}
        self._named: dict[str, ResponseOutput] = {}

    def in_order(self) -> list[ResponseOutput]:
        return [output for _, output in sorted(self._placed.items())]

    def without_signature(self) -> dict[str, ResponseOutput]:
        """Return the outputs with a reasoning item that came without its encrypted content, by its id."""
        return {id: output for id, output in self._named.items() if output.unsigned}

    def output_of(self, event: dict[str, Any], kind: str = "") -> ResponseOutput:
        """Return the output that an event is about; make it if it does not exist yet.

        Some servers leave out its index, or give the same one to all. There the id decides, or else it is the last of
        its kind.
        """
        item = as_mapping(event.get("item"))
        kind = kind or as_string(item.get("type"))
        place = event.get("output_index") if isinstance(event.get("output_index"), int) else None
        id = as_string(event.get("item_id")) or as_string(item.get("id"))
        if place is None and not id:
            id = as_string(item.get("call_id"))
        begins = event.get("type") == "response.output_item.added"
        output = self._named.get(id)
        if output and begins and output.known and (output.done or place not in (None, *self._placed)):
            output = None  # one id for several
        if output is None and place is not None:
            output = self._placed.get(place)
            if output and begins and output.known:
                output = None  # one index for all
        elif output is None and not id and not begins:
            output = next((o for o in reversed(self._placed.values()) if o.kind == kind and not o.done), None)
        if output is None:
            output = self._make_output(kind, place)
        if id:
            self._named[id] = output
        return output

    def _make_output(self, kind: str, place: int | None) -> ResponseOutput:
        """Return a new output at this index, or after all others if the index is missing or taken."""
        output = ResponseOutput(kind, self.calls)
        self.calls += kind == "function_call"
        if place is None or place in self._placed:
            place = max(self._placed, default=-1) + 1
        self._placed[place] = output
        return output
