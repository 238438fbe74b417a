"""A purged row has no word of its own, and is read as before."""

import json
import random
from typing import Any

import msgspec
import pytest

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.codec import Row
from ikigai.core.events.messages import Image, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.relocation.redact import (
    KEPT_FIELDS,
    PURGED_TEXT,
    WORDLESS_KINDS,
    PurgeTarget,
    match_anything,
    purge_row,
    row_texts,
)
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
def test_row_of_any_kind_stays_one_of_its_kind(row: dict[str, Any]) -> None:
    before = golden(row)
    after = purge_row(before, match_anything)
    assert (after is None) == (not any(map(match_anything, row_texts(before))))
    if after is None:
        return
    assert after.kind == before.kind and type(read(before)) in (type(read(after)), ev.Unknown)
    assert set(row_texts(after)) <= {PURGED_TEXT}
    assert purge_row(after, match_anything) is None, "done twice it changes nothing"
    for text in filter(match_anything, row_texts(before)):
        assert text not in json.dumps(after) or len(text) < 4


def test_every_kind_is_thought_of() -> None:
    """A kind whose texts are elsewhere than in content and DROPPED_FIELDS needs a look by its author."""
    known = {
        "user",
        "recall",
        "assistant",
        "tool_call",
        "tool_result",
        "turn_end",
        "clear",
        "mark",
        "rewind",
        "settings",
    }
    known |= {"command", "mail_sent", "recall"}
    assert known | WORDLESS_KINDS >= set(codec.CONTENT_FIELD) - {"filter", "undo", "summary", "approval"}


TURN = (
    (
        ev.UserMessage(f"my key is {SECRET}", (Image("image/png", "aGk=", 3, 4, "cat.png"),)),
        ev.UserMessage(PURGED_TEXT),
    ),
    (
        ev.AssistantMessage((Thinking(f"{SECRET}?", "sig", "anthropic"), Text("So it is.")), StopReason.TOOLS, "a/b"),
        ev.AssistantMessage((Text(PURGED_TEXT),), StopReason.TOOLS, "a/b"),
    ),
    (ToolCall("call", "bash", json.dumps({"line": f"echo {SECRET}"})), ToolCall("call", "bash")),
    (ToolCall("call", "bash", "{}", f'{{"line": "{SECRET}'), ToolCall("call", "bash")),
    (ToolResult("call", f"{SECRET}\n", True, "bash"), ToolResult("call", PURGED_TEXT, True, "bash")),
    (
        ToolResult("call", "Wrote a.", False, "write_file", (Image("image/png", "aGk=", 3, 4),), f"@@\n+{SECRET}"),
        ToolResult("call", PURGED_TEXT, False, "write_file"),
    ),
    (
        ev.TurnEnded(ev.Ending.FAILED, f"no key {SECRET}", 7, 100, ev.Totals(1, 2, 3), ev.Totals(), 5, "provider a/b"),
        ev.TurnEnded(ev.Ending.FAILED, PURGED_TEXT, 7, 100, ev.Totals(1, 2, 3), ev.Totals(), 5, "provider a/b"),
    ),
    (ev.Marked(SECRET), ev.Marked(PURGED_TEXT)),
    (ev.CommandRan(f"/status {SECRET}", "an answer"), ev.CommandRan(PURGED_TEXT, "an answer")),
    (ev.CommandRan("/status", f"with {SECRET}"), ev.CommandRan(PURGED_TEXT, PURGED_TEXT)),
    (
        ev.SettingsChanged({"system": f"Use {SECRET}.", "model": "a/b", "budget": 5}, {"system": "agent"}),
        ev.SettingsChanged({"system": PURGED_TEXT, "model": "a/b", "budget": 5}, {"system": "agent"}),
    ),
    (ev.Cleared({"system": SECRET, "model": "a/b"}), ev.Cleared({"system": PURGED_TEXT, "model": "a/b"})),
)


@pytest.mark.parametrize(("before", "after"), TURN, ids=lambda event: type(event).__name__)
def test_what_holds_the_text_is_purged(before: ev.Event, after: ev.Event) -> None:
    wanted = PurgeTarget(SECRET)
    row = stored(before)
    assert wanted.may_match(row)
    found = purge_row(row, wanted.is_in)
    assert found is not None and read(found) == after
    other = PurgeTarget("something else")
    assert not other.may_match(row) and purge_row(row, other.is_in) is None


def test_thinking_that_is_sent_back_leaves_a_message_and_other_thinking_none() -> None:
    """A turn keeps its number of messages that way."""
    signed = ev.AssistantMessage((Thinking(SECRET, "sig", "anthropic"),), StopReason.TOOLS)
    unsigned = ev.AssistantMessage((Thinking(SECRET),), StopReason.TOOLS)
    pictures = ev.UserMessage("", (Image("image/png", "aGk=", 1, 1, f"{SECRET}.png"),))
    found = [purge_row(stored(event), PurgeTarget(SECRET).is_in) for event in (signed, unsigned, pictures)]
    assert [read(row) for row in found if row] == [
        ev.AssistantMessage((Text(PURGED_TEXT),), StopReason.TOOLS),
        ev.AssistantMessage((), StopReason.TOOLS),
        ev.UserMessage(PURGED_TEXT),
    ]


@pytest.mark.parametrize("kind", ["filter", "summary", "approval", "of a later program"])
def test_kind_that_nobody_knows(kind: str) -> None:
    data = {"mode": "forget", "ranges": [[1, 2]], "n": 12345678901234567890123, "x": 1e-7, "deep": [{"a": SECRET}, "b"]}
    row = Row(kind, f"about {SECRET}", json.dumps(data))
    found = purge_row(row, PurgeTarget(SECRET).is_in)
    assert found and found.content == PURGED_TEXT and found.data
    assert json.loads(found.data) == {**data, "deep": [{"a": PURGED_TEXT}, "b"]}
    by_id = purge_row(row, match_anything)
    assert by_id and by_id.data and json.loads(by_id.data) == {**data, "deep": [{"a": PURGED_TEXT}, PURGED_TEXT]}


def test_numbers_of_any_size_stay() -> None:
    found = purge_row(Row("later", "x", '{"a": 1e400, "b": 0.1000, "c": 18446744073709551616}'), match_anything)
    assert found and found.data == '{"a":1E+400,"b":0.1000,"c":18446744073709551616}'


def test_names_are_no_words() -> None:
    for name in ("call", "bash", "a/b", "anthropic", "forget", "agent"):
        for before, _ in TURN:
            kept = purge_row(stored(before), PurgeTarget(name).is_in)
            assert kept is None or any(name in text for text in row_texts(stored(before)))
    assert purge_row(stored(ToolResult("secret-call", "", False, "secret-tool")), PurgeTarget("secret").is_in) is None
    assert {"id", "call_id", "name"} <= KEPT_FIELDS


def test_text_within_json_is_found() -> None:
    key = '-----BEGIN "KEY"-----\nMII\tů/+\\\n-----END'
    wanted = PurgeTarget(key)
    for arguments in (json.dumps({"text": key}), json.dumps({"text": key}, ensure_ascii=False)):
        row = stored(ToolCall("c", "write", arguments))
        assert wanted.may_match(row) and read(purge_row(row, wanted.is_in) or row) == ToolCall("c", "write")
    settings = stored(ev.SettingsChanged({"system": f"a {key} b"}, {}))
    assert wanted.may_match(settings) and purge_row(settings, wanted.is_in)


@pytest.mark.parametrize("seed", range(30))
def test_row_that_is_not_likely_holds_nothing(seed: int) -> None:
    draw = random.Random(seed)
    alphabet = 'ab\n"\\/\té\u2028🦉'

    def text(most: int) -> str:
        return "".join(draw.choices(alphabet, k=draw.randrange(1, most)))

    for _ in range(200):
        wanted = PurgeTarget(text(4))
        row = Row("later", text(9) if draw.random() < 0.5 else None, msgspec.json.encode({"x": [text(9)]}).decode())
        assert wanted.may_match(row) or purge_row(row, wanted.is_in) is None


def test_what_is_shown_hides_it() -> None:
    wanted = PurgeTarget(SECRET)
    assert wanted.format_context(f"my key is {SECRET}, ok") == "my key is ***, ok"
    shown = wanted.format_context("x" * 50 + f"{SECRET} and {SECRET} again")
    assert shown == "…" + "x" * 30 + "*** and *** again"
