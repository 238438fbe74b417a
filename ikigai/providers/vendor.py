"""What every vendor's class is, as the rest of the providers need it; `Streaming` does most of it."""

from typing import Protocol

from ikigai.core.model import Encoder, Provider
from ikigai.providers.models import Listed

FIRST = 300.0
"""Seconds that the first piece of a reply may take, and the next one while a model thinks: both can take minutes."""
IDLE = 90.0
"""Seconds that any other piece may take."""


class Vendor(Provider, Protocol):
    """A provider of one vendor's models, or of those of a server that speaks as one does."""

    def encoder(self, model: str) -> Encoder: ...

    async def warm(self) -> None: ...

    def expect(self) -> None: ...

    async def models(self) -> list[Listed]: ...
