"""These tests check that a row holds all of its event, now and in years, and that a senseless row does no harm."""

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Citation, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.text.sanitize import storable
from tests import GOLDEN

ROWS = [json.loads(line) for line in (GOLDEN / "rows.jsonl").read_text().splitlines()]

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
anything = st.text(st.characters(), max_size=20) | st.sampled_from(["\0", "\ud800", "a\0b\udc00c🦉"])
number = st.integers(0, 2**53)
seconds = st.floats(0, 1e6)
totals = st.builds(ev.Totals, number, number, number)
values = text | number | seconds | st.booleans() | st.none()


def events(text: st.SearchStrategy[str]) -> st.SearchStrategy[ev.Event]:
    choices = st.dictionaries(text, values, max_size=4)
    citations = st.lists(st.builds(Citation, text, text, text, text), max_size=2).map(tuple)
    cited = st.builds(Text, text) | st.builds(Text, text, citations)
    blocks = st.lists(cited | st.builds(Thinking, text, text, text), max_size=4).map(tuple)
    usage = st.builds(Usage, number, number, number, number, number, searches=number)
    images = st.lists(st.builds(Image, text, text, number, number, text), max_size=2).map(tuple)
    count = (seconds, st.none() | seconds, text, number, text, st.none() | seconds, text, text, number)
    return st.one_of(
        st.builds(ev.UserMessage, text, images),
        st.builds(ev.TurnsRecalled, text, st.lists(number, max_size=3).map(tuple)),
        st.builds(ev.AssistantMessage, blocks, st.sampled_from(StopReason), text, st.booleans()),
        st.builds(ToolCall, text, text, text, text, text),
        st.builds(ToolResult, text, text, st.booleans(), text, images, text, hosted=text, opaque=text),
        st.builds(ev.ToolStarted, text),
        st.builds(ev.TurnEnded, st.sampled_from(ev.Ending), text, number, number, totals, totals, number, text),
        st.builds(ev.Cleared, choices),
        st.builds(ev.Marked, text),
        st.builds(ev.Rewound, number),
        st.builds(ev.SettingsChanged, choices, st.dictionaries(text, text, max_size=4)),
        st.builds(ev.Forked, text, st.none() | number),
        st.builds(ev.AgentKilled, text, text),
        st.builds(ev.AgentRevived),
        st.builds(ev.MailSent, text, text, text, st.sampled_from(["", "completed"]), st.booleans()),
        st.builds(ev.MailTaken, number, text),
        st.builds(ev.CommandRan, text, text),
        st.builds(ev.UsageReported, text, usage, *count),
    )


@given(events(text))
@example(ev.AssistantMessage((Text(""),)))
@example(ev.AssistantMessage((Text("a"), Text(""), Text("b"))))
def test_every_event_survives_a_row(event: ev.Event) -> None:
    row = codec.encode(event)
    again = codec.decode(*row)
    assert again == event and type(again) is type(event)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(event)
    if isinstance(again, ev.AssistantMessage):
        assert type(again.stop) is StopReason


@given(events(anything))
def test_codec_replaces_text_that_the_database_cannot_hold(event: ev.Event) -> None:
    row = codec.encode(event)
    for column in (row.content, row.data):
        assert column is None or column == storable(column)
    if row.data is not None:
        assert isinstance(json.loads(row.data), dict) and "\\u0000" not in row.data.replace("\\\\", "")
    assert codec.encode(codec.decode(*row)) == row


@given(st.sampled_from([*codec.CONTENT_FIELD, "hologram"]), st.none() | anything, st.none() | anything)
@example("assistant", "x", '{"blocks":[1,-3,3]}')
@example("assistant", "x", '{"blocks":5}')
@example("assistant", None, "[" * 200_000)
@example("settings", None, '{"values":' + "[" * 200_000)
@example("usage", None, '{"usage":[]}')
def test_no_row_is_fatal(kind: str, content: str | None, data: str | None) -> None:
    event = codec.decode(kind, content, data)
    if isinstance(event, ev.Unknown):
        assert event == ev.Unknown(kind, content or data or "")


FIELDS = sorted({field for cls, _ in codec.CONTENT_FIELD.values() for field in cls.__struct_fields__})
JSON = [None, True, 5, -1, 2**70, 1.5, "x", [], [1], [[]], {}, {"a": 1}, {"a": {"b": []}}]


@given(st.sampled_from([*codec.CONTENT_FIELD]), text, st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(JSON)))
def test_no_object_is_fatal(kind: str, content: str, data: dict[str, Any]) -> None:
    assert isinstance(codec.decode(kind, content, json.dumps(data)), get_args(ev.Event))


def test_every_kind_of_event_has_a_row() -> None:
    assert {cls for cls, _ in codec.CONTENT_FIELD.values()} == {*get_args(ev.Event)} - {ev.Unknown}
    with pytest.raises(ValueError, match="never stored"):
        codec.encode(ev.Unknown("hologram"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}-{row['event']}")
def test_rows_of_the_past_keep_their_meaning(row: dict[str, Any]) -> None:
    """Lines are added to the file and never changed: users have such rows in their databases."""
    data = None if row["data"] is None else json.dumps(row["data"], ensure_ascii=False, separators=(",", ":"))
    event = codec.decode(row["kind"], row["content"], data)
    assert type(event).__name__ == row["event"]
    assert msgspec.json.decode(msgspec.json.encode(event)) == row["fields"]


def test_rows_of_the_past_have_every_kind() -> None:
    assert {row["kind"] for row in ROWS} >= {*codec.CONTENT_FIELD}
