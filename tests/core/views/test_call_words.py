"""A tool call is put into a few words, and one that only reads takes one line with its result."""

import pytest

from ikigai.core.views.call_words import count_found, describe_call, join_result, join_results
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_file", '{"path": "a.py"}', "read a.py"),
        ("read_file", '{"path": "a.py", "offset": 9, "limit": 2}', "read a.py, offset=9, limit=2"),
        ("edit_file", '{"path": "a.py", "old": "x", "new": "y", "all": true}', "edit a.py, all=true"),
        ("write_file", '{"content": "x", "path": "a.py"}', "write a.py"),
        ("list_files", "{}", "list"),
        ("grep", '{"pattern": "x", "path": "src"}', "grep x, path=src"),
        ("shell", '{"command": "date; ls"}', "shell date; ls"),
        ("web_fetch", '{"url": "https://x.test/"}', "fetch https://x.test/"),
        ("other", '{"a": "b", "c": [1]}', "other(a=b, c=[1])"),
        ("read_file", '{"path": 7}', "read_file(path=7)"),
        ("shell", "{broken", "shell({broken)"),
    ],
)
def test_call_in_words(tool: str, arguments: str, words: str):
    assert describe_call(tool, arguments) == words


def call(id: str, name: str = "read_file", arguments: str = '{"path": "a"}', hosted: bool = False) -> TranscriptBlock:
    return TranscriptBlock(1, Speaker.TOOL_CALL, arguments, name, call=id, hosted=hosted)


def result(id: str, text: str, failed: bool = False) -> TranscriptBlock:
    return TranscriptBlock(2, Speaker.TOOL_RESULT, text, failed=failed, call=id)


@pytest.mark.parametrize(
    ("tool", "text", "found"),
    [
        ("read_file", "[lines 1 to 9 of 9]\n     1\tx", "9 lines"),
        ("read_file", "[lines 1 to 1 of 1; no newline at the end]\n     1\tx", "1 line"),
        ("read_file", "[lines 3 to 1,200 of 5,000; continue with offset=1201]\n", "lines 3 to 1,200 of 5,000"),
        ("read_file", "[lines 1 to 2 of a file of 9,000 bytes]\n     1\tx\n     2\ty", "2 lines"),
        ("read_file", "[the file is empty]", "the file is empty"),
        ("read_file", "[image a, b.png, image/png, 3 × 4 pixels as shown]", "image/png, 3 × 4 pixels"),
        ("list_files", "a  1\nb/", "2 entries"),
        ("list_files", "[. is empty]", ". is empty"),
        ("glob", "a.py", "1 file"),
        (
            "grep",
            "a:1:x\na:2:y\n[the first 2 lines; there are more: narrow the pattern]",
            "2 lines",
        ),
        ("grep", "[no line matches]", "no line matches"),
        ("grep", "", "nothing"),
    ],
)
def test_joined_call_tells_how_much_it_found(tool: str, text: str, found: str):
    joined = join_result(call("1", tool), result("1", text))
    assert joined and count_found(joined) == found


def test_only_calls_that_read_are_joined_with_their_results():
    rule = ContextRule(1, 0, "")
    user = TranscriptBlock(1, Speaker.USER, "?")
    shown: list[Shown] = [
        *(user, call("1"), rule, call("2", "shell"), call("3", "grep"), call("4"), call("5")),
        *(result("3", "x"), result("1", "y"), result("2", "z"), result("4", "no such file", failed=True)),
    ]
    joined = join_results(shown)
    assert joined[:2] == [user, rule] and [each.call for each in joined[2:]] == ["2", "4", "5", "3", "1", "2", "4"]  # type: ignore[union-attr]
    assert [bool(each.of) for each in joined[2:]] == [False, False, False, True, True, False, False]  # type: ignore[union-attr]
    assert join_result(call("1", hosted=True), result("1", "x")) is None
    assert join_results([result("9", "x")]) == [result("9", "x")]
