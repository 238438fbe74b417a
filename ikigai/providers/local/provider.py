"""Make the local model a provider: its server starts on first use, and again after it was killed."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, ProviderEvent, StreamFailed
from ikigai.providers.local.model_server import LocalServer
from ikigai.providers.vendor import Vendor


class LocalModel(Record, frozen=True):
    """The local model: a GGUF file ("" for the one `ikigai setup` fetched), its context in tokens, the data folder."""

    model_file: str
    context: int
    data_dir: Path

    def weights(self) -> Path | None:
        from ikigai.providers.local import weights

        return weights.find(self.data_dir, self.model_file or None)

    def takes_tools(self) -> bool:
        """Return True if the model gets tools; a model without a file here may."""
        from ikigai.providers.local import chat_template

        try:
            weights = self.weights()
        except ConfigError:  # the first request reports it
            return True
        return weights is None or chat_template.takes_tools(weights)


class LocalProvider:
    """The local model: the first request, or `warm` before it, starts its server.

    `client` makes the client of a server at an address, with a key.
    """

    def __init__(self, settings: LocalModel, client: Callable[[str, str], Vendor]) -> None:
        self._settings, self._connect = settings, client
        self._starting = asyncio.Lock()
        self._server: LocalServer | None = None
        self._loaded: asyncio.Future[None]
        self._client: Vendor | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        try:
            client = await self._ready()
        except IkigaiError as error:
            yield StreamFailed(FailureKind.UNAVAILABLE, error.what, error.remedy)
            return
        async with contextlib.aclosing(client.stream(request)) as events:
            async for event in events:
                yield event

    async def count(self, request: Request) -> int | None:
        return None

    async def preload(self) -> None:
        with contextlib.suppress(IkigaiError):  # the first request reports it
            await (await self._ready()).preload()

    def preconnect(self) -> None:
        if self._client and self._server and self._server.alive:
            self._client.preconnect()

    async def close(self) -> None:
        if self._server:
            await asyncio.to_thread(self._server.close)
        if self._client:
            await self._client.close()

    async def _ready(self) -> Vendor:
        async with self._starting:
            if self._client and self._server and self._server.alive:
                return self._client
            weights = await asyncio.to_thread(self._settings.weights)
            if weights is None:
                raise IkigaiError("The weights of the local model are not installed.", "Run: ikigai setup")
            # After a cancellation the server goes on loading for the next request; an ended one is replaced.
            if self._server is None or not self._server.alive:
                if self._client:
                    await self._client.close()
                    self._client = None
                self._server = await asyncio.to_thread(LocalServer, weights, self._settings.context)
                self._loaded = asyncio.ensure_future(asyncio.to_thread(self._server.ready))
            await asyncio.shield(self._loaded)
            self._client = self._connect(self._server.base_url, self._server.api_key)
            return self._client
