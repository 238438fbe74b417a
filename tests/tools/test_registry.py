"""The registry offers tools, checks arguments, and turns every outcome into a result."""

import json
from typing import Annotated, Any

import msgspec

from ikigai.agent.jobs import SettingsInForce
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.tool_selection import EVERY_SET
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.registry import ToolRegistry
from tests.tools.calls import run_call


class Inner(msgspec.Struct, frozen=True):
    deep: bool = False


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    n: Annotated[int, msgspec.Meta(ge=0, description="How many.")]
    inner: Inner = Inner()


class Toy:
    description, arguments, set = "a toy", Arguments, "toys"

    def __init__(self, name: str) -> None:
        self.name = name

    async def preview(self, arguments: Any) -> Effect:
        return Effect(EffectKind.NOTHING, "")

    async def run(self, arguments: Any, progress: OnOutput) -> ToolOutput:
        if arguments.n == 13:
            raise OSError("no luck")
        return ToolOutput(f"{self.name} {arguments.n} {arguments.inner.deep}")


TOYS = ToolRegistry([Toy("b"), Toy("a")])


async def run(name: str, arguments: str, malformed: str = "") -> ToolResult:
    return await run_call(TOYS, ToolCall("1", name, arguments, malformed))


def test_tools_are_offered_in_the_order_of_their_names_with_a_plain_schema():
    assert [spec.name for spec in TOYS.specs] == ["a", "b"] and TOYS.specs == ToolRegistry([Toy("a"), Toy("b")]).specs
    schema = json.loads(TOYS.specs[0].schema)
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["n"], False)
    assert schema["properties"]["n"] == {"type": "integer", "minimum": 0, "description": "How many."}
    assert schema["$defs"]["Inner"]["properties"]["deep"]["type"] == "boolean"
    assert ToolRegistry().specs == ()


async def test_call_runs_with_its_arguments():
    assert await run("a", '{"n": 2, "inner": {"deep": true}}') == ToolResult("1", "a 2 True")


async def test_result_takes_no_more_than_the_log_keeps():
    for most, text in ((1 << 16, "x" * 65_536), (1 << 16, "x" * 65_537), (1 << 16, "ž" * 40_000)):
        tools = ToolRegistry([Toy(text)], max_result_bytes=most)
        found = await run_call(tools, ToolCall("1", text, '{"n": 2}'))
        assert len(found.content.encode()) <= most and "bytes omitted" in found.content
        assert found.content.startswith(text[:10_000]) and found.content.endswith(f"{text[-10_000:]} 2 False")


async def test_result_takes_no_more_once_it_can_be_stored():
    """A NUL takes one byte, and what stands for it in the log three."""
    tools = ToolRegistry([Toy("\0" * 40_000)], max_result_bytes=1 << 16)
    found = await run_call(tools, ToolCall("1", "\0" * 40_000, '{"n": 2}'))
    assert len(storable(found.content).encode()) <= 1 << 16


async def test_switched_off_tool_is_refused():
    async def ask(*_: Any) -> Any:
        raise AssertionError("nobody is asked")

    for off in ("toys", "files,toys", EVERY_SET):
        started = await TOYS.start(ToolCall("1", "a", '{"n": 2}'), 1, SettingsInForce({"tools_off": off}), ask)
        assert started.refusal == "The tool a is switched off here; it was not run."
    assert not (
        await TOYS.start(ToolCall("1", "a", '{"n": 2}'), 2, SettingsInForce({"tools_off": "files"}), ask)
    ).refusal


async def test_invalid_arguments_are_answered_with_the_schema():
    for arguments, malformed, words in (
        ('{"n": "2"}', "", "Expected `int`, got `str` - at `$.n`"),
        ("{}", "", "missing required field `n`"),
        ("", "", "missing required field `n`"),
        ('{"n": 1, "m": 2}', "", "unknown field `m`"),
        ('{"n": -1}', "", "`int` >= 0"),
        ("{}", '{"n": ', "Input data was truncated"),
        ("{}", "[1]", "Expected `object`, got `array`"),
    ):
        result = await run("a", arguments, malformed)
        assert result.is_error and words in result.content and '"required":["n"]' in result.content, result


async def test_unknown_tools_and_failures_are_results():
    assert await run("c", "{}") == ToolResult("1", "There is no tool 'c'. Tools: a, b.", is_error=True)
    assert await run("a", '{"n": 13}') == ToolResult("1", "OSError: no luck", is_error=True)
    assert "Tools: none." in (await run_call(ToolRegistry(), ToolCall("1", "a"))).content
