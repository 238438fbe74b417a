"""Agents of agents over a real database, with scripted models: who hears what, once, in order; who may have whom."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.app.agents.mailbox import MAX_UNATTENDED_TURNS
from ikigai.app.agents.managed_subagents import ManagedSubagents, SubagentLimits
from ikigai.config import Config
from ikigai.core.errors import Rejected, Unavailable
from ikigai.core.events.events import Ending, MailSent, MailTaken, TurnEnded, UserMessage
from ikigai.core.state.inputs import Change, Interrupted, MailArrived, Send, Submitted
from ikigai.core.state.open_turn import AgentStatus
from ikigai.repl.commands.agent_commands import wait_for_agents
from ikigai.store.database import Database
from tests.app.house import HANG, House, call, delivered, until
from tests.conftest import MIGRATIONS


async def test_three_share_a_task_and_the_parent_waits_for_all(house: House) -> None:
    names = ("one", "two", "three")
    starts = [call("fork", prompt=f"Part {n}", name=n, model=house.script(f"m{n}", f"Done {n}.")) for n in names]
    boss = await house.member("boss", starts, [call("wait", agents=list(names))], "All is done.")
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    *_, waited = await house.results("boss")
    assert all(f"[{n}, turn completed]\nDone {n}." in waited for n in names)
    assert await house.heard("boss") == [": Do it."], "what a call has returned does not come again"
    assert await house.heard("one") == ["boss: Part one"]
    assert set((await delivered(house.database)).values()) == {1}
    tree = await house.database.mail.tree(boss.agent.id)
    assert [(each.name, each.depth) for each in tree] == [("boss", 0), ("one", 1), ("two", 1), ("three", 1)]
    one = await house.open("one")
    assert [message.text for message in one.agent_loop.memory.window.turns[0].messages] == [
        "[Message from agent boss, not from the user]\n\nPart one",
        "Done one.",
    ]
    assert (await house.database.usage.totals([each.id for each in tree])).requests == 6


async def test_idle_parent_begins_a_turn_with_what_its_agents_say(house: House) -> None:
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=house.script("k", "Forty-two."))], "Ok.", "So."
    )
    boss.agent_loop.put_input(Submitted("Go."))
    await until(lambda: boss.view.words == "So.")
    await house.rested()
    assert await house.heard("boss") == [": Go.", "kid: Forty-two."]
    assert set((await delivered(house.database)).values()) == {1}


async def test_turn_of_a_user_with_a_child_sends_nothing_to_its_maker(house: House) -> None:
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=house.script("k", "A.", "B."))], [call("wait")], "Ok."
    )
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    kid = await house.open("kid")
    kid.agent_loop.put_input(Submitted("And?"))
    await house.rested()
    assert kid.view.words == "B." and await house.heard("boss") == [": Go."]
    child = await house.database.tree.fork(
        kid.agent, (await house.history("kid"))[-1].id, (UserMessage("x", sender="boss"),)
    )
    assert (await house.manager.open(child)).agent_loop.memory.agent == child.id
    house.manager.start_loop(house.manager.agents[child.id])
    await house.rested()
    sent = [row for row in await house.history(child.name) if isinstance(row.event, MailSent)]
    assert not sent, "a fork of an agent reports to nobody"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (SubagentLimits(depth=0), "You are at depth 0, and the limit is 0."),
        (SubagentLimits(at_once=0), "0 agents are running, which is the limit"),
        (SubagentLimits(per_tree=0), "0 agents were created here, which is the limit."),
    ],
)
async def test_limits_of_nothing(database: Database, tmp_path: Path, limits: SubagentLimits, says: str) -> None:
    house = House(database, tmp_path, Config(model="scripted/echo"), limits)
    boss = await house.member("boss", [call("fork", prompt="?")], "Ok.")
    boss.agent_loop.put_input(Submitted("Go."))
    await house.rested()
    assert says in (await house.results("boss"))[0]
    await house.manager.close()


async def test_depth_number_at_once_and_number_in_all(house: House) -> None:
    limits = SubagentLimits()
    assert (limits.depth, limits.at_once, limits.per_tree) == (2, 8, 50)
    boss = await house.member("boss", HANG)
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    own = ManagedSubagents(house.manager, boss.agent.id, replace(limits, per_tree=11))
    hang, quick = house.script("hang", *[HANG] * 9), house.script("quick", *["Done."] * 60)
    first = await own.start("?", model=hang)
    second = await ManagedSubagents(house.manager, (await house.open(first)).agent.id).start("?", model=hang)
    with pytest.raises(Rejected, match="You are at depth 2"):
        await ManagedSubagents(house.manager, (await house.open(second)).agent.id).start("?")
    names = await asyncio.gather(*(own.start("?", model=hang) for _ in range(7)), return_exceptions=True)
    refused = [each for each in names if isinstance(each, Rejected)]
    assert len(refused) == 1 and "8 agents are running" in str(refused[0]), "6 more, and not a 7th"
    killed, mails = await own.kill(first)
    assert killed == (first, second) and [mail.ending for mail in mails] == ["interrupted"]
    for _ in range(3):
        await own.start("?", model=quick)
        await until(lambda: sum(house.manager.is_running(id) for id in house.manager.agents) < 8)
    with pytest.raises(Rejected, match="11 agents were created here"):
        await own.start("?", model=quick)
    with pytest.raises(Rejected, match="is not one of your agents"):
        await own.kill("boss")


async def test_waiting_for_oneself_for_each_other_for_the_dead_and_in_vain(house: House) -> None:
    boss = await house.member("boss", HANG)
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    own = ManagedSubagents(house.manager, boss.agent.id)
    name = await own.start("?", model=house.script("hang", HANG))
    kid = await house.open(name)
    with pytest.raises(Rejected, match="you cannot wait for yourself"):
        await own.wait(["boss"], 1)
    with pytest.raises(Rejected, match="There is no agent nobody"):
        await own.wait(["nobody"], 1)
    came = await own.wait([name], 0.05)
    assert came.busy == (name,) and not came.mails and not came.reason
    both = await asyncio.gather(own.wait([name], 2), ManagedSubagents(house.manager, kid.agent.id).wait(["boss"], 2))
    assert any("No running agent could send more" in each.reason for each in both) or not both[1].busy
    kid.agent_loop.put_input(Interrupted())
    await house.rested(kid)
    came = await own.wait([name], 5)
    assert [mail.ending for mail in came.mails] == ["interrupted"] and "did not end as it should" in came.mails[0].text
    await own.kill(name)
    assert (await own.wait([name], 5)).idle == (f"{name} (killed)",)
    stranger = await house.member("stranger", "Hi.")
    for asked in (
        own.wait(["stranger"], 1),
        own.write_message("stranger", "?"),
        own.write_message(name, "?"),
        own.write_message("boss", "?"),
    ):
        with pytest.raises(Rejected):
            await asked
    assert stranger.agent.name == "stranger"


async def test_child_gets_no_more_than_its_parent_has(house: House) -> None:
    boss = await house.member("boss", "Hi.")
    boss.agent_loop.put_input(Change({"tools_off": "web", "approval": "read-only"}))
    await until(lambda: boss.agent_loop.memory.own.get("tools_off") == "web")
    name = await ManagedSubagents(house.manager, boss.agent.id).start("?", tools=["files", "web"])
    kid = (await house.open(name)).agent_loop.memory
    off = set(str(kid.settings["tools_off"]).split(","))
    assert (
        {"web", "shell", "memory", "agents"} <= off and "files" not in off and kid.settings["approval"] == "read-only"
    )
    with pytest.raises(Rejected, match="There are no tools magic"):
        await ManagedSubagents(house.manager, boss.agent.id).start("?", tools=["magic"])


async def test_two_who_always_answer_come_to_rest(house: House) -> None:
    """Each answers each message of the other: without a word of the user's that ends."""
    boss = await house.member("boss", *[[call("send", agent="kid", text="Ping.")], "Sent."] * 40)
    kid = house.script("k", *["Pong."] * 40)
    await ManagedSubagents(house.manager, boss.agent.id).start("?", name="kid", model=kid)
    await house.rested()
    heard = await house.heard("boss")
    assert heard == ["kid: Pong."] * MAX_UNATTENDED_TURNS
    assert (await house.database.mail.waiting(boss.agent.id)).own, "what is held is not lost"
    boss.agent_loop.put_input(Submitted("Go on."))
    await until(
        lambda: not house.manager.is_running(boss.agent.id) and boss.agent.id not in house.manager.mailbox._needs_check
    )
    await house.rested()
    asked, held = (await house.heard("boss"))[MAX_UNATTENDED_TURNS : MAX_UNATTENDED_TURNS + 2]
    assert asked == ": Go on." and held.startswith("kid: ") and "Pong." in held
    await delivered(house.database)


async def test_user_sends_to_an_agent_that_is_not_open(house: House) -> None:
    other, here = await house.member("other", "Heard."), await house.member("here", "Hi.")
    await house.rested()
    await house.manager.unload(other)
    here.agent_loop.put_input(Send(MailSent(other.agent.id, "Wake up.", by_user=True)))
    await until(lambda: "other" in [each.agent.name for each in house.all])
    await house.rested()
    assert await house.heard("other") == [": Wake up."], "the user's own word"
    assert set((await delivered(house.database)).values()) == {1}


async def test_agent_is_running_while_it_checks_or_is_opened_for_mail(house: House) -> None:
    """Else whoever sends to it, and waits for it, would be told that it is at rest."""
    boss, post = await house.member("boss", HANG), house.manager.mailbox
    own = ManagedSubagents(house.manager, boss.agent.id)
    kid = house.manager.find(await own.start("?", name="kid", model="scripted/echo"))
    assert kid
    await house.rested(kid)
    async with house.database._session.use():  # nobody else gets an answer meanwhile
        post._needs_check.add(kid.agent.id)
        kid.agent_loop.put_input(MailArrived())
        while not kid.agent_loop.inbox.empty():
            await asyncio.sleep(0)
        assert house.manager.is_running(kid.agent.id) and not kid.is_idle
    await house.rested(kid)
    await house.manager.unload(kid)
    boss.agent_loop.put_input(Send(MailSent(kid.agent.id, "Wake up.")))
    while kid.agent.id not in post._needs_check:
        await asyncio.sleep(0)
    assert kid.agent.id not in house.manager.agents
    assert not (await own.wait(["kid"], 9)).busy
    assert await house.heard("kid") == ["boss: ?", "boss: Wake up."], "whoever waits for it waits for that"


async def test_agent_opened_for_mail_is_running_before_its_loop_starts(house: House) -> None:
    other, here = await house.member("other", "Heard."), await house.member("here", "Hi.")
    await house.rested()
    await house.manager.unload(other)
    seen = list[bool]()
    begin = house.manager.start_loop

    def begins(member: OpenAgent) -> None:
        seen.append(house.manager.is_running(member.agent.id))
        begin(member)

    house.manager.start_loop = begins  # type: ignore[method-assign]
    here.agent_loop.put_input(Send(MailSent(other.agent.id, "Wake up.", by_user=True)))
    await until(lambda: "other" in [each.agent.name for each in house.all])
    await house.rested()
    assert seen == [True] and await house.heard("other") == [": Wake up."]


async def test_waiting_agent_does_not_only_wait_after_new_mail(house: House) -> None:
    """Else whoever waits for its answer would be told that nobody can say more."""
    boss = await house.member("boss", HANG)
    boss.agent_loop.put_input(Submitted("Think."))
    await until(lambda: boss.agent_loop.memory.open is not None)
    own, calls = ManagedSubagents(house.manager, boss.agent.id), house.manager.mailbox.calls
    kid = house.manager.find(await own.start("?", name="kid", model=house.script("k", [call("wait")], "Heard.")))
    assert kid
    await until(lambda: calls.only_waits(kid.agent.id))
    async with house.database._session.use():  # it gets no answer yet
        calls.wake()
        await asyncio.sleep(0)
        assert not calls.only_waits(kid.agent.id)
    work, _ = await own.write_message("kid", "Now.")
    boss.agent_loop.put_input(Send(work))
    came = await own.wait(["kid"], 20)
    assert [mail.text for mail in came.mails] == ["Heard."] and not came.busy


async def test_mail_is_looked_for_again_when_the_database_was_away(house: House) -> None:
    here, kid = await house.member("here", "Hi."), await house.member("kid", HANG)
    kid.agent_loop.put_input(Submitted("Think."))
    here.agent_loop.put_input(Send(MailSent(kid.agent.id, "And?")))
    await until(lambda: kid.agent_loop.memory.open is not None and kid.agent.id in house.manager.mailbox._needs_check)
    session = house.database._session
    reached, session._conninfo = session._conninfo, "host=/nonexistent"
    session._drop_connection()
    with pytest.raises(Unavailable):
        await house.manager.mailbox.collect(kid)
    session._conninfo = reached
    assert [mail.text for mail in await house.manager.mailbox.collect(kid)] == ["And?"]


async def test_two_calls_that_wait_at_once_take_a_message_once(house: House) -> None:
    boss, here = await house.member("boss", HANG), await house.member("here", "Hi.")
    boss.agent_loop.put_input(Submitted("Think."))
    here.agent_loop.put_input(Send(MailSent(boss.agent.id, "One.")))
    await until(lambda: boss.agent_loop.memory.open is not None and boss.agent.id in house.manager.mailbox._needs_check)
    own = ManagedSubagents(house.manager, boss.agent.id)
    async with house.database._session.use():  # so that their questions come in turns
        both = [asyncio.create_task(own.wait([], 0)) for _ in range(2)]
        await asyncio.sleep(0)
    assert sum(len(came.mails) for came in await asyncio.gather(*both)) == 1


async def test_program_that_dies_leaves_nothing_unsaid(database: Database, dsn: str, tmp_path: Path) -> None:
    """Killed while one child works and another has reported: the next program hears both, once."""
    config = Config(model="scripted/echo")
    house = House(database, tmp_path, config)
    boss = await house.member("boss", HANG)
    own = ManagedSubagents(house.manager, boss.agent.id)
    boss.agent_loop.put_input(Submitted("Think."))
    done = await own.start("?", model=house.script("q", "Done."))
    busy = await own.start("?", model=house.script("h", HANG))
    working = await house.open(busy)
    await until(lambda: None not in (boss.agent_loop.memory.open, working.agent_loop.memory.open))
    await house.rested(await house.open(done))
    for member in house.all:  # as kill -9 does: nothing is told to anybody, and the connection is gone
        assert member.loop_task
        member.loop_task.cancel()
    house.manager.mailbox.closed = True
    await asyncio.sleep(0)
    await database.close()
    again = await Database.open(dsn, MIGRATIONS)
    house = House(again, tmp_path, config)
    house.script("boss", *["Ok."] * 5)
    boss = await house.open("boss")

    async def heard() -> bool:
        return sum(isinstance(row.event, MailTaken) for row in await house.history("boss")) == 2

    await until(heard)
    await house.rested()
    said = "\n".join(each for each in await house.heard("boss") if not each.startswith(":"))  # one turn, or two
    assert (
        said.count("Done.") == said.count("[the turn did not end as it should: cut off: ikigai was killed here]") == 1
    )
    assert (
        said.count(done) == said.count(busy) == (2 if f"{done}, {busy}: " in said or f"{busy}, {done}: " in said else 1)
    )
    ends = [row.event.ending for row in await house.history(busy) if isinstance(row.event, TurnEnded)]
    assert ends == [Ending.INTERRUPTED]
    assert set((await delivered(again)).values()) == {1}
    await house.manager.close()
    await again.close()


# ── /wait ──

LONG = [{"do": "pause", "seconds": 0.3}, "Long done."]


async def test_until_all_that_are_named_are_at_rest(house: House) -> None:
    here, short, long = await house.member("here"), await house.member("short"), await house.member("long", LONG, HANG)
    long.agent_loop.put_input(Submitted("go"))
    short.agent_loop.put_input(Submitted("Hello there."))
    await until(lambda: house.manager.is_running(long.agent.id))
    said = await wait_for_agents(house.manager, here.agent.id, ("short", "long"))
    assert sorted(said.splitlines()) == ["long (done): Long done.", "short (done): Hello there."]
    long.agent_loop.put_input(Submitted("go on"))
    await until(lambda: house.manager.is_running(long.agent.id))
    waiting = asyncio.create_task(wait_for_agents(house.manager, here.agent.id, ()))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "it hangs"
    long.agent_loop.put_input(Interrupted())
    assert (await waiting).startswith("long (idle)"), "nobody but who was at work when it began"


async def test_agent_with_an_open_question_is_not_waited_for(house: House) -> None:
    here = await house.member("here")
    asker = await house.member("asker", [call("shell", command="true")])
    asker.agent_loop.put_input(Submitted("go"))
    await until(lambda: bool(asker.view.questions))
    async with asyncio.timeout(60):
        assert (
            await wait_for_agents(house.manager, here.agent.id, ("asker",))
            == "asker is waiting for your answer: /answer asker"
        )


async def test_wait_rejects_agents_that_cannot_be_waited_for(house: House) -> None:
    here = await house.member("here")
    for names, says in ((("here",), "on the screen"), (("nobody",), "nobody"), ((), "No other agent is running")):
        with pytest.raises(Rejected, match=says):
            await wait_for_agents(house.manager, here.agent.id, names)


async def test_agent_of_another_program(house: House, dsn: str, tmp_path: Path) -> None:
    here = await house.member("here")
    other = await Database.open(dsn, MIGRATIONS)
    there = House(other, tmp_path, Config(model="scripted/echo"))
    far = await there.member("far", LONG)
    far.agent_loop.put_input(Submitted("go"))
    await until(lambda: far.agent_loop.memory.status is AgentStatus.WAITING)  # its turn is in the log
    assert await wait_for_agents(house.manager, here.agent.id, ("far",)) == "far (open): Long done."
    await there.manager.close()
    await other.close()
