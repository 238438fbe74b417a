"""What one run of the program brings to memory: settings, tools, and how the window is kept and measured."""

from collections.abc import Callable

from ikigai.core.bounds import Bounds, bounded
from ikigai.core.events import (
    Choices,
)
from ikigai.core.messages import ToolSpec
from ikigai.core.ports import Encoder, Limits
from ikigai.core.record import Record
from ikigai.core.results import Caps


class Rules(Record, frozen=True):
    """How the window is kept, besides the budget (`[context]`): tokens, and shares of the ceiling.

    `prune_fraction` is the step by which the cutoff moves, `max_history` caps what the turns that have ended take
    (0: nothing does), `caps` say what of tool results is sent.
    """

    prune_fraction: float = 0.0
    keep_first_turn: bool = False
    max_history: int = 0
    caps: Caps = Caps()


class Run(Record, frozen=True):
    """What this run of the program brings to memory: configuration, tools, and how to measure for a model.

    `above` (flags, environment) wins over an agent's own choices, `below` (profile, configuration, defaults) yields to
    them; `origins` names for each key of both where its value came from. `limits` and `encoder` take a model as
    settings name it, "provider/name".
    """

    below: Choices
    limits: Callable[[str], Limits]
    encoder: Callable[[str], Encoder]
    above: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    origins: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every record its own)
    tools: tuple[ToolSpec, ...] = ()
    planning: tuple[ToolSpec, ...] = ()  # the tools of a talk that plans a filter, instead of the others
    counter: str = "bytes"  # or "provider", "calibrated": how turns that have ended are counted
    rules: Rules = Rules()
    bounds: Bounds = Bounds()

    def counted(self, model: str) -> str:
        """Whose count of a turn of this model holds, as `TurnEnded.counted` says it; empty for plain bytes."""
        return "" if self.counter == "bytes" else f"{self.counter} {model}"

    def resolve(self, own: Choices) -> Choices:
        """The settings in force: what is wanted within the project's bounds, and what this run says before all."""
        return {**bounded(self.wanted(own), self.bounds), **self.above}

    def wanted(self, own: Choices) -> Choices:
        """The settings without those bounds. A level belongs to the model it was chosen for: with another it goes."""
        named = "model" in own or "model" in self.above
        below = {**self.below, "level": ""} if named and self.below.get("level") else self.below
        return {**below, **self._heeded(own), **self.above}

    def origin(self, key: str, own: Choices) -> str:
        if key in self.bounds.origins and self.resolve(own).get(key) != self.wanted(own).get(key):
            return self.bounds.origins[key]
        heeded = key in self._heeded(own) and key not in self.above
        return "agent" if heeded else self.origins.get(key, "default")

    def _heeded(self, own: Choices) -> Choices:
        """The agent's own choices without its level, where this run names another model than the agent's own."""
        model = self.above.get("model")
        if model is None or own.get("model", model) == model:
            return own
        return {key: value for key, value in own.items() if key != "level"}
