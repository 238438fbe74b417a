"""The pool: which class serves a provider, when a key is read, how a model is measured, what is imported by then."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.events.messages import Image, Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import FailureKind, RetryScheduled, StreamFailed, StreamFinished, TextDelta
from ikigai.providers.http.failures import ProviderRequestFailed
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models.models import ListedModel, ModelCatalog
from ikigai.providers.pool import Endpoint, ProviderPool
from tests.providers.conftest import KEY, ask, collect, reply
from tests.support.wire_server import Answer, WireServer, failure

JSON = {"Content-Type": "application/json"}


def pool_of(tmp_path: Path, known: ModelCatalog | None = None, **endpoints: Endpoint) -> ProviderPool:
    return ProviderPool(endpoints, LocalModel("", 4096, tmp_path), known or ModelCatalog())


@pytest.fixture
async def pool(tmp_path: Path, wire_server: WireServer) -> AsyncIterator[ProviderPool]:
    root = wire_server.base_url.removesuffix("/v1")
    made = pool_of(
        tmp_path,
        anthropic=Endpoint(root, lambda: KEY),
        openai=Endpoint(root + "/v1", lambda: KEY),
        google=Endpoint(root, lambda: KEY),
        mine=Endpoint(root + "/v1", lambda: KEY),
        answers=Endpoint(root + "/v1", lambda: KEY, "responses"),
        claude=Endpoint(root, lambda: KEY, "anthropic"),
        gemini=Endpoint(root, lambda: KEY, "google"),
    )
    yield made
    await made.close()


PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "google": "/v1beta/models/some-model:streamGenerateContent?alt=sse",
    "mine": "/v1/chat/completions",
    "answers": "/v1/responses",
    "claude": "/v1/messages",
    "gemini": "/v1beta/models/some-model:streamGenerateContent?alt=sse",
}


@pytest.mark.parametrize("name", PATHS)
async def test_who_is_spoken_to_how(pool: ProviderPool, wire_server: WireServer, name: str):
    wire_server.script.append(failure(400, "no"))
    request = Request("some-model", (Message(Role.USER, (Text("Hello?"),)),))
    [broke] = await collect(pool.provider(f"{name}/some-model"), request)
    assert isinstance(broke, StreamFailed) and broke.kind is FailureKind.REFUSED and name in broke.text
    [received] = wire_server.requests
    assert received.path == PATHS[name]
    assert KEY in str(received.headers)
    encoder = pool.encoder(f"{name}/some-model")
    assert encoder.envelope(request) + encoder.message(request.messages[0]) == len(received.body)


async def test_openai_without_an_address_is_asked_for_responses(tmp_path: Path):
    encoders = pool_of(tmp_path, openai=Endpoint("", lambda: KEY), chats=Endpoint("", lambda: KEY, "chat"))
    request = Request("gpt-5", (Message(Role.USER, (Text("Hello?"),)),), system="Be brief.")
    written = {name: encoders.encoder(f"{name}/gpt-5").body(request) for name in ("openai", "chats")}  # type: ignore[attr-defined]
    assert b'"input":[' in written["openai"] and b'"messages":[' in written["chats"]


async def test_what_passes_is_tried_again(pool: ProviderPool, wire_server: WireServer):
    wire_server.script += [failure(503, "busy", retry_after_ms="10"), "Hello."]
    found = await collect(pool.provider("mine/x"))
    assert isinstance(found[0], RetryScheduled) and isinstance(found[-1], StreamFinished)
    assert reply(found).text == "Hello." and any(isinstance(event, TextDelta) for event in found)


@pytest.mark.parametrize(
    ("name", "api", "words"),
    [
        (
            "anthropic",
            "",
            "There is no key for Anthropic. Store one with `ikigai login anthropic` or /login anthropic, set ",
        ),
        (
            "openai",
            "",
            "There is no key for OpenAI. Store one with `ikigai login openai` or /login openai, set OPENAI_API_KEY, or",
        ),
        (
            "google",
            "",
            "There is no key for Google. Store one with `ikigai login google` or /login google, set GEMINI_API_KEY, or",
        ),
        (
            "work",
            "anthropic",
            "There is no key for work. Store one with `ikigai login work` or /login work, or choose another model.",
        ),
    ],
)
async def test_missing_key_is_said_and_looked_for_again(tmp_path: Path, name: str, api: str, words: str):
    key = [""]
    pool = pool_of(tmp_path, **{name: Endpoint("", lambda: key[0], api)})
    with pytest.raises(IkigaiError) as caught:
        pool.check(f"{name}/x")
    assert str(caught.value).startswith(words) and not isinstance(caught.value, ConfigError)
    [broke] = await collect(pool.provider(f"{name}/x"))
    assert isinstance(broke, StreamFailed) and broke.kind is FailureKind.UNAVAILABLE
    assert await pool.provider(f"{name}/x").count(ask()) is None
    before = pool.encoder(f"{name}/x").envelope(ask())
    key[0] = KEY
    pool.check(f"{name}/x")
    assert pool.encoder(f"{name}/x").envelope(ask()) == before
    await pool.close()


def test_key_that_cannot_be_one(tmp_path: Path):
    pool = pool_of(tmp_path, openai=Endpoint("", lambda: "sk-canary\nX: y"))
    with pytest.raises(ConfigError) as caught:
        pool.check("openai/x")
    assert "canary" not in str(caught.value) and "line break" in caught.value.what


def test_whoever_is_not_there(tmp_path: Path):
    pool = pool_of(tmp_path, mine=Endpoint("http://h/v1", lambda: ""))
    for model in ("nobody/x", "minee/x"):
        with pytest.raises(ConfigError, match=r"There is no provider .* use one of: local, mine\.") as caught:
            pool.check(model)
        assert ("Did you mean mine?" in str(caught.value)) == (model == "minee/x")
    with pytest.raises(IkigaiError, match=r"No model yet\. .* ikigai login"):
        pool.check("")
    assert pool.encoder("nobody/x").envelope(ask()) > 0


def test_level_that_the_model_does_not_have(tmp_path: Path):
    known = ModelCatalog(known=lambda model: ListedModel(model, levels=("low", "high")))
    pool = pool_of(tmp_path, known, mine=Endpoint("http://h/v1", lambda: ""))
    pool.check("mine/x", "low")
    pool.check("mine/x")
    with pytest.raises(ConfigError, match="x has no thinking level med; it has low, high"):
        pool.check("mine/x", "med")


def test_limits_and_sight_are_those_that_are_known(tmp_path: Path):
    known = ModelCatalog(
        known=lambda model: ListedModel(model, context=5_000, max_output=700, images=model == "mine/eyes")
    )
    pool = pool_of(tmp_path, known, mine=Endpoint("http://h/v1", lambda: ""))
    assert pool.limits("mine/x") == ModelLimits(5_000, 700, no_vendor_search="Chat Completions have none")
    seen = Message(Role.USER, (Image("image/png", "aWtpZ2Fp", 9, 9, "dot.png"),))
    bodies = {
        name: pool.encoder(f"mine/{name}").body(Request(name, (seen,)))  # type: ignore[attr-defined]
        for name in ("eyes", "blind")
    }
    assert b"aWtpZ2Fp" in bodies["eyes"] and b"left out: this model sees no images" in bodies["blind"]


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        (["google", "openai", "anthropic"], "anthropic/"),
        (["google", "openai"], "openai/"),
        (["mine", "google"], "google/"),
        (["mine"], ""),
        ([], ""),
    ],
)
def test_model_to_start_with(tmp_path: Path, keys: list[str], model: str):
    assert pool_of(tmp_path).default_model(keys).startswith(model)
    assert bool(pool_of(tmp_path).default_model(keys)) == bool(model)


@pytest.mark.parametrize("model", ["", "scripted/echo", "nobody/x", "anthropic/x"])
async def test_every_provider_can_be_warmed_and_prepared(tmp_path: Path, model: str):
    pool = pool_of(tmp_path, anthropic=Endpoint("", lambda: ""))
    pool.preconnect(model)
    await pool.preload(model)
    pool.preconnect(model)
    provider = pool.provider(model)  # also one that only says what is wrong
    await provider.preload()
    provider.preconnect()
    await pool.close()


async def test_list_is_asked_for_with_another_key(pool: ProviderPool, wire_server: WireServer):
    wire_server.script.append(Answer(b'{"object": "list", "data": [{"id": "one"}, {"id": "two"}]}', 200, JSON))
    assert [model.id for model in await pool.listed("mine", "sk-another")] == ["one", "two"]
    [received] = wire_server.requests
    assert received.path == "/v1/models" and received.headers["authorization"] == "Bearer sk-another"


@pytest.mark.parametrize(
    ("name", "status", "kind", "code"),
    [(name, 401, FailureKind.AUTH, 1) for name in ("mine", "claude", "gemini")]
    + [(name, 503, FailureKind.OVERLOADED, 75) for name in ("mine", "claude", "gemini")],
)
async def test_list_that_is_refused(
    pool: ProviderPool, wire_server: WireServer, name: str, status: int, kind: FailureKind, code: int
):
    wire_server.script.append(failure(status, f"no: {KEY}"))
    with pytest.raises(ProviderRequestFailed) as caught:
        await pool.listed(name)
    assert (caught.value.kind, caught.value.exit_code) == (kind, code)
    assert KEY not in str(caught.value) and caught.value.remedy


def test_no_vendor_is_imported_before_it_is_used():
    code = (
        "import sys; from pathlib import Path; from ikigai.providers.models.models import ModelCatalog\n"
        "from ikigai.providers.local.provider import LocalModel\n"
        "from ikigai.providers.pool import Endpoint, ProviderPool\n"
        "names = ('anthropic', 'openai', 'google', 'mine')\n"
        "served = {n: Endpoint('http://h', lambda: 'k') for n in names}\n"
        "pool = ProviderPool(served, LocalModel('', 1, Path('/')), ModelCatalog())\n"
        "pool.known.limits('anthropic/claude-x')\n"
        "def loaded(): return sorted(m for m in sys.modules if m in ('anthropic', 'openai', 'google.genai', 'httpx2')"
        " or m in tuple(f'ikigai.providers.{n}.provider' for n in names))\n"
        "print(loaded()); pool.check('anthropic/claude-x'); pool.encoder('anthropic/claude-x'); print(loaded())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.splitlines() == ["[]", "['ikigai.providers.anthropic.provider']"], told.stderr


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "google"])
async def test_proxy_from_the_environment(
    tmp_path: Path, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, api: str
):
    """It is asked for servers elsewhere, and left out for those on this machine."""
    monkeypatch.setenv("HTTP_PROXY", wire_server.base_url.removesuffix("/v1"))
    wire_server.script += [failure(400, "no")] * 2
    pool = pool_of(tmp_path, far=Endpoint("http://models.invalid", lambda: KEY, api))
    [broke] = await collect(pool.provider("far/x"))
    assert isinstance(broke, StreamFailed) and broke.kind is FailureKind.REFUSED
    [received] = wire_server.requests
    assert received.path.startswith("http://models.invalid/") and received.headers["host"] == "models.invalid"
    await pool.close()
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    pool = pool_of(tmp_path, near=Endpoint(wire_server.base_url.removesuffix("/v1"), lambda: KEY, api))
    [broke] = await collect(pool.provider("near/x"))
    assert isinstance(broke, StreamFailed) and broke.kind is FailureKind.REFUSED and len(wire_server.requests) == 2
    await pool.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine that nobody trusts by itself, and its key."""
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    what = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    try:
        subprocess.run([*what, *names], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not here")
    return made, key


@pytest.mark.parametrize("api", ["chat", "anthropic", "google"])
async def test_certificates_from_the_environment(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, api: str
):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(_refuse, "127.0.0.1", 0, ssl=context)
    address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        for trusted in (False, True):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
            pool = pool_of(tmp_path, safe=Endpoint(address, lambda: KEY, api))
            [broke] = await collect(pool.provider("safe/x"))
            assert isinstance(broke, StreamFailed)
            assert broke.kind is (FailureKind.REFUSED if trusted else FailureKind.UNAVAILABLE), broke
            assert trusted or "certificate" in broke.text
            await pool.close()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = failure(400, "no").body
    writer.write(b"HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    await reader.read()  # until the client goes: closing on bytes not read would reset the connection
    writer.close()


async def test_models_of_a_provider_that_does_not_answer_are_waited_for_in_vain(tmp_path: Path):
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    pool = pool_of(tmp_path, mute=Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", lambda: KEY))
    asking = asyncio.create_task(pool.listed("mute", within=0.1))
    done, _ = await asyncio.wait({asking}, timeout=60)
    assert done and isinstance(asking.exception(), TimeoutError)
    server.close()
    await pool.close()
