"""Words for failures, without a server: what a full context is called, and how long a server asks to wait."""

import json
import ssl
from pathlib import Path

import pytest

from ikigai.core.events.messages import ToolSpec
from ikigai.core.request.reply import FailureKind
from ikigai.providers.http.error_bodies import retry_after
from ikigai.providers.http.failures import (
    RequestTarget,
    failure_in_stream,
    failure_of_exception,
    failure_of_response,
    name_tool,
)
from tests import GOLDEN

TARGET = RequestTarget("openai", "m", "http://x")
ERRORS = json.loads((GOLDEN / "context_exceeded.json").read_text())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error['provider']}: {error['message'][:30]}")
def test_what_servers_say_when_the_context_is_exceeded(error: dict):
    body = {"error": {"message": error["message"], "code": error.get("code")}}
    kinds = {failure_of_response(TARGET, error["status"], body, {}, 0).kind, failure_in_stream(TARGET, body).kind}
    assert (kinds == {FailureKind.CONTEXT}) is error["exceeded"]
    assert error["exceeded"] or FailureKind.CONTEXT not in kinds


@pytest.mark.parametrize("status", [400, 429])
@pytest.mark.parametrize("words", ["API", "workspace API"])
def test_limit_that_its_owner_set_is_no_credit(status: int, words: str):
    said = f"You have reached your specified {words} usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
    kind = {400: "invalid_request_error", 429: "rate_limit_error"}[status]
    body = {"type": "error", "error": {"type": kind, "message": said}}
    found = {
        failure_of_response(TARGET, status, body, {"retry-after": "5"}, 0).kind,
        failure_in_stream(TARGET, body).kind,
    }
    assert found == {FailureKind.QUOTA}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("registry.ollama.ai/library/gemma3:4b does not support tools", "--no-tools"),
        ("No endpoints found that support tool use.", "--no-tools"),
        (
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
            'max_output under [models."openai/m"]',
        ),
        ("Unrecognized request argument supplied: reasoning_effort", "/think default"),
        ("Say please.", "change it or the model"),
    ],
)
def test_refusal_says_what_to_do(said: str, words: str):
    refused = failure_of_response(RequestTarget("openai", "m", "http://x"), 400, {"error": {"message": said}}, {}, 0)
    kind = FailureKind.NO_TOOLS if words == "--no-tools" else FailureKind.REFUSED
    assert refused.kind is kind and words in refused.remedy


@pytest.mark.parametrize(
    "said",
    [
        "tools.1.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
        "Invalid 'tools[1].function.description': string too long. Expected a string with maximum length 1024",
        "Invalid schema for function 'drive__list': 'int' is not valid under any of the given schemas.",
        "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[a].items: missing field.",
        "Unable to submit request because `drive__list` functionDeclaration `parameters.a` schema is wrong.",
        "The function name 'drive__list' is unknown here",
    ],
)
def test_refusal_of_a_tool_names_its_server(said: str):
    tools = (
        ToolSpec("web", "", "{}", hosted=True),
        ToolSpec("shell", "", "{}"),
        ToolSpec("drive__list", "", "{}", "mcp"),
    )
    refused = failure_of_response(TARGET, 400, {"error": {"message": said}}, {}, 0)
    named = name_tool(refused, tools)
    assert named.text.startswith(refused.text)
    assert named.text.endswith("This is the tool list of the MCP server drive.")
    assert "[mcp_servers.drive]" in named.remedy


@pytest.mark.parametrize(
    "said", ["tools.0.name: wrong", "tools.7.name: wrong", "Invalid schema for function 'shell': no", "Say please."]
)
def test_refusal_of_another_tool_stays_as_it_is(said: str):
    tools = (ToolSpec("shell", "", "{}"), ToolSpec("drive__list", "", "{}", "mcp"))
    refused = failure_of_response(TARGET, 400, {"error": {"message": said}}, {}, 0)
    assert name_tool(refused, tools) == refused


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_said(status: int):
    broke = failure_of_response(TARGET, status, "<html>moved</html>", {"location": "http://y/"}, 0)
    assert broke.kind is FailureKind.NOT_FOUND and "model" not in broke.text
    assert broke.text == f"The server at http://x redirects to another address ({status})."
    assert "base_url of openai" in broke.remedy


PROXIES = [f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")]


@pytest.mark.parametrize(
    ("environment", "address", "words"),
    [
        ({}, "https://api.x", ""),
        (
            {"HTTPS_PROXY": "http://me:secret@proxy.x:3128"},
            "https://api.x",
            " through the proxy proxy.x:3128 (HTTPS_PROXY)",
        ),
        ({"https_proxy": "proxy.x"}, "https://api.x/v1", " through the proxy proxy.x (https_proxy)"),
        ({"ALL_PROXY": "socks5://[::1]:9"}, "http://api.x", " through the proxy [::1]:9 (ALL_PROXY)"),
        ({"http_proxy": "http://h:1"}, "https://api.x", ""),
        ({"https_proxy": "http://h:1"}, "https://localhost:8", ""),
        ({"https_proxy": "http://h:1", "no_proxy": "api.x"}, "https://api.x", ""),
        ({"https_proxy": "http://h:no"}, "https://api.x", " through the proxy in https_proxy"),
    ],
)
def test_proxy_is_named(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], address: str, words: str):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    broke = failure_of_exception(RequestTarget("openai", "m", address), ConnectionRefusedError(), begun=False)
    assert broke.text == f"openai cannot be reached at {address}{words}: connection refused."
    assert ("proxy" in broke.remedy) is bool(words)


@pytest.mark.parametrize(
    "raised", [FileNotFoundError(2, "No such file"), PermissionError(13, "Denied"), ssl.SSLError()]
)
def test_certificates_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raised: OSError):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    broke = failure_of_exception(TARGET, raised, begun=False)
    assert broke.kind is FailureKind.UNAVAILABLE
    assert broke.text == f"The certificates in {tmp_path}/none.pem cannot be read: No such file or directory."
    assert "SSL_CERT_FILE" in broke.remedy
    assert failure_of_exception(TARGET, ConnectionRefusedError(), begun=False).kind is FailureKind.UNREACHABLE
    (tmp_path / "none.pem").write_text("")
    assert "certificates in" not in failure_of_exception(TARGET, raised, begun=False).text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "1"}, 1),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "3600"}, 3600),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00"}, 20),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 99999 00:01:00 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "abc"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1" * 400}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "x"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers, now=100.0) == seconds


@pytest.mark.parametrize(
    "message",
    [
        "Hosted tool 'web_search_preview' is not supported with gpt-4.",
        "The following tools cannot be used with reasoning.effort 'minimal': web_search.",
        "Web search is not enabled for this organization",
        "tools.0: web_search_20250305 is not supported by this model",
        "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.",
        "Tool use with function calling is unsupported",
        "Tool call context circulation is not enabled for models/gemini-2.5-flash",
        "Multiple tools are supported only when they are all search tools.",
        "The tool 'web_search' is not supported with this deployment.",
        "This model does not support the tool web_search.",
        "Unexpected value(s) `web-search-2025-03-05` for the `anthropic-beta` header.",
    ],
)
def test_refused_search_of_the_vendor_is_no_refusal_of_all_tools(message: str):
    failed = failure_of_response(TARGET, 400, {"error": {"message": message}}, {}, 0)
    assert failed.kind is FailureKind.REFUSED and "/tools off vendor_search" in failed.remedy
