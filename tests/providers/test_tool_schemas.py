"""Tests of the schemas of tools as each encoder writes them."""

import json
import re

import pytest

from ikigai.core.events.messages import Message, Role, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.build import Request
from ikigai.providers.anthropic.messages_api import MessagesEncoder
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.google.generate_content_api import ContentsEncoder
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.openai.responses_api import ResponsesEncoder

BARE = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"items": {"type": ["array", "null"]}}}}


def body(encoder: BodyEncoder) -> str:
    tool = ToolSpec("look", "", json.dumps(BARE))
    return encoder.body(Request("m", (Message(Role.USER, (Text("hi"),)),), tools=(tool,))).decode()


@pytest.mark.parametrize(
    "encoder", [ChatEncoder(), ResponsesEncoder("", ModelTraits()), ContentsEncoder("gemini", ModelTraits())]
)
def test_array_without_items_takes_any(encoder: BodyEncoder):
    """OpenAI and Google refuse it otherwise."""
    written = body(encoder)
    assert '"a":{"type":"array","items":{}}' in written and '{"type":["array","null"],"items":{}}' in written


def test_anthropic_gets_the_schema_as_it_is():
    assert json.dumps(BARE) in body(MessagesEncoder("claude-x"))


@pytest.mark.parametrize(
    ("name", "base_url", "model", "rule"),
    [
        ("openai", "http://localhost:1", "gpt-5", "openai"),
        ("mine", "", "gpt-5", "openai"),
        ("azure", "https://x.openai.azure.com/openai/v1", "gpt-5", "openai"),
        ("openrouter", "http://localhost:1", "anthropic/claude-x", "anthropic"),
        ("openrouter", "http://localhost:1", "google/gemini-x", "google"),
        ("openrouter", "http://localhost:1", "qwen/qwen-x", ""),
        ("llamacpp", "http://localhost:1", "anthropic", ""),
    ],
)
def test_rule_is_that_of_the_vendor_whose_model_answers(name: str, base_url: str, model: str, rule: str):
    assert OpenAIProvider(name, base_url, "k").encoder(model).tool_rule == rule


@pytest.mark.parametrize(
    "encoder",
    [
        ChatEncoder(),
        ResponsesEncoder("", ModelTraits()),
        ContentsEncoder("gemini", ModelTraits()),
        MessagesEncoder("x"),
    ],
)
def test_stored_call_with_an_empty_id_is_sent_with_one(encoder: BodyEncoder):
    """Vendors refuse an empty id; an import may hold one."""
    call, result = ToolCall("", "look"), ToolResult("", "Seen.", name="look")
    messages = (Message(Role.USER, (Text("hi"),)), Message(Role.ASSISTANT, (call,)), Message(Role.TOOL, (result,)))
    written = encoder.body(Request("m", messages)).decode()
    assert 'id":""' not in written and len(set(re.findall(r'id":"([^"]+)"', written))) == 1
