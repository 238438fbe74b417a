"""Rows that move to another log keep their meaning there."""

import json
import typing
from typing import Any

import msgspec
import pytest

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.codec import Row
from ikigai.core.relocation.renumber import ID_FIELDS, SETTINGS_FIELDS, IdMap, renumber_row
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.grants import IMPORTED
from ikigai.core.state.inputs import CallModel
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, next_request
from ikigai.core.views.context_rule import context_rule
from tests.core.life import Life, family_life, run_lives
from tests.core.memory_log import MemoryLog, StoredRow

NUMBERS = {  # whole numbers that are no ids
    ("turn_end", "size"), ("turn_end", "before"), ("turn_end", "before_previous"), ("turn_end", "tokens"),
    ("filter_plan", "messages"), ("filter_plan", "tokens"),
    ("filter", "messages"), ("filter", "before"), ("filter", "after"),
    ("usage", "usage"), ("usage", "attempt"), ("usage", "size"), ("usage", "out"), ("usage", "most"),
    ("summary", "turns"), ("summary", "unseen"), ("summary", "before"), ("summary", "after"),
    ("user", "images"), ("user", "documents"), ("tool_result", "images"), ("tool_result", "whole"),
    ("mail_sent", "answers"),
    ("settings", "values"), ("clear", "own"), ("usage", "miss"),
}  # fmt: skip
AGENTS = {("fork", "parent"), ("user", "sender"), ("mail_taken", "sender")}
"""Names of agents of the other log, which mean nothing in this one and are kept as they are."""


def holds_numbers(kind: Any) -> bool:
    if kind is int:
        return True
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return any(holds_numbers(field.type) for field in msgspec.structs.fields(kind))
    return any(map(holds_numbers, typing.get_args(kind)))


def test_every_field_that_can_name_an_event_is_thought_of() -> None:
    """A new field with a whole number is listed here or in ID_FIELDS, as an id or not; also a name of an agent."""
    for kind, (cls, _) in codec.CONTENT_FIELD.items():
        for field in msgspec.structs.fields(cls):
            place = kind, field.name
            named = field.name in ID_FIELDS.get(kind, {})
            if holds_numbers(field.type):
                assert named != (place in NUMBERS), f"{place} names an event, or does not: NAMED or NUMBERS must say so"
            if any(word in field.name for word in ("agent", "parent", "child", "sender")):
                assert named or place in AGENTS, place
            if field.type == ev.Choices:
                assert SETTINGS_FIELDS.get(kind) == field.name, f"{place} holds settings: CHOICES must say so"


def numbers(*pairs: tuple[int, int]) -> IdMap:
    made = IdMap()
    for old, new in pairs:
        made.add(old, new)
    return made


def data(kind: str, known: IdMap, /, **fields: Any) -> dict[str, Any]:
    return json.loads(renumber_row(Row(kind, None, json.dumps(fields)), known).data or "")


def test_what_is_there_and_what_is_not() -> None:
    ids = numbers((10, 101), (12, 102), (20, 105), (21, 106))
    assert [data("turn_end", ids, first=id)["first"] for id in (10, 11, 21, 5, 30)] == [101, 0, 106, 0, 0]
    assert [data("rewind", ids, to=id)["to"] for id in (9, 10, 11, 12, 99)] == [0, 101, 101, 102, 106]
    assert [data("summary", ids, upto=id)["upto"] for id in (9, 20)] == [0, 105]
    told = data("summary", ids, upto=20, covers=[[10, 12], [13, 14]], of=[12, 13], closed=21)
    assert told == {"upto": 105, "covers": [[101, 102]], "of": [102], "closed": 106}
    assert [data("summary", ids, closed=id)["closed"] for id in (0, 11, 21)] == [0, -1, 106], "told of a clear still"
    assert data("fork", ids, parent="p", at=11) == {"parent": "p", "at": 101}
    assert data("fork", ids, parent="p", at=None) == {"parent": "p", "at": None}, "no bound is no bound"
    found = data("filter", ids, mode="forget", ranges=[[10, 12], [11, 20], [1, 5], [13, 14]], ids=[20, 13], planning=12)
    assert found == {"mode": "forget", "ranges": [[101, 102], [102, 105]], "ids": [105], "planning": 102}
    assert data("undo", ids, of=11, what="clear") == {"of": 0, "what": "clear"}


def test_what_is_not_its_kind_stays() -> None:
    ids = numbers((1, 2))
    assert data("rewind", ids, to="x")["to"] == "x" and data("rewind", ids, to=-1)["to"] == -1
    assert data("undo", ids, of=2**70)["of"] == 2**70 and data("undo", ids, of=True)["of"] is True
    assert data("filter", ids, mode="forget", ranges="x", ids=[1, "a"], planning=None) == {
        "mode": "forget", "ranges": [], "ids": [2], "planning": None,
    }  # fmt: skip
    exact = '{"to":1,"x":1.10,"y":1e400,"z":123456789012345678901234567890}'
    assert renumber_row(Row("rewind", None, exact), ids).data == exact.replace('"to":1', '"to":2').replace(
        "1e400", "1E+400"
    )
    assert renumber_row(Row("later", "text", '{"to": 1}'), ids) == Row("later", "text", '{"to": 1}')


def test_messages_are_on_their_way_once() -> None:
    ids = numbers((10, 101))
    assert data("mail_sent", ids, to="4b7e…", name="other") == {"to": "", "name": "other"}
    taken = renumber_row(Row("mail_taken", None, '{"of":10,"sender":"other"}'), ids)
    assert taken.data == '{"sender":"other"}' and codec.decode(*taken) == ev.MailTaken(sender="other")


@pytest.mark.parametrize(("kind", "field"), SETTINGS_FIELDS.items())
@pytest.mark.parametrize("before", [{}, {"seal": "0123"}, {"seal": 5}, {"seal": IMPORTED}])
def test_settings_are_marked_as_imported(kind: str, field: str, before: dict[str, object]) -> None:
    fields = {field: {"approval": "yolo", "budget": 5}, "origins": {"approval": "agent"}}
    assert data(kind, IdMap(), **fields, **before) == {**fields, "seal": IMPORTED}
    back = renumber_row(Row(kind, None, json.dumps({**fields, **before})), IdMap(), same_log=True)
    assert json.loads(back.data or "") == {**fields, **before}


# ── lives ──


def rows_of(life: Life, agent: str) -> list[StoredRow]:
    spans = {stored.id for stored in life.log.history(agent)}
    assert isinstance(life.log, MemoryLog)
    return [row for row in life.log.rows if row.id in spans]


def elsewhere(rows: list[StoredRow]) -> tuple[MemoryLog, dict[int, int]]:
    """Return a log of other agents in which one has these rows, and the ids there by those here."""
    log, ids, there = MemoryLog(), IdMap(), dict[int, int]()
    log.create("other")
    log.create("moved")
    for seq, row in enumerate(rows, start=1):
        log.append("other", (ev.CommandRan("/status"),) * (1 + seq % 3))
        id = len(log.rows) + 1
        moved = renumber_row(Row(row.kind, row.content, row.data), ids)
        chosen = moved._replace(data=moved.data and moved.data.replace(f'"seal":"{IMPORTED}"', '"seal":""'))
        log.rows.append(StoredRow(id, "moved", seq, *chosen))  # as if the user had chosen all of it there
        ids.add(row.id, id)
        there[row.id] = id
    return log, there


def asking(settings: ev.Choices) -> ev.Choices:
    """Return the settings without the approval mode: that is chosen anew."""
    return {key: value for key, value in settings.items() if key != "approval"}


def is_the_same(here: Memory, there: Memory, ids: dict[int, int], own: bool) -> None:
    """Check that both memories are equal, whatever the ids of their events. `own`: the agent had no ancestors."""
    assert next_request(there) == next_request(here) and (there.size, there.used) == (here.size, here.used)
    assert asking(there.settings) == asking(here.settings) and asking(there.own) == asking(here.own)
    assert there.limits == here.limits
    assert [(mark.id, mark.label) for mark in there.marks] == [(ids[mark.id], mark.label) for mark in here.marks]
    for mine, theirs in ((here.window, there.window), (here.full_window, there.full_window)):
        assert [(turn.id, turn.end) for turn in theirs.turns] == [(ids[turn.id], ids[turn.end]) for turn in mine.turns]
        assert [msgspec.structs.replace(turn, id=0, end=0, recalled=0) for turn in theirs.turns] == [
            msgspec.structs.replace(turn, id=0, end=0, recalled=0) for turn in mine.turns
        ]
        assert theirs.older == mine.older and (theirs.total, theirs.before_newest) == (mine.total, mine.before_newest)
        assert (theirs.first and theirs.first.id) == (mine.first and ids[mine.first.id])
    assert there.status == here.status and there.cutoff == (here.cutoff and ids[here.cutoff])
    assert there.cleared == (here.cleared and ids[here.cleared])
    assert [there.has_in_context(ids[id]) for id in ids] == [here.has_in_context(id) for id in ids]
    acts = [(ids[act.id], act.kind, act.empty) for act in here.changes]
    found = [(act.id, act.kind, act.empty) for act in there.changes]
    assert found == acts if own else found[len(found) - len(acts) :] == acts
    drawn, expected = context_rule(there), context_rule(here)
    assert (drawn is None) == (expected is None)
    if drawn and expected:
        assert msgspec.structs.replace(drawn, before=0) == msgspec.structs.replace(expected, before=0)
        assert drawn.before == ids[expected.before]


class MovingLife(Life):
    """A life at whose end every agent moves to another log."""

    def teardown(self) -> None:
        super().teardown()
        assert isinstance(self.log, MemoryLog)
        for agent in self.agents:
            here = self.loaded(agent)
            log, ids = elsewhere(rows_of(self, agent))
            there = log.load(load_memory(msgspec.structs.replace(self.run, seal=None), "moved"))
            is_the_same(here, there, ids, own=self.log.agents[agent][0] is None)
            asked = [job for job in work(here) if isinstance(job, CallModel)]
            assert len(work(there)) == len(work(here)) and bool(asked) == any(
                isinstance(job, CallModel) for job in work(there)
            )


def test_memory_is_the_same_there() -> None:
    run_lives(MovingLife, examples=3, steps=30)


def test_of_a_family_too() -> None:
    family_life(MovingLife)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_memory_is_the_same_there_for_long() -> None:
    run_lives(MovingLife, examples=600, steps=60)
