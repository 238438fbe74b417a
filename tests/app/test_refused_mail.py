"""An agent that can begin no turn with its mail: the sender and the user are told, and it hears when it can again."""

from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.app.agents.agent_tree import list_agents
from ikigai.core.events.events import MailSent
from ikigai.core.state.inputs import Change, Send, Submitted
from ikigai.core.state.memory import replace
from tests.app.house import House, call, until

GIVE = [call("send", agent="kid", text="Task."), call("wait", agents=["kid"])]


async def deaf(house: House, *replies: object) -> tuple[OpenAgent, OpenAgent]:
    """A parent that gives work to a worker, which has lost its model meanwhile; both rest."""
    kid = house.script("kid", "Ready.", "Answer.", "Answer.")
    fork = [call("fork", prompt="?", name="kid", model=kid), call("wait", agents=["kid"])]
    boss = await house.member("boss", fork, "Started.", *replies)
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    member = house.manager.find("kid")
    assert member
    without_model(member, "")
    boss.agent_loop.put_input(Submitted("More."))
    await house.rested()
    return boss, member


def without_model(member: OpenAgent, model: str) -> None:
    """As if the run had no model for it; `model` is what it has then."""
    memory = member.agent_loop.memory
    member.agent_loop.memory = replace(memory, settings={**memory.settings, "model": model})


async def test_sender_and_user_are_told_of_mail_that_begins_no_turn(house: House) -> None:
    boss, kid = await deaf(house, GIVE, GIVE, "Over.")
    sent, waited, again, _ = (await house.results("boss"))[2:]
    assert sent == "Sent to kid."
    assert "Idle, and nothing new from: kid." in waited and "cannot start a turn: No model yet." in waited
    assert "cannot start a turn" in again and "Tell the user." in again
    ((told, _),) = boss.view._notices
    assert "What boss sent to kid is held, because it cannot start a turn: No model yet." in told
    ((own, _),) = kid.view._notices
    assert "What boss sent is held: No model yet. /login anthropic" in own
    assert [line.state for line in await list_agents(house.database, house.manager)] == ["done", "held"]
    assert kid not in house.manager._idle_agents(), "it stays open, so that it hears when it can"


async def test_agent_hears_again_when_the_cause_has_passed(house: House) -> None:
    _, kid = await deaf(house, GIVE, "Over.", "Good.")
    kid.agent_loop.put_input(Change({"model": house.script("other", "Answer.")}))

    async def answered() -> bool:
        return any("Answer." in text for text in await house.heard("boss"))

    await until(answered)
    await house.rested()
    assert await house.heard("kid") == ["boss: ?", "boss: Task."]
    assert not house.manager.mailbox.refused and not house.manager.mailbox.is_held(kid.agent.id)
    assert [line.state for line in await list_agents(house.database, house.manager)] == ["done", "done"]


async def test_user_is_told_where_a_word_of_theirs_begins_no_turn(house: House) -> None:
    kid, other = await house.member("kid", "Hello."), await house.member("other", "Hello.")
    await house.rested()
    without_model(kid, "")
    other.agent_loop.put_input(Send(MailSent(kid.agent.id, "Go on.", by_user=True)))
    await until(lambda: kid.agent.id in house.manager.mailbox.refused)
    ((told, _),) = other.view._notices
    assert "What you sent to kid is held, because it cannot start a turn" in told
