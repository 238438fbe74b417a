"""The vendors' adapters share behavior over real HTTP: names of errors, bodies kept for the next request, lists of
models, levels for models that do not think, a failure before the first word.
"""

import json
from collections.abc import Callable

import pytest

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, RetryScheduled, StreamFinished
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.google.provider import GoogleProvider
from ikigai.providers.http import failures
from ikigai.providers.http.failures import RequestTarget
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from ikigai.providers.streaming import StreamingProvider
from tests.support.wire_server import Answer, WireServer, sse

Made = Callable[[str], StreamingProvider]

VENDORS: list[Made] = [
    lambda address: AnthropicProvider("wire", address, "key-of-the-test"),
    lambda address: GoogleProvider("wire", address, "key-of-the-test"),
    lambda address: OpenAIProvider("wire", address, "key-of-the-test", api="chat"),
    lambda address: OpenAIProvider("wire", address, "key-of-the-test", api="responses"),
]


def asked(*texts: str) -> Request:
    return Request("m", tuple(Message(Role(("user", "assistant")[n % 2]), (Text(t),)) for n, t in enumerate(texts)))


@pytest.mark.parametrize("general", ["invalid_request_error", "BadRequestError"])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_api_key", FailureKind.AUTH),
        ("authentication_error", FailureKind.AUTH),
        ("permission_error", FailureKind.AUTH),
        ("model_not_found", FailureKind.NOT_FOUND),
        ("rate_limit_exceeded", FailureKind.RATE),
        ("rate_limit_error", FailureKind.RATE),
    ],
)
def test_name_that_says_more_counts(general: str, code: str, kind: FailureKind):
    body = {"error": {"message": "no", "type": general, "code": code}}
    assert failures.failure_in_stream(RequestTarget("wire", "m", ""), body).kind is kind


@pytest.mark.parametrize("made", VENDORS)
async def test_counting_leaves_the_next_request_what_it_shares_with_the_last(
    made: Made, monkeypatch: pytest.MonkeyPatch
):
    written: list[Message] = []
    write = BodyEncoder._write  # pyright: ignore[reportPrivateUsage]

    def counting(self: BodyEncoder, message: Message) -> bytes:
        written.append(message)
        return write(self, message)

    monkeypatch.setattr(BodyEncoder, "_write", counting)
    counts = Answer(
        json.dumps({"input_tokens": 3, "totalTokens": 3}).encode(), 200, {"Content-Type": "application/json"}
    )
    async with WireServer([counts]) as server:
        provider = made(server.base_url)
        encoder = provider.encoder("m")  # type: ignore[attr-defined]
        body = encoder.body(asked(*"abcdef"))
        await provider.count(asked("e", "f"))  # type: ignore[attr-defined]
        written.clear()
        assert encoder.body(asked(*"abcdef")) == body
        await provider.close()
    assert written == []


@pytest.mark.parametrize("made", VENDORS)
@pytest.mark.parametrize(
    ("body", "type"),
    [
        (b"<html>Sign in</html>", "text/html"),
        (b'{"error": {"message": "no", "code": "invalid_api_key"}}', "application/json"),
        (b'"models"', "application/json"),
    ],
)
async def test_what_is_no_list_of_models_is_said(made: Made, body: bytes, type: str):
    async with WireServer([Answer(body, 200, {"Content-Type": type})]) as server:
        provider = made(server.base_url)
        with pytest.raises(IkigaiError):
            await provider.models()  # type: ignore[attr-defined]
        await provider.close()


async def test_list_without_models_is_none():
    async with WireServer(
        [Answer(b'{"object":"list","data":null}', 200, {"Content-Type": "application/json"})]
    ) as server:
        provider = OpenAIProvider("wire", server.base_url)
        assert await provider.models() == []
        await provider.close()


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_model_that_does_not_think_is_told_no_level(api: str):
    provider = OpenAIProvider("wire", "http://127.0.0.1/v1", api=api, traits=lambda _: ModelTraits("", ("off",)))
    body = provider.encoder("m").body(Request("m", asked("hi").messages, level="off"))
    assert b"reasoning" not in body


async def test_overload_while_a_model_only_begins_to_think_is_tried_again():
    def event(**data: object) -> bytes:
        return f"event: {data['type']}\n".encode() + sse(data)

    begun = event(type="message_start", message={"usage": {"input_tokens": 3}}) + event(
        type="content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}
    )
    broken = Answer(begun + event(type="error", error={"type": "overloaded_error", "message": "Overloaded"}))
    whole = Answer(
        begun
        + event(type="content_block_stop", index=0)
        + event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
        + event(type="message_stop")
    )
    async with WireServer([broken, whole]) as server:
        provider = RetryingProvider(AnthropicProvider("wire", server.base_url, "key-of-the-test"), jitter=lambda: 0.0)
        events = [event async for event in provider.stream(asked("hi"))]
        await provider.close()
        assert len(server.requests) == 2
    assert any(isinstance(event, RetryScheduled) for event in events) and isinstance(events[-1], StreamFinished)


async def test_overload_after_a_thought_is_not_tried_again():
    async with WireServer(
        [Answer(sse({"choices": [{"delta": {"reasoning_content": "hm"}}]}, {"error": {"message": "Overloaded"}}))]
    ) as server:
        provider = RetryingProvider(OpenAIProvider("wire", server.base_url), jitter=lambda: 0.0)
        events = [event async for event in provider.stream(asked("hi"))]
        await provider.close()
        assert len(server.requests) == 1
    assert not any(isinstance(event, RetryScheduled) for event in events)
