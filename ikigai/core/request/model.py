"""The loop's view of a model: its limits, the sizes of its requests, and the provider that serves it."""

from collections.abc import AsyncGenerator
from typing import Protocol

from ikigai.core.events.messages import Message
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.reply import ProviderEvent


class ModelLimits(Record, frozen=True):
    """The limits of a model in tokens: the whole context, and the longest output. `tools` says that it takes tools.

    A model that takes none is offered none, and nothing is counted for them. With `vendor_search` its vendor can search
    the web for it; else `no_vendor_search` says why not.
    """

    context: int
    max_output: int
    tools: bool = True
    vendor_search: bool = False
    no_vendor_search: str = ""


class Encoder(Protocol):
    """Sizes in the body of a request to one model: pure, no SDK needed.

    For every request with at least one message, `envelope(request) + Σ message(m) == len(body)`, in bytes of the UTF-8
    JSON that the provider's adapter sends. An image is the exception: its base64 counts as nothing, and its tokens, by
    the vendor's formula, as four bytes each.

    `tool_rule` is the name of the vendor's rule for schemas of tools (`core.request.tool_rules`), "" for none.
    """

    @property
    def tool_rule(self) -> str: ...

    def envelope(self, request: Request) -> int:
        """Return the bytes around the messages of `request`, less the one separator that the first message does not
        need.
        """
        ...

    def message(self, message: Message) -> int:
        """Return the bytes of one message in the body, with the separator before it."""
        ...


class Provider(Protocol):
    """A service that runs a model."""

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Send the request; yield the events of the reply. Never raise but for cancellation, which ends the request."""
        ...

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request by the provider's own count; None if it has none or did not answer."""
        ...

    async def preload(self) -> None:
        """Load the modules that the first request will need, ahead of it. Never raise but for cancellation."""
        ...

    def preconnect(self) -> None:
        """Prepare for a request that will come soon: open a connection, where that takes long. Never raise."""
        ...

    async def close(self) -> None: ...
