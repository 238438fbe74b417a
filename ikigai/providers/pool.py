"""Hold the providers of models: made on first use, warmed on request, closed together."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ikigai.core.errors import ConfigError, IkigaiError, NoModel
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.model import Encoder, ModelLimits, Provider
from ikigai.core.request.reply import FailureKind, ProviderEvent, StreamFailed
from ikigai.core.vendors import CLOUDS, ServerPreset, VendorInfo, sellers, unknown_provider, vendor_of_model
from ikigai.providers import clouds
from ikigai.providers.local.provider import LocalModel, LocalProvider
from ikigai.providers.models import models
from ikigai.providers.models.models import ListedModel, ModelCatalog, ModelTraits
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.retry import RetryingProvider
from ikigai.providers.scripted import ScriptedProvider
from ikigai.providers.vendor import FIRST_PIECE_TIMEOUT, PIECE_TIMEOUT, ServerlessProvider, Vendor
from ikigai.providers.vendor_search_support import search_problem
from ikigai.system.install_command import extra_command

LOCAL_MODEL = "local/smollm2-135m"
"""The name of the model that `ikigai setup` fetches; a configured file has its own name."""


class Endpoint(Record, frozen=True):
    """The address of a provider and its API."""

    base_url: str
    """The address; "" is the vendor's own."""
    key: Callable[[], str]
    """Function that returns the key, on first need."""
    api: str = ""
    """"chat", "responses", "anthropic", "google", or "" for the default of the provider's name."""
    first: float = FIRST_PIECE_TIMEOUT
    """Seconds that it may be silent before the first piece, as for `StreamingProvider`."""
    idle: float = PIECE_TIMEOUT
    """Seconds that it may be silent between two pieces."""
    preset: ServerPreset | None = None
    """Peculiarities of the server."""
    needs_key: bool = False
    """True if it serves nobody without a key."""
    headers: Callable[[], Mapping[str, str]] = dict
    """Headers of every request."""
    body: Callable[[str], Mapping[str, Any]] = lambda model: {}
    """Fields in the body of requests to a model."""
    platform: str = ""
    """The cloud behind it, a name of CLOUDS, with a `region` and a `project` there."""
    region: str = ""
    project: str = ""
    key_variable: str = ""
    """The environment variable with the key; "" for none."""


class ProviderPool:
    """Providers by model "provider/name"; `known` is the catalog of models, which sends no requests."""

    def __init__(self, endpoints: Mapping[str, Endpoint], local: LocalModel, known: ModelCatalog) -> None:
        self.known = known
        self._endpoints, self._local = endpoints, local
        self._providers: dict[ClientKey, Provider] = {}
        self._replaced: list[Provider] = []  # with a key that is not used any more
        self._learned: dict[str, int] = {}  # contexts that proved smaller than known, in tokens
        self._encoders: dict[ClientKey, Callable[[str], Encoder]] = {}

    def check(self, model: str, level: str = "") -> None:
        """Raise ConfigError if no provider here serves this model, or it has no such level; IkigaiError
        without a key.
        """
        self.known.check(model, level)
        self._provider(model)
        name = self.local_model()
        if model.startswith("local/") and name and model != name:
            raise ConfigError(f"There is no model {model}.", f"The local one is {name}.")

    def require(self, provider: str) -> None:
        """Raise IkigaiError if requests cannot be sent to this provider: it does not exist, or has no usable key."""
        self._vendor(provider, self._key(provider))

    def provider(self, model: str) -> Provider:
        """Return the provider of a model, or one whose replies are the error that it cannot be had."""
        try:
            return self._provider(model)
        except IkigaiError as error:
            return _AbsentProvider(error)

    def encoder(self, model: str) -> Encoder:
        """Return the encoder of a model: the same one, available or not."""
        client, name = self._client_of(model), model.partition("/")[2]
        if client not in self._encoders:
            self._encoders[client] = self._find_encoder(client)
        return self._encoders[client](name)

    def limits(self, model: str) -> ModelLimits:
        known = self.known.limits(model)
        context = min(known.context, self._learned.get(model, known.context))
        takes_tools = known.tools and (not model.startswith("local/") or self._local.takes_tools())
        problem = self._search_problem(model) if takes_tools else "it takes no tools"
        return ModelLimits(context, known.max_output, takes_tools, not problem, problem)

    def _search_problem(self, model: str) -> str:
        """Return why the vendor of this model cannot search the web for it; "" if it can."""
        endpoint = self._endpoints.get(model.partition("/")[0])
        if endpoint is None:
            return "it has no vendor"
        configured, thinking = self.known.vendor_search(model), self.known.traits(model).thinking
        return search_problem(model, endpoint.api, endpoint.platform, bool(endpoint.base_url), thinking, configured)

    def learn(self, model: str, context: int) -> None:
        """Limit the context of this model to `context` tokens for this run: its provider takes no more."""
        self._learned[model] = context

    def default_model(self, keys: Iterable[str]) -> str:
        """Return the model to start with by default: of a provider that has a key, else the local one, else ""."""
        return models.default_model(list(keys)) or self.local_model()

    def local_model(self) -> str:
        """Return the local model if its package is installed and its weights are here, else ""."""
        if importlib.util.find_spec("xllamacpp") is None or self._local.weights() is None:
            return ""
        return f"local/{Path(self._local.model_file).stem}" if self._local.model_file else LOCAL_MODEL

    def fetch_local(self, progress: Callable[[int, int | None], None]) -> None:
        """Fetch the local model's weights. Raise IkigaiError on failure, also if its package is not installed."""
        from ikigai.providers.local import weights

        if importlib.util.find_spec("xllamacpp") is None:
            raise IkigaiError(
                "No model yet: there is no key, and the local model is not installed.",
                f"Run: ikigai login    or: {extra_command('local')}",
            )
        weights.fetch(self._local.data_dir, progress)

    async def listed(self, provider: str, key: str | None = None, within: float | None = None) -> list[ListedModel]:
        """Return the models that a provider offers, by its own list; requested with `key` if given.

        Raise IkigaiError on failure, and `failures.ProviderRequestFailed` for errors of the provider or the network.
        Raise TimeoutError after `within` seconds, counted once its SDK is loaded.
        """
        vendor = self._vendor(provider, self._key(provider) if key is None else key)
        endpoint = self._endpoint(provider) if provider != "local" else None
        if key is None and endpoint and endpoint.preset and not endpoint.preset.key_variables:  # its own API says more
            from ikigai.providers import machine_servers

            if models := await machine_servers.list_models(provider, endpoint.base_url):
                return list(models)
        try:
            await vendor.preload()
            async with asyncio.timeout(within):
                return await vendor.models()
        finally:
            await vendor.close()

    async def preload(self, model: str) -> None:
        """Load what the first request to this model needs, ahead of it."""
        await self.provider(model).preload()

    def preconnect(self, model: str) -> None:
        """Prepare the provider of this model, if it has been used or warmed, for a request that will come soon."""
        if provider := self._providers.get(self._client_of(model)):
            provider.preconnect()

    def renew(self, provider: str) -> None:
        """Read the key of a provider again for its next request; requests under way go on with the one before."""
        for client in [client for client in self._providers if client.provider == provider]:
            self._replaced.append(self._providers.pop(client))

    async def close(self) -> None:
        providers = (*self._providers.values(), *self._replaced)
        await asyncio.gather(*(provider.close() for provider in providers), return_exceptions=True)

    def _provider(self, model: str) -> Provider:
        client = self._client_of(model)
        if client not in self._providers:
            self._providers[client] = self._make(client)
        return self._providers[client]

    def _client_of(self, model: str) -> ClientKey:
        provider, _, name = model.partition("/")
        endpoint = self._endpoints.get(provider)
        platform = endpoint.platform if endpoint else ""
        return ClientKey(provider, vendor_of_model(platform, name) if platform else "")

    def _make(self, client: ClientKey) -> Provider:
        name = client.provider
        if name == "scripted":
            return ScriptedProvider()
        if name == "local":
            return LocalProvider(self._local, self._local_client)
        if not name:
            raise NoModel()
        vendor = self._vendor(name, self._key(name), client.vendor)
        self._encoders[client] = vendor.encoder
        return RetryingProvider(vendor)

    def _find_encoder(self, client: ClientKey) -> Callable[[str], Encoder]:
        if client.provider not in {"local", *self._endpoints}:  # a script's, or a removed provider's
            return lambda _: FALLBACK_ENCODER
        try:
            return self._vendor(client.provider, "", client.vendor).encoder
        except IkigaiError:
            return lambda _: FALLBACK_ENCODER

    def _vendor(self, name: str, key: str, vendor: str = "") -> Vendor:
        """Return the vendor's client; of a cloud with several, the client of `vendor`, "" for the one that lists
        models.

        Its module is imported here, so that unused vendors are never imported.
        """
        if name == "local":
            return self._local_client("http://127.0.0.1", "")
        endpoint = self._endpoint(name)
        arguments = (name, endpoint.base_url, key, endpoint.first, endpoint.idle)
        more: dict[str, Any] = {"traits": self._traits(name), "headers": endpoint.headers(), "body": endpoint.body}
        if endpoint.key_variable and key == endpoint.key():  # not one that is being tried
            more["key_variable"] = endpoint.key_variable
        if endpoint.platform:
            return _cloud_client(endpoint, arguments, more, vendor)
        api = endpoint.api or name
        if api == "anthropic":
            from ikigai.providers.anthropic.provider import AnthropicProvider

            return AnthropicProvider(*arguments, **more)
        if api == "google":
            from ikigai.providers.google.provider import GoogleProvider

            return GoogleProvider(*arguments, **more)
        from ikigai.providers.openai.provider import OpenAIProvider

        return OpenAIProvider(*arguments, api=endpoint.api, preset=endpoint.preset, **more)

    def _local_client(self, base_url: str, key: str) -> Vendor:
        from ikigai.providers.openai.provider import OpenAIProvider

        return OpenAIProvider("local", base_url, key, api="chat", traits=self._traits("local"))

    def _traits(self, provider: str) -> Callable[[str], ModelTraits]:
        return lambda name: self.known.traits(f"{provider}/{name}")

    def _endpoint(self, name: str) -> Endpoint:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise unknown_provider(name, sorted({"local", *self._endpoints}))
        return endpoint

    def _key(self, name: str) -> str:
        """Return the key of a provider, "" if it needs none. Raise IkigaiError if it needs one and has none."""
        endpoint = self._endpoint(name)
        key = endpoint.key()
        if endpoint.platform:
            cloud = CLOUDS[endpoint.platform]
            if cloud.needs_package or not key:
                clouds.require_package(cloud)
            return key
        if not key and (endpoint.needs_key or not endpoint.base_url):
            seller = sellers().get(name)
            ways = f"Store one with `ikigai login {name}` or /login {name}" + (
                f", set {seller.key_variables[0]}" if seller else ""
            )
            raise IkigaiError(
                f"There is no key for {seller.title if isinstance(seller, VendorInfo) else name}.",
                f"{ways}, or choose another model.",
            )
        return key


class ClientKey(NamedTuple):
    """A provider, and the vendor whose SDK speaks to it where it is a cloud with several, else ""."""

    provider: str
    vendor: str = ""


def _cloud_client(endpoint: Endpoint, arguments: tuple[Any, ...], more: dict[str, Any], vendor: str) -> Vendor:
    """Return the client for a vendor's models in a cloud; of "" the one that lists models."""
    if endpoint.platform == "azure":
        from ikigai.providers.openai.azure import AzureProvider

        return AzureProvider(*arguments, api="responses" if endpoint.api == "responses" else "chat", **more)
    if endpoint.platform == "bedrock":
        more["region"] = endpoint.region
        if vendor == "openai":
            from ikigai.providers.openai.openai_on_bedrock import BedrockOpenAIProvider

            return BedrockOpenAIProvider(*arguments, api="chat", **more)
        from ikigai.providers.anthropic.claude_on_bedrock import BedrockProvider

        return BedrockProvider(*arguments, **more)
    more |= {
        "region": endpoint.region or clouds.google_region(),
        "project": endpoint.project or clouds.google_project(),
    }
    if vendor == "anthropic":
        from ikigai.providers.anthropic.claude_on_vertex import ClaudeVertexProvider

        return ClaudeVertexProvider(*arguments, **more)
    from ikigai.providers.google.gemini_on_vertex import GeminiVertexProvider

    return GeminiVertexProvider(*arguments, **more)


FALLBACK_ENCODER = ChatEncoder()
"""For scripts, and for models that no provider serves."""


class _AbsentProvider(ServerlessProvider):
    """Stands for a provider that cannot be had, and replies with the reason."""

    def __init__(self, error: IkigaiError) -> None:
        self._error = error

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield StreamFailed(FailureKind.UNAVAILABLE, self._error.what, self._error.remedy)
