"""Turns without an end get one where people would put it; an export of ikigai stays as it is."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.events import Ending, Totals, TurnEnded
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.relocation.turn_ends import TurnEnds
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, next_request
from tests.core.life import Life, family_life, run_lives
from tests.core.memory_log import MemoryLog, StoredRow
from tests.core.relocation.test_renumber import rows_of


def raws(*events: ev.Event) -> list[RawRow]:
    return [RawRow(10 * n, "a", n, float(n), *codec.encode(event)) for n, event in enumerate(events, 1)]


def user(text: str, **more: Any) -> ev.UserMessage:
    return ev.UserMessage(text, **more)


def said(text: str) -> ev.AssistantMessage:
    return ev.AssistantMessage((Text(text),))


def call(id: str) -> ToolCall:
    return ToolCall(id, "shell", "{}")


def result(id: str) -> ToolResult:
    return ToolResult(id, "out")


def ends(*events: ev.Event) -> list[tuple[int, TurnEnded]]:
    """Return the events, counted from 1, behind which a turn ends, with the ends."""
    found = TurnEnds().rows(iter(raws(*events)))
    decoded = [(raw, codec.decode(raw.kind, raw.content, raw.data)) for raw in found]
    return [(raw.id // 10, event) for raw, event in decoded if isinstance(event, TurnEnded)]


def places(*events: ev.Event) -> list[tuple[int, str]]:
    return [(place, end.ending.value) for place, end in ends(*events)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((user("a"), said("b"), user("c"), said("d")), [(2, "completed"), (4, "completed")]),
        ((user("a"), said("b"), user("c")), [(2, "completed")]),
        ((user("a"), user("b"), said("c"), user("d")), [(3, "completed")]),
        ((user("a"), said("b"), call("1"), result("1"), said("c"), user("d")), [(5, "completed")]),
        ((user("a"), said("b"), call("1"), result("1"), user("more"), said("c"), user("d")), [(6, "completed")]),
        ((user("a"), said("b"), call("1"), user("c"), said("d")), [(3, "interrupted"), (5, "completed")]),
        ((user("a"), call("1"), ev.ToolStarted("1"), user("c")), [(3, "interrupted")]),
        ((user("a"), said("b"), ev.UsageReported("m"), user("c")), [(3, "completed")]),
        ((user("!ls", alone=True), user("b"), said("c")), [(1, "completed"), (3, "completed")]),
        ((user("a"), said("b"), ev.Marked("m"), ev.Cleared(), user("c")), [(2, "completed")]),
        ((user("a"), ev.Cleared(), user("c"), said("d")), [(1, "interrupted"), (4, "completed")]),
        ((user("a"), call("1"), said("b")), []),
        ((user("a"), call("1"), said("b"), user("c")), [(3, "completed")]),
        ((said("hello"), user("a"), said("b")), [(3, "completed")]),
        ((ev.CommandRan("/status"), said("hello")), []),
        ((), []),
    ],
)
def test_turn_ends_where_another_begins(events: tuple[ev.Event, ...], expected: list[tuple[int, str]]) -> None:
    assert places(*events) == expected


def test_end_says_where_its_turn_stands() -> None:
    talk = (user("a"), said("b"), user("c"), call("1"), user("d"), said("e"))
    first, second, third = (end for _, end in ends(*talk))
    assert (first.first, first.before, first.before_previous) == (10, Totals(), Totals())
    assert second.first == 30 and second.before == Totals(1, 2, first.size) and second.before_previous == Totals()
    assert third.before == Totals(2, 6, first.size + second.size), "with what stands for result and reply"
    assert third.before_previous == second.before and min(first.size, second.size) > 0


def test_clear_begins_anew_and_a_rewind_goes_back() -> None:
    turn = user("a"), said("b")
    *_, last = ends(*turn, *turn, ev.Cleared(), *turn)
    assert last[1].before == Totals()
    *_, second, third, last = ends(*turn, *turn, *turn, ev.Rewound(20), *turn)
    assert last[1].before == second[1].before and last[1].before.turns == 1 and third[1].before.turns == 2


def test_end_made_by_hand_is_told_where_it_stands() -> None:
    bare = TurnEnded(Ending.FAILED, "why")
    told = [end for _, end in ends(user("a"), said("b"), bare, user("c"), said("d"), bare)]
    assert [(end.ending, end.reason, end.first, end.before.turns) for end in told] == [
        (Ending.FAILED, "why", 10, 0),
        (Ending.FAILED, "why", 40, 1),
    ]


def test_rows_are_numbered_as_they_were_given() -> None:
    made = TurnEnds()
    found = list(made.rows(iter(raws(user("a"), said("b"), user("c"), said("d"), user("e")))))
    assert [raw.kind for raw in found].count("turn_end") == made.added == 2
    given = [made.original_number(n) for n, raw in enumerate(found, 1) if raw.kind != "turn_end"]
    assert given == [1, 2, 3, 4, 5]


# ── lives ──


def exported(rows: Iterable[StoredRow]) -> list[RawRow]:
    return [RawRow(row.id, row.agent, row.seq, 1.0, row.kind, row.content, row.data) for row in rows]


class ExportedLife(Life):
    """A life at whose end nothing is added to the history of any agent, whole or in part."""

    def teardown(self) -> None:
        super().teardown()
        for agent in self.agents:
            rows = exported(rows_of(self, agent))
            for part in (rows, rows[1:], rows[3:], rows[len(rows) // 2 :]):
                assert list(TurnEnds().rows(iter(part))) == part


class BareLife(Life):
    """A life whose ends are bare at its end, and come back."""

    def teardown(self) -> None:
        super().teardown()
        for agent in self.agents:
            rows = exported(rows_of(self, agent))
            kinds = {raw.kind for raw in rows}
            if (
                not kinds & {"filter", "summary", "undo"}
                and not any(each.rules.prune_fraction for each in (self.run, *self.run.profiles.values()))
                and all(each.counter == "bytes" for each in (self.run, *self.run.profiles.values()))
            ):
                found = list(TurnEnds().rows(iter(map(bare, rows))))
                assert [raw[:5] for raw in found] == [raw[:5] for raw in rows]
                there, here = self._elsewhere(found), self._elsewhere(rows)
                assert next_request(there) == next_request(here)
                assert [turn.id for turn in there.window.turns] == [turn.id for turn in here.window.turns]
                for there_is, here_is in (
                    (there.full_window.total, here.full_window.total),
                    (there.window.older, here.window.older),
                ):
                    assert (there_is.turns, there_is.messages) == (here_is.turns, here_is.messages)

    def _elsewhere(self, rows: list[RawRow]) -> Memory:
        log = MemoryLog()
        log.create("moved")
        log.rows = [StoredRow(raw.id, "moved", n, raw.kind, raw.content, raw.data) for n, raw in enumerate(rows, 1)]
        return log.load(load_memory(msgspec.structs.replace(self.run, seal=None), "moved"))


def bare(raw: RawRow) -> RawRow:
    """Return the row as a program writes it that only knows that the turn has ended."""
    if raw.kind != "turn_end":
        return raw
    return raw._replace(data=json.dumps({"ending": json.loads(raw.data or "{}")["ending"]}))


def test_nothing_is_added_to_what_was_exported() -> None:
    run_lives(ExportedLife, examples=3, steps=30)


def test_nothing_is_added_to_a_family() -> None:
    family_life(ExportedLife)


def test_bare_ends_come_to_the_same_memory() -> None:
    run_lives(BareLife, examples=4, steps=20)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_lives_for_long() -> None:
    run_lives(ExportedLife, examples=600, steps=60)
    run_lives(BareLife, examples=600, steps=40)
