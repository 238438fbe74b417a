"""Agents of agents over a real database, with scripted models: who hears what, once, in order; who may have whom."""

import asyncio
from pathlib import Path

import pytest

from ikigai.app.agent_manager import Member
from ikigai.app.mailbox import TURNS
from ikigai.app.subagents import Delegation
from ikigai.config import Config
from ikigai.config.records import Delegating
from ikigai.core.errors import Refused, Unavailable
from ikigai.core.events import Ending, MailSent, MailTaken, TurnEnded, UserMessage
from ikigai.core.state.inputs import Change, Heard, Interrupted, Send, Submitted
from ikigai.core.state.open_turn import Status
from ikigai.repl.wait_command import waited
from ikigai.store.database import Database
from tests.app.house import HANG, House, call, delivered, until
from tests.conftest import MIGRATIONS


async def test_three_share_a_task_and_the_parent_waits_for_all(house: House) -> None:
    names = ("one", "two", "three")
    starts = [call("fork", prompt=f"Part {n}", name=n, model=house.script(f"m{n}", f"Done {n}.")) for n in names]
    boss = await house.member("boss", starts, [call("wait", agents=list(names))], "All is done.")
    boss.runtime.tell(Submitted("Do it."))
    await house.rested()
    *_, waited = await house.results("boss")
    assert all(f"[{n}, turn completed]\nDone {n}." in waited for n in names)
    assert await house.heard("boss") == [": Do it."], "what a call has returned does not come again"
    assert await house.heard("one") == ["boss: Part one"]
    assert set((await delivered(house.database)).values()) == {1}
    tree = await house.database.mail.tree(boss.agent.id)
    assert [(each.name, each.depth) for each in tree] == [("boss", 0), ("one", 1), ("two", 1), ("three", 1)]
    one = await house.open("one")
    assert [message.text for message in one.runtime.memory.window.turns[0].messages] == [
        "[Message from agent boss, not from the user]\n\nPart one",
        "Done one.",
    ]
    assert (await house.database.spent([each.id for each in tree])).requests == 6


async def test_an_idle_parent_begins_a_turn_with_what_its_agents_say(house: House) -> None:
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=house.script("k", "Forty-two."))], "Ok.", "So."
    )
    boss.runtime.tell(Submitted("Go."))
    await until(lambda: boss.relay.words == "So.")
    await house.rested()
    assert await house.heard("boss") == [": Go.", "kid: Forty-two."]
    assert set((await delivered(house.database)).values()) == {1}


async def test_what_a_user_talks_about_with_a_child_stays_there(house: House) -> None:
    boss = await house.member(
        "boss", [call("fork", prompt="?", name="kid", model=house.script("k", "A.", "B."))], [call("wait")], "Ok."
    )
    boss.runtime.tell(Submitted("Go."))
    await house.rested()
    kid = await house.open("kid")
    kid.runtime.tell(Submitted("And?"))
    await house.rested()
    assert kid.relay.words == "B." and await house.heard("boss") == [": Go."]
    child = await house.database.family.fork(
        kid.agent, (await house.history("kid"))[-1].id, (UserMessage("x", sender="boss"),)
    )
    assert (await house.crew.open(child)).runtime.memory.agent == child.id
    house.crew.begin(house.crew.members[child.id])
    await house.rested()
    sent = [row for row in await house.history(child.name) if isinstance(row.event, MailSent)]
    assert not sent, "a fork of an agent reports to nobody"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Delegating(depth=0), "You stand 0 deep, and agents may stand 0 deep."),
        (Delegating(at_once=0), "0 agents are at work, which is the limit"),
        (Delegating(per_tree=0), "0 agents were made here, which is the limit."),
    ],
)
async def test_limits_of_nothing(database: Database, tmp_path: Path, limits: Delegating, says: str) -> None:
    house = House(database, tmp_path, Config(model="scripted/echo", agents=limits))
    boss = await house.member("boss", [call("fork", prompt="?")], "Ok.")
    boss.runtime.tell(Submitted("Go."))
    await house.rested()
    assert says in (await house.results("boss"))[0]
    await house.crew.close()


async def test_depth_number_at_once_and_number_in_all(house: House) -> None:
    boss = await house.member("boss", HANG)
    boss.runtime.tell(Submitted("Think."))
    await until(lambda: boss.runtime.memory.open is not None)
    own = Delegation(house.crew, boss.agent.id)
    hang, quick = house.script("hang", *[HANG] * 9), house.script("quick", *["Done."] * 60)
    first = await own.start("?", model=hang)
    second = await Delegation(house.crew, (await house.open(first)).agent.id).start("?", model=hang)
    with pytest.raises(Refused, match="You stand 2 deep"):
        await Delegation(house.crew, (await house.open(second)).agent.id).start("?")
    names = await asyncio.gather(*(own.start("?", model=hang) for _ in range(7)), return_exceptions=True)
    refused = [each for each in names if isinstance(each, Refused)]
    assert len(refused) == 1 and "8 agents are at work" in str(refused[0]), "6 more, and not a 7th"
    killed, mails = await own.kill(first)
    assert killed == (first, second) and [mail.ending for mail in mails] == ["interrupted"]
    for _ in range(42):
        await own.start("?", model=quick)
        await until(lambda: sum(house.crew.at_work(id) for id in house.crew.members) < 8)
    with pytest.raises(Refused, match="50 agents were made here"):
        await own.start("?", model=quick)
    with pytest.raises(Refused, match="is no agent of yours"):
        await own.kill("boss")


async def test_waiting_for_oneself_for_each_other_for_the_dead_and_in_vain(house: House) -> None:
    boss = await house.member("boss", HANG)
    boss.runtime.tell(Submitted("Think."))
    await until(lambda: boss.runtime.memory.open is not None)
    own = Delegation(house.crew, boss.agent.id)
    name = await own.start("?", model=house.script("hang", HANG))
    kid = await house.open(name)
    with pytest.raises(Refused, match="nobody waits for oneself"):
        await own.wait(["boss"], 1)
    with pytest.raises(Refused, match="There is no agent nobody"):
        await own.wait(["nobody"], 1)
    came = await own.wait([name], 0.05)
    assert came.busy == (name,) and not came.mails and not came.why
    both = await asyncio.gather(own.wait([name], 2), Delegation(house.crew, kid.agent.id).wait(["boss"], 2))
    assert any("Nobody who could say more" in each.why for each in both) or not both[1].busy
    kid.runtime.tell(Interrupted())
    await house.rested(kid)
    came = await own.wait([name], 5)
    assert [mail.ending for mail in came.mails] == ["interrupted"] and "did not end as it should" in came.mails[0].text
    await own.kill(name)
    assert (await own.wait([name], 5)).silent == (f"{name} (killed)",)
    stranger = await house.member("stranger", "Hi.")
    for asked in (
        own.wait(["stranger"], 1),
        own.letter("stranger", "?"),
        own.letter(name, "?"),
        own.letter("boss", "?"),
    ):
        with pytest.raises(Refused):
            await asked
    assert stranger.agent.name == "stranger"


async def test_a_child_gets_no_more_than_its_parent_has(house: House) -> None:
    boss = await house.member("boss", "Hi.")
    boss.runtime.tell(Change({"tools_off": "web", "approval": "read-only"}))
    await until(lambda: boss.runtime.memory.own.get("tools_off") == "web")
    name = await Delegation(house.crew, boss.agent.id).start("?", tools=["files", "web"])
    kid = (await house.open(name)).runtime.memory
    off = set(str(kid.settings["tools_off"]).split(","))
    assert (
        {"web", "shell", "memory", "agents"} <= off and "files" not in off and kid.settings["approval"] == "read-only"
    )
    with pytest.raises(Refused, match="There are no tools magic"):
        await Delegation(house.crew, boss.agent.id).start("?", tools=["magic"])


async def test_two_who_always_answer_come_to_rest(house: House) -> None:
    """Each answers each message of the other: without a word of the user's that ends."""
    boss = await house.member("boss", *[[call("send", agent="kid", text="Ping.")], "Sent."] * 40)
    kid = house.script("k", *["Pong."] * 40)
    await Delegation(house.crew, boss.agent.id).start("?", name="kid", model=kid)
    await house.rested()
    heard = await house.heard("boss")
    assert heard == ["kid: Pong."] * TURNS
    assert await house.database.mail.waiting(boss.agent.id), "what is held is not lost"
    boss.runtime.tell(Submitted("Go on."))
    await until(lambda: not house.crew.at_work(boss.agent.id) and boss.agent.id not in house.crew.post._due)
    await house.rested()
    asked, held = (await house.heard("boss"))[TURNS : TURNS + 2]
    assert asked == ": Go on." and held.startswith("kid: ") and "Pong." in held
    await delivered(house.database)


async def test_the_user_sends_to_an_agent_that_is_not_open(house: House) -> None:
    other, here = await house.member("other", "Heard."), await house.member("here", "Hi.")
    await house.rested()
    await house.crew.put_down(other)
    here.runtime.tell(Send(MailSent(other.agent.id, "Wake up.", by_user=True)))
    await until(lambda: "other" in [each.agent.name for each in house.all])
    await house.rested()
    assert await house.heard("other") == [": Wake up."], "the user's own word"
    assert set((await delivered(house.database)).values()) == {1}


async def test_who_looks_for_mail_or_is_opened_for_it_is_at_work(house: House) -> None:
    """Else whoever sends to it, and waits for it, would be told that it is at rest."""
    boss, post = await house.member("boss", HANG), house.crew.post
    own = Delegation(house.crew, boss.agent.id)
    kid = house.crew.find(await own.start("?", name="kid", model="scripted/echo"))
    assert kid
    await house.rested(kid)
    async with house.database._session.use():  # nobody else gets an answer meanwhile
        post._due.add(kid.agent.id)
        kid.runtime.tell(Heard())
        while not kid.runtime.inbox.empty():
            await asyncio.sleep(0)
        assert house.crew.at_work(kid.agent.id) and not kid.resting
    await house.rested(kid)
    await house.crew.put_down(kid)
    boss.runtime.tell(Send(MailSent(kid.agent.id, "Wake up.")))
    while kid.agent.id not in post._due:
        await asyncio.sleep(0)
    assert kid.agent.id not in house.crew.members
    assert not (await own.wait(["kid"], 9)).busy
    assert await house.heard("kid") == ["boss: ?", "boss: Wake up."], "whoever waits for it waits for that"


async def test_who_is_being_opened_for_mail_is_at_work_before_its_loop_has_begun(house: House) -> None:
    other, here = await house.member("other", "Heard."), await house.member("here", "Hi.")
    await house.rested()
    await house.crew.put_down(other)
    seen = list[bool]()
    begin = house.crew.begin

    def begins(member: Member) -> None:
        seen.append(house.crew.at_work(member.agent.id))
        begin(member)

    house.crew.begin = begins  # type: ignore[method-assign]
    here.runtime.tell(Send(MailSent(other.agent.id, "Wake up.", by_user=True)))
    await until(lambda: "other" in [each.agent.name for each in house.all])
    await house.rested()
    assert seen == [True] and await house.heard("other") == [": Wake up."]


async def test_who_waits_and_has_just_been_sent_something_does_not_only_wait(house: House) -> None:
    """Else whoever waits for its answer would be told that nobody can say more."""
    boss = await house.member("boss", HANG)
    boss.runtime.tell(Submitted("Think."))
    await until(lambda: boss.runtime.memory.open is not None)
    own, calls = Delegation(house.crew, boss.agent.id), house.crew.post.calls
    kid = house.crew.find(await own.start("?", name="kid", model=house.script("k", [call("wait")], "Heard.")))
    assert kid
    await until(lambda: calls.only_waits(kid.agent.id))
    async with house.database._session.use():  # it gets no answer yet
        calls.wake()
        await asyncio.sleep(0)
        assert not calls.only_waits(kid.agent.id)
    work, _ = await own.letter("kid", "Now.")
    boss.runtime.tell(Send(work))
    came = await own.wait(["kid"], 20)
    assert [mail.text for mail in came.mails] == ["Heard."] and not came.busy


async def test_mail_is_looked_for_again_when_the_database_was_away(house: House) -> None:
    here, kid = await house.member("here", "Hi."), await house.member("kid", HANG)
    kid.runtime.tell(Submitted("Think."))
    here.runtime.tell(Send(MailSent(kid.agent.id, "And?")))
    await until(lambda: kid.runtime.memory.open is not None and kid.agent.id in house.crew.post._due)
    session = house.database._session
    reached, session._conninfo = session._conninfo, "host=/nonexistent"
    session._give_up()
    with pytest.raises(Unavailable):
        await house.crew.post.collect(kid)
    session._conninfo = reached
    assert [mail.text for mail in await house.crew.post.collect(kid)] == ["And?"]


async def test_two_calls_that_wait_at_once_take_a_message_once(house: House) -> None:
    boss, here = await house.member("boss", HANG), await house.member("here", "Hi.")
    boss.runtime.tell(Submitted("Think."))
    here.runtime.tell(Send(MailSent(boss.agent.id, "One.")))
    await until(lambda: boss.runtime.memory.open is not None and boss.agent.id in house.crew.post._due)
    own = Delegation(house.crew, boss.agent.id)
    async with house.database._session.use():  # so that their questions come in turns
        both = [asyncio.create_task(own.wait([], 0)) for _ in range(2)]
        await asyncio.sleep(0)
    assert sum(len(came.mails) for came in await asyncio.gather(*both)) == 1


async def test_a_program_that_dies_leaves_nothing_unsaid(database: Database, dsn: str, tmp_path: Path) -> None:
    """Killed while one child works and another has reported: the next program hears both, once."""
    config = Config(model="scripted/echo")
    house = House(database, tmp_path, config)
    boss = await house.member("boss", HANG)
    own = Delegation(house.crew, boss.agent.id)
    boss.runtime.tell(Submitted("Think."))
    done = await own.start("?", model=house.script("q", "Done."))
    busy = await own.start("?", model=house.script("h", HANG))
    working = await house.open(busy)
    await until(lambda: None not in (boss.runtime.memory.open, working.runtime.memory.open))
    await house.rested(await house.open(done))
    for member in house.all:  # as kill -9 does: nothing is told to anybody, and the connection is gone
        assert member.loop
        member.loop.cancel()
    house.crew.post.closed = True
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
    assert said.count("Done.") == said.count("[the turn did not end as it should: the program ended]") == 1
    assert (
        said.count(done) == said.count(busy) == (2 if f"{done}, {busy}: " in said or f"{busy}, {done}: " in said else 1)
    )
    ends = [row.event.ending for row in await house.history(busy) if isinstance(row.event, TurnEnded)]
    assert ends == [Ending.INTERRUPTED]
    assert set((await delivered(again)).values()) == {1}
    await house.crew.close()
    await again.close()


# ── /wait ──

LONG = [{"do": "pause", "seconds": 0.3}, "Long done."]


async def test_until_all_that_are_named_are_at_rest(house: House) -> None:
    here, short, long = await house.member("here"), await house.member("short"), await house.member("long", LONG, HANG)
    long.runtime.tell(Submitted("go"))
    short.runtime.tell(Submitted("Hello there."))
    await until(lambda: house.crew.at_work(long.agent.id))
    said = await waited(house.crew, here.agent.id, ("short", "long"))
    assert sorted(said.splitlines()) == ["long (idle): Long done.", "short (idle): Hello there."]
    long.runtime.tell(Submitted("go on"))
    await until(lambda: house.crew.at_work(long.agent.id))
    waiting = asyncio.create_task(waited(house.crew, here.agent.id, ()))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "it hangs"
    long.runtime.tell(Interrupted())
    assert (await waiting).startswith("long (idle)"), "nobody but who was at work when it began"


async def test_who_asks_something_is_at_rest(house: House) -> None:
    here = await house.member("here")
    asker = await house.member("asker", [call("shell", command="true")])
    asker.runtime.tell(Submitted("go"))
    await until(lambda: bool(asker.relay.asked))
    async with asyncio.timeout(30):
        assert await waited(house.crew, here.agent.id, ("asker",)) == "asker asks something: /answer asker"


async def test_what_nobody_can_wait_for(house: House) -> None:
    here = await house.member("here")
    for names, says in ((("here",), "on the screen"), (("nobody",), "nobody"), ((), "No other agent is at work")):
        with pytest.raises(Refused, match=says):
            await waited(house.crew, here.agent.id, names)


async def test_an_agent_of_another_program(house: House, dsn: str, tmp_path: Path) -> None:
    here = await house.member("here")
    other = await Database.open(dsn, MIGRATIONS)
    there = House(other, tmp_path, Config(model="scripted/echo"))
    far = await there.member("far", LONG)
    far.runtime.tell(Submitted("go"))
    await until(lambda: far.runtime.memory.status is Status.WAITING)  # its turn is in the log
    assert await waited(house.crew, here.agent.id, ("far",)) == "far (open): Long done."
    await there.crew.close()
    await other.close()
