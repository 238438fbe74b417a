"""Calls that wait: who only waits, and that those who wait for each other find that out without asking for ever."""

import asyncio

from ikigai.app.agents.waiting_calls import WaitingCalls


class Waiter:
    """An agent whose call looks until all others also only wait, or it is told to stop; `looks` says how often."""

    def __init__(self, calls: WaitingCalls, name: str, others: list[str]) -> None:
        self.calls, self.name, self.others = calls, name, others
        self.looks = 0

    async def wait(self) -> None:
        with self.calls.waiting(self.name) as call:
            while True:
                call.look()
                self.looks += 1
                await asyncio.sleep(0)  # as it does while the database answers
                if all(map(self.calls.only_waits, self.others)):
                    return
                await call.settle(20)


async def test_those_who_wait_for_each_other_find_it_out_at_once() -> None:
    calls = WaitingCalls()
    one, two = Waiter(calls, "one", ["two"]), Waiter(calls, "two", ["one"])
    waiting = [asyncio.create_task(each.wait()) for each in (one, two)]
    async with asyncio.timeout(60):
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1, "the other one may hear something now"
    for task in left:
        task.cancel()
    await asyncio.wait(waiting)


async def test_those_who_wait_while_another_one_works_look_again_only_when_something_happens() -> None:
    calls = WaitingCalls()
    waiters = [Waiter(calls, name, ["worker"]) for name in ("one", "two", "three")]
    waiting = [asyncio.create_task(each.wait()) for each in waiters]
    for _ in range(100):
        await asyncio.sleep(0)
    looks = [each.looks for each in waiters]
    assert max(looks) <= 1 + len(waiters), "each time another one has found nothing, and no more"
    calls.wake()
    assert not any(calls.only_waits(each.name) for each in waiters), "each has something to look at"
    for _ in range(100):
        await asyncio.sleep(0)
    assert all(calls.only_waits(each.name) for each in waiters)
    assert all(before < each.looks <= before + 1 + len(waiters) for before, each in zip(looks, waiters, strict=True))
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert not calls.only_waits("one")
