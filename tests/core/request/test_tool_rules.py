"""Tests of what vendors refuse of the schemas of tools."""

import json
from typing import Any

import pytest

from ikigai.core.events.messages import ToolSpec
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.tool_rules import TOOL_RULES, refusal, refused_tools
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import empty_memory
from ikigai.core.state.memory import offered_tools, replace
from ikigai.core.tools.mcp_tools import MCP_TOOLS_KEY, McpOffer, clean_definition
from ikigai.core.tools.tool_selection import EXTERNAL_SET
from tests.core.encoders import Chat

ALL = set(TOOL_RULES)


def of(**properties: Any) -> dict[str, Any]:
    return {"properties": properties}


@pytest.mark.parametrize(
    ("schema", "refused_by"),
    [
        ({}, set()),
        (of(path={"type": "string", "minLength": 1.0, "nullable": True, "x-order": 3}), set()),
        (of(n={"type": ["integer", "null"], "exclusiveMinimum": 0, "default": None, "examples": [1]}), set()),
        (of(a={"$ref": "#/$defs/a~1b"}) | {"$defs": {"a/b": {"type": "object", "additionalProperties": False}}}, set()),
        (of(a={"anyOf": [{"type": "string"}, True], "description": "x"}), set()),
        (of(**{"a.b-c_d": {}}), set()),
        (of(**{"$.xgafv": {}}), {"anthropic", "google"}),
        (of(**{"a" * 64: {}}), set()),
        (of(**{"a" * 80: {}}), {"anthropic", "google"}),
        (of(имя={}), {"anthropic", "google"}),
        (of(**{"filter[id]": {}}), {"anthropic", "google"}),
        (of(**{"two words": {}}), {"anthropic", "google"}),
        (of(**{"": {}}), {"anthropic", "google"}),
        (of(**{"a\n": {}}), {"anthropic", "google"}),
        (of(**{"1st": {}}), {"google"}),
        ({"oneOf": [{}]}, {"anthropic", "openai"}),
        ({"allOf": []}, {"anthropic", "openai", "google"}),
        ({"anyOf": [{"required": ["a"]}]}, {"anthropic", "openai"}),
        ({"not": {}}, {"openai"}),
        ({"enum": [{}]}, {"openai"}),
        (of(a={"type": "any"}), ALL),
        (of(a={"type": "int"}), ALL),
        (of(a={"type": "array", "items": [{"type": "string"}]}), ALL),
        (of(a={"exclusiveMinimum": True, "minimum": 0}), ALL),
        (of(a={"required": True}), ALL),
        (of(a={"description": None}), ALL),
        (of(a={"type": "object", "properties": {"b": 3}}), ALL),
        (of(a={"$ref": "#/$defs/none"}), ALL),
        (of(a={"items": {"$ref": "#/definitions/none"}}), ALL),
    ],
)
def test_vendors_refuse_what_they_say_they_refuse(schema: dict[str, Any], refused_by: set[str]):
    text = json.dumps({"type": "object", **schema})
    assert {rule for rule in TOOL_RULES if refusal(rule, text)} == refused_by
    assert refusal("", text) == "", "a server whose rules are not known"


@pytest.mark.parametrize("frames", [0, 200])
@pytest.mark.parametrize("levels", [200, 400, 480, 600])
def test_deep_schema_is_refused_and_ends_nothing(levels: int, frames: int):
    text = '{"type":"object","properties":' + '{"a":{"properties":' * levels + "{}" + "}}" * levels + "}"

    def deeper(frames: int) -> bool:
        return deeper(frames - 1) if frames else all(isinstance(refusal(rule, text), str) for rule in TOOL_RULES)

    refusal.cache_clear()
    assert deeper(frames)
    with pytest.raises(ValueError, match="more than 100 levels"):
        clean_definition("srv", "tool", "", text, ())


def test_sentence_names_server_tool_vendor_and_reason():
    schema = '{"type":"object","properties":{"$.xgafv":{}}}'
    spec = clean_definition("drive", "list", "", schema, ()).spec
    assert list(refused_tools([spec], "anthropic")) == [
        "The tool list of the MCP server drive is not offered to models of Anthropic: the name of its parameter "
        "'$.xgafv' is not 1 to 64 ASCII letters, digits, _, . or -."
    ]
    assert not list(refused_tools([spec], "openai"))


class Anthropic(Chat):
    tool_rule = "anthropic"


def test_refused_tool_is_left_out_for_the_model_of_its_vendor_alone():
    """The offer stays as it is, so that a change of the model within a turn sends each model what it takes."""
    schemas = {"list": '{"type":"object","properties":{"$.xgafv":{}}}', "read": '{"type":"object"}'}
    offer = McpOffer(tuple(clean_definition("drive", name, "", schema, ()) for name, schema in schemas.items()))
    encoders = {"anthropic/a": Anthropic(), "other/a": Chat()}
    run = RunConfig({"model": "other/a"}, lambda _: ModelLimits(100_000, 0), encoders.__getitem__)
    memory = replace(empty_memory(run, "a"), settings={MCP_TOOLS_KEY: offer.text})
    for model, names in (("other/a", ["drive__list", "drive__read"]), ("anthropic/a", ["drive__read"])):
        offered = offered_tools(replace(memory, settings={**memory.settings, "model": model}))
        assert [tool.name for tool in offered] == names


def offered_descriptions(rule: str, *descriptions: str) -> list[str]:
    """Return the descriptions of tools as a model is offered them."""
    named = [(f"t{n}", text) for n, text in enumerate(descriptions)]
    offer = McpOffer(tuple(clean_definition("srv", name, text, '{"type":"object"}', ()) for name, text in named))
    encoder = Chat()
    encoder.tool_rule = rule
    own = ToolSpec("mine", descriptions[0], '{"type":"object"}', EXTERNAL_SET)
    run = RunConfig({"model": "m/a"}, lambda _: ModelLimits(100_000, 0), lambda _: encoder, tools=(own,))
    memory = replace(empty_memory(run, "a"), settings={"model": "m/a", MCP_TOOLS_KEY: offer.text})
    return [tool.description for tool in offered_tools(memory)]


@pytest.mark.parametrize("text", ["x" * 1025, "x" * 4000, "words " * 300, "海" * 2000, "🦭" * 1025])
def test_description_is_cut_to_what_the_vendor_takes(text: str):
    for description in offered_descriptions("openai", text, text):
        assert len(description) <= 1024 and description[-1] == "…" and text.startswith(description[:-1])
    for rule in ("anthropic", "google", ""):
        assert offered_descriptions(rule, text, text) == [text, text.strip(), text.strip()]


def test_description_that_fits_is_as_it_was_and_a_required_one_is_the_name():
    for rule in (*TOOL_RULES, ""):
        assert offered_descriptions(rule, "x" * 1024) == ["x" * 1024] * 2
        assert offered_descriptions(rule, "") == (["mine", "srv__t0"] if rule == "google" else ["", ""])
