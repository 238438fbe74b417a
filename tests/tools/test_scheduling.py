"""Calls of a turn run side by side or in order, and none waits for ever."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ikigai.tools.base import Effect, EffectKind
from ikigai.tools.scheduling import CallSchedule

PATHS = ("/w/a", "/w/b", "/w", "/w/a/deep")


class Call:
    """Call of a test: its preview takes `looks` steps, then it runs for `steps`, unless it is denied or stopped.

    `fate` is "runs", "fails" (the preview raises), "denied", or "cancelled" (while it waits, previews, or runs).
    """

    def __init__(
        self,
        kind: EffectKind,
        paths: Sequence[str] = (),
        steps: int = 1,
        fate: str = "runs",
        looks: int = 0,
        agents: bool = False,
    ) -> None:
        self.effect = Effect(kind, "", paths=tuple(paths), agents=agents)
        self.steps, self.fate, self.looks = steps, fate, looks

    def __repr__(self) -> str:
        return f"{self.effect.kind}{self.effect.paths}×{self.looks}+{self.steps} {self.fate}"


async def played(calls: Sequence[Call]) -> list[tuple[str, int]]:
    """Return begins and ends of the calls, in order. Raise TimeoutError if calls wait for one another for ever."""
    schedule, seen = CallSchedule(), list[tuple[str, int]]()

    async def steps(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    async def one(number: int, call: Call) -> None:
        with schedule.enter(1, str(number)) as slot:
            await slot.wait_for_commands()
            await steps(call.looks)
            if call.fate == "fails":
                return
            await slot.wait_for_conflicts(call.effect)
            slot.is_running = call.fate != "denied"
        if not slot.is_running:
            return
        try:
            seen.append(("begins", number))
            await steps(call.steps)
        finally:
            seen.append(("ends", number))
            schedule.leave(str(number))

    tasks = [asyncio.create_task(one(number, call)) for number, call in enumerate(calls)]

    async def cancel(number: int, call: Call) -> None:
        await steps(call.steps + call.looks)
        tasks[number].cancel()
        await asyncio.wait([tasks[number]])
        schedule.leave(str(number))  # as the registry does when a call ends, however it does

    stops = [cancel(number, call) for number, call in enumerate(calls) if call.fate == "cancelled"]
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks, *stops, return_exceptions=True)
    return seen


def read(*paths: str, **more: object) -> Call:
    return Call(EffectKind.READ, paths or ("/w/a",), **more)  # type: ignore[arg-type]


def edit(*paths: str, **more: object) -> Call:
    return Call(EffectKind.EDIT, paths or ("/w/a",), **more)  # type: ignore[arg-type]


def command(**more: object) -> Call:
    return Call(EffectKind.RUN, **more)  # type: ignore[arg-type]


def together(seen: list[tuple[str, int]], one: int, other: int) -> bool:
    """Return True if two calls ran at the same time."""
    spans = {number: (seen.index(("begins", number)), seen.index(("ends", number))) for number in (one, other)}
    return spans[one][0] < spans[other][1] and spans[other][0] < spans[one][1]


async def test_readers_run_side_by_side():
    seen = await played([read(steps=20), read(steps=20), read("/w/b", steps=20)])
    assert together(seen, 0, 1) and together(seen, 1, 2)


async def test_writers_of_one_path_run_in_order_and_others_beside_them():
    seen = await played([edit(steps=20), edit("/w/b", steps=20), edit(), read(), read("/w/b/c")])
    assert together(seen, 0, 1) and not together(seen, 0, 2)
    begun = [number for what, number in seen if what == "begins"]
    assert [number for number in begun if number in (0, 2, 3)] == [0, 2, 3]
    assert seen.index(("ends", 1)) < seen.index(("begins", 4))


async def test_path_below_another_one_is_the_same_for_the_order():
    for first, second in ((edit("/w"), read("/w/a")), (read("/w"), edit("/w/a")), (edit("/w/a"), read("/"))):
        first.steps = 20
        assert not together(await played([first, second]), 0, 1)
    beside = await played([edit("/w/a", steps=20), edit("/w/ab", steps=20)])
    assert together(beside, 0, 1)


async def test_command_runs_alone():
    seen = await played([read(steps=20), command(steps=20), read(steps=1), edit("/w/b"), command()])
    assert seen[:6] == [("begins", 0), ("ends", 0), ("begins", 1), ("ends", 1), *seen[4:6]]
    assert together(seen, 2, 3)
    assert seen[-2:] == [("begins", 4), ("ends", 4)]


async def test_call_without_effect_waits_only_for_an_earlier_command():
    seen = await played([Call(EffectKind.NOTHING, steps=20), command(), edit()])
    assert seen.index(("begins", 1)) < seen.index(("ends", 0))


async def test_calls_about_other_agents_run_in_order_and_beside_everything_else():
    seen = await played([Call(EffectKind.NOTHING, agents=True, steps=20 - n) for n in range(3)] + [read(steps=60)])
    assert [number for what, number in seen if what == "ends"] == [0, 1, 2, 3]
    assert not together(seen, 0, 1) and not together(seen, 1, 2)
    assert all(together(seen, number, 3) for number in range(3))


async def test_call_behind_another_one_says_that_it_waited():
    schedule = CallSchedule()
    with schedule.enter(1, "a") as first:
        await first.wait_for_conflicts(edit().effect)
        first.is_running = True
    with schedule.enter(1, "b") as second:
        waiting = asyncio.create_task(second.wait_for_conflicts(edit().effect))
        await asyncio.sleep(0)
        assert not waiting.done()
        schedule.leave("a")
        await waiting
        assert second.has_waited and not first.has_waited
    with schedule.enter(2, "c") as third:  # another turn
        await third.wait_for_commands()
        await third.wait_for_conflicts(command().effect)
        assert not third.has_waited


CALLS = st.lists(
    st.builds(
        Call,
        st.sampled_from(EffectKind),
        st.lists(st.sampled_from(PATHS), min_size=1, max_size=2),
        st.integers(0, 6),
        st.sampled_from(("runs", "runs", "denied", "fails", "cancelled")),
        st.integers(0, 6),
        st.booleans(),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(CALLS)
def test_every_call_gets_its_turn_and_no_two_conflict(calls: list[Call]):
    seen = asyncio.run(played(calls))
    began, ended = ({number for what, number in seen if what == kind} for kind in ("begins", "ends"))
    assert began == ended >= {number for number, call in enumerate(calls) if call.fate == "runs"}
    running = dict[int, Effect]()
    for what, number in seen:
        if what == "ends":
            del running[number]
            continue
        effect = calls[number].effect
        assert not any(clash(other, effect) for other in running.values()), (calls, seen)
        running[number] = effect
    order = [number for what, number in seen if what == "begins"]
    for one, other in pairwise(order):
        if clash(calls[one].effect, calls[other].effect):
            assert one < other, "conflicting calls run in the order in which they were made"


def clash(a: Effect, b: Effect) -> bool:
    """Return True if two calls conflict: a command alone, writers of one path in order, calls about agents in order.

    It is written from the rule, independently of the product.
    """
    kinds = {a.kind, b.kind}
    if a.agents and b.agents:
        return True
    if EffectKind.NOTHING in kinds:
        return False
    if EffectKind.RUN in kinds:
        return True
    meet = any((one + "/").startswith(other + "/") or (other + "/").startswith(one + "/")
               for one in a.paths for other in b.paths)  # fmt: skip
    return EffectKind.EDIT in kinds and meet
