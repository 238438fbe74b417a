"""These tests compare the window with a list, and with "the longest run of newest whole turns that fits"."""

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from ikigai.core.events.events import Totals
from ikigai.core.events.messages import Message, Role, Text, ToolCall
from ikigai.core.state.window import NO_TURNS, SentTurns, Turn, Turns, Window, fit_window, overflowing_window

NOTHING = Totals()


MESSAGES: tuple[tuple[Message, ...], ...] = (
    (),
    (Message(Role.USER, (Text("?"),)), Message(Role.ASSISTANT, (Text("!"),))),
    (Message(Role.ASSISTANT, (ToolCall("1", "look", "{}"), ToolCall("2", "look", "{}"))),),
)
"""Messages of a turn: none, of words, and of calls."""


def turn(n: int, size: int = 1, before: Totals = NOTHING, previous: Totals = NOTHING) -> Turn:
    return Turn(n, n, MESSAGES[n % 3], size, before, previous, before + Totals(1, 2, size))


def window(sizes: list[int]) -> Window:
    made = Window()
    for n, size in enumerate(sizes):
        made = made.push(turn(n, size, made.total, made.before_newest))
    return made


def notice_size(older: int) -> int:
    """Return 0 for 0, else the bytes of words and digits, as in a real notice."""
    return 20 + len(str(older)) if older else 0


def kept(window: Window) -> list[int]:
    return [turn.id for turn in window.turns]


class TurnsAreValues(RuleBasedStateMachine):
    """Every Turns value stays as it was, whatever is made from it, and however often."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.everything: list[tuple[Turns, list[Turn]]] = []
        self.count = 0

    def remember(self, turns: Turns, model: list[Turn]) -> tuple[Turns, list[Turn]]:
        self.everything.append((turns, model))
        return turns, model

    @rule(target=made, n=st.integers(0, 200))
    def begin(self, n: int) -> tuple[Turns, list[Turn]]:
        model = [turn(i) for i in range(n)]
        return self.remember(Turns(model), model)

    @rule(target=made, value=made, times=st.integers(1, 5))
    def push(self, value: tuple[Turns, list[Turn]], times: int) -> tuple[Turns, list[Turn]]:
        turns, model = value
        for _ in range(times):
            self.count += 1
            turns, model = turns.push(turn(1000 + self.count)), [*model, turn(1000 + self.count)]
        return self.remember(turns, model)

    @rule(target=made, value=made, times=st.integers(1, 150))
    def drop(self, value: tuple[Turns, list[Turn]], times: int) -> tuple[Turns, list[Turn]]:
        turns, model = value
        for _ in range(min(times, len(model))):
            turns, model = turns.without_oldest(), model[1:]
        return self.remember(turns, model)

    @rule(value=made)
    def send(self, value: tuple[Turns, list[Turn]]) -> None:
        turns, model = value
        assert turns.sent == Turns(model).sent

    def teardown(self) -> None:
        for turns, model in self.everything:
            assert turns.sent.messages == tuple(message for each in model for message in each.messages)
            assert turns.sent.call_ids == tuple(call.id for message in turns.sent.messages for call in message.calls)
            assert list(turns) == model and len(turns) == len(model) and bool(turns) is bool(model)
            assert turns == Turns(model) and turns != Turns([*model, turn(0)]) and turns != model
            assert [turns[n] for n in range(-len(model), len(model))] == model + model
            assert list(turns[1:-1]) == model[1:-1] and turns[:] == model
            for outside in (len(model), -len(model) - 1):
                try:
                    turns[outside]
                except IndexError:
                    continue
                raise AssertionError(f"{outside} is outside")


TestTurnsAreValues = TurnsAreValues.TestCase


def test_sent_messages_are_not_kept_up_from_a_memory_that_was_sent_empty() -> None:
    assert NO_TURNS.sent == SentTurns((), ())
    assert NO_TURNS.push(turn(1))._sent is None, "a replay of thousands of turns would copy them at each"


def test_sent_messages_are_not_copied_for_each_turn_that_leaves() -> None:
    turns = Turns([turn(n) for n in range(1_000)])
    sent = turns.sent.messages
    for _ in range(990):
        turns = turns.without_oldest()
        assert turns._sent and turns._sent.messages is sent
    pushed = turns.push(turn(1_000))
    assert turns.sent == Turns([turn(n) for n in range(990, 1_000)]).sent
    assert pushed.sent == Turns([turn(n) for n in range(990, 1_001)]).sent


def test_turns_neither_copy_nor_keep_all_turns_in_a_long_life() -> None:
    turns, copies, longest = Turns(), 0, 0
    for n in range(20_000):
        shared = turns._shared
        turns = turns.push(turn(n))
        copies += turns._shared is not shared
        longest = max(longest, len(turns._shared))
        if len(turns) > 50:
            turns = turns.without_oldest()
    assert [t.id for t in turns] == list(range(19_950, 20_000))
    assert longest < 300 and copies < 300


sizes = st.lists(st.integers(1, 60), max_size=12)
allowed = st.integers(-10, 300)


@given(sizes, allowed, st.integers(0, 1))
@example([30, 30], 60, 1)
@example([1, 60], 60, 1)  # with the notice nothing fits: the newest stays
def test_window_is_the_longest_run_of_newest_turns_that_fits(sizes: list[int], allowed: int, least: int) -> None:
    runs = [list(range(first, len(sizes))) for first in range(len(sizes) + 1)]
    taken = {len(run): sum(sizes[n] for n in run) + notice(len(sizes) - len(run)) for run in runs}
    fitting = [run for run in runs if len(run) >= least and taken[len(run)] <= allowed]
    shortest = runs[max(len(sizes) - least, 0)]
    found = fit_window(window(sizes), allowed, notice_size, least)
    assert kept(found) == max(fitting, key=len, default=shortest)
    assert found.size == sum(sizes[n] for n in kept(found))
    assert found.older == sum_of(sizes[: len(sizes) - len(kept(found))])
    assert found.total == sum_of(sizes)


def notice(turns: int) -> int:
    return notice_size(2 * turns)


def sum_of(sizes: list[int]) -> Totals:
    return Totals(len(sizes), 2 * len(sizes), sum(sizes))


@given(sizes, allowed)
def test_fitting_after_every_turn_comes_to_the_same_as_once_at_the_end(sizes: list[int], allowed: int) -> None:
    step_by_step = Window()
    for n, size in enumerate(sizes):
        pushed = step_by_step.push(turn(n, size, step_by_step.total, step_by_step.before_newest))
        step_by_step = fit_window(pushed, allowed, notice_size, 1)
    at_once = fit_window(window(sizes), allowed, notice_size, 1)
    assert step_by_step == at_once
    assert fit_window(at_once, allowed, notice_size, 1) == at_once


@given(sizes, allowed, st.integers(1, 120), st.booleans())
@example([10] * 8, 75, 40, False)  # five turns fit, the second of them opens a step
@example([1, 60, 1, 1], 62, 60, False)  # the second turn steps over the boundary: the third opens it
@example([9, 9, 9], 26, 1000, False)  # no turn opens a step: the longest run stays
def test_step_cuts_on_to_the_first_turn_that_opens_one(
    sizes: list[int], allowed: int, step: int, keep_first: bool
) -> None:
    longest = kept(fit_window(window(sizes), allowed, notice_size, 1, keep_first=keep_first))
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    opening = [n for n in longest if n and starts[n] // step != starts[n - 1] // step]
    left = fit_window(window(sizes), allowed, notice_size, 1, keep_first=keep_first).older.turns
    expected = longest[longest.index(opening[0]) :] if left and opening else longest
    found = fit_window(window(sizes), allowed, notice_size, 1, step, keep_first)
    assert kept(found) == expected
    step_by_step = Window()
    for n, size in enumerate(sizes):
        pushed = step_by_step.push(turn(n, size, step_by_step.total, step_by_step.before_newest))
        step_by_step = fit_window(pushed, allowed, notice_size, 1, step, keep_first)
    assert step_by_step == found, "where it is cut does not depend on when"


@given(sizes, allowed)
@example([10, 10, 10], 20)
def test_without_sliding_the_shortest_run_that_overflows_is_kept(sizes: list[int], allowed: int) -> None:
    beyond = [n for n in range(len(sizes)) if sum(sizes[n:]) > allowed]
    expected = list(range(max(beyond, default=0), len(sizes)))
    step_by_step = Window()
    for n, size in enumerate(sizes):
        pushed = step_by_step.push(turn(n, size, step_by_step.total, step_by_step.before_newest))
        step_by_step = overflowing_window(pushed, allowed)
    assert kept(overflowing_window(window(sizes), allowed)) == kept(step_by_step) == expected


def test_totals_outlive_the_turns_that_left() -> None:
    full = window([5, 6, 7])
    one = full.without_oldest().without_oldest()
    none = one.without_oldest()
    for left in (full, one, none):
        assert (left.total, left.before_newest) == (Totals(3, 6, 18), Totals(2, 4, 11))
    assert [left.older for left in (full, one, none)] == [NOTHING, Totals(2, 4, 11), Totals(3, 6, 18)]
    assert [left.size for left in (full, one, none)] == [18, 7, 0]
