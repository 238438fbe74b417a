"""Tests of the bench on tiny sizes: its texts are sound, and its measurements work. No time is judged."""

import asyncio
import json

import pytest

from ikigai.core.events import codec
from ikigai.core.events.events import Cleared, Rewound, StoredEvent, Totals, TurnEnded
from ikigai.core.state.effective_settings import RunConfig
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.store.database import Database
from tests.bench import (
    s03_append,
    s04_load,
    s05_window,
    s06_stream,
    s08_search,
    s11_delay,
    s12_cost,
    s13_tokens,
    s14_request,
    s15_depth,
    s16_typing,
    s17_hops,
    s18_plans,
    s22_first,
    s23_turn,
)
from tests.bench.figures import Figure, as_json, percentile, table
from tests.bench.generator import LAST_WORD, history
from tests.bench.histories import MIGRATIONS, fill
from tests.bench.s01_start import start
from tests.bench.terminal import home
from tests.core.encoders import encoder, limits
from tests.core.oracle import Oracle
from tests.providers.formats import FORMATS

CONVERSATION = {"user", "assistant", "tool_call", "tool_started", "tool_result", "usage", "turn_end"}


@pytest.mark.ordinary("4", "300")
@pytest.mark.parametrize("events", [4, 10, 95, 300])
def test_generated_history_has_the_requested_number_of_events(events: int) -> None:
    rows = list(history(events))
    assert [row.seq for row in rows] == list(range(1, events + 1))
    *others, last = (row.content or "" for row in rows if row.kind == "assistant")
    assert last.endswith(LAST_WORD) and not any(LAST_WORD in said for said in others)
    assert rows[-1].kind == "turn_end"


def test_generated_history_is_the_same_every_time() -> None:
    assert list(history(200)) == list(history(200)) != list(history(200, seed=1))


def test_totals_of_generated_history_equal_a_recount() -> None:
    rows = list(history(800, seed=2, early=0.6))
    plain = RunConfig({"model": "chat/large", "budget": 0}, limits, encoder)  # nothing is dropped or left out by it
    assert CONVERSATION | {"mark", "rewind", "clear"} == {row.kind for row in rows}
    live: list[tuple[int, Totals]] = []  # turns in memory's reach: the end, and what they add
    opened: list[StoredEvent] = []
    for row in rows:
        event = codec.decode(row.kind, row.content, row.data)
        match event:
            case Cleared():
                live.clear()
            case Rewound(to=to):
                live = [turn for turn in live if turn[0] <= to]
            case TurnEnded():
                turn = Oracle(plain, [*opened, StoredEvent(row.seq, "a", row.seq, row.at, event)])
                (said,), (whole,) = turn.sent, turn.log
                size = sum(map(ChatEncoder().message, said))
                before = sum((totals for _, totals in live), Totals())
                before_previous = sum((totals for _, totals in live[:-1]), Totals())
                assert event == TurnEnded(event.ending, event.reason, opened[0].id, size, before, before_previous)
                live.append((row.seq, Totals(1, len(whole), size)))
                opened = []
            case _ if row.kind in CONVERSATION - {"usage"}:
                opened.append(StoredEvent(row.seq, "a", row.seq, row.at, event))
    assert not opened


@pytest.mark.long
def test_program_shows_the_last_turn_of_a_generated_history(dsn: str) -> None:
    fill(dsn, 10)
    with home() as environ:
        seen, keys, turns = start({**environ, "IKIGAI_DATABASE_URL": dsn})
    assert 0 < seen <= keys <= turns


@pytest.mark.long
async def test_one_event_is_measured(dsn: str) -> None:
    assert len(_judged(await s03_append.compare(dsn, events=10))) == 2


@pytest.mark.long
def test_loading_is_measured(dsn: str) -> None:
    fill(dsn, 2_000)
    assert len(_judged(asyncio.run(s04_load.compare(dsn, 2_000, dsn, 2_000, rounds=1)))) == 2


@pytest.mark.long
def test_loading_at_the_end_of_many_forks_is_measured(dsn: str) -> None:
    assert len(_judged(asyncio.run(s15_depth.compare(dsn, 5, rounds=1)))) == 1


@pytest.mark.long
async def test_opening_without_statistics_is_measured(dsn: str, empty_dsn: str) -> None:
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    assert len(_judged(await s18_plans.compare(dsn, empty_dsn, turns=50, rounds=1))) == 1


@pytest.mark.long
def test_ways_to_leave_the_window_are_priced() -> None:
    measured = s12_cost.measure(quick=True)
    cost = {figure.what: figure.ratio for figure in measured if figure.against == "prune_fraction 0"}
    assert len(_judged(measured)) == 8 and cost["prune_fraction 0: cost"] == 1.0
    assert cost["prune_fraction 0.5: cost"] < cost["prune_fraction 0.25: cost"] < cost["prune_fraction 0.1: cost"] < 1


def test_full_window_is_measured_and_counted_to_the_byte() -> None:
    figures = s05_window.compare(50, 200, turns=50)
    assert len(_judged(figures)) == 3
    assert figures[-1].value == 0 and figures[-1].holds


def test_streaming_answer_is_measured() -> None:
    assert len(_judged(s06_stream.compare(500, 1_000, rounds=1))) == 2


@pytest.mark.long
async def test_every_shape_of_search_is_measured(dsn: str) -> None:
    await asyncio.to_thread(fill, dsn, 500)
    await asyncio.to_thread(s08_search.prepare, dsn, 40)
    await s08_search.index(dsn)
    assert len(_judged(await s08_search.compare(dsn, rounds=1))) == 2 * 18 + 1


@pytest.mark.long
async def test_filling_the_index_beside_appends_is_measured(dsn: str) -> None:
    assert len(_judged(await s08_search.append(dsn, events=20))) == 1


@pytest.mark.long
@pytest.mark.parametrize("formats", [["chat"], list(FORMATS)])
def test_exchange_is_measured(dsn: str, formats: list[str]) -> None:
    fill(dsn, 10)
    figures = s11_delay.compare(formats, 1, dsn, {"IKIGAI_DATABASE_URL": dsn}, warm_up=0)
    assert len(_judged(figures)) == 2 * len(formats)


@pytest.mark.long
def test_first_request_is_measured(dsn: str) -> None:
    figures = s11_delay.first_requests("chat", 1, {"IKIGAI_DATABASE_URL": dsn})
    assert len(_judged(figures)) == 1


@pytest.mark.long
def test_modules_on_the_way_of_a_message_are_counted(dsn: str) -> None:
    with home() as environ:
        taken = s17_hops.ways(1, {**environ, "IKIGAI_DATABASE_URL": dsn}, warm_up=0)
    (request,), (delta,) = taken["request"], taken["delta"]
    assert {"agent/loop", "core/state/decisions", "store/log", "agent/apply_events", "providers/streaming"} <= {
        *request
    }
    assert {"agent/model_call", "providers/streaming", "terminal/output/live_reply"} <= {*delta}
    assert "repl/repl" not in delta and "terminal/output/live_reply" not in request
    (all_request,), (all_delta,) = taken["request-entered"], taken["delta-entered"]
    assert {*request, "core/state/fold", "terminal/output/conversation"} <= {*all_request}
    assert {*delta, "core/redaction"} <= {*all_delta}


@pytest.mark.long
async def test_tokens_are_compared_with_what_the_provider_counts() -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    figures = await s13_tokens.compare(300, ["CJK", "tool calls"])
    assert all(figure.base > 100 for figure in figures) and len(_judged(figures)) == 2


def test_request_is_measured_in_every_format() -> None:
    assert len(_judged(s14_request.compare(500, 1_000, rounds=1))) == 8


def test_figure_is_printed_with_its_ratio_and_its_bar() -> None:
    figure = Figure("S0", "what", "s", [0.3, 0.1, 0.2], "against", [0.1], 1.5)
    assert (figure.value, figure.base, figure.holds) == (0.2, 0.1, False)
    assert " ".join(table([figure]).splitlines()[1].split()) == "S0 what 200 ms against 100 ms 2 ≤ 1.5 NO"
    beyond = table([figure._replace(samples=[0.15002])]).splitlines()[1]
    assert beyond.split()[-4:] == ["1.5002", "≤", "1.5", "NO"], "not rounded onto the bar that it misses"
    told = json.loads(json.dumps(as_json(figure)))
    assert (told["ratio"], told["bar"], told["holds"], told["range"]) == (2.0, 1.5, False, [0.1, 0.3])
    assert figure._replace(bar=2.0).holds and figure._replace(bar=None).holds is None
    assert percentile(range(1, 201), 99) == 199


def _judged(figures: list[Figure]) -> list[Figure]:
    """Return the figures with a bar, and check that all figures are numbers."""
    assert all(figure.base > 0 and figure.value >= 0 and table([figure]) for figure in figures)
    return [figure for figure in figures if figure.holds is not None]


@pytest.mark.long
def test_typing_can_be_measured() -> None:
    figures = asyncio.run(s16_typing.compare(50))
    assert len(figures) == 4 and all(figure.value > 0 for figure in figures[:2])


@pytest.mark.long
def test_start_until_the_first_request_is_measured(dsn: str) -> None:
    figures = s22_first.compare(["responses"], 1, {"IKIGAI_DATABASE_URL": dsn}, with_peers=False)
    assert len(_judged(figures)) == 1


@pytest.mark.long
def test_own_time_is_measured_behind_each_call(dsn: str) -> None:
    calls = 12
    times = s23_turn.own_times("responses", calls, {"IKIGAI_DATABASE_URL": dsn}, "--new")
    assert len(times) == calls - s23_turn.WARM_UP and min(times) > 0
