"""These tests check that events folded at once equal those folded one by one, and the upper limits of messages."""

from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, Message, Role, Text, Thinking, ToolCall, ToolResult
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import empty_memory, evolve, replay
from ikigai.core.state.open_turn import MAX_MESSAGE_BYTES, OpenTurn, max_bytes
from ikigai.core.state.tool_results import ToolResultLimits
from tests.core import worlds
from tests.core.encoders import ENCODERS, encoder
from tests.support.examples import examples

IDS = st.sampled_from(["a", "b"])
LENGTHS = st.sampled_from([0, 1, 30, 400, 2_000, 9_000])
long = st.builds(lambda letter, length: letter * length, st.sampled_from(["x", '"', "é", "漢", "\x01"]), LENGTHS)
said = st.lists(st.builds(Text, long) | st.builds(Thinking, long, st.sampled_from(["", "sig"])), max_size=2).map(tuple)
pictures = st.lists(st.just(Image("image/png", "iVBO" * 300, 64, 64)), max_size=1).map(tuple)
iteration = st.builds(
    lambda words, id, texts, lost, shown: [
        ev.AssistantMessage(words),
        *(ToolCall(f"{id}{n}", "look") for n in range(len(texts))),
        *(
            event
            for n, text in list(enumerate(texts))[lost:]
            for event in (ev.ToolStarted(f"{id}{n}"), ToolResult(f"{id}{n}", text, images=shown))
        ),
    ],
    said,
    st.integers(0, 10**6).map("c{}_".format),
    st.lists(long, min_size=1, max_size=3),
    st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]),
    pictures,
)
stray = st.one_of(
    st.builds(ToolCall, IDS, st.just("look")),
    st.builds(ev.ToolStarted, IDS),
    st.builds(ToolResult, IDS, long),
    st.builds(ev.AssistantMessage, said),
    st.builds(ev.UserMessage, long),
    st.builds(ev.SettingsChanged, st.just({"system": "s" * 900}), st.just({"system": "agent"})),
    st.just(ev.Marked("m")),
    st.builds(ev.ApprovalDecided, IDS, st.booleans()),
    st.just(ev.FilterPlanned(((1, 2),), (), 2, 9)),
    st.builds(ev.UserMessage, long, planning=st.just("forget")),
).map(lambda event: [event])
turn = st.builds(
    lambda text, shown, kind, steps, ends: [
        ev.UserMessage(text, shown, *kind),
        *(event for step in steps for event in step),
        *([ev.TurnEnded(ev.Ending.COMPLETED, "", 1, 9)] if ends else []),
    ],
    long,
    pictures,
    st.sampled_from([("", False), ("", False), ("", False), ("forget", False), ("", True)]),
    st.lists(st.one_of(iteration, iteration, iteration, iteration, stray), max_size=9),
    st.sampled_from([True, True, True, False]),
)


@settings(max_examples=examples(150))
@given(
    turns=st.lists(turn, min_size=1, max_size=5),
    context=st.sampled_from([300, 3_000, 12_000, 40_000, 10**6]),
    budget=st.sampled_from([0, 1, 2_000, 100_000]),
    model=st.sampled_from(["chat/x", "blocks/x"]),
    caps=worlds.caps | st.just(ToolResultLimits()) | st.just(ToolResultLimits(keep_first=0, keep_last=0)),
    first=st.booleans(),
    readable=st.booleans(),
    removed=st.sets(st.integers(1, 40), max_size=4),
    split=st.integers(0, 60),
)
def test_at_once_and_one_by_one(
    turns: list[list[ev.Event]],
    context: int,
    budget: int,
    model: str,
    caps: ToolResultLimits,
    first: bool,
    readable: bool,
    removed: set[int],
    split: int,
) -> None:
    run = RunConfig({"model": model, "budget": budget}, lambda _: ModelLimits(context, 100), encoder)
    tools, others = (worlds.READABLE, worlds.TOOLS) if readable else (worlds.TOOLS, worlds.READABLE)
    run = replace(run, tools=tools, planning=lambda: others, rules=WindowRules(0.25, first, 0, caps))
    begun = evolve(empty_memory(run, "a"), ev.StoredEvent(99, "a", 99, 0.0, ev.Filtered("forget", ids=tuple(removed))))
    events = [event for events in turns for event in events]
    rows = [ev.StoredEvent(id, "a", id, 0.0, event) for id, event in enumerate(events, start=1)]
    one_by_one = reduce(evolve, rows, begun)
    assert replay(begun, rows) == one_by_one
    assert replay(replay(begun, rows[:split]), rows[split:]) == one_by_one
    if one_by_one.open:
        assert one_by_one.open.size == sum(map(encoder(model).message, one_by_one.open.messages))


messages = st.builds(
    Message,
    st.sampled_from(Role),
    st.lists(
        st.builds(Text, long) | st.builds(Thinking, long, long) | worlds.calls | st.builds(ToolResult, IDS, long),
        max_size=4,
    ).map(tuple),
)


@given(messages)
def test_message_takes_no_more_than_its_upper_limit(message: Message) -> None:
    for each in ENCODERS.values():
        assert each.message(message) <= MAX_MESSAGE_BYTES + max_bytes(message.blocks)


def test_pending_calls_stand_in_their_order() -> None:
    calls = tuple((n, ToolCall(f"c{n}", "look")) for n in range(5))
    opened = OpenTurn(1, 9, calls=calls, answered=frozenset({"c0", "c3"}))
    assert [id for id, _ in opened.pending] == [1, 2, 4]
