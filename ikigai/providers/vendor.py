"""Interface of every vendor's class; `StreamingProvider` implements most of it.

The base of providers without a server also stands here.
"""

from typing import Protocol

from ikigai.core.request.build import Request
from ikigai.core.request.model import Encoder, Provider
from ikigai.providers.models.models import ListedModel

FIRST_PIECE_TIMEOUT = 300.0
"""Seconds that the first piece of a reply may take, and the next one while a model thinks: both can take minutes."""
LOCAL_FIRST_PIECE_TIMEOUT = 1800.0
"""Seconds for the same of a server on this machine: without a GPU it reads some 20 tokens of the request a second."""
PIECE_TIMEOUT = 90.0
"""Seconds that any other piece may take."""
MACHINE_HEADERS = tuple(
    f"X-Stainless-{name}"
    for name in ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async", "Timeout")
)
"""Headers in which the SDKs report the user's machine. They are left out: no server needs them, and each takes time."""


class Vendor(Provider, Protocol):
    """A provider of one vendor's models, or of the models of a server with that vendor's API."""

    def encoder(self, model: str) -> Encoder: ...

    async def models(self) -> list[ListedModel]: ...


class ServerlessProvider:
    """The part of a `Provider` that prepares requests for a server, for providers without one."""

    async def count(self, request: Request) -> int | None:
        return None

    async def preload(self) -> None: ...

    def preconnect(self) -> None: ...

    async def close(self) -> None: ...
