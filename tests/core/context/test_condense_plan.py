"""Condensing without a model: its time, its turns, its requests, and the check of its text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.context.condense_plan import (
    MIN_KEPT_TURNS,
    SummaryScope,
    choose_scope,
    decide_condensing,
    format_turns,
    has_grown,
    join_into_parts,
    load_wider_window,
    part_question,
    reference_tokens,
    summary_defect,
    whole_scope,
)
from ikigai.core.context.condense_threshold import CondenseDecision, CondenseOptions, CondenseVerdict, check_pressure
from ikigai.core.context.forget_selection import EventRange, select_events, turn_of
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, Text, ToolCall, ToolResult
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Approved, Change, Condensed, RunTool, StartTool, Submitted, ToolDone, Undo
from ikigai.core.state.memory import Memory, next_request
from ikigai.core.views.transcript import event_block
from tests.core.agent import Agent
from tests.core.agreement import is_sound
from tests.core.encoders import Chat, encoder
from tests.core.vectors import cases

CONDENSING = "peer_condensing.json"
AUTO = CondenseOptions("auto")


KEEPS_NOTHING = WindowRules(prune_fraction=0)


def run_of(
    context: int = 10_000, budget: int = 10**9, max_output: int = 100, rules: WindowRules = KEEPS_NOTHING
) -> RunConfig:
    given = ModelLimits(context, max_output)
    return RunConfig({"model": "chat/x", "budget": budget}, lambda model: given, encoder, rules=rules)


def talked(turns: int, run: RunConfig | None = None, length: int = 400) -> Agent:
    """Return an agent with so many turns of about a quarter of `length` tokens each."""
    agent = Agent(run or run_of())
    for n in range(turns):
        agent.turn(f"{n}?", "x" * length)
    return agent


def condensed(
    agent: Agent, options: CondenseOptions = AUTO, text: str = "They counted.", by_hand: bool = False
) -> SummaryScope:
    of = choose_scope(agent.memory, agent.memory, options, by_hand)
    assert of
    agent.happen(Condensed(ev.Summarized(text, of.upto, turns=of.count), of.begins))
    assert agent.loaded() == agent.memory
    return of


# ── when ──


@pytest.mark.parametrize("case", cases("context_decision", CONDENSING), ids=lambda case: case["id"])
def test_decision_is_theirs(case: dict[str, Any]) -> None:
    """All of them, with one figure for theirs of the context and of the last message. Where their summary fails they
    fall back in the same step, and try again with every request; here the window does as it would without one, and
    nothing is tried again before there is a tenth more (`test_condensing.py`)."""
    given, theirs = case["input"], case["expected"]
    used = given["total_tokens_excl_last"] + given["last_message_tokens"]
    profile = given["profile_thresholds"].get(given["profile_id"], -1)

    def decision(automatic: bool) -> CondenseDecision:
        return check_pressure(
            used,
            given["context_window"],
            given["max_tokens"],
            threshold=given["global_threshold_percent"],
            profile=profile,
            automatic=automatic,
        )

    found = decision(given["auto_condense"])
    assert used == theirs["prev_context_tokens"]
    assert (found.verdict is CondenseVerdict.CONDENSE) is theirs["condense_attempted"]
    assert (found.verdict is not CondenseVerdict.NOTHING) is theirs["will_manage"]
    if found.verdict is not CondenseVerdict.CONDENSE or given.get("condense_succeeds"):
        assert found.verdict == {"truncate": "prune", "none": "nothing"}.get(theirs["outcome"], theirs["outcome"])
    else:
        assert decision(False).verdict == {"truncate": "prune", "none": "nothing"}[theirs["outcome"]]


@pytest.mark.parametrize(
    ("profile", "threshold", "warned"),
    [(-1, 80, False), (5, 5, False), (100, 100, False), (0, 80, True), (4, 80, True), (101, 80, True), (-2, 80, True)],
)
def test_profile_has_a_threshold_of_its_own_or_is_warned_of(profile: int, threshold: int, warned: bool) -> None:
    found = check_pressure(0, 100_000, 8_000, threshold=80, profile=profile)
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
def test_smaller_of_context_and_budget_counts(used: int, budget: int, automatic: bool, verdict: str) -> None:
    found = check_pressure(used, 200_000, 8_000, threshold=75, automatic=automatic, budget=budget)
    assert found.verdict == verdict


def test_same_of_a_memory_with_what_has_left_its_window() -> None:
    agent = talked(10, run_of(budget=2_000))
    assert decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.NOTHING
    for n in range(5):
        agent.turn(f"{n}!", "x" * 400)
    assert agent.memory.used < 2_000 and decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.CONDENSE
    assert decide_condensing(agent.memory, CondenseOptions("manual")).verdict is CondenseVerdict.NOTHING
    for n in range(10):
        agent.turn(f"{n}!", "x" * 400)
    assert agent.memory.window.older.turns and decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.CONDENSE
    assert decide_condensing(agent.memory, CondenseOptions("manual")).verdict is CondenseVerdict.PRUNE


def test_small_context_that_pruning_keeps_below_the_threshold_is_condensed_all_the_same() -> None:
    """A reply may take a quarter: then the room ends at 65 %, and 75 % of the context is never sent."""
    agent = talked(4, run_of(1_000, max_output=1_000))
    assert agent.memory.used < 750 and not agent.memory.window.older.turns
    while not agent.memory.window.older.turns:
        assert decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.NOTHING
        agent.turn("?", "x" * 400)
    assert agent.memory.used < 750 and decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.CONDENSE


# ── what ──


def test_oldest_turns_are_covered_down_to_the_target() -> None:
    agent = talked(70)
    before = agent.memory
    of = condensed(agent)
    assert [turn.id for turn in of.turns] == [turn.id for turn in before.full_window.turns][: len(of.turns)]
    assert (
        0.33 * reference_tokens(before) < agent.memory.used < 0.4 * reference_tokens(before)
        and not agent.memory.window.older.turns
    )
    sent = next_request(agent.memory).messages
    assert sent[0].text == (
        f"[summary of the earlier conversation, {len(of.turns)} turns that are no longer shown]\n\nThey counted.\n\n"
        "[end of the summary]"
    )
    assert sent[1].text == "[noted]" and sent[2].text == f"{len(of.turns)}?" and sent[-1].text == "x" * 400


def test_newest_two_turns_stay_whatever_they_take() -> None:
    agent = talked(3, length=9_000)
    of = condensed(agent)
    assert len(of.turns) == 1 and len(agent.memory.full_window.turns) == MIN_KEPT_TURNS
    assert choose_scope(agent.memory, agent.memory, AUTO, True) is None
    assert choose_scope(talked(2, length=9_000).memory, talked(2, length=9_000).memory, AUTO, True) is None


def test_message_just_sent_is_never_part_of_it() -> None:
    """Their program replaces even the newest message by the summary."""
    agent = talked(60)
    agent.happen(Submitted("And now this."))
    of = choose_scope(agent.memory, agent.memory, AUTO, False)
    assert of and agent.memory.open and of.upto < agent.memory.open.first
    agent.reply(Text("Done."))
    agent.happen(Condensed(ev.Summarized("It was.", of.upto, turns=of.count), of.begins))
    assert [message.text for message in next_request(agent.memory).messages[-2:]] == ["And now this.", "Done."]


def test_by_hand_something_happens_in_an_emptier_context_too() -> None:
    agent = talked(10)
    assert choose_scope(agent.memory, agent.memory, AUTO, by_hand=False) is None
    used = agent.memory.used
    condensed(agent, by_hand=True)
    assert agent.memory.used < 0.5 * used


def test_target_above_the_threshold_is_half_of_that() -> None:
    """Otherwise it would begin again behind every turn."""
    agent = talked(70)
    condensed(agent, CondenseOptions("auto", at_percent=40, to_percent=40))
    assert agent.memory.used < 0.2 * reference_tokens(agent.memory)


def test_what_has_left_the_window_is_looked_into_and_what_is_older_is_said() -> None:
    agent = talked(100, run_of(budget=2_000, rules=WindowRules(0.5, keep_first_turn=True)))
    memory, ceiling = agent.memory, agent.memory.ceiling
    wide = agent.log.load(load_wider_window(agent.run, "a", 2 * ceiling))
    assert len(memory.window.turns) < len(wide.window.turns) < 100 and not wide.window.first
    of = choose_scope(memory, wide, AUTO, False)
    assert of and of.count == of.unseen + len(of.turns) and of.unseen == 100 - len(wide.window.turns)
    agent.happen(Condensed(ev.Summarized("It was.", of.upto, turns=of.count, unseen=of.unseen), of.begins))
    assert agent.loaded() == agent.memory and not agent.memory.window.older.turns
    assert agent.memory.used <= 0.4 * 2_000 and agent.memory.full_window.turns[0].id > of.upto
    assert ceiling == agent.memory.ceiling


def test_earlier_summary_goes_into_the_next_one() -> None:
    agent = talked(70)
    first = condensed(agent, text="First.")
    for n in range(40):
        agent.turn(f"{n}!", "x" * 400)
    again = condensed(agent, text="First and second.")
    assert again.earlier and again.earlier.text == "First." and again.count == first.count + len(again.turns)
    assert again.replaced > sum(turn.size for turn in again.turns), "it leaves as well"
    assert [message.text for message in next_request(agent.memory).messages].count("[noted]") == 1


def test_condensing_after_the_window_has_pruned_frees_what_it_says() -> None:
    """Their program counts hidden messages as if they were sent: two rounds free nothing, and a third hides the
    summary. Here turns leave by their own size, the figures describe the real request, and the summary stays.
    """
    (case,) = cases("truncate_after_condense", CONDENSING)
    agent = talked(case["input"]["messages_before_condense"] // 2, run_of(100_000))
    condensed(agent, by_hand=True)
    for n in range(case["input"]["messages_after_summary"] // 2):
        agent.turn(f"p{n}", "y" * 400)
    before = agent.memory
    for _ in case["expected"]["rounds"]:
        agent.happen(Change({"budget": agent.memory.used - 1}))
        turns = agent.memory.window.turns
        assert agent.memory.summary == before.summary and next_request(agent.memory).messages[0].text.startswith(
            "[summary"
        )
        if len(turns) == 1:
            break
        assert len(turns) < len(before.window.turns) and agent.memory.used < before.used
        before = agent.memory


def test_size_after_it_is_that_of_what_is_sent() -> None:
    """They report 8,610 tokens of 610 real ones."""
    (case,) = cases("tokens_after_truncation_with_condensed_history", CONDENSING)
    assert case["expected"]["reported"] > 10 * case["expected"]["actual_effective_incl_system"]
    agent = talked(10, run_of(100_000), length=4_000)
    of = choose_scope(agent.memory, agent.memory, AUTO, by_hand=True)
    assert of
    (event,) = agent.happen(Condensed(ev.Summarized("It was.", of.upto, turns=of.count), of.begins))
    assert isinstance(event, ev.Summarized)
    sent = Chat().weight(next_request(agent.memory))
    assert agent.memory.size == sent and event.after == agent.memory.used == -(-sent // 4) < event.before


def test_what_is_cleared_can_be_summarised_whole() -> None:
    agent = talked(4)
    condensed(agent, by_hand=True, text="Earlier.")
    of = whole_scope(agent.memory)
    assert (
        of
        and of.count == 4
        and of.earlier
        and [turn.id for turn in agent.memory.full_window.turns] == [turn.id for turn in of.turns]
    )
    assert whole_scope(Agent().memory) is None


def test_it_is_tried_again_when_a_tenth_of_the_window_has_been_said() -> None:
    agent = talked(40)
    since = agent.memory
    for n in range(5):
        assert not has_grown(since, agent.memory)
        agent.turn(f"{n}!", "x" * 400)
    assert has_grown(since, agent.memory)
    full = talked(40, run_of(budget=2_000))  # a full window grows no more, and yet more is said
    since = full.memory
    full.turn("?", "x" * 400)
    assert not has_grown(since, full.memory)
    full.turn("?", "x" * 400)
    assert full.memory.used <= since.used + 100 and has_grown(since, full.memory)


# ── what a model is shown ──


def test_messages_as_text() -> None:
    agent = Agent(run_of())
    agent.happen(Submitted("Look at it.", (Image("image/png", "iVBO", 2, 1, "fox.png"),)))
    agent.reply(Text("I look."), ToolCall("c1", "look", '{"at":"fox"}', malformed=""))
    agent.memory = agent.loaded()
    assert format_turns(agent.memory.full_window.turns) == []
    agent = talked(1, length=3)
    assert format_turns(agent.memory.full_window.turns) == ["[user]\n0?", "[assistant]\nxxx"]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=300), max_size=12), st.integers(24, 400))
def test_parts_hold_everything_and_fit(texts: list[str], most: int) -> None:
    found = join_into_parts(texts, most)
    assert "".join(found).replace("\n", "") == "".join(texts).replace("\n", "")
    assert all(len(json.dumps(each, ensure_ascii=False).encode()) <= max(most, 24) + 12 for each in found)


def test_question_says_what_to_keep_in_mind_and_how_long_it_may_be() -> None:
    asked = part_question("[user]\nHello.", "They met.", "the paths", 1_000)
    assert asked.startswith("The summary so far:\n\nThey met.\n\nThe conversation:\n\n[user]\nHello.\n\n")
    assert "keep in mind above all: the paths" in asked and asked.endswith("at most 600 words, and nothing else.")
    assert "follows later" not in asked and "follows later" in part_question("x", "", "", 1_000, last=False)


# ── which text will do ──


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "returned no text"),
        (" \n", "returned no text"),
        ("x" * 5_000, "not shorter by a quarter"),
        ("Kurz: 数えた。", ""),
    ],
)
def test_text_has_to_be_shorter_by_a_quarter(text: str, why: str) -> None:
    agent = talked(12)
    of = choose_scope(agent.memory, agent.memory, AUTO, by_hand=True)
    assert of and 2_000 < of.replaced < 6_600
    assert (why in summary_defect(agent.memory, text, of)) if why else summary_defect(agent.memory, text, of) == ""


def test_figures_are_told_in_one_line() -> None:
    agent = talked(70)
    of = choose_scope(agent.memory, agent.memory, AUTO, False)
    assert of
    made = ev.Summarized("They counted.", of.upto, turns=of.count, model="chat/x", cost=0.0213)
    agent.happen(Condensed(made, of.begins))
    row = agent.log.history("a")[-1]
    shown = event_block(row)
    event = row.event
    assert shown and isinstance(event, ev.Summarized) and event.before > event.after
    sizes = f"{event.before / 1000:.1f}k → {event.after / 1000:.1f}k"
    assert shown.text == (f"Condensed: {of.count} turns, {sizes} tokens, $0.0213. /summary shows it, /undo undoes it.")
    agent.happen(Undo())
    shown = event_block(agent.log.history("a")[-1])
    assert shown and shown.text.startswith("Undid the condense.")


def test_memory_has_to_begin_as_it_did() -> None:
    def begins(memory: Memory, upto: int) -> object:
        return memory.start_up_to(upto)

    agent = talked(10)
    ends = [turn.end for turn in agent.memory.full_window.turns]
    before = begins(agent.memory, ends[4])
    agent.turn("more", "of it")
    agent.store((ev.Filtered("forget", "", ((agent.memory.full_window.turns[7].id, ends[7]),), (), 0, 2),))
    assert begins(agent.memory, ends[4]) == before, "what happens behind it changes nothing"
    agent.store((ev.Filtered("forget", "", (), (agent.memory.full_window.turns[2].id,), 0, 1),))
    assert begins(agent.memory, ends[4]) != before
    agent.happen(Undo())
    assert begins(agent.memory, ends[4]) == before
    agent.store((ev.Rewound(ends[3]),))
    assert begins(agent.memory, ends[4]) != before


# ── faults of two other programs, as far as they touch this ──


def test_figure_that_is_old_never_condenses_twice() -> None:
    """Roo-Code decides by the provider's last figure, which a cut does not change: so it cuts again."""
    agent = talked(70)
    assert decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.CONDENSE
    condensed(agent)
    assert decide_condensing(agent.memory, AUTO).verdict is CondenseVerdict.NOTHING


def test_what_is_still_too_much_beside_a_summary_leaves_as_usual() -> None:
    """Roo-Code makes one pass and does not look whether the result fits; a large message alone it cannot reduce."""
    agent = talked(4, run_of(2_000, max_output=200), length=400)
    condensed(agent, by_hand=True)
    agent.turn("large", "y" * 3_000)
    agent.turn("larger", "z" * 3_500)
    assert agent.memory.summary and agent.memory.window.older.turns and agent.memory.used <= agent.memory.ceiling
    assert [turn.messages[0].text for turn in agent.memory.window.turns] == ["larger"]
    agent.turn("too large", "x" * 9_000)  # Duragent sends nothing but its notice then
    sent = [message.text for message in next_request(agent.memory).messages]
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
        is_sound(next_request(agent.memory))
    of = condensed(agent, by_hand=True)
    is_sound(next_request(agent.memory))
    texts = format_turns(of.turns)
    assert [text.partition("\n")[0] for text in texts[:6]] == [
        "[user]",
        "[assistant]",
        "[assistant calls look]",
        "[assistant calls look]",
        "[result of look]",
        "[result of look]",
    ]


def test_beginning_of_the_request_stays_the_same_until_the_next_one() -> None:
    """Duragent's notice stands in the system prompt and changes every turn, so no cache holds."""
    agent = talked(70)
    condensed(agent)
    before = next_request(agent.memory)
    for n in range(5):
        agent.turn(f"{n}!", "x" * 400)
        now = next_request(agent.memory)
        assert now.messages[: len(before.messages)] == before.messages and now.system == before.system


def test_filter_does_not_reach_into_what_is_condensed() -> None:
    agent = talked(10)
    of = condensed(agent, by_hand=True)
    summary = agent.log.history("a")[-1].id
    with pytest.raises(Rejected, match="is a summary"):
        agent.log.load(select_events(agent.run, "a", (EventRange(summary, summary),)))
    with pytest.raises(Rejected, match="a summary stands for it"):
        agent.log.load(select_events(agent.run, "a", (EventRange(of.turns[0].id, of.turns[0].id),)))
    assert agent.log.load(turn_of(agent.run, "a", of.turns[0].id)) == of.turns[0].end, "/rewind does"
