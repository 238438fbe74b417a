"""Replies that are to be one JSON object: how each format asks for them, and models that cannot do it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from ikigai.agent.request.one_shot import complete
from ikigai.core.context.forget_matching import ANSWER_SCHEMA
from ikigai.core.events.messages import Message, Role, StopReason, Text
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from tests.providers.conftest import KEY, collect, measured, reply
from tests.providers.formats import FORMATS, Format
from tests.support.wire_server import Answer, WireServer, completion, failure

replace = msgspec.structs.replace

SCHEMA = json.loads(ANSWER_SCHEMA)
OBJECT = '{"ids": [1, 2]}'
ASKED: dict[str, dict[str, Any]] = {
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA}}},
    "chat": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    },
    "contents": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
}
"""The key of a schema in each format; Google's is in generationConfig."""
REFUSALS = [
    ("messages", 400, "'claude-opus-4-5' does not support output format."),
    ("messages", 400, "output_config.format: Extra inputs are not permitted"),
    ("messages", 400, "structured outputs are not available for this model"),
    (
        "responses",
        400,
        "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model. Learn more.",
    ),
    ("chat", 400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    ("chat", 400, "This response_format type is unavailable now"),
    ("chat", 400, "'response_format.type' : value is not one of the allowed values ['text','json_object']"),
    ("chat", 400, "Automatic parser generation failed: JSON schema error at #: unrecognized type"),
    ("chat", 422, "Failed to deserialize the JSON body into the target type: response_format: unknown variant"),
    ("chat", 404, "No endpoints found that can handle the requested parameters."),
    ("contents", 400, "JSON mode is not enabled for models/gemma-3-27b-it"),
    ("contents", 400, "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config'"),
]


def ask(form: Format, schema: str = ANSWER_SCHEMA, level: str = "") -> Request:
    messages = (Message(Role.USER, (Text("[1 user] Hi\n[2 assistant] Hello"),)),)
    return Request(form.name, messages, "Answer with JSON.", level=level, max_output=64, schema=schema)


def whole(form: Format) -> Answer:
    return Answer(form.stream((Text(OBJECT),), StopReason.END))


def said(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Of a body, what asks for a form."""
    config = body["generationConfig"] if name == "contents" else body
    return {key: config[key] for key in ASKED[name] if key in config}


@pytest.fixture(params=FORMATS)
async def vendor(request: pytest.FixtureRequest, wire_server: WireServer) -> AsyncIterator[tuple[str, Format, Any]]:
    async for found in _connected(request.param, wire_server):
        yield found


async def _connected(name: str, server: WireServer) -> AsyncIterator[tuple[str, Format, Any]]:
    form = FORMATS[name]
    provider: Any = form.connect(f"http://127.0.0.1:{server.port}", KEY)
    yield name, form, provider
    await provider.close()


async def test_what_is_received(vendor: tuple[str, Format, Any], wire_server: WireServer):
    name, form, provider = vendor
    wire_server.script += [whole(form), whole(form)]
    asked = ask(form)
    found = await collect(provider, asked)
    assert (reply(found).text, type(found[-1])) == (OBJECT, StreamFinished)
    await collect(provider, ask(form, schema=""))
    received, plain = wire_server.requests
    assert said(name, received.json) == ASKED[name] and said(name, plain.json) == {}
    assert form.validated(received.json) == received.json
    assert len(received.body) == measured(provider.encoder(form.name), asked)
    messages = plain.body[plain.body.index(b'"%b":[{' % provider.encoder(form.name).array.encode()) :]
    assert received.body.endswith(messages), "the messages stand behind it, as they always do"


async def test_side_call(vendor: tuple[str, Format, Any], wire_server: WireServer):
    name, form, provider = vendor
    wire_server.script.append(whole(form))
    done = await complete(provider, form.model, "s", "t", purpose="matching", max_output=64, schema=ANSWER_SCHEMA)
    assert (done.text, done.failure, done.stop) == (OBJECT, None, StopReason.END)
    assert said(name, wire_server.requests[0].json) == ASKED[name]


async def test_beside_a_thinking_level(vendor: tuple[str, Format, Any], wire_server: WireServer):
    name, form, provider = vendor
    wire_server.script.append(whole(form))
    await collect(provider, ask(form, level="low"))
    [received] = wire_server.requests
    assert form.validated(received.json) == received.json
    if name == "messages":
        assert received.json["output_config"] == {"effort": "low", **ASKED[name]["output_config"]}
    else:
        assert said(name, received.json) == ASKED[name]


CLAUDES = {
    "claude-3-5-haiku-20241022": False,
    "claude-2.1": False,
    "claude-opus-4-1-20250805": False,
    "claude-sonnet-4-20250514": False,
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": True,
    "claude-haiku-4-5": True,
    "claude-opus-5-5": True,
    "claude-opus-latest": True,
    "glm-4.6": True,
}


@pytest.mark.parametrize("model", CLAUDES)
async def test_older_claudes_go_without(wire_server: WireServer, model: str):
    async for name, form, provider in _connected("messages", wire_server):
        wire_server.script.append(whole(form))
        asked = ask(form)
        await collect(provider, Request(model, asked.messages, max_output=64, schema=ANSWER_SCHEMA))
        assert said(name, wire_server.requests[0].json) == (ASKED[name] if CLAUDES[model] else {})


@pytest.mark.parametrize(("name", "status", "words"), REFUSALS)
async def test_model_that_refuses_is_asked_without(wire_server: WireServer, name: str, status: int, words: str):
    async for _, form, provider in _connected(name, wire_server):
        no = form.refusal(status, words, "")
        wire_server.script += [no, whole(form), whole(form), whole(form), whole(form)]
        found = await collect(provider, ask(form))
        assert (reply(found).text, type(found[-1])) == (OBJECT, StreamFinished)
        await collect(provider, ask(form))
        await collect(provider, ask(form, schema=""))
        asked = ask(form)
        await collect(provider, Request("claude-opus-5-5", asked.messages, max_output=64, schema=ANSWER_SCHEMA))
        first, again, later, plain, other = wire_server.requests
        assert said(name, first.json) == ASKED[name]
        assert again.body == later.body == plain.body, "known from then on"
        assert said(name, other.json) == ASKED[name], "another model may do it"


async def test_other_refusals_are_told(vendor: tuple[str, Format, Any], wire_server: WireServer):
    name, form, provider = vendor
    for status, words in (
        (400, "messages: too many images"),
        (401, "no response_format for you"),
        (500, "json_schema"),
    ):
        wire_server.requests.clear()
        wire_server.script[:] = [form.refusal(status, words, "")]
        [broke] = await collect(provider, ask(form))
        assert isinstance(broke, StreamFailed) and len(wire_server.requests) == 1
    wire_server.script[:] = [form.refusal(400, "response_format", ""), form.refusal(400, "too long", ""), whole(form)]
    [broke] = await collect(provider, ask(form))
    assert isinstance(broke, StreamFailed)
    await collect(provider, ask(form))
    assert said(name, wire_server.requests[-1].json) == ASKED[name], "nobody knows whether that was it"


async def test_request_without_a_form_is_not_sent_again(vendor: tuple[str, Format, Any], wire_server: WireServer):
    _, form, provider = vendor
    wire_server.script.append(form.refusal(400, "response_format is not valid here", ""))
    [broke] = await collect(provider, ask(form, schema=""))
    assert isinstance(broke, StreamFailed) and broke.kind is FailureKind.REFUSED
    assert len(wire_server.requests) == 1


async def test_server_that_knows_neither_counts_nor_forms(wire_server: WireServer):
    async for _, form, provider in _connected("chat", wire_server):
        wire_server.script += [
            failure(400, "Unrecognized request argument supplied: stream_options"),
            failure(400, "Unrecognized request argument supplied: response_format"),
            completion(OBJECT),
        ]
        found = await collect(provider, ask(form))
        assert reply(found).text == OBJECT
        both, one, none = (received.json for received in wire_server.requests)
        assert "stream_options" in both and "response_format" in both
        assert "stream_options" not in one and "response_format" in one
        assert "stream_options" not in none and "response_format" not in none


async def test_required_schema_is_never_left_out(vendor: tuple[str, Format, Any], wire_server: WireServer):
    name, form, provider = vendor
    wire_server.script += [form.refusal(400, "response_format json_schema is not supported", "")] * 2
    for _ in range(2):
        [broke] = await collect(provider, replace(ask(form), schema_required=True))
        assert isinstance(broke, StreamFailed) and "json_schema is not supported" in broke.text
    assert [said(name, request.json) for request in wire_server.requests] == [ASKED[name]] * 2


async def test_required_schema_is_sent_in_the_form_that_the_vendor_takes(
    vendor: tuple[str, Format, Any], wire_server: WireServer
):
    name, form, provider = vendor
    loose = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
    wire_server.script.append(whole(form))
    await collect(provider, replace(ask(form, schema=json.dumps(loose)), schema_required=True))
    asked = json.dumps(said(name, wire_server.requests[0].json))
    closed = {**loose, "properties": {"size": {"type": "integer", "description": "{minimum: 1}"}}}
    sent = {**closed, "additionalProperties": False} if name == "messages" else loose
    assert json.dumps(sent) in asked
    assert ('"strict": false' in asked) == (name in ("chat", "responses"))


async def test_older_claude_refuses_a_required_schema_itself(wire_server: WireServer):
    async for name, form, provider in _connected("messages", wire_server):
        wire_server.script.append(form.refusal(400, "output_config: not supported", ""))
        asked = replace(ask(form), model="claude-2.1", schema_required=True)
        assert isinstance((await collect(provider, asked))[-1], StreamFailed)
        assert said(name, wire_server.requests[0].json) == ASKED[name]
