"""Headers, fields of the body and a query in the address that the configuration adds to requests, in every format."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ikigai import config as configuration
from ikigai.app.run import factories
from ikigai.app.tools.redaction_keys import Redaction
from ikigai.config import Config
from ikigai.core.errors import ConfigError
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.request.build import Request
from ikigai.core.request.reply import StreamFailed, StreamFinished
from tests.providers.conftest import ask, collect, measured
from tests.providers.formats import Format
from tests.support.wire_server import Answer, WireServer, failure

TOKEN = "ghp_" + hashlib.sha256(b"canary").hexdigest()[:36]  # in the format of one
SECRET = "canary-of-the-header-0123456789"


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return configuration.load(file, {}, {})


def settings(form: Format, address: str, headers: str, body: str) -> str:
    return (
        f'[providers.{form.provider}]\nbase_url = "{address}"\napi = "{form.api}"\nheaders = {headers}\n'
        f'[models."{form.model}"]\nbody = {body}\n'
    )


async def test_headers_body_and_query_go_with_every_request(
    form: Format, wire_server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GATEWAY_KEY", SECRET)
    monkeypatch.setenv("TEAM", "blue")
    address = f"http://127.0.0.1:{wire_server.port}{form.path}?api-version=2026-01&x=%20y"
    headers = '{ X-Title = "ikigai", Authorization = "env:GATEWAY_KEY" }'
    body = '{ temperature = 0.2, metadata = { team = "env:TEAM" } }'
    config = load(tmp_path, settings(form, address, headers, body))
    pool = factories.make_pool(config)
    wire_server.script = [Answer(form.stream((Text("Hi"),), StopReason.END))]
    request = Request(form.name, ask().messages)
    try:
        assert isinstance((await collect(pool.provider(form.model), request))[-1], StreamFinished)
    finally:
        await pool.close()
    [received] = wire_server.requests
    assert received.headers["x-title"] == "ikigai"
    assert received.headers["authorization"] == SECRET
    path, _, query = received.path.partition("?")
    assert "api-version=2026-01" in query.split("&") and ("x=+y" in query or "x=%20y" in query)
    assert "api-version" not in path
    assert received.json["temperature"] == 0.2 and received.json["metadata"] == {"team": "blue"}
    encoder: Any = pool.encoder(form.model)
    assert measured(encoder, request) == len(received.body), "measured as it is sent"
    other: Any = pool.encoder(f"{form.provider}/another")
    assert b"temperature" not in other.body(request)


async def test_fields_join_an_object_of_the_body(wire_server: WireServer, tmp_path: Path):
    config = load(tmp_path, '[models."google/gemini-3.8-flash"]\nbody = { generationConfig = { temperature = 0.2 } }\n')
    encoder: Any = factories.make_pool(config).encoder("google/gemini-3.8-flash")
    written = json.loads(encoder.body(Request("gemini-3.8-flash", ask().messages, max_output=100)))
    assert written["generationConfig"]["temperature"] == 0.2
    assert written["generationConfig"]["maxOutputTokens"] == 100


async def test_secret_of_a_header_is_not_shown_and_not_stored(
    form: Format, wire_server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GATEWAY_KEY", SECRET)
    address = f"http://127.0.0.1:{wire_server.port}{form.path}"
    config = load(tmp_path, settings(form, address, '{ api-key = "env:GATEWAY_KEY" }', "{}"))
    pool = factories.make_pool(config)
    wire_server.script = [failure(400, f"wrong: {SECRET}")]
    try:
        [failed] = await collect(pool.provider(form.model), Request(form.name, ask().messages))
    finally:
        await pool.close()
    assert isinstance(failed, StreamFailed) and SECRET not in failed.text
    assert Redaction(config, dict).own(f"it is {SECRET}") == "it is [redacted: GATEWAY_KEY]"
    assert SECRET not in repr(config)


def test_header_from_a_variable_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GATEWAY_KEY", raising=False)
    config = load(tmp_path, '[providers.mine]\nbase_url = "http://x/v1"\nheaders = { X-Key = "env:GATEWAY_KEY" }\n')
    with pytest.raises(ConfigError, match="X-Key of mine is taken from GATEWAY_KEY, and that is not set"):
        factories.make_pool(config).require("mine")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("providers.groq", 'headers = { Authorization = "Bearer abc" }'),
        ("providers.groq", 'headers = { X-Api-Key = "abc" }'),
        ("providers.groq", f'headers = {{ X-Title = "{TOKEN}" }}'),
        ("providers.groq", 'headers = { X-Title = "two\\nlines" }'),
        ("providers.groq", 'headers = { "X Title" = "a" }'),
        ("providers.groq", 'headers = { Host = "elsewhere" }'),
        ("providers.groq", 'headers = { Accept-Encoding = "br" }'),
        ("providers.groq", "headers = { X-Title = 1 }"),
        ("providers.groq", 'headers = "X-Title: a"'),
        ('models."groq/x"', 'body = "temperature"'),
        ('models."groq/x"', "body = { messages = [] }"),
        ('models."groq/x"', f'body = {{ user = "{TOKEN}" }}'),
    ],
)
def test_what_cannot_be_sent_or_is_a_key_is_refused(tmp_path: Path, table: str, line: str):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"[{table}]\n{line}\n")
    assert "config.toml:2" in refused.value.what and "env:VARIABLE" in refused.value.remedy
    assert "abc" not in str(refused.value)
