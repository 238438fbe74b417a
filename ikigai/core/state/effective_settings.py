"""Choose the settings in force, the effective budget among them. The first of these that has one wins:

    flags and variables of this run, until the agent chooses anew
    the agent's own choices (/budget, /model …)
    the profile, the configuration, the default

Choices that another user stored let no more run without a question than `ask` does, or than the user's own
configuration. A trusted project's limits make the result stricter, but not a result of a flag or variable
(`RunConfig.resolve`): of two budgets the smaller one holds. Under it a request may take no more than the model has room
for (`Memory.ceiling`). `RunConfig` describes all that a run gives to memory, also tools and rules of the window.
"""

from collections.abc import Callable, Collection

import msgspec

from ikigai.core.events.events import Choices
from ikigai.core.events.messages import ToolSpec
from ikigai.core.events.record import Record
from ikigai.core.request.model import Encoder, ModelLimits
from ikigai.core.state.project_limits import ProjectLimits, apply_limits
from ikigai.core.state.tool_results import ToolResultLimits


class WindowRules(Record, frozen=True):
    """The rules of the window besides the budget (`[context]`).

    `prune_fraction` is the step by which the cutoff moves, as a share of the ceiling. `max_history` caps the tokens of
    ended turns (0: no cap). `result_limits` limit the tool results that are sent.
    """

    prune_fraction: float = 0.25
    keep_first_turn: bool = False
    max_history: int = 0
    result_limits: ToolResultLimits = ToolResultLimits()


class RunProfile(Record, frozen=True):
    """A profile of an agent: its `settings` go above `RunConfig.below`; `rules`, `counter` and `fallback` replace the
    run's.
    """

    settings: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    rules: WindowRules = WindowRules()
    counter: str = "bytes"
    fallback: tuple[tuple[str, str], ...] = ()


class RunConfig(Record, frozen=True):
    """The configuration of one run, its tools, and how to measure for a model."""

    below: Choices
    """Settings of profile, configuration and defaults, which yield to all choices."""
    limits: Callable[[str], ModelLimits]
    """Function from a model as settings name it, "provider/name", to its limits."""
    encoder: Callable[[str], Encoder]
    """Function from a model, "provider/name", to its encoder."""
    above: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    """Settings of flags and environment, which win over the choices that an agent made up to the event `since`. A later
    choice was typed in this run and wins: `choose` moves its keys to `overridden`.
    """
    origins: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every record its own)
    """Origin of the value of each key in `below` and `above`."""
    tools: tuple[ToolSpec, ...] = ()
    planning: Callable[[], tuple[ToolSpec, ...]] = tuple
    """Return the tools of a planning talk."""
    counter: str = "bytes"
    """Way to count ended turns: "bytes", "provider" or "calibrated"."""
    rules: WindowRules = WindowRules()
    profiles: dict[str, RunProfile] = {}  # noqa: RUF012  (msgspec gives every record its own)
    """Profiles by their names; "" stands for no profile. The setting `profile` says which one is in force, and
    `with_profile` applies it.
    """
    project_limits: ProjectLimits = ProjectLimits()
    fallback: tuple[tuple[str, str], ...] = ()
    """Models, each with its level, that answer one after the other when the chosen one is down."""
    since: int = 0
    """The last event before this run."""
    overridden: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    """Settings that were in `above` until the user chose others in this run."""
    seal: Callable[[bytes], str] | None = None
    """Function that makes and proves the seals of rows that grant something. Without one all rows count, and settings
    are as they were recorded: so a follower sees them.
    """

    def choose(self, keys: Collection[str], at: int) -> "RunConfig":
        """Return the run after a choice of these settings by the event `at`. A level ends with the model it was for."""
        chosen = (
            {*keys, *(("level",) if "model" in keys else ())} & self.above.keys() if at > self.since else set[str]()
        )
        if not chosen:
            return self
        above = {key: value for key, value in self.above.items() if key not in chosen}
        overridden = self.overridden | {key: self.above[key] for key in chosen}
        return msgspec.structs.replace(self, above=above, overridden=overridden)

    def before_choices(self) -> "RunConfig":
        """Return the run as it was before any `choose`: a replay begins with that one."""
        return msgspec.structs.replace(self, above=self.above | self.overridden, overridden={})

    def with_profile(self, profile: str) -> "RunConfig":
        """Return the run with the rules of this profile, or of the configuration if the profile does not exist."""
        chosen = self.profiles.get(profile) or self.profiles.get("")
        if not chosen:
            return self
        return msgspec.structs.replace(self, rules=chosen.rules, counter=chosen.counter, fallback=chosen.fallback)

    def profile(self, own: Choices) -> str:
        """Return the profile in force; "" for none."""
        return str({**self.below, **self._effective_choices(own), **self.above}.get("profile") or "")

    def counter_of(self, model: str) -> str:
        """Return the counter of turns of this model, as `TurnEnded.counted` stores it; "" for plain bytes."""
        return "" if self.counter == "bytes" else f"{self.counter} {model}"

    def resolve(self, own: Choices) -> Choices:
        """Return the settings in force: within the project's limits, but settings from flags and variables first."""
        return {**apply_limits(self.resolve_unlimited(own), self.project_limits), **self.above}

    def resolve_unlimited(self, own: Choices) -> Choices:
        """Return the settings without the project's limits. A level belongs to the model that it was chosen for."""
        below = {**self.below, **self._profile_settings(own)}
        if ("model" in own or "model" in self.above) and below.get("level"):
            below["level"] = ""
        return {**below, **self._effective_choices(own), **self.above}

    def origin(self, key: str, own: Choices) -> str:
        """Return the name of the place that the value of `key` comes from."""
        if key in self.project_limits.origins and self.resolve(own).get(key) != self.resolve_unlimited(own).get(key):
            return self.project_limits.origins[key]
        if key in self.above:
            return self.origins.get(key, "default")
        if key in self._effective_choices(own):
            return "agent"
        has_profile = key in self._profile_settings(own)
        return f"profile {self.profile(own)}" if has_profile else self.origins.get(key, "default")

    def _profile_settings(self, own: Choices) -> Choices:
        profile = self.profiles.get(self.profile(own))
        return profile.settings if profile else {}

    def _effective_choices(self, own: Choices) -> Choices:
        """Return the agent's own choices, without a profile that does not exist any more.

        The level is also left out if this run names another model than the agent's own.
        """
        if own.get("profile", "") not in ("", *self.profiles):
            own = {key: value for key, value in own.items() if key != "profile"}
        model = self.above.get("model")
        if model is None or own.get("model", model) == model:
            return own
        return {key: value for key, value in own.items() if key != "level"}
