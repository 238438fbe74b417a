"""The OpenAI adapter when the answer is an error, in the words of servers that speak so; what the environment says."""

import pytest

from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import KEY, collect, reply
from tests.support.wire_server import DONE, Answer, WireServer, chunk, failure, sse


@pytest.mark.parametrize(
    ("answer", "kind", "words", "retry_after"),
    [
        (failure(400, "bad tool"), FailureKind.REFUSED, "openai refused the request (400): bad tool.", None),
        (failure(401, "wrong"), FailureKind.AUTH, "openai did not accept the key (401): wrong.", None),
        (failure(402, "pay"), FailureKind.QUOTA, "openai: the credit is used up (402): pay.", None),
        (failure(403), FailureKind.AUTH, "openai did not accept the key (403).", None),
        (failure(404), FailureKind.NOT_FOUND, "openai has no model test-model at {address} (404).", None),
        (failure(408), FailureKind.OVERLOADED, "openai could not answer (408).", None),
        (failure(409), FailureKind.OVERLOADED, "openai could not answer (409).", None),
        (failure(413), FailureKind.CONTEXT, "The conversation is too long for test-model (413).", None),
        (failure(422, "no."), FailureKind.REFUSED, "openai refused the request (422): no.", None),
        (failure(429, "slow"), FailureKind.RATE, "openai: too many requests in a short time (429): slow.", None),
        (failure(429, Retry_After="7"), FailureKind.RATE, "openai: too many requests in a short time (429).", 7),
        (
            failure(429, Retry_After_Ms="1500"),
            FailureKind.RATE,
            "openai: too many requests in a short time (429).",
            1.5,
        ),
        (
            failure(429, "You exceeded your current quota", "insufficient_quota", Retry_After="7"),
            FailureKind.QUOTA,
            "openai: the credit is used up (429): You exceeded your current quota.",
            7,
        ),
        (
            failure(400, "too much", "context_length_exceeded"),
            FailureKind.CONTEXT,
            "The conversation is too long for test-model (400): too much.",
            None,
        ),
        (failure(500), FailureKind.OVERLOADED, "openai could not answer (500).", None),
        (failure(503, Retry_After="3"), FailureKind.OVERLOADED, "openai could not answer (503).", 3),
        (failure(529), FailureKind.OVERLOADED, "openai could not answer (529).", None),
        (Answer(b"<html>no</html>", 502), FailureKind.OVERLOADED, "openai could not answer (502).", None),
        (
            Answer(b'{"code": "Invalid argument", "error": "Incorrect API key provided: na***ys."}', 400),
            FailureKind.AUTH,
            "openai did not accept the key (400): Incorrect API key provided: na***ys.",
            None,
        ),
        (Answer(b"plain words", 400), FailureKind.REFUSED, "openai refused the request (400): plain words.", None),
        (
            Answer(b'[{"error": {"code": 404, "message": "no such"}}]', 404),
            FailureKind.NOT_FOUND,
            "openai has no model test-model at {address} (404): no such.",
            None,
        ),
        (
            Answer(b'{"detail": [{"loc": ["body"], "msg": "missing"}]}', 422),
            FailureKind.REFUSED,
            'openai refused the request (422): [{"loc": ["body"], "msg": "missing"}].',
            None,
        ),
    ],
)
async def test_status(
    provider: OpenAIProvider,
    wire_server: WireServer,
    answer: Answer,
    kind: FailureKind,
    words: str,
    retry_after: float | None,
):
    answer.headers["X-Request-Id"] = "req_9"
    wire_server.script = [answer]
    [broke] = await collect(provider)
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.retry_after, broke.request_id) == (kind, retry_after, "req_9")
    assert broke.text == words.replace("{address}", wire_server.base_url)
    assert broke.remedy.endswith(".")
    assert len(wire_server.requests) == 1


XAI_LIMIT = (
    "Your team 1-2 has either used all available credits or reached its monthly spending limit. To continue making API"
    " requests, please purchase more credits or raise your spending limit."
)
XAI_NEW = "Your newly created team doesn't have any credits yet. You can purchase credits on https://console.x.ai."
XAI_OUT = "You have run out of credits or need a Grok subscription."
FIREWORKS = (
    "Account me is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices."
)


@pytest.mark.parametrize(("status", "message"), [(429, XAI_LIMIT), (403, XAI_NEW), (403, XAI_OUT), (412, FIREWORKS)])
async def test_used_up_credit_in_the_words_of_a_vendor(
    provider: OpenAIProvider, wire_server: WireServer, status: int, message: str
):
    wire_server.script = [failure(status, message)]
    [broke] = await collect(provider)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.QUOTA and f"openai: the credit is used up ({status})" in broke.text


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "type": "server_error"}, FailureKind.OVERLOADED),
        ({"message": "busy", "code": 503}, FailureKind.OVERLOADED),
        ({"message": "slow", "code": 429}, FailureKind.RATE),
        ({"message": "slow", "code": "rate_limit_exceeded"}, FailureKind.RATE),
        ({"message": "no money", "code": "insufficient_quota"}, FailureKind.QUOTA),
        ({"message": "Your input exceeds the context window of this model."}, FailureKind.CONTEXT),
        ({"message": "bad", "type": "invalid_request_error"}, FailureKind.REFUSED),
        ({"message": "who", "code": 401}, FailureKind.AUTH),
        ("words alone", FailureKind.OVERLOADED),
    ],
)
@pytest.mark.parametrize("said", ["", "Half"])
async def test_error_inside_the_stream(
    provider: OpenAIProvider, wire_server: WireServer, error: object, kind: FailureKind, said: str
):
    begin = sse(chunk({"content": said})) if said else b""
    wire_server.script = [Answer(begin + sse({"error": error}, chunk(finish="stop"), DONE))]
    found = await collect(provider)
    assert isinstance(found[-1], StreamFailed)
    assert found[-1].kind is kind
    assert reply(found).text == said


async def test_server_that_needs_no_key(wire_server: WireServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider = OpenAIProvider("local", wire_server.base_url)
    await collect(provider)
    assert KEY not in str(wire_server.requests[0].headers)
    await provider.close()


async def test_what_the_environment_says_for_openai_goes_to_nobody_else(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-canary")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-canary")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer canary\nX-Mine: canary")
    provider = OpenAIProvider("local", wire_server.base_url, KEY)
    await collect(provider)
    assert "canary" not in str(wire_server.requests[0].headers)
    assert wire_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    await provider.close()
