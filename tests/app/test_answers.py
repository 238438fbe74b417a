"""Work that an agent is given is answered to whoever gave it, wherever it was taken and whatever died in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ikigai.app.agents.managed_subagents import ManagedSubagents
from ikigai.config import Config
from ikigai.core.errors import Rejected
from ikigai.core.events.events import MailSent, UserMessage
from ikigai.core.state.inputs import Send, Submitted
from ikigai.store.database import Database
from tests.app.house import HANG, House, call, delivered, until
from tests.conftest import MIGRATIONS


@asynccontextmanager
async def another_program(dsn: str, folder: Path) -> AsyncIterator[House]:
    """A second program without a screen, over a database of its own connections."""
    database = await Database.open(dsn, MIGRATIONS)
    house = House(database, folder, Config(model="scripted/echo"))
    try:
        yield house
    finally:
        await house.manager.close()
        await database.close()


def fork(house: House, name: str, *replies: object) -> dict:
    return call("fork", prompt="?", name=name, model=house.script(name, *replies))


async def test_fork_send_and_wait_work_in_one_reply(house: House) -> None:
    first = [fork(house, "kid", "Ready.", "Done."), call("wait", agents=["kid"]), call("send", agent="kid", text="Go.")]
    boss = await house.member(
        "boss", [*first, call("wait", agents=["kid"]), call("kill", agent="kid"), call("wait", agents=["kid"])], "Ok."
    )
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert await house.results("boss") == [
        "Agent kid is running.",
        "[kid, turn completed]\nReady.",
        "Sent to kid.",
        "[kid, turn completed]\nDone.",
        "Killed: kid.",
        "Idle, and nothing new from: kid (killed).",
    ]


async def test_work_that_comes_in_a_turn_of_the_users_is_answered(house: House) -> None:
    kid = fork(house, "kid", "Ready.", [call("wait")], "Both done.")
    boss = await house.member("boss", [kid, call("wait", agents=["kid"])], "Ok.", HANG)
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    worker, own = await house.open("kid"), ManagedSubagents(house.manager, boss.agent.id)
    worker.agent_loop.put_input(Submitted("Wait for what comes."))
    await until(lambda: house.manager.mailbox.calls.only_waits(worker.agent.id))
    work, _ = await own.write_message("kid", "And this.")
    boss.agent_loop.put_input(Send(work))
    assert [mail.text for mail in (await own.wait(["kid"], 20)).mails] == ["Both done."]


async def test_agent_further_up_gets_the_answer_to_what_it_has_sent(house: House) -> None:
    kid = fork(house, "kid", [fork(house, "leaf", "Ready.", "For the boss.")], [call("wait", agents=["leaf"])], "Made.")
    asked = [call("send", agent="leaf", text="?"), call("wait", agents=["leaf"])]
    boss = await house.member("boss", [kid, call("wait", agents=["kid"])], asked, "Ok.")
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    assert (await house.results("boss"))[-1] == "[leaf, turn completed]\nFor the boss."
    assert set((await delivered(house.database)).values()) == {1}


async def test_work_that_had_not_come_when_the_program_died_comes_with_the_next_one(
    database: Database, dsn: str, tmp_path: Path
) -> None:
    house = House(database, tmp_path, Config(model="scripted/echo"))
    first = [fork(house, "kid", "Ready."), call("wait", agents=["kid"])]
    boss = await house.member("boss", first, "Ok.", HANG)
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    work, _ = await ManagedSubagents(house.manager, boss.agent.id).write_message("kid", "Before it died.")
    kid = house.manager.find("kid")
    assert kid and kid.loop_task
    kid.loop_task.cancel()  # before it hears of it
    boss.agent_loop.put_input(Send(work))
    await until(lambda: kid.agent.id in house.manager.mailbox._needs_check)
    assert boss.loop_task
    boss.loop_task.cancel()  # as kill -9 does
    house.manager.mailbox.closed = True
    await asyncio.sleep(0)
    await database.close()
    async with another_program(dsn, tmp_path) as house:
        house.script("kid", "Answered.")
        house.script("boss", [call("wait", agents=["kid"])], *["Ok."] * 3)
        boss = await house.open("boss")
        boss.agent_loop.put_input(Submitted("What does it say?"))  # at once: nobody has looked for it yet
        await house.rested()
        assert (await house.results("boss"))[2:] == ["[kid, turn completed]\nAnswered."]


async def test_fork_is_at_work_when_its_prompt_is_in_the_log(house: House) -> None:
    boss = await house.member("boss", HANG)
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    name = await ManagedSubagents(house.manager, boss.agent.id).start("Do it.", model="scripted/echo")
    rows = [row.event for row in await house.history(name)]
    assert any(isinstance(row, UserMessage) and (row.text, row.sender) == ("Do it.", "boss") for row in rows)
    with pytest.raises(Rejected, match="was created, but refused the prompt"):
        await ManagedSubagents(house.manager, boss.agent.id).start("?" * 40_000_000, model="scripted/echo")


async def test_wait_names_an_agent_open_in_another_program(house: House, dsn: str, tmp_path: Path) -> None:
    reply = [call("send", agent="kid", text="?"), call("wait", agents=["kid"])]
    boss = await house.member("boss", [fork(house, "kid", "Ready.")], [call("wait")], "Ok.", reply, "Hm.")
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    kid = house.manager.find("kid")
    assert kid
    await house.manager.unload(kid)
    async with another_program(dsn, tmp_path) as there:
        await there.open("kid")
        boss.agent_loop.put_input(Submitted("Again."))
        await house.rested()
        sent, waited = (await house.results("boss"))[-2:]
    assert sent == "Sent to kid."
    assert waited.startswith("Idle, and nothing new from: kid.")
    assert "kid could not be opened for its messages: Agent kid is open in another ikigai" in waited


async def test_message_from_a_sibling_or_from_below_wants_no_reply(house: House) -> None:
    boss = await house.member("boss", HANG)
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    own = ManagedSubagents(house.manager, boss.agent.id)
    for name in ("one", "two"):
        await own.start("?", name=name, model=house.script(name, HANG))
    one = await house.open("one")
    for sender, to, wants in (("boss", "one", True), ("one", "boss", False), ("one", "two", False)):
        by = boss if sender == "boss" else one
        mail, held = await ManagedSubagents(house.manager, by.agent.id).write_message(to, "?")
        assert (mail.wants_reply, mail.attended, held) == (wants, wants, "")
        assert isinstance(mail, MailSent)
