"""These tests check the counting of ended turns: by bytes, by the provider, or at the rate of its own figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, StopReason, Text, Usage
from ikigai.core.request.build import append_event
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import counted_size
from ikigai.core.state.inputs import CallModel, Change, Failed, Interrupted, Replied, Submitted, UsageRecorded
from ikigai.core.state.memory import Memory, measure, next_request, plain_size
from ikigai.core.state.token_calibration import MAX_TOKENS_PER_BYTE, MIN_TOKENS_PER_BYTE
from tests.core.agent import RUN, Agent
from tests.core.encoders import cramped, encoder, limits

PROVIDER = replace(RUN, counter="provider")
CALIBRATED = replace(RUN, counter="calibrated")
TINY = RunConfig({"model": "chat/tiny", "budget": 100_000}, limits, encoder, counter="provider")


def usage(agent: Agent, tokens: int) -> ev.UsageReported:
    """Return the event that the loop stores for a request that the provider counted as so many tokens."""
    return ev.UsageReported(agent.memory.model, Usage(tokens, 1), size=plain_size(agent.memory))


def turn(agent: Agent, asked: str = "?", said: str = "!", counted: int = 0, tokens: int = 0) -> ev.TurnEnded:
    agent.happen(Submitted(asked))
    job = agent.job(CallModel)
    *_, ended = agent.happen(Replied(job, (Text(said),), StopReason.END, usage(agent, tokens), counted))
    assert isinstance(ended, ev.TurnEnded)
    assert agent.loaded() == agent.memory
    return ended


def sizes(memory: Memory) -> list[int]:
    return [turn.size for turn in memory.window.turns]


def test_bytes_never_ask_anybody() -> None:
    agent = Agent()
    ended = turn(agent, counted=1_000, tokens=1_000)
    assert (ended.tokens, ended.counted) == (0, "")
    assert sizes(agent.memory) == [ended.size]


def test_size_of_a_turn_is_the_provider_count_or_else_bytes() -> None:
    agent = Agent(PROVIDER)
    assert (turn(agent, counted=7).tokens, turn(agent, counted=0).tokens) == (7, 0)
    plain = turn(Agent()).size
    assert sizes(agent.memory) == [28, plain]
    assert agent.memory.used == -(-(agent.memory.envelope + 28 + plain) // 4)
    assert [stored.before.bytes for stored in agent.memory.window.turns] == [0, plain], "positions go by bytes"


def test_turn_without_a_whole_reply_counts_by_its_bytes() -> None:
    agent = Agent(PROVIDER)
    for failed in (False, True):
        agent.happen(Submitted("?"))
        job = agent.job(CallModel)
        stop = Failed(job, "It broke.", (), usage(agent, 9)) if failed else Interrupted((), usage(agent, 9))
        *_, ended = agent.happen(stop)
        assert isinstance(ended, ev.TurnEnded) and (ended.tokens, ended.counted) == (0, "")


def test_count_holds_for_its_counter_and_its_model_only() -> None:
    agent = Agent(PROVIDER)
    ended = turn(agent, counted=7)
    assert ended.counted == "provider chat/large"
    for run in (RUN, CALIBRATED):
        assert sizes(Agent(run, agent.log).memory) == [ended.size]
    agent = Agent(PROVIDER, agent.log)
    agent.happen(Change({"model": "chat/small"}))
    assert sizes(agent.memory) == [ended.size]
    turn(agent, counted=5)
    agent.happen(Change({"model": "chat/large"}))
    assert sizes(agent.memory)[0] == 28 and sizes(agent.memory)[1] > 28, "each comes back with its model"


@pytest.mark.parametrize(
    "event",
    [
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=-5, counted="provider chat/large"),
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=0, counted="provider chat/large"),
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=5, counted=""),
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=5, counted="chat/large"),
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=5, counted="calibrated chat/large"),
        ev.TurnEnded(ev.Ending.COMPLETED, tokens=5, counted="provider chat/larger"),
    ],
)
def test_counts_without_counter_or_of_another_counter_do_not_hold(event: ev.TurnEnded) -> None:
    assert counted_size(Agent(PROVIDER).memory, event) == 0 == counted_size(Agent().memory, event)


def test_turns_that_made_room_return_when_the_turn_ends_smaller() -> None:
    """The open turn is measured by its bytes; older turns leave for it, and are back once it has been counted."""
    agent = Agent(TINY)
    for asked in "ab":
        turn(agent, asked, counted=5)
    agent.happen(Submitted("x" * 700))
    assert not agent.memory.window.turns and agent.loaded() == agent.memory
    assert next_request(agent.memory).messages[0].text == "[conversation truncated — 4 older messages omitted]"
    agent.happen(Replied(agent.job(CallModel), (Text("!"),), StopReason.END, usage(agent, 0), counted=30))
    assert sizes(agent.memory) == [20, 20, 120] and agent.memory.cutoff is None
    assert agent.loaded() == agent.memory
    assert sizes(Agent(replace(TINY, counter="bytes"), agent.log).memory)[:-1] == [], "by bytes they stay away"


def test_turn_with_a_larger_count_pushes_older_turns_out() -> None:
    agent = Agent(TINY)
    turn(agent, counted=5)
    turn(agent, counted=1_000_000)
    assert sizes(agent.memory) == [4_000_000], "the newest stays whatever it counts"
    turn(agent, counted=5)
    assert sizes(agent.memory) == [20]


def test_under_less_room_than_it_was_stored_under_a_counted_turn_drives_nobody_out() -> None:
    """Replay uses the count of an ended turn, not the bytes that it had while it was open."""
    agent = Agent(TINY)
    turn(agent, "a", counted=5)
    turn(agent, "x" * 600, counted=30)
    again = Agent(replace(TINY, limits=cramped), agent.log)
    assert sizes(again.memory) == [20, 120]
    turn(again, "b", counted=5)
    assert sizes(again.memory) == [20, 120, 20]


def test_calibration_takes_the_rate_of_the_requests_own_figure() -> None:
    agent = Agent(CALIBRATED)
    agent.happen(Submitted("?"))
    sent = plain_size(agent.memory)
    job = agent.job(CallModel)
    *_, ended = agent.happen(Replied(job, (Text("!" * 200),), StopReason.END, usage(agent, sent // 2)))
    assert isinstance(ended, ev.TurnEnded)
    assert ended.tokens == round(ended.size * (sent // 2) / sent) and ended.counted == "calibrated chat/large"
    assert sizes(agent.memory) == [4 * ended.tokens]


@given(st.floats(0.05, 1.5), st.integers(2, 12))
def test_calibration_stands_still_when_the_provider_always_counts_alike(rate: float, turns: int) -> None:
    """The rate is one of plain bytes: a calibrated window does not calibrate later turns."""
    agent = Agent(CALIBRATED)
    for n in range(turns):
        agent.happen(Submitted("?" * 50 * n))
        tokens = round(encoder("chat/large").weight(next_request(agent.memory)) * rate)
        job = agent.job(CallModel)
        *_, ended = agent.happen(Replied(job, (Text("!"),), StopReason.END, usage(agent, tokens)))
        assert isinstance(ended, ev.TurnEnded)
        assert abs(ended.tokens - ended.size * rate) <= 1 + ended.size / plain_size(agent.memory)


@pytest.mark.parametrize(("tokens", "rate"), [(1, MIN_TOKENS_PER_BYTE), (10**9, MAX_TOKENS_PER_BYTE)])
def test_calibrated_rate_is_limited(tokens: int, rate: float) -> None:
    ended = turn(Agent(CALIBRATED), said="y" * 1_000, tokens=tokens)
    assert ended.tokens == round(ended.size * rate)


def test_without_a_figure_the_rate_of_the_newest_turn_holds_and_bytes_where_it_has_none() -> None:
    agent = Agent(CALIBRATED)
    assert turn(agent).counted == ""
    first = turn(agent, tokens=plain_size(agent.memory))  # about a token for each byte
    agent.happen(Submitted("?"))
    *_, ended = agent.happen(Interrupted())
    assert isinstance(ended, ev.TurnEnded)
    assert ended.tokens == round(ended.size * first.tokens / first.size) > ended.size / 2
    for model in ("chat/small", "blocks/large"):
        agent.happen(Change({"model": model}))
        assert turn(agent).counted == "", "the rate of another model says nothing"


def test_rate_holds_for_a_turn_that_all_older_turns_made_room_for() -> None:
    agent = Agent(replace(TINY, counter="calibrated"))
    agent.happen(Submitted("?"))
    known = usage(agent, plain_size(agent.memory) // 10)
    agent.happen(Replied(agent.job(CallModel), (Text("!"),), StopReason.END, known))
    agent.happen(Submitted("x" * 700))
    assert not agent.memory.window.turns
    *_, ended = agent.happen(Interrupted())
    assert isinstance(ended, ev.TurnEnded) and 0.09 * ended.size < ended.tokens < 0.11 * ended.size
    assert len(agent.memory.window.turns) == 2 and agent.loaded() == agent.memory


def test_failed_request_calibrates_by_its_usage() -> None:
    agent = Agent(CALIBRATED)
    agent.happen(Submitted("?"))
    sent = plain_size(agent.memory)
    *_, ended = agent.happen(Failed(agent.job(CallModel), "It broke.", (Text("I was"),), usage(agent, sent // 2)))
    assert isinstance(ended, ev.TurnEnded) and ended.tokens == round(ended.size * (sent // 2) / sent)


def test_one_shot_call_does_not_calibrate() -> None:
    agent = Agent(CALIBRATED)
    agent.happen(Submitted("?"))
    agent.happen(UsageRecorded(usage(agent, 10_000)))
    *_, ended = agent.happen(Interrupted())
    assert isinstance(ended, ev.TurnEnded) and ended.tokens == 0


def test_image_is_measured_by_its_tokens_and_not_by_its_bytes() -> None:
    picture = Image("image/png", "iVBO" * 10_000, 750, 4)
    for model, tokens in (("chat/large", 300), ("blocks/large", 4)):  # by the bytes, and by the pixels
        agent = Agent(RunConfig({"model": model, "budget": 100_000}, limits, encoder))
        agent.happen(Submitted("What is this?", (picture,)))
        body = encoder(model).body(next_request(agent.memory))
        assert agent.memory.size == len(body) - len(picture.data) + 4 * tokens == plain_size(agent.memory)


@pytest.mark.parametrize("text", ["", "What is this?"])
def test_with_the_sliding_off_a_picture_that_fits_is_taken_and_one_byte_more_is_not(text: str) -> None:
    run = RunConfig({"model": "chat/tiny", "budget": 0}, limits, encoder)
    picture = Image("image/png", "iVBO", 1, 1)
    probe = Agent(run)
    turn(probe, "x")
    asked = measure(probe.memory, append_event((), ev.UserMessage(text, (picture,))))
    left = probe.memory.room * 4 - probe.memory.size - asked
    for more, fits in ((0, True), (1, False)):
        agent = Agent(run)
        turn(agent, "x" * (1 + left + more))
        if fits:
            agent.happen(Submitted(text, (picture,)))
            assert agent.memory.size == agent.memory.room * 4
        else:
            with pytest.raises(Rejected, match="Context full"):
                agent.happen(Submitted(text, (picture,)))
