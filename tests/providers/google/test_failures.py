"""The Google adapter when the answer is an error or a page, in Google's own words."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from ikigai.core.request.reply import FailureKind, StreamFailed, UsageUpdate
from ikigai.providers.google.provider import GoogleProvider
from ikigai.providers.retry import RetryingProvider
from tests.providers.conftest import KEY, collect, reply
from tests.providers.google.gemini import (
    BAD_KEY,
    PLAN,
    USAGE,
    call,
    chunk,
    delay,
    failed,
    quota,
    said,
    sse,
    stream,
    text,
)
from tests.support.wire_server import Answer, WireServer


def address(server: WireServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
async def provider(wire_server: WireServer) -> AsyncIterator[GoogleProvider]:
    provider = GoogleProvider("google", address(wire_server), KEY)
    yield provider
    await provider.close()


MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
METRIC = "* Quota exceeded for metric: generate_content_free_tier_input_token_count, limit"
EXHAUSTED = "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    ("answer", "kind", "words", "retry_after"),
    [
        (
            failed(400, "bad tool", "INVALID_ARGUMENT"),
            FailureKind.REFUSED,
            "google refused the request (400): bad",
            None,
        ),
        (BAD_KEY, FailureKind.AUTH, "google did not accept the key (400): API key not valid.", None),
        (failed(400, "API key expired. Please renew the API key."), FailureKind.AUTH, "did not accept the key", None),
        (
            failed(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"),
            FailureKind.REFUSED,
            "google refused the request (400): User location is not supported",
            None,
        ),
        (
            failed(400, "The input token count (1200001) exceeds the maximum number of tokens allowed (1048576)."),
            FailureKind.CONTEXT,
            "The conversation is too long for test-model (400): The input token count (1200001)",
            None,
        ),
        (failed(401, "", "UNAUTHENTICATED"), FailureKind.AUTH, "google did not accept the key (401).", None),
        (failed(403, "Your API key was leaked"), FailureKind.AUTH, "google did not accept the key (403): Your", None),
        (
            failed(404, "models/test-model is not found for API version v1beta", "NOT_FOUND"),
            FailureKind.NOT_FOUND,
            "google has no model test-model at {address} (404): models/test-model is not found",
            None,
        ),
        (failed(408), FailureKind.OVERLOADED, "google could not answer (408).", None),
        (failed(409), FailureKind.OVERLOADED, "google could not answer (409).", None),
        (failed(413), FailureKind.CONTEXT, "The conversation is too long for test-model (413).", None),
        (failed(422), FailureKind.REFUSED, "google refused the request (422).", None),
        (
            failed(429, "Resource has been exhausted (e.g. check quota).", EXHAUSTED),
            FailureKind.RATE,
            "google: too many requests in a short time (429): Resource has been exhausted",
            None,
        ),
        (
            failed(429, PLAN, EXHAUSTED, quota(MINUTE), delay("38.86s")),
            FailureKind.RATE,
            "in a short time (429)",
            38.86,
        ),
        (failed(429, f"{PLAN}\n{METRIC}: 5\nPlease retry in 2.5s."), FailureKind.RATE, "in a short time (429)", 2.5),
        (
            failed(429, f"{PLAN}\n{METRIC}: 250000", EXHAUSTED, quota("InputTokensPerModelPerMinute"), delay("1s")),
            FailureKind.RATE,
            "google: too many requests in a short time (429)",
            1,
        ),
        (failed(429, "", EXHAUSTED, Retry_After="7"), FailureKind.RATE, "in a short time (429).", 7),
        (
            failed(429, PLAN, EXHAUSTED, quota(MINUTE, DAY), delay("9s")),
            FailureKind.QUOTA,
            "credit is used up (429)",
            9,
        ),
        (failed(429, PLAN, EXHAUSTED), FailureKind.QUOTA, "google: the credit is used up (429): You", None),
        (
            failed(429, f"{PLAN}\n{METRIC}: 0, model: gemini-x\nPlease retry in 20.04s.", EXHAUSTED, delay("20s")),
            FailureKind.QUOTA,
            "google: the credit is used up (429)",
            20,
        ),
        (failed(500, "An internal error has occurred.", "INTERNAL"), FailureKind.OVERLOADED, "answer (500): An", None),
        (failed(503, "The model is overloaded.", "UNAVAILABLE"), FailureKind.OVERLOADED, "answer (503): The", None),
        (failed(503, "", "UNAVAILABLE", delay("3s")), FailureKind.OVERLOADED, "answer (503).", 3),
        (failed(504, "", "DEADLINE_EXCEEDED"), FailureKind.OVERLOADED, "google could not answer (504).", None),
        (Answer(b"<html>no</html>", 502), FailureKind.OVERLOADED, "google could not answer (502).", None),
        (Answer(b"plain words", 400), FailureKind.REFUSED, "google refused the request (400): plain words.", None),
        (Answer(b'"\xff\xfe', 400), FailureKind.REFUSED, "google refused the request (400)", None),
        (Answer(b"[" * 60_000, 500), FailureKind.OVERLOADED, "google could not answer (500)", None),
        (Answer(b'{"error": {"code": 400, "details": 7}}', 400), FailureKind.REFUSED, "the request (400).", None),
        (Answer(b'{"error": {"details": [3, {"violations": [4]}]}}', 429), FailureKind.RATE, "short time (429).", None),
        (Answer(b'{"error": {"details": [{"retryDelay": "soon"}]}}', 429), FailureKind.RATE, "short time (429).", None),
        (
            Answer(b'[{"error": {"code": 404, "message": "no such"}}]', 404),
            FailureKind.NOT_FOUND,
            "google has no model test-model at {address} (404): no such.",
            None,
        ),
    ],
)
async def test_status(
    provider: GoogleProvider,
    wire_server: WireServer,
    answer: Answer,
    kind: FailureKind,
    words: str,
    retry_after: float | None,
):
    wire_server.script = [answer]
    [broke] = await collect(provider)
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.retry_after) == (kind, retry_after)
    assert words.replace("{address}", address(wire_server)) in broke.text
    assert broke.remedy.endswith(".")
    assert len(wire_server.requests) == 1


@pytest.mark.parametrize(
    ("error", "kind", "retry_after"),
    [
        ({"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}, FailureKind.OVERLOADED, None),
        ({"code": 500, "message": "An internal error", "status": "INTERNAL"}, FailureKind.OVERLOADED, None),
        (
            {
                "code": 429,
                "message": "slow",
                "status": EXHAUSTED,
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "4s"}],
            },
            FailureKind.RATE,
            4,
        ),
        ({"code": 429, "message": PLAN, "status": EXHAUSTED}, FailureKind.QUOTA, None),
        ({"code": 400, "message": "The input token count exceeds the maximum"}, FailureKind.CONTEXT, None),
        ({"code": 400, "message": "API key not valid."}, FailureKind.AUTH, None),
        ("words alone", FailureKind.OVERLOADED, None),
    ],
)
@pytest.mark.parametrize("said", ["", "Half"])
@pytest.mark.parametrize("framed", [True, False])
async def test_error_inside_the_stream(
    provider: GoogleProvider,
    wire_server: WireServer,
    error: object,
    kind: FailureKind,
    retry_after: float | None,
    said: str,
    framed: bool,
):
    begin = sse(chunk(text(said))) if said else b""
    # Google also sends errors as they are, over many lines and without "data: ".
    end = sse({"error": error}) if framed else json.dumps({"error": error}, indent=2).encode() + b"\r\n"
    wire_server.script = [Answer(begin + end)]
    found = await collect(provider)
    assert isinstance(found[-1], StreamFailed)
    assert (found[-1].kind, found[-1].retry_after) == (kind, retry_after)
    assert reply(found).text == said


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (chunk(finish="SAFETY"), FailureKind.REFUSED),
        (chunk(call("rm"), finish="PROHIBITED_CONTENT"), FailureKind.REFUSED),
        ({"promptFeedback": {"blockReason": "BLOCKLIST"}}, FailureKind.REFUSED),
        (chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print("), FailureKind.CUT),
    ],
)
async def test_reply_that_google_withholds_is_said_and_counted(
    provider: GoogleProvider, wire_server: WireServer, last: dict[str, object], kind: FailureKind
):
    wire_server.script = [stream({**last, "usageMetadata": USAGE, "responseId": "resp-2"})]
    found = await collect(provider)
    broke = found[-1]
    assert isinstance(found[0], UsageUpdate)
    assert isinstance(broke, StreamFailed)
    assert (broke.kind, broke.request_id) == (kind, "resp-2")
    assert broke.text.startswith("google ")


async def test_unknown_end_of_a_reply_with_calls_is_told_as_such(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [stream(chunk(call("ls"), finish="FUNCTION_CALL"))]
    failed = (await collect(provider))[-1]
    assert isinstance(failed, StreamFailed)
    assert failed.text == "google ended its reply in a way that ikigai does not know (FUNCTION_CALL)."
    assert "other words" not in failed.remedy


async def test_success_without_content_is_a_cut_reply(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [Answer(b"", 204, {})]
    [failed] = await collect(provider)
    assert isinstance(failed, StreamFailed)
    assert (failed.kind, failed.text) == (FailureKind.CUT, "The reply of google ended before it was complete.")


async def test_malformed_call_is_asked_for_again(provider: GoogleProvider, wire_server: WireServer):
    wire_server.script = [stream(chunk(finish="MALFORMED_FUNCTION_CALL")), said("Better.")]
    assert reply(await collect(RetryingProvider(provider, jitter=lambda: 0.01))).text == "Better."
    wire_server.script = [stream(chunk(finish="SAFETY")), said("Never.")]
    found = await collect(RetryingProvider(provider, sleep=_never))
    assert isinstance(found[-1], StreamFailed)


@pytest.mark.parametrize("status", [200, 500])
async def test_page_that_never_ends(wire_server: WireServer, status: int):
    wire_server.script = [Answer(b"<html>", status, {"Content-Type": "text/html"}, end="hang")]
    provider = GoogleProvider("google", address(wire_server), KEY, first=4.0, idle=0.2)  # it has to be sent at all
    await provider.preload()
    [broke] = await collect(provider)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is FailureKind.CUT
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)
    await provider.close()


@pytest.mark.parametrize(("status", "kind"), [(200, FailureKind.NOT_FOUND), (500, FailureKind.OVERLOADED)])
async def test_long_page_is_not_read_to_its_end(
    provider: GoogleProvider, wire_server: WireServer, status: int, kind: FailureKind
):
    wire_server.script = [Answer(b"x" * 1_000_000, status, {"Content-Type": "text/html"}, end="hang")]
    [broke] = await collect(provider)
    assert isinstance(broke, StreamFailed)
    assert broke.kind is kind
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


async def _never(seconds: float) -> None:
    raise AssertionError(f"waited {seconds}")
