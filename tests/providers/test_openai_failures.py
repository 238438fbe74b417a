"""The OpenAI adapter when the answer is an error, when there is none, and what must never be shown."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ikigai.core.errors import ConfigError
from ikigai.core.reply import Broke, Failure
from ikigai.providers.openai import OpenAIProvider
from ikigai.providers.retry import Retrying
from tests.providers.conftest import KEY, collect, reply
from tests.wire_server import DONE, Answer, WireServer, chunk, completion, failure, sse


@pytest.mark.parametrize(
    ("answer", "kind", "words", "retry_after"),
    [
        (failure(400, "bad tool"), Failure.REFUSED, "openai refused the request (400): bad tool.", None),
        (failure(401, "wrong"), Failure.AUTH, "openai did not accept the key (401): wrong.", None),
        (failure(402, "pay"), Failure.QUOTA, "openai says that the credit is used up (402): pay.", None),
        (failure(403), Failure.AUTH, "openai did not accept the key (403).", None),
        (failure(404), Failure.NOT_FOUND, "openai knows no model test-model at {address} (404).", None),
        (failure(408), Failure.OVERLOADED, "openai could not answer (408).", None),
        (failure(409), Failure.OVERLOADED, "openai could not answer (409).", None),
        (failure(413), Failure.CONTEXT, "The conversation is too long for test-model (413).", None),
        (failure(422, "no."), Failure.REFUSED, "openai refused the request (422): no.", None),
        (failure(429, "slow"), Failure.RATE, "openai says that requests come too fast (429): slow.", None),
        (failure(429, Retry_After="7"), Failure.RATE, "openai says that requests come too fast (429).", 7),
        (failure(429, Retry_After_Ms="1500"), Failure.RATE, "openai says that requests come too fast (429).", 1.5),
        (
            failure(429, "You exceeded your current quota", "insufficient_quota", Retry_After="7"),
            Failure.QUOTA,
            "openai says that the credit is used up (429): You exceeded your current quota.",
            7,
        ),
        (
            failure(400, "too much", "context_length_exceeded"),
            Failure.CONTEXT,
            "The conversation is too long for test-model (400): too much.",
            None,
        ),
        (failure(500), Failure.OVERLOADED, "openai could not answer (500).", None),
        (failure(503, Retry_After="3"), Failure.OVERLOADED, "openai could not answer (503).", 3),
        (failure(529), Failure.OVERLOADED, "openai could not answer (529).", None),
        (Answer(b"<html>no</html>", 502), Failure.OVERLOADED, "openai could not answer (502).", None),
        (Answer(b"plain words", 400), Failure.REFUSED, "openai refused the request (400): plain words.", None),
        (
            Answer(b'[{"error": {"code": 404, "message": "no such"}}]', 404),
            Failure.NOT_FOUND,
            "openai knows no model test-model at {address} (404): no such.",
            None,
        ),
        (
            Answer(b'{"detail": [{"loc": ["body"], "msg": "missing"}]}', 422),
            Failure.REFUSED,
            'openai refused the request (422): [{"loc": ["body"], "msg": "missing"}].',
            None,
        ),
    ],
)
async def test_status(
    provider: OpenAIProvider,
    wire_server: WireServer,
    answer: Answer,
    kind: Failure,
    words: str,
    retry_after: float | None,
):
    answer.headers["X-Request-Id"] = "req_9"
    wire_server.script = [answer]
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert (broke.kind, broke.retry_after, broke.request_id) == (kind, retry_after, "req_9")
    assert broke.text == words.replace("{address}", wire_server.base_url)
    assert broke.remedy.endswith(".")
    assert len(wire_server.requests) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "type": "server_error"}, Failure.OVERLOADED),
        ({"message": "busy", "code": 503}, Failure.OVERLOADED),
        ({"message": "slow", "code": 429}, Failure.RATE),
        ({"message": "slow", "code": "rate_limit_exceeded"}, Failure.RATE),
        ({"message": "no money", "code": "insufficient_quota"}, Failure.QUOTA),
        ({"message": "Your input exceeds the context window of this model."}, Failure.CONTEXT),
        ({"message": "bad", "type": "invalid_request_error"}, Failure.REFUSED),
        ({"message": "who", "code": 401}, Failure.AUTH),
        ("words alone", Failure.OVERLOADED),
    ],
)
@pytest.mark.parametrize("said", ["", "Half"])
async def test_an_error_inside_the_stream(
    provider: OpenAIProvider, wire_server: WireServer, error: object, kind: Failure, said: str
):
    begin = sse(chunk({"content": said})) if said else b""
    wire_server.script = [Answer(begin + sse({"error": error}, chunk(finish="stop"), DONE))]
    found = await collect(provider)
    assert isinstance(found[-1], Broke)
    assert found[-1].kind is kind
    assert reply(found).text == said


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><h1>Welcome", b"", b"x" * 1_000_000])
async def test_a_page_instead_of_a_stream(provider: OpenAIProvider, wire_server: WireServer, body: bytes):
    wire_server.script = [Answer(body, headers={"Content-Type": "text/html; charset=utf-8"})]
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.NOT_FOUND
    assert wire_server.base_url in broke.text


async def test_a_page_that_never_ends(wire_server: WireServer):
    wire_server.script = [Answer(b"<html>", headers={"Content-Type": "text/html"}, end="hang")]
    provider = OpenAIProvider("openai", wire_server.base_url, KEY, idle=0.2)
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.CUT
    await provider.close()


async def test_an_error_dressed_as_success(provider: OpenAIProvider, wire_server: WireServer):
    answer = failure(200, "model is loading", "503")
    wire_server.script = [answer]
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.OVERLOADED


async def test_redirects_are_not_followed(provider: OpenAIProvider, wire_server: WireServer):
    async with WireServer() as elsewhere:
        wire_server.script = [Answer(b"", 307, {"Location": f"{elsewhere.base_url}/chat/completions"})]
        [broke] = await collect(provider)
        assert isinstance(broke, Broke)
        assert broke.kind is Failure.NOT_FOUND
        assert elsewhere.requests == []


async def test_nothing_listens(wire_server: WireServer):
    await wire_server.stop()
    provider = OpenAIProvider("openai", wire_server.base_url, KEY)
    [broke] = await collect(provider)
    await wire_server.start()
    assert broke == Broke(
        Failure.UNREACHABLE,
        f"openai cannot be reached at {provider.address}: nothing listens there.",
        "Check the network and the address.",
    )


async def test_a_name_nobody_knows():
    provider = OpenAIProvider("openai", "http://user:pass@nowhere.invalid/v1", KEY)
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNREACHABLE
    assert broke.text == "openai cannot be reached at http://nowhere.invalid/v1: the name is not known."


async def test_plain_text_where_tls_was_expected_is_not_tried_again():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    await _unavailable(serve, None, "does not speak tls")


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl to make a certificate")
async def test_an_untrusted_certificate_is_not_tried_again(tmp_path: Path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(  # noqa: ASYNC221
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 "
        f"-keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter): ...

    await _unavailable(serve, context, "self-signed certificate")


async def _unavailable(serve: object, context: ssl.SSLContext | None, words: str) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)  # type: ignore[arg-type]
    port = server.sockets[0].getsockname()[1]
    provider = OpenAIProvider("openai", f"https://127.0.0.1:{port}/v1", KEY)
    [broke] = await collect(Retrying(provider, sleep=_never))
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNAVAILABLE
    assert words in broke.text.lower().replace("_", " ")
    await provider.close()
    server.close()


async def _never(seconds: float) -> None:
    raise AssertionError(f"waited {seconds}")


async def test_a_proxy_from_the_environment_is_not_used_on_this_machine(
    wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for host in ("127.0.0.1", "localhost"):
        wire_server.script = [completion("direct")]
        provider = OpenAIProvider("local", wire_server.base_url.replace("127.0.0.1", host), KEY)
        assert reply(await collect(provider)).text == "direct"
        await provider.close()


async def test_the_other_loopback_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    [broke] = await collect(OpenAIProvider("local", "http://[::1]:9/v1", KEY))
    assert isinstance(broke, Broke)
    assert (broke.kind, "http://[::1]:9/v1:" in broke.text) == (Failure.UNREACHABLE, True)


async def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    [broke] = await collect(OpenAIProvider("openai", "http://nowhere.invalid/v1", KEY))
    assert isinstance(broke, Broke)
    assert broke.kind is Failure.UNAVAILABLE
    assert "gopher" in broke.text


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "sk-\x00", "sk-é", "\ufeffsk-1"])
def test_a_key_that_no_header_can_hold(key: str):
    with pytest.raises(ConfigError) as caught:
        OpenAIProvider("openai", "", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080/v1",
        "api.openai.com",
        "ftp://x/v1",
        "http://",
        "http:///v1",
        "http://[::1/v1",
        "http://x:y/v1",
        "http://a b/v1",
        "http://x/v1\n",
        "http://x/v1?key=1",
        "http://x/v1#y",
    ],
)
def test_an_address_that_is_none(address: str):
    with pytest.raises(ConfigError) as caught:
        OpenAIProvider("local", address, KEY)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("status", [200, 401])
async def test_the_key_shows_nowhere(
    wire_server: WireServer, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level("DEBUG")
    provider = OpenAIProvider("openai", wire_server.base_url, KEY)
    wire_server.script = [failure(status, f"Incorrect API key\nprovided: {KEY}.")]
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert "Incorrect API key provided: [key]." in broke.text
    shown = repr(provider) + str(broke) + caplog.text + "".join(capfd.readouterr())
    assert KEY not in shown
    await provider.close()


async def test_a_server_that_needs_no_key(wire_server: WireServer, monkeypatch: pytest.MonkeyPatch):
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


async def test_endless_words_of_a_server_are_shortened(provider: OpenAIProvider, wire_server: WireServer):
    wire_server.script = [failure(400, "x" * 100_000)]
    [broke] = await collect(provider)
    assert isinstance(broke, Broke)
    assert len(broke.text) == 400
