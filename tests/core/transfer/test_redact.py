"""What a purge leaves of a row: no word of it, and a row that is read as before."""

import json
import random
from typing import Any

import msgspec
import pytest

from ikigai.core import codec
from ikigai.core import events as ev
from ikigai.core.codec import Row
from ikigai.core.messages import Image, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.transfer.redact import GONE, KEPT, WORDLESS, Wanted, anything, purged, texts
from tests import GOLDEN

ROWS = [json.loads(line) for line in (GOLDEN / "rows.jsonl").read_text().splitlines()]
SECRET = "sk-0123456789"


def stored(event: ev.Event) -> Row:
    return codec.encode(event)


def read(row: Row) -> ev.Event:
    return codec.decode(*row)


def golden(row: dict[str, Any]) -> Row:
    return Row(row["kind"], row["content"], None if row["data"] is None else json.dumps(row["data"]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kind"])
def test_a_row_of_any_kind_stays_one_of_its_kind(row: dict[str, Any]) -> None:
    before = golden(row)
    after = purged(before, anything)
    assert (after is None) == (not any(map(anything, texts(before))))
    if after is None:
        return
    assert after.kind == before.kind and type(read(before)) in (type(read(after)), ev.Unknown)
    assert set(texts(after)) <= {GONE}
    assert purged(after, anything) is None, "done twice it changes nothing"
    for text in filter(anything, texts(before)):
        assert text not in json.dumps(after) or len(text) < 4


def test_every_kind_is_thought_of() -> None:
    """A kind whose texts are elsewhere than in content and DROPPED has to be looked at by whoever adds it."""
    known = {"user", "assistant", "tool_call", "tool_result", "turn_end", "clear", "mark", "rewind", "settings"}
    known |= {"command", "mail_sent"}
    assert known | WORDLESS >= set(codec.CONTENT_FIELD) - {"filter", "undo", "summary", "approval"}


TURN = (
    (
        ev.UserMessage(f"my key is {SECRET}", (Image("image/png", "aGk=", 3, 4, "cat.png"),)),
        ev.UserMessage(GONE),
    ),
    (
        ev.AssistantMessage((Thinking(f"{SECRET}?", "sig", "anthropic"), Text("So it is.")), StopReason.TOOLS, "a/b"),
        ev.AssistantMessage((Text(GONE),), StopReason.TOOLS, "a/b"),
    ),
    (ToolCall("call", "bash", json.dumps({"line": f"echo {SECRET}"})), ToolCall("call", "bash")),
    (ToolCall("call", "bash", "{}", f'{{"line": "{SECRET}'), ToolCall("call", "bash")),
    (ToolResult("call", f"{SECRET}\n", True, "bash"), ToolResult("call", GONE, True, "bash")),
    (
        ToolResult("call", "Wrote a.", False, "write_file", (Image("image/png", "aGk=", 3, 4),), f"@@\n+{SECRET}"),
        ToolResult("call", GONE, False, "write_file"),
    ),
    (
        ev.TurnEnded(ev.Ending.FAILED, f"no key {SECRET}", 7, 100, ev.Totals(1, 2, 3), ev.Totals(), 5, "provider a/b"),
        ev.TurnEnded(ev.Ending.FAILED, GONE, 7, 100, ev.Totals(1, 2, 3), ev.Totals(), 5, "provider a/b"),
    ),
    (ev.Marked(SECRET), ev.Marked(GONE)),
    (ev.CommandRan(f"/status {SECRET}", "an answer"), ev.CommandRan(GONE, "an answer")),
    (ev.CommandRan("/status", f"with {SECRET}"), ev.CommandRan(GONE, GONE)),
    (
        ev.SettingsChanged({"system": f"Use {SECRET}.", "model": "a/b", "budget": 5}, {"system": "agent"}),
        ev.SettingsChanged({"system": GONE, "model": "a/b", "budget": 5}, {"system": "agent"}),
    ),
    (ev.Cleared({"system": SECRET, "model": "a/b"}), ev.Cleared({"system": GONE, "model": "a/b"})),
)


@pytest.mark.parametrize(("before", "after"), TURN, ids=lambda event: type(event).__name__)
def test_what_holds_the_text_is_purged(before: ev.Event, after: ev.Event) -> None:
    wanted = Wanted(SECRET)
    row = stored(before)
    assert wanted.likely(row)
    found = purged(row, wanted.said)
    assert found is not None and read(found) == after
    other = Wanted("something else")
    assert not other.likely(row) and purged(row, other.said) is None


def test_thinking_that_is_sent_back_leaves_a_message_and_other_thinking_none() -> None:
    """So that a turn has as many messages as before."""
    signed = ev.AssistantMessage((Thinking(SECRET, "sig", "anthropic"),), StopReason.TOOLS)
    unsigned = ev.AssistantMessage((Thinking(SECRET),), StopReason.TOOLS)
    pictures = ev.UserMessage("", (Image("image/png", "aGk=", 1, 1, f"{SECRET}.png"),))
    found = [purged(stored(event), Wanted(SECRET).said) for event in (signed, unsigned, pictures)]
    assert [read(row) for row in found if row] == [
        ev.AssistantMessage((Text(GONE),), StopReason.TOOLS),
        ev.AssistantMessage((), StopReason.TOOLS),
        ev.UserMessage(GONE),
    ]


@pytest.mark.parametrize("kind", ["filter", "summary", "approval", "of a later program"])
def test_a_kind_that_nobody_knows(kind: str) -> None:
    data = {"mode": "forget", "ranges": [[1, 2]], "n": 12345678901234567890123, "x": 1e-7, "deep": [{"a": SECRET}, "b"]}
    row = Row(kind, f"about {SECRET}", json.dumps(data))
    found = purged(row, Wanted(SECRET).said)
    assert found and found.content == GONE and found.data
    assert json.loads(found.data) == {**data, "deep": [{"a": GONE}, "b"]}
    by_id = purged(row, anything)
    assert by_id and by_id.data and json.loads(by_id.data) == {**data, "deep": [{"a": GONE}, GONE]}


def test_numbers_of_any_size_stay() -> None:
    found = purged(Row("later", "x", '{"a": 1e400, "b": 0.1000, "c": 18446744073709551616}'), anything)
    assert found and found.data == '{"a":1E+400,"b":0.1000,"c":18446744073709551616}'


def test_names_are_no_words() -> None:
    for name in ("call", "bash", "a/b", "anthropic", "forget", "agent"):
        for before, _ in TURN:
            kept = purged(stored(before), Wanted(name).said)
            assert kept is None or any(name in text for text in texts(stored(before)))
    assert purged(stored(ToolResult("secret-call", "", False, "secret-tool")), Wanted("secret").said) is None
    assert {"id", "call_id", "name"} <= KEPT


def test_a_text_within_json_is_found() -> None:
    key = '-----BEGIN "KEY"-----\nMII\tů/+\\\n-----END'
    wanted = Wanted(key)
    for arguments in (json.dumps({"text": key}), json.dumps({"text": key}, ensure_ascii=False)):
        row = stored(ToolCall("c", "write", arguments))
        assert wanted.likely(row) and read(purged(row, wanted.said) or row) == ToolCall("c", "write")
    settings = stored(ev.SettingsChanged({"system": f"a {key} b"}, {}))
    assert wanted.likely(settings) and purged(settings, wanted.said)


@pytest.mark.parametrize("seed", range(30))
def test_a_row_that_is_not_likely_holds_nothing(seed: int) -> None:
    draw = random.Random(seed)
    alphabet = 'ab\n"\\/\té\u2028🦉'

    def text(most: int) -> str:
        return "".join(draw.choices(alphabet, k=draw.randrange(1, most)))

    for _ in range(200):
        wanted = Wanted(text(4))
        row = Row("later", text(9) if draw.random() < 0.5 else None, msgspec.json.encode({"x": [text(9)]}).decode())
        assert wanted.likely(row) or purged(row, wanted.said) is None


def test_what_is_shown_hides_it() -> None:
    wanted = Wanted(SECRET)
    assert wanted.around(f"my key is {SECRET}, ok") == "my key is ***, ok"
    shown = wanted.around("x" * 50 + f"{SECRET} and {SECRET} again")
    assert shown == "…" + "x" * 30 + "*** and *** again"
