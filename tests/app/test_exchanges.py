"""Agents that answer each other within turns under way: how far that goes, and who is told where it ends."""

import pytest

from ikigai.app.agents.exchanges import MAX_ANSWERS
from ikigai.core.agents.mail import Mail
from ikigai.core.events.events import MailSent
from ikigai.core.state.inputs import Submitted
from tests.app.house import House, call

MANY = MAX_ANSWERS + 4


def answering(other: str, first: bool) -> list[list[dict]]:
    """The replies of an agent that sends and waits, or waits and sends, within one turn."""
    pair = [call("send", agent=other, text="Yes?"), call("wait")]
    return [pair if first else pair[::-1]] * MANY


async def numbers(house: House, *names: str) -> list[int]:
    """Of the messages that these have sent within their turns."""
    found = [row.event for name in names for row in await house.history(name)]
    return sorted(event.answers for event in found if isinstance(event, MailSent) and not event.ending)


async def test_two_that_answer_each_other_within_single_turns_are_stopped(house: House) -> None:
    kid = house.script("kid", *answering("boss", True), "Enough.")
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=kid)], *answering("kid", False), "Over.", *["So."] * 9
    )
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert await numbers(house, "kid") == list(range(0, MAX_ANSWERS, 2))
    assert [n for n in await numbers(house, "boss") if n] == list(range(1, MAX_ANSWERS, 2))
    told = await house.results("kid")
    assert any(f"Not sent to boss: the last {MAX_ANSWERS} messages only answered one another" in text for text in told)
    assert any("No more of them are answered" in text for text in told), "whoever waits for one more is told"
    ((notice, _),) = boss.view._notices
    assert "kid sends nothing more to boss in its turn. Send a message here, or /send kid TEXT." in notice


async def test_ring_of_three_within_single_turns_is_stopped(house: House) -> None:
    ring = {"one": "two", "two": "three", "three": "one"}

    def model(name: str) -> str:
        return house.script(name, *answering(ring[name], name == "one"), *["Enough."] * 40)

    forks = [call("fork", prompt="?", name=name, model=model(name)) for name in ("three", "two", "one")]
    boss = await house.member("boss", forks, [call("wait", agents=list(ring))], "Over.", *["So."] * 40)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert max(await numbers(house, *ring)) == MAX_ANSWERS - 1
    refused = [text for name in ring for text in await house.results(name) if "Not sent to " in text]
    assert refused and any("only answered one another" in notice for notice, _ in boss.view._notices)


async def test_work_that_is_given_and_done_is_no_exchange(house: House) -> None:
    """However often, and whoever is asked something in between."""
    ask = [call("send", agent="boss", text="Which?"), call("wait")]
    kid = house.script("kid", "Ready.", *[ask, "Done."] * MANY)
    give = [call("send", agent="kid", text="Do this."), call("wait"), call("send", agent="kid", text="That.")]
    fork = [call("fork", prompt="?", name="kid", model=kid), call("wait", agents=["kid"])]
    boss = await house.member("boss", fork, *[[*give, call("wait", agents=["kid"])]] * MANY, "All done.")
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    results = await house.results("boss")
    assert [text for text in results if "turn completed" in text][1:] == ["[kid, turn completed]\nDone."] * MANY
    assert boss.view.words == "All done." and not boss.view._notices


@pytest.mark.parametrize("to", ["boss", "kid"])
async def test_word_of_the_user_lets_an_exchange_go_on(house: House, to: str) -> None:
    boss = await house.member("boss", "Hello.")
    kid = await house.member("kid", "Hello.")
    post = house.manager.mailbox
    post._makers[kid.agent.id] = boss.agent.id
    post.claim(kid.agent.id, [Mail(1, boss.agent.id, "boss", "?", answers=MAX_ANSWERS - 1)])
    post.refuse_answer(kid, "boss")
    assert post.exchanges.next(kid.agent.id) == MAX_ANSWERS and post.is_held(kid.agent.id)
    (house.manager.find(to) or kid).agent_loop.put_input(Submitted("Go on."))
    await house.rested()
    assert post.exchanges.next(kid.agent.id) == 0 and not post.is_held(kid.agent.id)
