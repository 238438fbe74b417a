"""Tests of the tools of MCP servers as a conversation knows them: names, definitions, and what turns are offered."""

import json

import pytest

from ikigai.core.tools.mcp_tools import (
    CALL_TOOL,
    SEARCH_TOOL,
    McpDefinition,
    McpOffer,
    choose_offer,
    clean_definition,
    describe_offer,
    offered_specs,
    read_offer,
    search_definitions,
    tool_name,
)

OBJECT = '{"type":"object","properties":{"a":{"type":"string"}}}'


def definition(name: str, description: str = "", schema: str = OBJECT) -> McpDefinition:
    return clean_definition("srv", name, description, schema, ())


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("read", "srv__read"),
        ("read-all_2", "srv__read-all_2"),
        ("a.b", "srv__a_b-"),
        ("", "srv__-"),
        ("x" * 90, "srv__x"),
    ],
)
def test_name_is_one_that_every_vendor_takes(tool: str, name: str) -> None:
    found = tool_name("srv", tool)
    assert found.startswith(name) and len(found) <= 64 and found.isascii()


def test_two_tools_never_share_a_name() -> None:
    tools = ["a.b", "a b", "a_b", "a-b", "x" * 90, "x" * 91, "é", "è"]
    assert len({tool_name("srv", tool) for tool in tools}) == len(tools)


@pytest.mark.parametrize(
    "schema",
    [
        "[]",
        "3",
        "nonsense",
        '{"type":"array"}',
        '{"properties":[]}',
        '{"required":3}',
        "[" * 9_000,
        f'"{"x" * 70_000}"',
    ],
)
def test_schema_that_is_none_of_an_object_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match="its schema"):
        definition("t", schema=schema)


def test_collision_of_names_is_refused() -> None:
    with pytest.raises(ValueError, match="another tool is called srv__t"):
        clean_definition("srv", "t", "", OBJECT, {"srv__t"})


def test_digest_changes_with_every_part_and_with_nothing_else() -> None:
    reordered = '{"properties": {"a": {"type": "string"}}, "type": "object"}'
    assert definition("t").digest == definition("t", schema=reordered).digest
    others = [definition("u"), definition("t", "Other."), definition("t", schema='{"type":"object"}')]
    assert len({each.digest for each in (definition("t"), *others)}) == 4


def test_description_is_stored_without_what_postgresql_cannot_hold_and_cut() -> None:
    assert "\0" not in definition("t", "a\0b").description
    assert len(definition("t", "x" * 9_000).description) == 4_000


def test_descriptions_hide_nothing_in_text_and_schema_and_arguments_stay_as_they_are() -> None:
    hidden, shown = "a\x1b[2J\U000e0041b", "a<U+E0041>b"
    told = {"type": "string", "title": hidden, "description": hidden, "enum": [hidden]}
    schema = {"type": "object", "properties": {"description": told, "n": {"anyOf": [{"$comment": hidden}]}}}
    found = definition("t", hidden, json.dumps(schema))
    cleaned = {"type": "string", "title": shown, "description": shown, "enum": [hidden]}
    assert found.description == shown
    assert json.loads(found.schema)["properties"] == {"description": cleaned, "n": {"anyOf": [{"$comment": shown}]}}


def test_offer_is_read_as_it_was_written() -> None:
    offer = choose_offer(["srv"], [definition("b"), definition("a")], McpOffer(), 10_000)
    assert read_offer(offer.text) == offer and [each.tool for each in offer.definitions] == ["a", "b"]
    assert [spec.name for spec in offered_specs(offer.text)] == ["srv__a", "srv__b"]
    assert McpOffer().text == "" and offered_specs("") == () and read_offer("nonsense") == McpOffer()
    assert describe_offer(offer.text) == "MCP tools: 2 of srv" and describe_offer("") == "MCP tools: none"


def test_definitions_beyond_the_limit_are_deferred_and_stay_so() -> None:
    many = [definition(f"t{n}", "Does it. " * 20) for n in range(50)]
    deferred = choose_offer(["srv", "b"], many, McpOffer(), 2_000)
    assert deferred == McpOffer(deferred=("b", "srv"))
    assert [spec.name for spec in offered_specs(deferred.text)] == [CALL_TOOL, SEARCH_TOOL]
    assert choose_offer(["srv", "b"], many[:1], deferred, 2_000) == deferred, "each change costs the prompt cache"
    assert sum(each.size for each in many) > 8_000 and choose_offer(["srv"], many, McpOffer(), 20_000).definitions
    assert "b, srv" in offered_specs(deferred.text)[1].description


def test_size_is_near_that_in_a_request() -> None:
    each = definition("t", "Does it. " * 30)
    encoded = json.dumps({"name": each.name, "description": each.description, "input_schema": json.loads(each.schema)})
    assert 0.8 < each.size / len(encoded) < 1.25


def test_models_get_no_schema_dialect() -> None:
    dialect = '{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}'
    assert "$schema" in definition("t", schema=dialect).schema
    assert "$schema" not in definition("t", schema=dialect).spec.schema


def test_search_ranks_names_before_descriptions() -> None:
    found = [definition("read_file", "Reads."), definition("write", "Writes a file."), definition("sum", "Adds.")]
    assert [each.tool for each in search_definitions(found, "file", 5)] == ["read_file", "write"]
    assert [each.tool for each in search_definitions(found, "", 2)] == ["read_file", "sum"]
    assert search_definitions(found, "nothing", 5) == []
