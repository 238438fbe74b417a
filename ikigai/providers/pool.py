"""Which provider serves a model: made when it is first used, warmed when asked, closed together."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.ports import Encoder, Limits, Provider
from ikigai.core.record import Record
from ikigai.core.reply import Broke, Failure, ProviderEvent
from ikigai.core.request import Request
from ikigai.providers import models
from ikigai.providers.chat import ChatEncoder
from ikigai.providers.local import LocalServer
from ikigai.providers.openai import OpenAIProvider
from ikigai.providers.retry import Retrying
from ikigai.providers.scripted import Scripted

LOCAL_MODEL = "local/smollm2-135m"
"""What the model that `ikigai setup` fetches is called; a configured file is called by its own name."""


class Endpoint(Record, frozen=True):
    """An OpenAI-compatible server; an empty `base_url` is OpenAI's own. `key` gives its key when it is first needed."""

    base_url: str
    key: Callable[[], str]


class LocalModel(Record, frozen=True):
    """The local model: a GGUF file ("" for the one `ikigai setup` fetched), its context in tokens, the data folder."""

    model_file: str
    context: int
    data_dir: Path

    def weights(self) -> Path | None:
        from ikigai.providers import weights

        return weights.find(self.data_dir, self.model_file or None)


class Pool:
    """Providers by model "provider/name", and what is known of a model without asking anybody.

    `known` overrules a model's limits; 0 in one of its fields leaves that to what is known by name.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], local: LocalModel, known: Callable[[str], Limits]) -> None:
        self._endpoints, self._local, self._known = endpoints, local, known
        self._made: dict[str, Provider] = {}

    def serves(self, provider: str) -> bool:
        """Whether requests can be sent to this provider at all."""
        return provider in self._endpoints

    def check(self, model: str) -> None:
        """Raise ConfigError when nobody here serves this model, or its provider is configured wrongly."""
        self._provider(model)
        name = self.local_model()
        if model.startswith("local/") and name and model != name:
            raise ConfigError(f"There is no model {model}.", f"The local one is {name}.")

    def provider(self, model: str) -> Provider:
        """The provider of a model; one that says what is wrong where there is none."""
        try:
            return self._provider(model)
        except IkigaiError as error:
            return _Absent(error)

    def encoder(self, model: str) -> Encoder:
        return getattr(self.provider(model), "encoder", _CHAT)

    def limits(self, model: str) -> Limits:
        known = self._known(model)
        if model.startswith("local/"):
            known = Limits(known.context or self._local.context, known.max_output)
        return models.limits(model, known)

    def default_model(self, keys: Iterable[str]) -> str:
        """The model to start with when nobody chose one: of a provider that has a key, else the local one, else ""."""
        served = models.default([name for name in keys if name in self._endpoints])
        return served or self.local_model()

    def local_model(self) -> str:
        """The local model if it can run: its package is installed and its weights are here."""
        if importlib.util.find_spec("xllamacpp") is None or self._local.weights() is None:
            return ""
        return f"local/{Path(self._local.model_file).stem}" if self._local.model_file else LOCAL_MODEL

    def fetch_local(self, progress: Callable[[int, int | None], None]) -> None:
        """Fetch the local model's weights. Raises IkigaiError, also when its package is not installed."""
        from ikigai.providers import weights

        if importlib.util.find_spec("xllamacpp") is None:
            raise IkigaiError(
                "There is no model: no key in the environment, and the local one is not installed.",
                'Set OPENAI_API_KEY, or run: pip install "ikigai[local]"',
            )
        weights.fetch(self._local.data_dir, progress)

    async def warm(self, model: str) -> None:
        """Load what the first request to this model will need, ahead of it."""
        warm = getattr(self.provider(model), "warm", None)
        if warm:
            await warm()

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
            return Local(self._local)
        if not name:
            raise IkigaiError("There is no model to ask.", "Type /model PROVIDER/NAME, or run: ikigai setup")
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            served = ", ".join(sorted({"local", *self._endpoints}))
            raise ConfigError(
                f"There is no provider {name!r} (there are: {served}).",
                f"A server of your own is [providers.{name}] with a base_url in the configuration.",
            )
        key = endpoint.key()
        if name == "openai" and not endpoint.base_url and not key:
            raise IkigaiError("There is no key for OpenAI.", "Set OPENAI_API_KEY, or choose another model.")
        return _Kept(OpenAIProvider(name, endpoint.base_url, key))


_CHAT = ChatEncoder()


class _Kept(Retrying):
    """A provider whose passing failures are tried again, with its encoder and its warming."""

    def __init__(self, provider: OpenAIProvider) -> None:
        super().__init__(provider)
        self.encoder, self.warm = provider.encoder, provider.warm


class _Absent:
    """Stands for a provider that cannot be had, and says why."""

    def __init__(self, error: IkigaiError) -> None:
        self._error = error

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield Broke(Failure.UNAVAILABLE, self._error.what, self._error.remedy)

    async def close(self) -> None: ...


class Local:
    """The local model: its server is started by the first request, or ahead of it by `warm`."""

    encoder = _CHAT

    def __init__(self, settings: LocalModel) -> None:
        self._settings = settings
        self._starting = asyncio.Lock()
        self._server: LocalServer | None = None
        self._loaded: asyncio.Future[None]
        self._client: OpenAIProvider | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        try:
            client = await self._ready()
        except IkigaiError as error:
            yield Broke(Failure.UNAVAILABLE, error.what, error.remedy)
            return
        async with contextlib.aclosing(client.stream(request)) as events:
            async for event in events:
                yield event

    async def warm(self) -> None:
        with contextlib.suppress(IkigaiError):  # the first request says it
            await (await self._ready()).warm()

    async def close(self) -> None:
        if self._server:
            await asyncio.to_thread(self._server.close)
        if self._client:
            await self._client.close()

    async def _ready(self) -> OpenAIProvider:
        async with self._starting:
            if self._client and self._server and self._server.alive:
                return self._client
            found = await asyncio.to_thread(self._settings.weights)
            if found is None:
                raise IkigaiError("The local model's weights are not here.", "Run: ikigai setup")
            # Cancelled meanwhile, the server goes on loading for the next request; a dead one is replaced.
            if self._server is None or not self._server.alive:
                if self._client:
                    await self._client.close()
                    self._client = None
                self._server = await asyncio.to_thread(LocalServer, found, self._settings.context)
                self._loaded = asyncio.ensure_future(asyncio.to_thread(self._server.ready))
            await asyncio.shield(self._loaded)
            self._client = OpenAIProvider("local", self._server.base_url, self._server.api_key)
            return self._client
