"""Condensing without a model: when it is time, what is covered, what a model is shown, and which text will do."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core import events as ev
from ikigai.core.condense.plan import (
    KEPT_TURNS,
    Covering,
    covering,
    decided,
    everything,
    failing,
    grown,
    parts,
    question,
    told,
    whole,
    widened,
)
from ikigai.core.condense.threshold import Decision, Options, Verdict, pressed
from ikigai.core.errors import Refused
from ikigai.core.forget.selection import Wanted, selecting, turn_of
from ikigai.core.messages import Image, Text, ToolCall, ToolResult
from ikigai.core.model import Limits
from ikigai.core.state.inputs import Approved, Change, Condensed, RunTool, StartTool, Submitted, ToolDone, Undo
from ikigai.core.state.memory import Memory, request
from ikigai.core.state.run_config import Rules, Run
from ikigai.core.views.transcript import block
from tests.core.agent import Agent
from tests.core.agreement import is_sound
from tests.core.encoders import Chat, encoder
from tests.core.vectors import cases

CONDENSING = "peer_condensing.json"
AUTO = Options("auto")


def run_of(context: int = 10_000, budget: int = 10**9, max_output: int = 100, rules: Rules = Rules()) -> Run:  # noqa: B008
    given = Limits(context, max_output)
    return Run({"model": "chat/x", "budget": budget}, lambda model: given, encoder, rules=rules)


def talked(turns: int, run: Run | None = None, length: int = 400) -> Agent:
    """So many turns of about a quarter of `length` tokens each."""
    agent = Agent(run or run_of())
    for n in range(turns):
        agent.turn(f"{n}?", "x" * length)
    return agent


def condensed(agent: Agent, options: Options = AUTO, text: str = "They counted.", by_hand: bool = False) -> Covering:
    of = covering(agent.memory, agent.memory, options, by_hand)
    assert of
    agent.happen(Condensed(ev.Summarised(text, of.upto, turns=of.count), of.begins))
    assert agent.loaded() == agent.memory
    return of


# ── when ──


@pytest.mark.parametrize("case", cases("context_decision", CONDENSING), ids=lambda case: case["id"])
def test_the_decision_is_theirs(case: dict[str, Any]) -> None:
    """All of them, with one figure for theirs of the context and of the last message. Where their summary fails they
    fall back in the same step, and try again with every request; here the window does as it would without one, and
    nothing is tried again before there is a tenth more (`test_condensing.py`)."""
    given, theirs = case["input"], case["expected"]
    used = given["total_tokens_excl_last"] + given["last_message_tokens"]
    profile = given["profile_thresholds"].get(given["profile_id"], -1)

    def decision(automatic: bool) -> Decision:
        return pressed(
            used,
            given["context_window"],
            given["max_tokens"],
            threshold=given["global_threshold_percent"],
            profile=profile,
            automatic=automatic,
        )

    found = decision(given["auto_condense"])
    assert used == theirs["prev_context_tokens"]
    assert (found.verdict is Verdict.CONDENSE) is theirs["condense_attempted"]
    assert (found.verdict is not Verdict.NOTHING) is theirs["will_manage"]
    if found.verdict is not Verdict.CONDENSE or given.get("condense_succeeds"):
        assert found.verdict == {"truncate": "prune", "none": "nothing"}.get(theirs["outcome"], theirs["outcome"])
    else:
        assert decision(False).verdict == {"truncate": "prune", "none": "nothing"}[theirs["outcome"]]


@pytest.mark.parametrize(
    ("profile", "threshold", "warned"),
    [(-1, 80, False), (5, 5, False), (100, 100, False), (0, 80, True), (4, 80, True), (101, 80, True), (-2, 80, True)],
)
def test_a_profile_has_a_threshold_of_its_own_or_is_warned_of(profile: int, threshold: int, warned: bool) -> None:
    found = pressed(0, 100_000, 8_000, threshold=80, profile=profile)
    assert (found.threshold, bool(found.warning)) == (threshold, warned)
    assert not warned or (str(profile) in found.warning and "80 %" in found.warning)


@pytest.mark.parametrize(
    ("used", "budget", "automatic", "verdict"),
    [
        (74_999, 100_000, True, "nothing"),
        (75_000, 100_000, True, "condense"),
        (75_000, 0, True, "nothing"),
        (150_000, 0, True, "condense"),
        (75_000, 500_000, True, "nothing"),
        (100_001, 100_000, False, "prune"),
        (100_000, 100_000, False, "nothing"),
        (172_001, 0, False, "prune"),
    ],
)
def test_the_smaller_of_context_and_budget_counts(used: int, budget: int, automatic: bool, verdict: str) -> None:
    found = pressed(used, 200_000, 8_000, threshold=75, automatic=automatic, budget=budget)
    assert found.verdict == verdict


def test_the_same_of_a_memory_with_what_has_left_its_window() -> None:
    agent = talked(10, run_of(budget=2_000))
    assert decided(agent.memory, AUTO).verdict is Verdict.NOTHING
    for n in range(5):
        agent.turn(f"{n}!", "x" * 400)
    assert agent.memory.used < 2_000 and decided(agent.memory, AUTO).verdict is Verdict.CONDENSE
    assert decided(agent.memory, Options("manual")).verdict is Verdict.NOTHING
    for n in range(10):
        agent.turn(f"{n}!", "x" * 400)
    assert agent.memory.window.older.turns and decided(agent.memory, AUTO).verdict is Verdict.CONDENSE
    assert decided(agent.memory, Options("manual")).verdict is Verdict.PRUNE


def test_a_small_context_that_pruning_keeps_below_the_threshold_is_condensed_all_the_same() -> None:
    """A reply may take a quarter: then the room ends at 65 %, and 75 % of the context is never sent."""
    agent = talked(4, run_of(1_000, max_output=1_000))
    assert agent.memory.used < 750 and not agent.memory.window.older.turns
    while not agent.memory.window.older.turns:
        assert decided(agent.memory, AUTO).verdict is Verdict.NOTHING
        agent.turn("?", "x" * 400)
    assert agent.memory.used < 750 and decided(agent.memory, AUTO).verdict is Verdict.CONDENSE


# ── what ──


def test_the_oldest_turns_are_covered_down_to_the_target() -> None:
    agent = talked(70)
    before = agent.memory
    of = condensed(agent)
    assert [turn.id for turn in of.turns] == [turn.id for turn in before.full.turns][: len(of.turns)]
    assert 0.33 * whole(before) < agent.memory.used < 0.4 * whole(before) and not agent.memory.window.older.turns
    sent = request(agent.memory).messages
    assert sent[0].text == (
        f"[summary of the earlier conversation, {len(of.turns)} turns that are no longer shown]\n\nThey counted.\n\n"
        "[end of the summary]"
    )
    assert sent[1].text == "[noted]" and sent[2].text == f"{len(of.turns)}?" and sent[-1].text == "x" * 400


def test_the_newest_two_turns_stay_whatever_they_take() -> None:
    agent = talked(3, length=9_000)
    of = condensed(agent)
    assert len(of.turns) == 1 and len(agent.memory.full.turns) == KEPT_TURNS
    assert covering(agent.memory, agent.memory, AUTO, True) is None
    assert covering(talked(2, length=9_000).memory, talked(2, length=9_000).memory, AUTO, True) is None


def test_the_message_just_sent_is_never_part_of_it() -> None:
    """Where they replace even the newest message by the summary."""
    agent = talked(60)
    agent.happen(Submitted("And now this."))
    of = covering(agent.memory, agent.memory, AUTO, False)
    assert of and agent.memory.open and of.upto < agent.memory.open.first
    agent.reply(Text("Done."))
    agent.happen(Condensed(ev.Summarised("It was.", of.upto, turns=of.count), of.begins))
    assert [message.text for message in request(agent.memory).messages[-2:]] == ["And now this.", "Done."]


def test_by_hand_something_happens_in_an_emptier_context_too() -> None:
    agent = talked(10)
    assert covering(agent.memory, agent.memory, AUTO, by_hand=False) is None
    used = agent.memory.used
    condensed(agent, by_hand=True)
    assert agent.memory.used < 0.5 * used


def test_a_target_above_the_threshold_is_half_of_that() -> None:
    """Else it would begin again behind every turn."""
    agent = talked(70)
    condensed(agent, Options("auto", at_percent=40, to_percent=40))
    assert agent.memory.used < 0.2 * whole(agent.memory)


def test_what_has_left_the_window_is_looked_into_and_what_is_older_is_said() -> None:
    agent = talked(100, run_of(budget=2_000, rules=Rules(0.5, keep_first_turn=True)))
    memory, ceiling = agent.memory, agent.memory.ceiling
    wide = agent.log.load(widened(agent.run, "a", 2 * ceiling))
    assert len(memory.window.turns) < len(wide.window.turns) < 100 and not wide.window.first
    of = covering(memory, wide, AUTO, False)
    assert of and of.count == of.unseen + len(of.turns) and of.unseen == 100 - len(wide.window.turns)
    agent.happen(Condensed(ev.Summarised("It was.", of.upto, turns=of.count, unseen=of.unseen), of.begins))
    assert agent.loaded() == agent.memory and not agent.memory.window.older.turns
    assert agent.memory.used <= 0.4 * 2_000 and agent.memory.full.turns[0].id > of.upto
    assert ceiling == agent.memory.ceiling


def test_an_earlier_summary_goes_into_the_next_one() -> None:
    agent = talked(70)
    first = condensed(agent, text="First.")
    for n in range(40):
        agent.turn(f"{n}!", "x" * 400)
    again = condensed(agent, text="First and second.")
    assert again.earlier and again.earlier.text == "First." and again.count == first.count + len(again.turns)
    assert again.replaced > sum(turn.size for turn in again.turns), "it leaves as well"
    assert [message.text for message in request(agent.memory).messages].count("[noted]") == 1


def test_condensing_after_the_window_has_pruned_frees_what_it_says() -> None:
    """Where they count what is hidden already as if it were sent: two rounds free nothing, and a third hides the
    summary. Here turns leave by their own size, the figures are those of the real request, and the summary stays."""
    (case,) = cases("truncate_after_condense", CONDENSING)
    agent = talked(case["input"]["messages_before_condense"] // 2, run_of(100_000))
    condensed(agent, by_hand=True)
    for n in range(case["input"]["messages_after_summary"] // 2):
        agent.turn(f"p{n}", "y" * 400)
    before = agent.memory
    for _ in case["expected"]["rounds"]:
        agent.happen(Change({"budget": agent.memory.used - 1}))
        turns = agent.memory.window.turns
        assert agent.memory.summary == before.summary and request(agent.memory).messages[0].text.startswith("[summary")
        if len(turns) == 1:
            break
        assert len(turns) < len(before.window.turns) and agent.memory.used < before.used
        before = agent.memory


def test_the_size_after_it_is_that_of_what_is_sent() -> None:
    """They report 8,610 tokens of 610 real ones."""
    (case,) = cases("tokens_after_truncation_with_condensed_history", CONDENSING)
    assert case["expected"]["reported"] > 10 * case["expected"]["actual_effective_incl_system"]
    agent = talked(10, run_of(100_000), length=4_000)
    of = covering(agent.memory, agent.memory, AUTO, by_hand=True)
    assert of
    (fact,) = agent.happen(Condensed(ev.Summarised("It was.", of.upto, turns=of.count), of.begins))
    assert isinstance(fact, ev.Summarised)
    sent = Chat().weight(request(agent.memory))
    assert agent.memory.size == sent and fact.after == agent.memory.used == -(-sent // 4) < fact.before


def test_what_is_cleared_can_be_summarised_whole() -> None:
    agent = talked(4)
    condensed(agent, by_hand=True, text="Earlier.")
    of = everything(agent.memory)
    assert (
        of
        and of.count == 4
        and of.earlier
        and [turn.id for turn in agent.memory.full.turns] == [turn.id for turn in of.turns]
    )
    assert everything(Agent().memory) is None


def test_it_is_tried_again_when_a_tenth_of_the_window_has_been_said() -> None:
    agent = talked(40)
    since = agent.memory
    for n in range(5):
        assert not grown(since, agent.memory)
        agent.turn(f"{n}!", "x" * 400)
    assert grown(since, agent.memory)
    full = talked(40, run_of(budget=2_000))  # a full window grows no more, and yet more is said
    since = full.memory
    full.turn("?", "x" * 400)
    assert not grown(since, full.memory)
    full.turn("?", "x" * 400)
    assert full.memory.used <= since.used + 100 and grown(since, full.memory)


# ── what a model is shown ──


def test_the_messages_as_text() -> None:
    agent = Agent(run_of())
    agent.happen(Submitted("Look at it.", (Image("image/png", "iVBO", 2, 1, "fox.png"),)))
    agent.reply(Text("I look."), ToolCall("c1", "look", '{"at":"fox"}', malformed=""))
    agent.memory = agent.loaded()
    assert told(agent.memory.full.turns) == []
    agent = talked(1, length=3)
    assert told(agent.memory.full.turns) == ["[user]\n0?", "[assistant]\nxxx"]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=300), max_size=12), st.integers(24, 400))
def test_parts_hold_everything_and_fit(texts: list[str], most: int) -> None:
    found = parts(texts, most)
    assert "".join(found).replace("\n", "") == "".join(texts).replace("\n", "")
    assert all(len(json.dumps(each, ensure_ascii=False).encode()) <= max(most, 24) + 12 for each in found)


def test_a_question_says_what_to_keep_in_mind_and_how_long_it_may_be() -> None:
    asked = question("[user]\nHello.", "They met.", "the paths", 1_000)
    assert asked.startswith("The summary so far:\n\nThey met.\n\nThe conversation:\n\n[user]\nHello.\n\n")
    assert "keep in mind above all: the paths" in asked and asked.endswith("at most 600 words, and nothing else.")
    assert "follows later" not in asked and "follows later" in question("x", "", "", 1_000, last=False)


# ── which text will do ──


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "said nothing"), (" \n", "said nothing"), ("x" * 5_000, "not shorter by a quarter"), ("Kurz: 数えた。", "")],
)
def test_a_text_has_to_be_shorter_by_a_quarter(text: str, why: str) -> None:
    agent = talked(12)
    of = covering(agent.memory, agent.memory, AUTO, by_hand=True)
    assert of and 2_000 < of.replaced < 6_600
    assert (why in failing(agent.memory, text, of)) if why else failing(agent.memory, text, of) == ""


def test_the_figures_are_told_in_one_line() -> None:
    agent = talked(70)
    of = covering(agent.memory, agent.memory, AUTO, False)
    assert of
    made = ev.Summarised("They counted.", of.upto, turns=of.count, model="chat/x", cost=0.0213)
    agent.happen(Condensed(made, of.begins))
    row = agent.log.history("a")[-1]
    shown = block(row)
    event = row.event
    assert shown and isinstance(event, ev.Summarised) and event.before > event.after
    sizes = f"{event.before / 1000:.1f}k → {event.after / 1000:.1f}k"
    assert shown.text == (
        f"Condensed: {of.count} turns, {sizes} tokens, $0.0213. /summary shows it, /undo takes this back."
    )
    agent.happen(Undo())
    shown = block(agent.log.history("a")[-1])
    assert shown and shown.text.startswith("Undone: the summary ")


def test_memory_has_to_begin_as_it_did() -> None:
    def begins(memory: Memory, upto: int) -> object:
        return memory.begins(upto)

    agent = talked(10)
    ends = [turn.end for turn in agent.memory.full.turns]
    before = begins(agent.memory, ends[4])
    agent.turn("more", "of it")
    agent.store((ev.Filtered("forget", "", ((agent.memory.full.turns[7].id, ends[7]),), (), 0, 2),))
    assert begins(agent.memory, ends[4]) == before, "what happens behind it changes nothing"
    agent.store((ev.Filtered("forget", "", (), (agent.memory.full.turns[2].id,), 0, 1),))
    assert begins(agent.memory, ends[4]) != before
    agent.happen(Undo())
    assert begins(agent.memory, ends[4]) == before
    agent.store((ev.Rewound(ends[3]),))
    assert begins(agent.memory, ends[4]) != before


# ── faults of two other programs, as far as they touch this ──


def test_a_figure_that_is_old_never_condenses_twice() -> None:
    """Roo-Code decides by the provider's last figure, which a cut does not change: so it cuts again."""
    agent = talked(70)
    assert decided(agent.memory, AUTO).verdict is Verdict.CONDENSE
    condensed(agent)
    assert decided(agent.memory, AUTO).verdict is Verdict.NOTHING


def test_what_is_still_too_much_beside_a_summary_leaves_as_usual() -> None:
    """Roo-Code makes one pass and does not look whether the result fits; a large message alone it cannot reduce."""
    agent = talked(4, run_of(2_000, max_output=200), length=400)
    condensed(agent, by_hand=True)
    agent.turn("large", "y" * 3_000)
    agent.turn("larger", "z" * 3_500)
    assert agent.memory.summary and agent.memory.window.older.turns and agent.memory.used <= agent.memory.ceiling
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["larger"]
    agent.turn("too large", "x" * 9_000)  # Duragent sends nothing but its notice then
    sent = [message.text for message in request(agent.memory).messages]
    assert sent[0].startswith("[summary") and sent[2].startswith("[conversation truncated") and sent[3] == "too large"


def test_no_call_and_no_result_is_ever_left_alone() -> None:
    """Both count messages, so that a cut falls between a call and its result; here turns are covered whole."""
    agent = Agent(run_of())
    for n in range(8):
        agent.happen(Submitted(f"{n}?"))
        agent.reply(Text("I look."), ToolCall("c", "look"), ToolCall("d", "look"))
        for _ in range(2):
            agent.happen(Approved(agent.job(StartTool)))
            agent.happen(ToolDone(job := agent.job(RunTool), ToolResult(job.call.id, f"seen {n} " * 30)))
        agent.reply(Text("That was it."))
        is_sound(request(agent.memory))
    of = condensed(agent, by_hand=True)
    is_sound(request(agent.memory))
    texts = told(of.turns)
    assert [text.partition("\n")[0] for text in texts[:6]] == [
        "[user]",
        "[assistant]",
        "[assistant calls look]",
        "[assistant calls look]",
        "[result of look]",
        "[result of look]",
    ]


def test_the_beginning_of_the_request_stays_the_same_until_the_next_one() -> None:
    """Duragent's notice stands in the system prompt and changes every turn, so no cache holds."""
    agent = talked(70)
    condensed(agent)
    before = request(agent.memory)
    for n in range(5):
        agent.turn(f"{n}!", "x" * 400)
        now = request(agent.memory)
        assert now.messages[: len(before.messages)] == before.messages and now.system == before.system


def test_a_filter_does_not_reach_into_what_is_condensed() -> None:
    agent = talked(10)
    of = condensed(agent, by_hand=True)
    summary = agent.log.history("a")[-1].id
    with pytest.raises(Refused, match="is a summary"):
        agent.log.load(selecting(agent.run, "a", (Wanted(summary, summary),)))
    with pytest.raises(Refused, match="a summary stands for it"):
        agent.log.load(selecting(agent.run, "a", (Wanted(of.turns[0].id, of.turns[0].id),)))
    assert agent.log.load(turn_of(agent.run, "a", of.turns[0].id)) == of.turns[0].end, "/rewind does"
