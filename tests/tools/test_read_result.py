"""read_result: every character of a long result can be had by pages, and lines by what they hold."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.events.messages import ToolCall
from ikigai.core.state.tool_results import ToolResultLimits, cap_result
from ikigai.tools.read_result import ReadResult, ReadResultArguments
from ikigai.tools.registry import ToolRegistry
from tests.tools.calls import run_call


def tool(text: str | None, page: int = 8000) -> ReadResult:
    async def whole(call_id: str) -> str | None:
        return text if call_id == "call_1" else None

    return ReadResult(whole, page)


async def pages(text: str, page: int) -> list[str]:
    found, offset = list[str](), 0
    while True:
        head, _, body = (await tool(text, page).read(ReadResultArguments("call_1", offset))).partition("\n")
        assert head.startswith(f"[characters {offset:,} to {offset + len(body):,} of {len(text):,}")
        found.append(body)
        on = re.search(r"; continue with offset=(\d+)", head)
        if not on:
            assert head.endswith(", its end]")
            return found
        assert int(on[1]) == offset + len(body) > offset
        offset = int(on[1])


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=3000), st.integers(100, 400))
async def test_pages_are_the_whole_text(text: str, page: int):
    assert "".join(await pages(text, page)) == text


@pytest.mark.parametrize("page", [200, 1000, 8000, 100_000])
async def test_no_page_is_cut_itself(page: int):
    caps = ToolResultLimits(max_tokens=min(page, 8000))
    for text in ("x" * 200_000, "日本語" * 50_000, "a line that holds x\n" * 10_000):
        for arguments in (ReadResultArguments("call_1", 7), ReadResultArguments("call_1", grep="x|日")):
            told = await tool(text, page).read(arguments)
            assert cap_result(told, caps) == told and len(told.encode()) <= 4 * caps.max_tokens


async def test_lines_with_their_numbers_and_offsets():
    text = "Alpha\nbeta\r\n\ngamma ALPHA\n" + "x" * 900 + "alpha"
    told = await tool(text).read(ReadResultArguments("call_1", grep="alpha"))
    assert told.split("\n") == [
        "[3 lines]",
        "1 (offset 0): Alpha",
        "4 (offset 13): gamma ALPHA",
        f"5 (offset 25): {'x' * 500}…",
    ]
    assert text[13:].startswith("gamma")
    assert (await tool(text).read(ReadResultArguments("call_1", 13, "alpha|beta"))).startswith(
        "[2 lines]\n4 (offset 13)"
    )
    assert (
        await tool("a\nb").read(ReadResultArguments("call_1", grep="(a+)+$"))
        == "[no line of 3 characters contains '(a+)+$']"
    )


async def test_more_lines_than_a_page_holds_are_gone_through():
    text = "".join(f"{n} here\n" for n in range(5_000))
    offset, seen = 0, list[str]()
    while True:
        head, *lines = (await tool(text, 500).read(ReadResultArguments("call_1", offset, "here"))).split("\n")
        seen += [line.partition(": ")[2] for line in lines]
        on = re.search(r"continue with offset=(\d+)", head)
        if not on:
            break
        offset = int(on[1])
    assert seen == text.splitlines()


async def test_fifty_megabytes_take_no_time_to_speak_of():
    text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n" * 1_000_000
    began = time.monotonic()
    assert "characters 49,000,000 to 49,0" in await tool(text).read(ReadResultArguments("call_1", 49_000_000))
    assert (await tool(text).read(ReadResultArguments("call_1", grep="(a+)+$"))).startswith("[no line")
    assert time.monotonic() - began < 20


async def test_unknown_id_and_offset_are_refused():
    tools = ToolRegistry([tool("abc")])
    for arguments, words in (
        ('{"id": "call_2"}', "there is no tool result with the id 'call_2'."),
        ('{"id": "call_1", "offset": 3}', "the result has 3 characters; offset 3 is past its end."),
        ('{"id": ""}', "length >= 1"),
        ('{"id": "call_1", "offset": -1}', ">= 0"),
    ):
        result = await run_call(tools, ToolCall("2", "read_result", arguments))
        assert result.is_error and words in result.content
    assert await tool("").read(ReadResultArguments("call_1")) == "[characters 0 to 0 of 0, its end]\n"
