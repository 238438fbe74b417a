"""The fixtures of provider tests: a server, every adapter in turn, and a way to collect a stream."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ikigai.core.events.messages import Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import (
    CitationDelta,
    FailureKind,
    HostedDelta,
    ProviderEvent,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.formats import FORMATS, Format
from tests.support.wire_server import Answer, WireServer

KEY = "sk-very-secret-0123456789"


@pytest.fixture
async def wire_server() -> AsyncIterator[WireServer]:
    async with WireServer() as server:
        yield server


@pytest.fixture
async def provider(wire_server: WireServer) -> AsyncIterator[OpenAIProvider]:
    provider = OpenAIProvider("openai", wire_server.base_url, KEY)
    yield provider
    await provider.close()


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    """Each format in turn: a test that takes it is one for all vendors."""
    return FORMATS[request.param]


@pytest.fixture
async def vendor(form: Format, wire_server: WireServer) -> AsyncIterator[Any]:
    """The adapter for that format, without retries."""
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    yield provider
    await provider.close()


def ask(text: str = "Hello?", **more: object) -> Request:
    return Request("test-model", (Message(Role.USER, (Text(text),)),), **more)  # type: ignore[arg-type]


async def collect(provider: Provider, request: Request | None = None) -> list[ProviderEvent]:
    """All events of one stream, having checked that its last is the one end."""
    found = [event async for event in provider.stream(request or ask())]
    ends = [event for event in found if isinstance(event, StreamFinished | StreamFailed)]
    assert ends == found[-1:], found
    return found


async def is_cut(provider: Provider, wire_server: WireServer, body: bytes, said: str) -> None:
    """A stream that is this body is no whole reply, but what it said came."""
    wire_server.script = [Answer(body)]
    found = await collect(provider)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is FailureKind.CUT
    assert reply(found).text == said


def reply(events: list[ProviderEvent]) -> ReplyBuilder:
    """The deltas of a stream, added up."""
    accumulator = ReplyBuilder()
    for event in events:
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta | HostedDelta | CitationDelta):
            accumulator.add(event)
    return accumulator


def measured(encoder: BodyEncoder, request: Request) -> int:
    """The length of a request's body as the encoder measures it, with what it says for images and PDFs put back."""
    images = [image for message in request.messages for image in message.images] if encoder._cross_model.images else []
    hidden = sum(len(image.data) - BYTES_PER_TOKEN * encoder.image_tokens(image) for image in images)
    if encoder._cross_model.pdfs:
        pdfs = [pdf for message in request.messages for pdf in message.pdfs]
        hidden += sum(len(pdf.data) - BYTES_PER_TOKEN * encoder.pdf_tokens(pdf) for pdf in pdfs)
    return encoder.envelope(request) + sum(map(encoder.message, request.messages)) + hidden
