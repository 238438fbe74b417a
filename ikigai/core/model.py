"""What the loop needs of a model: its limits, how big requests to it are, and the provider that serves it."""

from collections.abc import AsyncGenerator
from typing import Protocol

from ikigai.core.messages import Message
from ikigai.core.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.reply import ProviderEvent


class Limits(Record, frozen=True):
    """What a model can take and give, in tokens: the whole context, and the longest output; and whether it takes tools.

    A model that takes none is offered none, and nothing is counted for them.
    """

    context: int
    max_output: int
    tools: bool = True


class Encoder(Protocol):
    """How big things are in the body of a request to one model: pure, no SDK needed.

    For every request with at least one message, `envelope(request) + Σ message(m) == len(body)`, in bytes of the UTF-8
    JSON that the provider's adapter sends; but an image's base64 counts as nothing, and its tokens, by the vendor's
    formula, as four bytes each.
    """

    def envelope(self, request: Request) -> int:
        """Bytes around the messages of `request`, less the one separator that the first message does not need."""
        ...

    def message(self, message: Message) -> int:
        """Bytes of one message in the body, with the separator before it."""
        ...


class Provider(Protocol):
    """A model somewhere."""

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Send the request; yields what comes. Never raises but for cancellation, which ends the request."""
        ...

    async def count(self, request: Request) -> int | None:
        """Tokens of the request by the provider's own count; None where it has none or did not answer."""
        ...

    async def close(self) -> None: ...
