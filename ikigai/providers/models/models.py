"""Describe models by their names: limits, thinking and images, and the model to start with.

There are three sources, and the first that says something counts: the configuration, the last list of its provider
(`providers.models.model_list_cache`), the registry that came with ikigai (`providers.models.bundled_models`). It sends
no requests.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from msgspec.structs import replace

from ikigai.core.commands.arguments import THINKING_LEVELS
from ikigai.core.errors import ConfigError
from ikigai.core.events.record import Record
from ikigai.core.request.model import ModelLimits
from ikigai.core.vendors import VENDORS
from ikigai.providers.models import bundled_models
from ikigai.providers.models.bundled_models import ModelFamily

UNKNOWN_LIMITS = ModelLimits(128_000, 8_192)
LOCAL_LIMITS = ModelLimits(8_192, 2_048)

MAX_REPLY_TOKENS, MAX_THINKING_REPLY_TOKENS = 8_192, 32_768
"""Tokens of output to ask for, if the model gives as many. Thinking counts as output, so models that think get more."""


class ModelTraits(Record, frozen=True):
    """The abilities of a model that its adapter needs. `levels` are its thinking levels, of
    `arguments.THINKING_LEVELS`.

    `thinking` is the form of a level: "adaptive" (Anthropic: thinking adaptive and output_config.effort), "budget"
    (tokens: Anthropic's budget_tokens, Google's thinkingBudget), "effort" (OpenAI: reasoning.effort, reasoning_effort),
    "level" (Google's thinkingLevel), or "" for none: then `levels` is off alone and nothing is sent. `images` says that
    it sees, `max_output` is the longest reply in tokens, 0 if unknown. `off` is Anthropic's thinking.type at level off
    if that is not "disabled".
    """

    thinking: str = ""
    levels: tuple[str, ...] = ()
    images: bool = True
    max_output: int = 0
    off: str = ""


class ListedModel(Record, frozen=True):
    """A model as its vendor's list endpoint, or the configuration, describes it; open values are 0 or None.

    A model with no `levels` at all, or off alone, does not think. `thinking` and `off` are as in `ModelTraits`; ""
    leaves them open. `tools` says that it takes tools, `vendor_search` that its vendor can search the web for it.
    """

    id: str
    context: int = 0
    max_output: int = 0
    levels: tuple[str, ...] | None = None
    images: bool | None = None
    thinking: str = ""
    off: str = ""
    tools: bool | None = None
    vendor_search: bool | None = None


def _nothing(model: str) -> None:
    return None


def _provider(model: str) -> str:
    return model.partition("/")[0]


class ModelCatalog:
    """The facts about every "provider/name", from all sources.

    `listed` is by provider, `known` returns the configuration's values of a model, `api` the vendor whose API a
    model is spoken to in ("anthropic", "google", else OpenAI's).
    """

    def __init__(
        self,
        listed: Mapping[str, Iterable[ListedModel]] | None = None,
        known: Callable[[str], ListedModel | None] = _nothing,
        api: Callable[[str], str] = _provider,
    ) -> None:
        self._known, self._api = known, api
        self._listed: dict[str, dict[str, ListedModel]] = {}
        for provider, models in (listed or {}).items():
            self.learn(provider, models)

    def learn(self, provider: str, listed: Iterable[ListedModel]) -> None:
        """Replace the provider's list by the one its list endpoint returned now."""
        self._listed[provider] = {_bare(model.id): model for model in listed}

    def without_tools(self, model: str) -> Iterable[ListedModel]:
        """Take no tools of this model for granted: it has refused them. Return the list of its provider."""
        provider, _, name = model.partition("/")
        listing = self._listed.setdefault(provider, {})
        listing[_bare(name)] = replace(self._listing(model), tools=False)
        return listing.values()

    def with_refusals(self, provider: str, listed: Iterable[ListedModel]) -> tuple[ListedModel, ...]:
        """Return a new list of the provider, with the refusals of tools that are known where it does not say."""
        known = self._listed.get(provider, {})
        return tuple(
            replace(model, tools=known[_bare(model.id)].tools)
            if model.tools is None and _bare(model.id) in known
            else model
            for model in listed
        )

    def names(self, provider: str) -> list[str]:
        """Return the names of a provider's models, for completion: those known to be sold, then others that it has
        listed.
        """
        sold = bundled_models.load().names.get(provider, ())
        return list(dict.fromkeys([*sold, *self._listed.get(provider, ())]))

    def limits(self, model: str) -> ModelLimits:
        """Return the context, the output to ask for, and True for tools. The default output is at most a quarter of the
        context.
        """
        known, listed, family = self._configured(model), self._listing(model), self._family(model)
        if model.startswith("local/"):
            guess = LOCAL_LIMITS
        else:
            context = listed.context or (family.context if family else UNKNOWN_LIMITS.context)
            most = listed.max_output or (family.output if family else 0)
            thinks = bool(listed.thinking) or (family is not None and family.thinking not in ("", "none"))
            reply = MAX_THINKING_REPLY_TOKENS if thinks else MAX_REPLY_TOKENS
            guess = ModelLimits(context, min(reply, most or reply, context // 4))
        tools = next((says for says in (known.tools, listed.tools) if says is not None), guess.tools)
        return ModelLimits(known.context or guess.context, known.max_output or guess.max_output, tools)

    def vendor_search(self, model: str) -> bool | None:
        """Return what the configuration says of a web search of the model's vendor; None for nothing."""
        return self._configured(model).vendor_search

    def traits(self, model: str) -> ModelTraits:
        provider, api = model.partition("/")[0], self._api(model)
        configured, listed, family = self._configured(model), self._listing(model), self._family(model)
        guess = _by_family(family, api)
        levels = next((levels for levels in (configured.levels, listed.levels) if levels is not None), None)
        if levels is None:
            levels = guess.levels
        images = next((known for known in (configured.images, listed.images) if known is not None), guess.images)
        thinks = any(level != "off" for level in levels)
        kind = configured.thinking or listed.thinking or guess.thinking or _thinking(api)
        return ModelTraits(
            thinking=kind if thinks else "",
            levels=levels if thinks else ("off",),
            images=images and not (provider == "local" and configured.images is None),
            max_output=configured.max_output or listed.max_output or guess.max_output,
            off=configured.off or listed.off or guess.off,
        )

    def levels(self, model: str) -> tuple[str, ...]:
        """Return the thinking levels of a model, from least to most; all of them if unknown."""
        return self.traits(model).levels

    def check(self, model: str, level: str) -> None:
        """Raise ConfigError if the model does not have this thinking level; "" is the vendor's default and passes.

        A suffix after the : of a name is a mistyped level if the vendor sells the name before it.
        """
        stem, _, word = model.rpartition(":")
        provider, _, name = stem.partition("/")
        if name in bundled_models.load().names.get(provider, ()) and not (
            f"{name}:{word}" in self.names(provider) or self._configured(model) != ListedModel(model)
        ):
            model, level = stem, word or "''"
        levels = self.levels(model)
        if level and level not in levels:
            raise ConfigError(
                _missing_level(model.partition("/")[2], level, levels), "Choose one of these, or another model."
            )

    def _configured(self, model: str) -> ListedModel:
        return self._known(model) or ListedModel(model)

    def _listing(self, model: str) -> ListedModel:
        provider, _, name = model.partition("/")
        return self._listed.get(provider, {}).get(_bare(name)) or ListedModel(name)

    def _family(self, model: str) -> ModelFamily | None:
        return bundled_models.find(model.partition("/")[2])


def _bare(id: str) -> str:
    return id.removeprefix("models/")  # as Google lists them


def _by_family(family: ModelFamily | None, api: str) -> ModelTraits:
    if family is None:
        return ModelTraits(_thinking(api), THINKING_LEVELS)
    if family.thinking == "none":
        return ModelTraits("", ("off",), family.images, family.output)
    own = VENDORS[api].own_models if api in VENDORS else ""
    if not own or not family.words.startswith(own):
        return ModelTraits(_thinking(api), family.levels or THINKING_LEVELS, family.images, family.output)
    kind = family.thinking or _thinking(api)
    return ModelTraits(kind, family.levels or THINKING_LEVELS, family.images, family.output, family.off)


def _thinking(api: str) -> str:
    """Return the form of levels over this API when nothing is known of the model."""
    return VENDORS[api].thinking if api in VENDORS else "effort"


def _missing_level(name: str, level: str, levels: tuple[str, ...]) -> str:
    if levels == ("off",):
        return f"{name} does not think; its only level is off."
    ranks = [THINKING_LEVELS.index(one) for one in levels if one in THINKING_LEVELS]
    what = f"{name} has no thinking level {level}"
    if level in THINKING_LEVELS and ranks:
        rank = THINKING_LEVELS.index(level)
        if rank < min(ranks):
            what = f"{name} cannot think less than {THINKING_LEVELS[min(ranks)]}"
        elif rank > max(ranks):
            what = f"{name} cannot think more than {THINKING_LEVELS[max(ranks)]}"
    return f"{what}; it has {', '.join(levels)}."


def default_model(keys: Container[str]) -> str:
    """Return the model to start with, for the providers that have a key; "" if none is known here."""
    return next((f"{name}/{vendor.default_model}" for name, vendor in VENDORS.items() if name in keys), "")
