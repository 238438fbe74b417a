"""What is known of a model by its name: what it takes and gives, how it thinks and sees; and which to start with.

Three speak, and the first that says something counts: the configuration, the list endpoint of its provider as last
asked (`providers.model_list_cache`), the registry that came with ikigai (`providers.registry`). Nobody is asked here.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from ikigai.core.commands.arguments import LEVELS
from ikigai.core.errors import ConfigError
from ikigai.core.model import Limits
from ikigai.core.record import Record
from ikigai.providers import registry
from ikigai.providers.registry import Family

UNKNOWN = Limits(128_000, 8_192)
LOCAL = Limits(8_192, 2_048)

REPLY, THOUGHTFUL_REPLY = 8_192, 32_768
"""Tokens of output to ask for, where the model gives as many; thinking is paid from them, so it is given more."""

DEFAULTS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-6.1-sol",
    "google": "google/gemini-3.8-flash",
}
"""Provider → the model it is asked for when nobody chose: its general one, neither the largest nor the smallest. In the
order in which providers are tried."""

KINDS = {"anthropic": "adaptive", "google": "level"}
"""How a vendor is told a thinking level when nothing is known of the model; everybody else: "effort"."""

OWN = {"anthropic": "claude", "google": "gemini"}
"""The models that speak as their vendor does; what else is behind such an interface is told levels the usual way."""


class Traits(Record, frozen=True):
    """What a model can do, as far as its adapter asks. `levels` are the thinking levels it has, of `arguments.LEVELS`.

    `thinking` is how its vendor is told a level: "adaptive" (Anthropic: thinking adaptive and output_config.effort),
    "budget" (tokens: Anthropic's budget_tokens, Google's thinkingBudget), "effort" (OpenAI: reasoning.effort,
    reasoning_effort), "level" (Google's thinkingLevel), "" not at all: then `levels` is off alone and nothing is sent.
    `images` says whether it sees, `max_output` is the longest reply in tokens it can give, 0 where nobody knows.
    `off` is what Anthropic's thinking.type is at level off where that is not "disabled".
    """

    thinking: str = ""
    levels: tuple[str, ...] = ()
    images: bool = True
    max_output: int = 0
    off: str = ""


class Listed(Record, frozen=True):
    """A model as its vendor's list endpoint, or the configuration, describes it; what that leaves open is 0 or None.

    No `levels` at all, or off alone, is a model that does not think. `thinking` and `off` are as in `Traits`; "" leaves
    them open.
    """

    id: str
    context: int = 0
    max_output: int = 0
    levels: tuple[str, ...] | None = None
    images: bool | None = None
    thinking: str = ""
    off: str = ""


def _nothing(model: str) -> None:
    return None


def _itself(provider: str) -> str:
    return provider


class Models:
    """What is known of every "provider/name", from all who speak.

    `listed` is by provider, `known` what the configuration says of a model, `api` which vendor's way a provider speaks
    ("anthropic", "google", else OpenAI's).
    """

    def __init__(
        self,
        listed: Mapping[str, Iterable[Listed]] | None = None,
        known: Callable[[str], Listed | None] = _nothing,
        api: Callable[[str], str] = _itself,
    ) -> None:
        self._known, self._api = known, api
        self._listed: dict[str, dict[str, Listed]] = {}
        for provider, models in (listed or {}).items():
            self.learn(provider, models)

    def learn(self, provider: str, listed: Iterable[Listed]) -> None:
        """What the provider's list endpoint says now, in place of what it said before."""
        self._listed[provider] = {_bare(model.id): model for model in listed}

    def names(self, provider: str) -> list[str]:
        """The models of a provider by name, for completion: those known to be sold, then what else it has listed."""
        sold = registry.load().names.get(provider, ())
        return list(dict.fromkeys([*sold, *self._listed.get(provider, ())]))

    def limits(self, model: str) -> Limits:
        """The context, and the output to ask for. No more is asked for by itself than a quarter of the context."""
        known, listed, family = self._said(model), self._listing(model), self._family(model)
        if model.startswith("local/"):
            guess = LOCAL
        else:
            context = listed.context or (family.context if family else UNKNOWN.context)
            most = listed.max_output or (family.output if family else 0)
            thinks = bool(listed.thinking) or (family is not None and family.thinking not in ("", "none"))
            reply = THOUGHTFUL_REPLY if thinks else REPLY
            guess = Limits(context, min(reply, most or reply, context // 4))
        return Limits(known.context or guess.context, known.max_output or guess.max_output)

    def traits(self, model: str) -> Traits:
        provider = model.partition("/")[0]
        said, listed, family = self._said(model), self._listing(model), self._family(model)
        guess = _by_family(family, self._api(provider))
        levels = next((levels for levels in (said.levels, listed.levels) if levels is not None), None)
        if levels is None:
            levels = guess.levels
        sees = next((images for images in (said.images, listed.images) if images is not None), guess.images)
        thinks = any(level != "off" for level in levels)
        kind = said.thinking or listed.thinking or guess.thinking or KINDS.get(self._api(provider), "effort")
        return Traits(
            thinking=kind if thinks else "",
            levels=levels if thinks else ("off",),
            images=sees and not (provider == "local" and said.images is None),
            max_output=said.max_output or listed.max_output or guess.max_output,
            off=said.off or listed.off or guess.off,
        )

    def levels(self, model: str) -> tuple[str, ...]:
        """The thinking levels a model has, from least to most; all of them where nobody knows."""
        return self.traits(model).levels

    def check(self, model: str, level: str) -> None:
        """Raise ConfigError when the model does not have this thinking level; "" is the vendor's default and passes.

        What stands behind the : of a name is a level mistyped, where the vendor sells the name in front of it.
        """
        stem, _, word = model.rpartition(":")
        provider, _, name = stem.partition("/")
        if name in registry.load().names.get(provider, ()) and not (
            f"{name}:{word}" in self.names(provider) or self._said(model) != Listed(model)
        ):
            model, level = stem, word or "''"
        levels = self.levels(model)
        if level and level not in levels:
            raise ConfigError(
                _lacking(model.partition("/")[2], level, levels), "Choose one of these, or another model."
            )

    def _said(self, model: str) -> Listed:
        return self._known(model) or Listed(model)

    def _listing(self, model: str) -> Listed:
        provider, _, name = model.partition("/")
        return self._listed.get(provider, {}).get(_bare(name)) or Listed(name)

    def _family(self, model: str) -> Family | None:
        return registry.find(model.partition("/")[2])


def _bare(id: str) -> str:
    return id.removeprefix("models/")  # as Google lists them


def _by_family(family: Family | None, api: str) -> Traits:
    if family is None:
        return Traits(KINDS.get(api, "effort"), LEVELS)
    if family.thinking == "none":
        return Traits("", ("off",), family.images, family.output)
    if api not in OWN or not family.words.startswith(OWN[api]):
        return Traits(KINDS.get(api, "effort"), family.levels or LEVELS, family.images, family.output)
    kind = family.thinking or KINDS[api]
    return Traits(kind, family.levels or LEVELS, family.images, family.output, family.off)


def _lacking(name: str, level: str, levels: tuple[str, ...]) -> str:
    if levels == ("off",):
        return f"{name} does not think; it has no level but off."
    ranks = [LEVELS.index(one) for one in levels if one in LEVELS]
    what = f"{name} has no level {level}"
    if level in LEVELS and ranks:
        rank = LEVELS.index(level)
        if rank < min(ranks):
            what = f"{name} cannot think less than {LEVELS[min(ranks)]}"
        elif rank > max(ranks):
            what = f"{name} cannot think more than {LEVELS[max(ranks)]}"
    return f"{what}; it has {', '.join(levels)}."


def default(keys: Container[str]) -> str:
    """The model to start with, given the providers that have a key; empty if none is known here."""
    return next((model for provider, model in DEFAULTS.items() if provider in keys), "")
