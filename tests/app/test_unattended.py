"""Turns that agents begin without the user: what the user asked for goes through, chains without a word come to rest.

Where mail is held, models are told, and the user where they look.
"""

from collections import Counter

import pytest

from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.app.agents.agent_tree import list_agents
from ikigai.app.agents.mailbox import MAX_UNATTENDED_TURNS
from ikigai.core.events.events import MailSent
from ikigai.core.state.inputs import Change, Send, Submitted
from tests.app.house import House, call, delivered, until

MANY = MAX_UNATTENDED_TURNS + 3


def pairs(name: str, number: int) -> list[list[dict]]:
    """Replies that give work and wait for it, both at once."""
    return [[call("send", agent=name, text=f"Task {n}."), call("wait", agents=[name])] for n in range(number)]


def answers(number: int) -> list[str]:
    return [f"Answer {n}." for n in range(number)]


async def test_worker_answers_whatever_its_parent_gives_it_in_a_turn_of_the_users(house: House) -> None:
    kid = house.script("kid", "Ready.", *answers(MANY))
    fork = [call("fork", prompt="?", name="kid", model=kid), call("wait", agents=["kid"])]
    boss = await house.member("boss", fork, *pairs("kid", MANY), "All done.")
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    waited = (await house.results("boss"))[1::2]
    assert waited == [f"[kid, turn completed]\n{said}" for said in ["Ready.", *answers(MANY)]]
    assert boss.view.words == "All done." and not house.manager.mailbox.held


async def test_so_does_one_that_works_for_a_worker(house: House) -> None:
    leaf = house.script("leaf", "Ready.", *answers(MANY))
    fork = [call("fork", prompt="?", name="leaf", model=leaf), call("wait", agents=["leaf"])]
    kid = house.script("kid", fork, *pairs("leaf", MANY), "All done.")
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=kid), call("wait", agents=["kid"])], "Good."
    )
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert (await house.results("boss"))[1] == "[kid, turn completed]\nAll done."
    assert (await house.results("kid"))[-1] == f"[leaf, turn completed]\nAnswer {MANY - 1}."


async def test_answers_to_what_the_user_asked_for_all_begin_turns(house: House) -> None:
    names = [f"kid{n}" for n in range(8)]

    def slow(n: int) -> list[dict | str]:
        return [{"do": "pause", "seconds": 0.05 * n}, "Done."]

    forks = [call("fork", prompt="?", name=name, model=house.script(name, slow(n), slow(8))) for n, name in
             enumerate(names)]  # fmt: skip
    sends = [call("send", agent=name, text="More.") for name in names]
    boss = await house.member("boss", [*forks, *sends], "Started.", *["So."] * 40)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    heard = "".join(await house.heard("boss"))
    assert heard.count("Done.") == 2 * len(names) and not house.manager.mailbox.held
    assert set((await delivered(house.database)).values()) == {1}


async def test_three_that_send_to_each_other_in_a_ring_come_to_rest(house: House) -> None:
    ring = {"one": "two", "two": "three", "three": "one"}

    def model(name: str) -> str:
        return house.script(name, *[[call("send", agent=ring[name], text="Go.")], "Sent."] * 60)

    forks = [call("fork", prompt="?", name=name, model=model(name)) for name in ring]
    boss = await house.member("boss", forks, "Started.", *["So."] * 100)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    for name in ring:
        begun = [text for text in await house.heard(name) if not text.startswith("boss")]
        assert len(begun) <= MAX_UNATTENDED_TURNS
    assert set(ring) & {agent.name for agent in [m.agent for m in house.all] if agent.id in house.manager.mailbox.held}


@pytest.mark.ordinary("True")
@pytest.mark.parametrize("waits", [False, True])
async def test_worker_that_writes_to_itself_through_its_parent_comes_to_rest(house: House, waits: bool) -> None:
    """With its turns, or in a single turn that waits for each answer."""
    send, wait = call("send", agent="boss", text="And now?"), call("wait", agents=["boss"])
    kid = house.script("kid", *([[send, wait]] if waits else [[send], "Sent."]) * 20)
    back = [[call("send", agent="kid", text="Go on.")], "Sent."] * 40
    boss = await house.member("boss", [call("fork", prompt="?", name="kid", model=kid)], "Started.", *back)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    begun = Counter(text.partition(":")[0] for text in await house.heard("boss"))
    assert begun[""] == 1 and MAX_UNATTENDED_TURNS <= begun["kid"] <= MAX_UNATTENDED_TURNS + 2
    told = [text for text in await house.results("kid") if "boss is held" in text]
    assert not waits or "Tell the user" in told[0], "whoever waits for that is told"


async def test_turn_that_an_answer_began_gives_no_work_without_end(house: House) -> None:
    """Neither with its turns nor in a single one that waits."""
    kid = house.script("kid", *["Done."] * 60)
    fork = [call("fork", prompt="?", name="kid", model=kid)]
    boss = await house.member("boss", fork, "Started.", *pairs("kid", MANY), "Enough.", *["So."] * 9)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert len(await house.heard("kid")) == 1 + MAX_UNATTENDED_TURNS
    *_, sent, waited = (await house.results("boss"))[: 1 + 2 * (MAX_UNATTENDED_TURNS + 2)]
    for told in (sent, waited):
        assert "What was sent to kid is held" in told and "Tell the user" in told
    assert sent.startswith("Sent to kid.") and waited.startswith("Idle, and nothing new from: kid.")


async def held(house: House) -> OpenAgent:
    """A worker for which mail is held, after a talk that its parent goes on with by itself."""
    kid = house.script("kid", *["Pong."] * 60)
    fork = [call("fork", prompt="?", name="kid", model=kid)]
    boss = await house.member("boss", fork, *["Started."], *[[call("send", agent="kid", text="Ping.")], "Sent."] * 60)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    found = house.manager.find("kid")
    assert found and found.agent.id in house.manager.mailbox.held
    return found


async def heard(house: House, name: str, number: int) -> None:
    """Until the agent has begun so many turns, and all rest."""

    async def begun() -> bool:
        return len(await house.heard(name)) >= number

    await until(begun)
    await house.rested()


async def test_user_is_told_of_held_mail_by_the_parent_and_in_the_tree(house: House) -> None:
    kid = await held(house)
    boss = house.manager.find("boss")
    assert boss
    ((told, _),) = boss.view._notices
    assert "What boss sent to it is held: send a message here, or /send kid TEXT." in told
    assert [line.state for line in await list_agents(house.database, house.manager)] == ["done", "held"]
    ((own, _),) = kid.view._notices
    assert "What boss sent is held: send a message here" in own


@pytest.mark.parametrize("to", ["kid", "boss"])
async def test_word_of_the_users_to_the_agent_or_above_it_lets_held_mail_come(house: House, to: str) -> None:
    kid, boss = await held(house), house.manager.find("boss")
    assert boss
    begun = len(await house.heard("kid"))
    if to == "kid":
        boss.agent_loop.put_input(Send(MailSent(kid.agent.id, "Go on.", by_user=True)))
    else:
        boss.agent_loop.put_input(Submitted("Go on."))
    await heard(house, "kid", begun + 2)
    assert (await house.heard("kid"))[begun] == "boss: Ping.", "what was held comes first"
    await delivered(house.database)


async def test_work_of_the_users_turn_goes_through_where_other_mail_was_held(house: House) -> None:
    kid = await held(house)
    boss = house.manager.find("boss")
    assert boss
    asked = [call("send", agent="kid", text="For the user."), call("wait", agents=["kid"])]
    boss.agent_loop.put_input(Change({"model": house.script("again", asked, "Good.", *["So."] * 9)}))
    house.manager.mailbox._unattended[kid.agent.id] = (
        MAX_UNATTENDED_TURNS  # as if others had gone on with it within the turn
    )
    boss.agent_loop.put_input(Submitted("Once more."))
    await house.rested()
    assert "Pong." in (await house.results("boss"))[-1]
    assert "For the user." in (await house.heard("kid"))[-1]


async def test_word_of_the_users_that_a_call_waits_for_lets_held_mail_come(house: House) -> None:
    kid, slow = house.script("kid", *["Pong."] * 60), house.script("slow", [{"do": "hang"}])
    fork = [call("fork", prompt="?", name="kid", model=kid)]
    waits = [[call("fork", prompt="?", name="slow", model=slow)], [call("wait", seconds=20)], "Heard.", *["So."] * 9]
    boss = await house.member("boss", fork, "Started.", *pairs("kid", MAX_UNATTENDED_TURNS + 2), *waits)
    boss.agent_loop.put_input(Submitted("Do it."))
    await until(lambda: house.manager.find("slow") is not None and bool(house.manager.mailbox.calls._calls))
    member = house.manager.find("kid")
    assert member
    house.manager.mailbox.held[member.agent.id], house.manager.mailbox._unattended[member.agent.id] = (
        "held",
        MAX_UNATTENDED_TURNS,
    )
    other = await house.member("other")
    other.agent_loop.put_input(Send(MailSent(boss.agent.id, "Go on.", by_user=True)))
    await until(lambda: member.agent.id not in house.manager.mailbox.held)
    assert house.manager.mailbox._unattended.get(member.agent.id, 0) < MAX_UNATTENDED_TURNS, (
        "what was held may have begun a turn by now"
    )


async def test_agent_that_was_opened_after_all_is_not_told_of_as_closed(house: House) -> None:
    kid = house.script("kid", "Ready.", *["x"] * 9)
    fork = [call("fork", prompt="?", name="kid", model=kid), call("wait", agents=["kid"])]
    again = [call("send", agent="kid", text="T"), call("wait", agents=["kid"])]
    boss = await house.member("boss", fork, "Started.", again, "So.")
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    member = house.manager.find("kid")
    assert member
    await house.manager.unload(member)
    log = await house.database.open_agent(await house.database.agents.find("kid"))  # another program has it
    boss.agent_loop.put_input(Submitted("More."))
    await house.rested()
    assert member.agent.id in house.manager.mailbox.unopened
    await log.close()
    await house.open("kid")
    await house.rested()
    assert not house.manager.mailbox.unopened
