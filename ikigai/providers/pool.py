"""Which provider serves a model: made when it is first used, warmed when asked, closed together."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.model import Encoder, Limits, Provider
from ikigai.core.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.reply import Broke, Failure, ProviderEvent
from ikigai.providers import models
from ikigai.providers.local.provider import Local, LocalModel
from ikigai.providers.models import Listed, Models, Traits
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.retry import Retrying
from ikigai.providers.scripted import Scripted
from ikigai.providers.vendor import FIRST, IDLE, Vendor

LOCAL_MODEL = "local/smollm2-135m"
"""What the model that `ikigai setup` fetches is called; a configured file is called by its own name."""


class Endpoint(Record, frozen=True):
    """Where a provider answers ("" is its vendor's own address) and how it is spoken to.

    `api` is "chat", "responses", "anthropic", "google", or "" for what goes by the provider's name. `key` gives its key
    when that is first needed. `first` and `idle` are how long it may be silent, in seconds, as for `Streaming`.
    """

    base_url: str
    key: Callable[[], str]
    api: str = ""
    first: float = FIRST
    idle: float = IDLE


class Pool:
    """Providers by model "provider/name"; `known` is what is known of a model without asking anybody."""

    def __init__(self, endpoints: Mapping[str, Endpoint], local: LocalModel, known: Models) -> None:
        self.known = known
        self._endpoints, self._local = endpoints, local
        self._made: dict[str, Provider] = {}
        self._learned: dict[str, int] = {}  # contexts that turned out smaller than known, in tokens
        self._encoders: dict[str, Callable[[str], Encoder]] = {}

    def check(self, model: str, level: str = "") -> None:
        """Raise ConfigError when nobody here serves this model, or it has no such level; IkigaiError without a key."""
        self.known.check(model, level)
        self._provider(model)
        name = self.local_model()
        if model.startswith("local/") and name and model != name:
            raise ConfigError(f"There is no model {model}.", f"The local one is {name}.")

    def require(self, provider: str) -> None:
        """Raise IkigaiError when requests cannot be sent to this provider: it is not there, or has no usable key."""
        self._vendor(provider, self._key(provider))

    def provider(self, model: str) -> Provider:
        """The provider of a model; one that says what is wrong where there is none."""
        try:
            return self._provider(model)
        except IkigaiError as error:
            return _Absent(error)

    def encoder(self, model: str) -> Encoder:
        """How requests to a model are written: the same whether its provider can be had or not."""
        provider, _, name = model.partition("/")
        if provider not in self._encoders:
            self._encoders[provider] = self._written(provider)
        return self._encoders[provider](name)

    def limits(self, model: str) -> Limits:
        known = self.known.limits(model)
        context = min(known.context, self._learned.get(model, known.context))
        takes_tools = not model.startswith("local/") or self._local.takes_tools()
        return Limits(context, known.max_output, takes_tools)

    def learn(self, model: str, context: int) -> None:
        """The model's provider takes no more than so many tokens, whatever is known of it; for this run."""
        self._learned[model] = context

    def default_model(self, keys: Iterable[str]) -> str:
        """The model to start with when nobody chose one: of a provider that has a key, else the local one, else ""."""
        return models.default(list(keys)) or self.local_model()

    def local_model(self) -> str:
        """The local model if it can run: its package is installed and its weights are here."""
        if importlib.util.find_spec("xllamacpp") is None or self._local.weights() is None:
            return ""
        return f"local/{Path(self._local.model_file).stem}" if self._local.model_file else LOCAL_MODEL

    def fetch_local(self, progress: Callable[[int, int | None], None]) -> None:
        """Fetch the local model's weights. Raises IkigaiError, also when its package is not installed."""
        from ikigai.providers.local import weights

        if importlib.util.find_spec("xllamacpp") is None:
            raise IkigaiError(
                "There is no model: no key, and the local one is not installed.",
                'Run: ikigai login    or: pip install "ikigai[local]"',
            )
        weights.fetch(self._local.data_dir, progress)

    async def listed(self, provider: str, key: str | None = None, within: float | None = None) -> list[Listed]:
        """The models that a provider offers, by its own list; asked with this key instead of the one it has.

        Raises IkigaiError; `failures.Untold` for what the provider or the network said; TimeoutError when it takes
        longer than `within` seconds, in which its SDK is loaded already.
        """
        vendor = self._vendor(provider, self._key(provider) if key is None else key)
        try:
            await vendor.warm()
            async with asyncio.timeout(within):
                return await vendor.models()
        finally:
            await vendor.close()

    async def warm(self, model: str) -> None:
        """Load what the first request to this model will need, ahead of it."""
        warm = getattr(self.provider(model), "warm", None)
        if warm:
            await warm()

    def expect(self, model: str) -> None:
        """The first request to this model, or the next one, will come soon: have a connection open by then."""
        expect = getattr(self._made.get(model.partition("/")[0]), "expect", None)
        if expect:
            expect()

    async def close(self) -> None:
        await asyncio.gather(*(provider.close() for provider in self._made.values()), return_exceptions=True)

    def _provider(self, model: str) -> Provider:
        name = model.partition("/")[0]
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Provider:
        if name == "scripted":
            return Scripted()
        if name == "local":
            return Local(self._local, self._local_client)
        if not name:
            raise IkigaiError(
                "There is no model to ask.", "Type /model PROVIDER/NAME, or run: ikigai login or ikigai setup"
            )
        vendor = self._vendor(name, self._key(name))
        self._encoders[name] = vendor.encoder
        return _Kept(vendor)

    def _written(self, provider: str) -> Callable[[str], Encoder]:
        try:
            return self._vendor(provider, "").encoder
        except IkigaiError:  # nobody's: a script's, or that of a provider that is gone
            return lambda _: ENCODER

    def _vendor(self, name: str, key: str) -> Vendor:
        """The provider itself; its module is imported here, so that none is that nobody talks to."""
        if name == "local":
            return self._local_client("http://127.0.0.1", "")
        endpoint = self._endpoint(name)
        given = (name, endpoint.base_url, key, endpoint.first, endpoint.idle)
        api = endpoint.api or (name if name in TITLES else "")
        if api == "anthropic":
            from ikigai.providers.anthropic.provider import AnthropicProvider

            return AnthropicProvider(*given, traits=self._traits(name))
        if api == "google":
            from ikigai.providers.google.provider import GoogleProvider

            return GoogleProvider(*given, traits=self._traits(name))
        from ikigai.providers.openai.provider import OpenAIProvider

        return OpenAIProvider(*given, api=endpoint.api, traits=self._traits(name))

    def _local_client(self, base_url: str, key: str) -> Vendor:
        from ikigai.providers.openai.provider import OpenAIProvider

        return OpenAIProvider("local", base_url, key, api="chat", traits=self._traits("local"))

    def _traits(self, provider: str) -> Callable[[str], Traits]:
        return lambda name: self.known.traits(f"{provider}/{name}")

    def _endpoint(self, name: str) -> Endpoint:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            served = ", ".join(sorted({"local", *self._endpoints}))
            raise ConfigError(
                f"There is no provider {name!r} (there are: {served}).",
                f"A server of your own is [providers.{name}] with a base_url in the configuration.",
            )
        return endpoint

    def _key(self, name: str) -> str:
        """The key of a provider, "" where it needs none. Raises IkigaiError where it needs one and has none."""
        endpoint = self._endpoint(name)
        key = endpoint.key()
        if not endpoint.base_url and not key:
            title, variable = TITLES.get(name, (name, ""))
            ways = f"Run `ikigai login {name}`, set {variable}" if variable else f"Run `ikigai login {name}`"
            raise IkigaiError(f"There is no key for {title}.", f"{ways}, or choose another model.")
        return key


TITLES = {
    "anthropic": ("Anthropic", "ANTHROPIC_API_KEY"),
    "openai": ("OpenAI", "OPENAI_API_KEY"),
    "google": ("Google", "GEMINI_API_KEY"),
}
"""The vendors, whose names say how they are spoken to: what they are called, and the usual variable for a key."""

ENCODER = ChatEncoder()
"""For scripts, and for what nobody serves."""


class _Kept(Retrying):
    """A provider whose passing failures are tried again, with its warming and what it does ahead of a request."""

    def __init__(self, provider: Vendor) -> None:
        super().__init__(provider)
        self.warm, self.expect = provider.warm, provider.expect


class _Absent:
    """Stands for a provider that cannot be had, and says why."""

    def __init__(self, error: IkigaiError) -> None:
        self._error = error

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield Broke(Failure.UNAVAILABLE, self._error.what, self._error.remedy)

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None: ...
