"""Azure OpenAI, Amazon Bedrock and Google Vertex AI by the SDKs' own classes, over real HTTP to scripted servers."""

import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import Image, Message, Role, StopReason, Text, ToolCall, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from ikigai.core.tools.vendor_search import VENDOR_SEARCH_SPEC
from ikigai.providers import clouds
from ikigai.providers.anthropic.cloud_messages import BedrockMessagesEncoder, VertexMessagesEncoder
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models.models import ModelCatalog
from ikigai.providers.pool import Endpoint, ProviderPool
from tests.providers import cloud_wire
from tests.providers.anthropic import messages_wire
from tests.providers.bodies import chat_validated, contents_validated, messages_validated, responses_validated
from tests.providers.conftest import collect, measured, reply
from tests.providers.formats import FORMATS
from tests.providers.google import gemini
from tests.providers.requests import requests
from tests.providers.search_agent import reply_of
from tests.providers.search_wire import gemini_chunks
from tests.support.examples import examples
from tests.support.wire_server import Answer, Received, WireServer, completion, failure

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
TOKEN = "token-of-the-endpoint-0123456789"
STREAM = [
    messages_wire.start(input_tokens=120),
    messages_wire.block(0, "text", text=""),
    messages_wire.said(0, "Hello"),
    messages_wire.block(1, "tool_use", id="toolu_1", name="ls", input={}),
    messages_wire.delta(1, "input_json_delta", partial_json='{"path": "."}'),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 120}},
]
SAID = (Text("Hello"), ToolCall("toolu_1", "ls", '{"path": "."}'))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials except a test's: neither this machine's files nor its metadata server."""
    for name in (
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_OPENAI_API_KEY",
        "AZURE_OPENAI_AD_TOKEN",
        "OPENAI_API_VERSION",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_API_KEY",
        "CLOUD_ML_REGION",
        "ANTHROPIC_VERTEX_PROJECT_ID",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / name))
    from anthropic.lib.aws import _auth

    _auth._get_session.cache_clear()


@pytest.fixture
async def pools() -> AsyncIterator[list[ProviderPool]]:
    made: list[ProviderPool] = []
    yield made
    for pool in made:
        await pool.close()


@pytest.fixture
def connect(wire_server: WireServer, pools: list[ProviderPool], tmp_path: Path) -> Any:
    def connect(platform: str, path: str = "", key: str = "", **more: Any) -> ProviderPool:
        address = f"http://127.0.0.1:{wire_server.port}{path}"
        endpoint = Endpoint(address, lambda: key, platform=platform, **more)
        pools.append(ProviderPool({platform: endpoint}, LocalModel("", 4096, tmp_path), ModelCatalog()))
        return pools[-1]

    return connect


def ask(model: str, **more: Any) -> Request:
    return Request(model.partition("/")[2], (Message(Role.USER, (Text("Hello?"),)),), **more)


async def send(pool: ProviderPool, model: str, **more: Any) -> list[Any]:
    return await collect(pool.provider(model), ask(model, **more))


def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", cloud_wire.AWS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud_wire.AWS_SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", cloud_wire.AWS_TOKEN)


def google_credentials(monkeypatch: pytest.MonkeyPatch, server: WireServer, folder: Path) -> None:
    """The file of a service account, with the address of a scripted token endpoint."""
    file = folder / "adc.json"
    address = f"http://127.0.0.1:{server.port}/token"
    known = {"type": "service_account", "client_email": "me@p.iam.gserviceaccount.com", "private_key": private_key()}
    file.write_text(json.dumps({**known, "token_uri": address}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


@cache
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*form).decode()


# ── Bedrock ──


async def test_claude_on_bedrock_is_asked_with_a_signed_request(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    aws_credentials(monkeypatch)
    wire_server.script = [cloud_wire.event_stream(*map(cloud_wire.event_frame, STREAM))]
    found = await send(connect("bedrock", region="eu-central-1"), f"bedrock/{CLAUDE}", system="Be brief.")
    assert reply(found).blocks() == SAID
    assert found[-1] == StreamFinished(StopReason.TOOLS, Usage(120, 20))
    [request] = wire_server.requests
    assert request.path == f"/model/{CLAUDE}/invoke-with-response-stream"
    assert request.headers["authorization"] == cloud_wire.signature_of(request, wire_server.port, "bedrock")
    assert f"Credential={cloud_wire.AWS_KEY}/" in request.headers["authorization"]
    assert "/eu-central-1/bedrock/aws4_request" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == cloud_wire.AWS_TOKEN
    body = request.json
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert body.keys().isdisjoint({"model", "stream", "cache_control"})
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


async def test_bedrock_takes_a_key_as_a_bearer_token(connect: Any, wire_server: WireServer):
    wire_server.script = [cloud_wire.event_stream(*map(cloud_wire.event_frame, STREAM))]
    found = await send(connect("bedrock", key="bedrock-api-key-1", region="us-east-1"), f"bedrock/{CLAUDE}")
    assert reply(found).text == "Hello"
    assert wire_server.requests[0].headers["authorization"] == "Bearer bedrock-api-key-1"


async def test_region_and_credentials_come_from_the_files_of_aws_configure(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("AWS_PROFILE", "work")
    (tmp_path / "CONFIG_FILE").write_text("[profile work]\nregion = ap-south-1\n")
    secrets = f"aws_access_key_id = {cloud_wire.AWS_KEY}\naws_secret_access_key = {cloud_wire.AWS_SECRET}\n"
    (tmp_path / "SHARED_CREDENTIALS_FILE").write_text(f"[work]\n{secrets}")
    wire_server.script = [cloud_wire.event_stream(*map(cloud_wire.event_frame, STREAM))]
    assert reply(await send(connect("bedrock"), f"bedrock/{CLAUDE}")).text == "Hello"
    assert "/ap-south-1/bedrock/" in wire_server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            cloud_wire.aws_refusal(403, "UnrecognizedClientException", "The security token is invalid."),
            FailureKind.AUTH,
            "bedrock did not accept the credentials (403): The security token is invalid.",
        ),
        (
            cloud_wire.aws_refusal(429, "ThrottlingException", "Too many tokens, please wait before trying again."),
            FailureKind.RATE,
            "Too many tokens",
        ),
        (
            cloud_wire.aws_refusal(400, "ValidationException", "Input is too long for requested model."),
            FailureKind.CONTEXT,
            "too long",
        ),
        (
            cloud_wire.event_stream(cloud_wire.exception_frame("throttlingException", "Slow down")),
            FailureKind.RATE,
            "Slow down",
        ),
        (
            cloud_wire.event_stream(
                *map(cloud_wire.event_frame, STREAM[:3]), cloud_wire.exception_frame("modelStreamErrorException", "Oh")
            ),
            FailureKind.OVERLOADED,
            "Oh",
        ),
        (cloud_wire.event_stream(*map(cloud_wire.event_frame, STREAM[:3])), FailureKind.CUT, "before it was complete"),
        (cloud_wire.event_stream(cloud_wire.event_frame(STREAM[0])[:-1] + b"?"), FailureKind.CUT, "middle"),
    ],
)
async def test_failure_of_bedrock(
    connect: Any,
    wire_server: WireServer,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
    kind: FailureKind,
    words: str,
):
    aws_credentials(monkeypatch)
    wire_server.script = [answer]
    pool = connect("bedrock", region="us-east-1")
    provider = pool._vendor("bedrock", "", "anthropic")
    failed = (await collect(provider, ask(f"bedrock/{CLAUDE}")))[-1]
    await provider.close()
    assert isinstance(failed, StreamFailed)
    assert (failed.kind, words in failed.text) == (kind, True), failed
    if kind is FailureKind.AUTH:
        assert "aws sso login" in failed.remedy


async def test_on_demand_refusal_names_an_inference_profile(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    aws_credentials(monkeypatch)
    message = "Invocation of model ID x with on-demand throughput isn't supported. Retry with an inference profile."
    wire_server.script = [cloud_wire.aws_refusal(400, "ValidationException", message)]
    model = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
    failed = (await send(connect("bedrock", region="us-east-1"), model))[-1]
    assert "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0" in failed.remedy


async def test_other_models_of_bedrock_are_asked_by_the_class_of_openai(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    aws_credentials(monkeypatch)
    wire_server.script = [completion("Hi")]
    pool = connect("bedrock", "/openai/v1", region="us-west-2")
    assert reply(await send(pool, "bedrock/openai.gpt-oss-120b-1:0")).text == "Hi"
    [request] = wire_server.requests
    assert chat_validated(request.json) == request.json
    assert request.path == "/openai/v1/chat/completions"
    assert request.json["model"] == "openai.gpt-oss-120b-1:0"
    assert "/us-west-2/bedrock-mantle/aws4_request" in request.headers["authorization"]
    assert request.headers["authorization"] == cloud_wire.signature_of(request, wire_server.port, "bedrock-mantle")


async def test_models_of_bedrock(connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch):
    aws_credentials(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK", f"http://127.0.0.1:{wire_server.port}")
    profile = {"inferenceProfileId": CLAUDE, "inferenceProfileName": "x", "status": "ACTIVE", "type": "SYSTEM_DEFINED"}
    profile |= {"inferenceProfileArn": "arn:aws:bedrock:us-east-1:1:x", "models": []}
    model = {"modelArn": "arn:aws:bedrock:x", "modelId": "openai.gpt-oss-120b-1:0"}
    answers = {
        "/inference-profiles": {"inferenceProfileSummaries": [profile]},
        "/foundation-models": {
            "modelSummaries": [
                {**model, "inferenceTypesSupported": ["ON_DEMAND"]},
                {**model, "modelId": "anthropic.claude-x", "inferenceTypesSupported": ["INFERENCE_PROFILE"]},
            ]
        },
    }

    def answer(request: Received) -> Answer:
        body = answers[request.path.partition("?")[0]]
        return Answer(json.dumps(body).encode(), headers={"Content-Type": "application/json"})

    wire_server.answer = answer
    found = await connect("bedrock", region="us-east-1").listed("bedrock")
    assert [model.id for model in found] == [CLAUDE, "openai.gpt-oss-120b-1:0"]


async def test_bedrock_names_what_is_missing(connect: Any):
    [failed] = await send(connect("bedrock"), f"bedrock/{CLAUDE}")
    assert failed.kind is FailureKind.UNAVAILABLE
    assert failed.text == "There is no AWS region for Amazon Bedrock."
    assert "AWS_REGION" in failed.remedy
    [failed] = await send(connect("bedrock", region="us-east-1"), f"bedrock/{CLAUDE}")
    assert failed.text == "Amazon Bedrock has no credentials: none were found."
    assert failed.remedy == "Run: aws configure, or: aws sso login, or set AWS_BEARER_TOKEN_BEDROCK"


async def test_unknown_profile_is_named(connect: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_PROFILE", "nope")
    [failed] = await send(connect("bedrock", region="us-east-1"), f"bedrock/{CLAUDE}")
    assert "The config profile (nope) could not be found" in failed.text


# ── Azure ──


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/openai/v1/chat/completions?api-version=v1"),
        ("/openai/v1/", "/openai/v1/chat/completions?api-version=v1"),
        ("?api-version=2024-10-21", "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"),
        (
            "/openai/deployments/other/chat/completions?api-version=2024-10-21",
            "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
        ),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)
async def test_address_of_azure(connect: Any, wire_server: WireServer, path: str, sent: str):
    wire_server.script = [completion("Hi")]
    pool = connect("azure", path, key="azure-key-123456")
    assert reply(await send(pool, "azure/my gpt", max_output=99)).text == "Hi"
    [request] = wire_server.requests
    assert request.path == sent
    assert request.headers["api-key"] == "azure-key-123456"
    assert "authorization" not in request.headers
    assert request.json["max_completion_tokens"] == 99
    assert chat_validated(request.json) == request.json


async def test_version_of_azure_comes_from_the_environment(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01")
    await send(connect("azure", key="azure-key-123456"), "azure/gpt-5")
    assert wire_server.requests[0].path == "/openai/deployments/gpt-5/chat/completions?api-version=2025-01-01"


async def test_azure_takes_the_tokens_of_entra_id(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
):
    """The chain of azure-identity asks the endpoint of a managed identity, and keeps the token."""
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{identity.port}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "code")
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
        pool = connect("azure")
        for _ in range(2):
            await send(pool, "azure/gpt-5")
        assert len(identity.requests) == 1
        assert "resource=https://cognitiveservices.azure.com" in identity.requests[0].path
    assert [request.headers["authorization"] for request in wire_server.requests] == [f"Bearer {TOKEN}"] * 2


async def test_azure_without_credentials_names_the_sign_in(connect: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    [failed] = await send(connect("azure"), "azure/gpt-5")
    assert failed.kind is FailureKind.AUTH
    assert failed.text.startswith("Azure OpenAI has no credentials: ")
    assert failed.remedy == "Run: az login, or set AZURE_OPENAI_API_KEY"


async def test_azure_lists_no_model_that_can_be_named(connect: Any, wire_server: WireServer):
    wire_server.script = [Answer(b'{"data": [{"id": "gpt-4o"}]}', headers={"Content-Type": "application/json"})]
    assert await connect("azure", key="k" * 20).listed("azure") == []
    assert wire_server.requests[0].path == "/openai/v1/models?api-version=v1"


async def test_azure_without_an_address_names_the_variable(tmp_path: Path):
    pool = ProviderPool(
        {"azure": Endpoint("", lambda: "k", platform="azure")}, LocalModel("", 4096, tmp_path), ModelCatalog()
    )
    with pytest.raises(IkigaiError, match="Set AZURE_OPENAI_ENDPOINT"):
        pool.check("azure/gpt-5")


async def test_responses_on_azure(connect: Any, wire_server: WireServer):
    wire_server.script = [failure(400, "stop here")]
    pool = connect("azure", key="azure-key-123456", api="responses")
    await send(pool, "azure/gpt-5")
    assert wire_server.requests[0].path == "/openai/v1/responses?api-version=v1"
    assert responses_validated(wire_server.requests[0].json) == wire_server.requests[0].json


async def test_azure_searches_over_responses(connect: Any, wire_server: WireServer):
    form = FORMATS["responses"]
    wire_server.script = [Answer(reply_of(form).stream)]
    pool = connect("azure", key="azure-key-123456", api="responses")
    found = await send(pool, "azure/gpt-5", tools=(VENDOR_SEARCH_SPEC,))
    assert [block.hosted for block in reply(found).blocks() if isinstance(block, ToolCall)] == ["azure/gpt-5"] * 2
    assert wire_server.requests[0].json["tools"] == [{"type": "web_search"}]


async def test_pages_of_a_search_are_dispensable(connect: Any, wire_server: WireServer):
    message = "Invalid value: 'web_search_call.action.sources'. Supported values are: 'reasoning.encrypted_content'."
    wire_server.script = [failure(400, message), Answer(reply_of(FORMATS["responses"]).stream)]
    pool = connect("azure", key="azure-key-123456", api="responses")
    assert reply(await send(pool, "azure/gpt-5", tools=(VENDOR_SEARCH_SPEC,))).text == "It is new. Good."
    first, second = (request.json for request in wire_server.requests)
    assert "web_search_call.action.sources" in first["include"]
    assert "web_search_call.action.sources" not in second.get("include", ()) and second["tools"] == first["tools"]


# ── Vertex ──


async def test_gemini_on_vertex_is_asked_with_a_token_of_the_credentials(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
        wire_server.script = [gemini.said("Hi"), gemini.said("Again")]
        pool = connect("vertex", region="europe-west1")
        assert reply(await send(pool, "vertex/gemini-3.8-flash")).text == "Hi"
        await send(pool, "vertex/gemini-3.8-flash")
        assert len(tokens.requests) == 1
        assert b"jwt-bearer" in tokens.requests[0].body
    request = wire_server.requests[0]
    place = "projects/my-project/locations/europe-west1/publishers/google/models"
    assert request.path == f"/v1beta1/{place}/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in request.headers
    assert contents_validated(request.json) == request.json


async def test_gemini_on_vertex_is_counted_there(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        wire_server.script = [Answer(b'{"totalTokens": 7}', headers={"Content-Type": "application/json"})]
        pool = connect("vertex", region="global", project="p")
        assert await pool.provider("vertex/gemini-3.8-flash").count(ask("vertex/gemini-3.8-flash", system="S")) == 7
    [request] = wire_server.requests
    assert request.path.endswith("/gemini-3.8-flash:countTokens")
    assert {"contents", "systemInstruction"} <= request.json.keys()


async def test_claude_on_vertex_is_asked_with_a_token_of_the_credentials(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        wire_server.script = [
            Answer(messages_wire.sse(*STREAM)),
            Answer(b'{"input_tokens": 9}', headers={"Content-Type": "application/json"}),
        ]
        pool = connect("vertex", "/v1", region="us-east5", project="my-project")
        model = "vertex/claude-sonnet-4-5@20250929"
        assert reply(await send(pool, model)).blocks() == SAID
        assert await pool.provider(model).count(ask(model)) == 9
    asked, counted = wire_server.requests
    place = "/v1/projects/my-project/locations/us-east5/publishers/anthropic/models"
    assert asked.path == f"{place}/claude-sonnet-4-5@20250929:streamRawPredict"
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-api-key" not in asked.headers
    assert asked.json["anthropic_version"] == "vertex-2023-10-16"
    assert asked.json["stream"] is True
    assert "model" not in asked.json
    assert counted.path == f"{place}/count-tokens:rawPredict"
    assert counted.json["model"] == "claude-sonnet-4-5@20250929"


async def test_vertex_lists_the_models_of_both_publishers(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    names = (
        ("publishers/google/models/gemini-3.8-flash", "publishers/google/models/imagen-4"),
        ("publishers/anthropic/models/claude-opus-5",),
    )
    pages = [json.dumps({"publisherModels": [{"name": name} for name in each]}).encode() for each in names]
    wire_server.script = [Answer(page, headers={"Content-Type": "application/json"}) for page in pages]
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        found = await connect("vertex", region="global", project="p").listed("vertex")
    assert [model.id for model in found] == ["gemini-3.8-flash", "claude-opus-5"]
    assert wire_server.requests[0].path == "/v1beta1/publishers/google/models?pageSize=200"


@pytest.mark.parametrize("model", ["vertex/gemini-3.8-flash", "vertex/claude-sonnet-5-5"])
async def test_vertex_without_credentials_names_the_sign_in(connect: Any, model: str):
    [failed] = await send(connect("vertex", region="global", project="p"), model)
    assert failed.kind is FailureKind.AUTH
    assert failed.text.startswith("Google Vertex AI has no credentials: Your default credentials were not found")
    assert failed.remedy == "Run: gcloud auth application-default login"


@pytest.mark.parametrize("model", ["vertex/gemini-3.8-flash", "vertex/claude-sonnet-5-5"])
async def test_vertex_without_a_project_names_the_variable(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str
):
    google_credentials(monkeypatch, wire_server, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no gcloud that knows one
    wire_server.answer = lambda request: cloud_wire.token_answer(TOKEN)
    [failed] = await send(connect("vertex", region="global"), model)
    assert failed.text == "There is no Google Cloud project for Vertex AI."
    assert "GOOGLE_CLOUD_PROJECT" in failed.remedy


async def test_refused_token_endpoint_is_told(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    refused = b'{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}'
    async with WireServer([Answer(refused, 400, {"Content-Type": "application/json"})] * 4) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        [failed] = await send(connect("vertex", region="global", project="p"), "vertex/gemini-3.8-flash")
    assert "Token has been expired or revoked" in failed.text
    assert "gcloud auth" in failed.remedy


# ── what all share ──


@pytest.mark.parametrize("encoder_class", [BedrockMessagesEncoder, VertexMessagesEncoder])
def test_body_for_a_cloud_is_as_long_as_measured(encoder_class: Any):
    encoder = encoder_class(CLAUDE)

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def check(request: Request):
        body = encoder.body(request)
        assert measured(encoder, request) == len(body)
        decoded = json.loads(body)
        assert decoded["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        of_messages = {"model": CLAUDE, "stream": True, **decoded}  # which stand in the path there
        assert of_messages.pop("anthropic_version")
        assert messages_validated(of_messages) == of_messages

    check()


def test_breakpoint_stands_at_the_last_message_alone():
    picture = Image("image/png", "aGk=", 1, 1)
    first = Message(Role.USER, (Text("One"), picture))
    said, second = Message(Role.ASSISTANT, (Text("Two"),)), Message(Role.USER, (Text("Three"), picture))
    encoder = BedrockMessagesEncoder(CLAUDE)
    for messages in ((first,), (first, said, second)):
        body = json.loads(encoder.body(Request(CLAUDE, messages)))
        marked = ["cache_control" in part for message in body["messages"] for part in message["content"]]
        assert marked == [False] * (len(marked) - 1) + [True]


@pytest.mark.parametrize(("package", "platform", "key"), [("boto3", "bedrock", "k"), ("azure.identity", "azure", "")])
def test_missing_package_names_its_extra(
    connect: Any, monkeypatch: pytest.MonkeyPatch, package: str, platform: str, key: str
):
    found = clouds.importlib.util.find_spec
    monkeypatch.setattr(
        clouds.importlib.util, "find_spec", lambda name, *more: None if name == package else found(name, *more)
    )
    with pytest.raises(IkigaiError, match=rf"ikigai-chat\[{platform}\]"):
        connect(platform, key=key).check(f"{platform}/some-model")


@pytest.mark.ordinary("openai on bedrock", "vertex")
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (f"bedrock/{CLAUDE}", "anthropic boto3"),
        ("bedrock/openai.gpt-oss", "boto3 openai"),
        ("vertex/gemini-3.8-flash", "google.genai"),
        ("azure/gpt-5", "openai"),
    ],
    ids=["claude on bedrock", "openai on bedrock", "vertex", "azure"],
)
def test_no_other_sdk_is_loaded(model: str, expected: str):
    """A program that asks one cloud's model loads the SDK of that vendor alone."""
    import subprocess
    import sys

    code = """
import asyncio, sys, os
from pathlib import Path
from ikigai.providers.pool import Endpoint, ProviderPool
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models.models import ModelCatalog
platform, model, key = sys.argv[1:]
endpoint = Endpoint("http://127.0.0.1:9/v1", lambda: key, platform=platform, region="us-east-1", project="p")
pool = ProviderPool({platform: endpoint}, LocalModel("", 1, Path("/")), ModelCatalog())
asyncio.run(pool.preload(model))
print(" ".join(sorted({"anthropic", "openai", "google.genai", "boto3", "azure.identity"} & {*sys.modules})))
"""
    command = [sys.executable, "-c", code, model.partition("/")[0], model, "k"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr


async def test_claude_on_vertex_searches(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    form = FORMATS["messages"]
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        wire_server.script = [Answer(reply_of(form).stream)] * 2
        pool = connect("vertex", "/v1", project="p")
        model = "vertex/claude-sonnet-5-5"
        found = await send(pool, model, tools=(VENDOR_SEARCH_SPEC,))
        await send(pool, model)
    assert reply(found).blocks() == reply_of(form).blocks
    searched, plain = wire_server.requests
    [tool] = searched.json["tools"]
    assert (tool["type"], tool["name"]) == ("web_search_20250305", "web_search")
    assert "web-search-2025-03-05" in searched.headers["anthropic-beta"]
    assert "web-search" not in plain.headers.get("anthropic-beta", "")


async def test_gemini_on_vertex_is_not_asked_for_the_parts_of_its_search(
    connect: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with WireServer([cloud_wire.token_answer(TOKEN)]) as tokens:
        google_credentials(monkeypatch, tokens, tmp_path)
        wire_server.script = [Answer(gemini.sse(*gemini_chunks(shows_calls=False)))]
        pool = connect("vertex", project="p")
        found = await send(pool, "vertex/gemini-3.8-flash", tools=(VENDOR_SEARCH_SPEC,))
    text, call, _ = reply(found).blocks()
    assert isinstance(text, Text) and text.citations and isinstance(call, ToolCall) and call.hosted
    [request] = wire_server.requests
    assert request.json["tools"] == [{"googleSearch": {}}] and "toolConfig" not in request.json
