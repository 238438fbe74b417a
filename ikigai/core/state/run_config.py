"""What one run of the program brings to memory: settings, tools, and how the window is kept and measured."""

from collections.abc import Callable

import msgspec

from ikigai.core.events import Choices
from ikigai.core.messages import ToolSpec
from ikigai.core.model import Encoder, Limits
from ikigai.core.record import Record
from ikigai.core.state.project_limits import Bounds, bounded
from ikigai.core.state.tool_results import Caps


class Rules(Record, frozen=True):
    """How the window is kept, besides the budget (`[context]`): tokens, and shares of the ceiling.

    `prune_fraction` is the step by which the cutoff moves, `max_history` caps what the turns that have ended take
    (0: nothing does), `caps` say what of tool results is sent.
    """

    prune_fraction: float = 0.0
    keep_first_turn: bool = False
    max_history: int = 0
    caps: Caps = Caps()


class Profile(Record, frozen=True):
    """What an agent has by choosing it: `settings` go above `Run.below`; `rules` and `counter` are the run's then."""

    settings: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    rules: Rules = Rules()
    counter: str = "bytes"


class Run(Record, frozen=True):
    """What this run of the program brings to memory: configuration, tools, and how to measure for a model.

    `above` (flags, environment) wins over an agent's own choices, `below` (profile, configuration, defaults) yields to
    them; `origins` names for each key of both where its value came from. `limits` and `encoder` take a model as
    settings name it, "provider/name". `profiles` go by their names, "" is what there is without one: the setting
    `profile` says which is in force, and `under` makes a run of it.
    """

    below: Choices
    limits: Callable[[str], Limits]
    encoder: Callable[[str], Encoder]
    above: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    origins: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every record its own)
    tools: tuple[ToolSpec, ...] = ()
    planning: Callable[[], tuple[ToolSpec, ...]] = (
        tuple  # gives the tools of a talk that plans a filter, for the others
    )
    counter: str = "bytes"  # or "provider", "calibrated": how turns that have ended are counted
    rules: Rules = Rules()
    profiles: dict[str, Profile] = {}  # noqa: RUF012  (msgspec gives every record its own)
    bounds: Bounds = Bounds()

    def under(self, profile: str) -> "Run":
        """The same with the rules of this profile in force; those of the configuration where it is not there."""
        found = self.profiles.get(profile) or self.profiles.get("")
        return msgspec.structs.replace(self, rules=found.rules, counter=found.counter) if found else self

    def profile(self, own: Choices) -> str:
        """The profile in force; "" for none."""
        return str({**self.below, **self._heeded(own), **self.above}.get("profile") or "")

    def counted(self, model: str) -> str:
        """Whose count of a turn of this model holds, as `TurnEnded.counted` says it; empty for plain bytes."""
        return "" if self.counter == "bytes" else f"{self.counter} {model}"

    def resolve(self, own: Choices) -> Choices:
        """The settings in force: what is wanted within the project's bounds, and what this run says before all."""
        return {**bounded(self.wanted(own), self.bounds), **self.above}

    def wanted(self, own: Choices) -> Choices:
        """The settings without those bounds. A level belongs to the model it was chosen for: with another it goes."""
        named = "model" in own or "model" in self.above
        below = {**self.below, **self._profiled(own)}
        if named and below.get("level"):
            below["level"] = ""
        return {**below, **self._heeded(own), **self.above}

    def origin(self, key: str, own: Choices) -> str:
        if key in self.bounds.origins and self.resolve(own).get(key) != self.wanted(own).get(key):
            return self.bounds.origins[key]
        if key in self.above:
            return self.origins.get(key, "default")
        if key in self._heeded(own):
            return "agent"
        return f"profile {self.profile(own)}" if key in self._profiled(own) else self.origins.get(key, "default")

    def _profiled(self, own: Choices) -> Choices:
        found = self.profiles.get(self.profile(own))
        return found.settings if found else {}

    def _heeded(self, own: Choices) -> Choices:
        """The agent's own choices without its level, where this run names another model than the agent's own.

        Without its profile where that is not there (any more), too.
        """
        if own.get("profile", "") not in ("", *self.profiles):
            own = {key: value for key, value in own.items() if key != "profile"}
        model = self.above.get("model")
        if model is None or own.get("model", model) == model:
            return own
        return {key: value for key, value in own.items() if key != "level"}
