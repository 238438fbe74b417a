"""Several agents at once in one program: nothing lost, nothing mixed, and whoever comes on stage sees it whole."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import UUID

import psutil
import psycopg
import pytest

from ikigai.app import agent_manager as crew
from ikigai.app import agent_tree as kin
from ikigai.app import factories as making
from ikigai.app.agent_manager import Crew, Member
from ikigai.app.buffered_view import Relay
from ikigai.app.services import World
from ikigai.app.subagents import Delegation
from ikigai.config import Config
from ikigai.core.commands.fork import Fork
from ikigai.core.errors import Busy, Refused, Unavailable
from ikigai.core.events import Ending, Forked, UserMessage
from ikigai.core.questions import Answered, Question, yes_or_no
from ikigai.core.state.inputs import Change, Condense, Interrupted, Submitted
from ikigai.core.state.loading import loading
from ikigai.core.views.transcript import Block, Speaker
from ikigai.providers.scripted import Call, Hang, Pause, Reply, Scripted
from ikigai.store import write_lock as pen
from ikigai.store.database import Database
from tests.agent.test_loop import Watcher
from tests.conftest import MIGRATIONS
from tests.store.test_write_lock import CONNECTIONS
from tests.support.invariants import check


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database does not take is kept in files: not in those of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def world(database: Database, config: Config | None = None) -> World:
    config = config or Config(model="scripted/echo")
    pool, tools = making.make_pool(config), making.make_workshop(config)
    return World(config, database, None, pool, making.make_run(config, pool, tools), tools)


@contextlib.asynccontextmanager
async def sailing(database: Database, config: Config | None = None, **options: object) -> AsyncIterator[Crew]:
    made = Crew(world(database, config), Delegation, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        assert await made.close() == ""
        assert not made.members


async def until(true: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


async def joined(crew: Crew, name: str = "", front: Watcher | None = None) -> Member:
    member = await crew.open(await crew.world.create(name), front)
    crew.begin(member)
    return member


def plays(crew: Crew, *replies: Reply, model: str = "scripted/echo") -> None:
    """What the model answers, whoever asks it."""
    scripted = Scripted(replies)
    crew.world.pool.provider = lambda name: scripted  # type: ignore[method-assign, assignment]


async def said(database: Database, member: Member, kind: str) -> list[str]:
    with psycopg.connect(database._session._conninfo) as other:
        query = "select content from messages where agent_id = %s and kind = %s order by seq"
        return [text for (text,) in other.execute(query, (member.agent.id, kind)).fetchall()]


@pytest.mark.parametrize("turns", [6, pytest.param(250, marks=pytest.mark.long)])
async def test_sixteen_agents_at_once(
    database: Database, dsn: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says its own; one after the other is watched; four events a turn."""
    monkeypatch.setattr("ikigai.app.agent_manager.IDLE_KEPT", 16)
    dice, front = random.Random(7), Watcher()
    async with sailing(database) as crew:
        members = [await joined(crew, f"agent-{n}") for n in range(16)]
        before = psutil.Process().memory_info().rss
        watching: Member | None = None
        for turn in range(turns):
            for member in members:
                member.runtime.tell(Submitted(f"{member.agent.name} says {turn}"))
            watching = await _watch(database, dice.choice(members), watching, front)
        await until(lambda: not any(member.runtime.busy for member in members), seconds=150)
        for member in members:
            own = [f"{member.agent.name} says {turn}" for turn in range(turns)]
            assert await said(database, member, "user") == own == await said(database, member, "assistant")
            run = crew.world.run
            assert await database.reader(member.agent).load(loading(run, member.agent.id)) == member.runtime.memory
        with psycopg.connect(dsn) as other:
            ((connections,),) = other.execute(CONNECTIONS).fetchall()
        assert connections <= 3
        assert psutil.Process().memory_info().rss - before < 32 << 20, "bounded by their windows"
    check(dsn)
    assert front.told("user") and not front.told("returned")


async def _watch(database: Database, member: Member, before: Member | None, front: Watcher) -> Member:
    """Another agent comes on stage: what is drawn of its log and what is shown from then on are one sequence."""
    if before:
        await before.relay.leave()
        shown = [text for speaker, text in front.seen if speaker == "user"]
        own = await said(database, before, "user")
        assert shown == own[own.index(shown[0]) :][: len(shown)] if shown else True, "no gap, nothing twice or mixed"
    front.seen.clear()
    member.relay.arriving()
    history = list(await database.reader(member.agent).history(None, 60))
    await asyncio.sleep(0.02)  # it goes on meanwhile
    history += member.relay.missed(history[-1].id if history else 0)
    front.seen += [("user", event.event.text) for event in history if isinstance(event.event, UserMessage)]
    member.relay.enter(front)
    await asyncio.sleep(0.01)
    return member


async def test_what_is_stored_while_the_log_is_read_is_shown_once(database: Database) -> None:
    front = Watcher()
    async with sailing(database) as crew:
        member = await joined(crew)
        for text in ("one", "two", "three"):
            if text == "two":
                member.relay.arriving()
                history = list(await database.reader(member.agent).history(None, 60))
            member.runtime.tell(Submitted(text))
            await until(lambda text=text: member.relay.ended and member.relay.words == text)
            if text == "two":
                history += member.relay.missed(history[-1].id)
                assert [event.event.text for event in history if isinstance(event.event, UserMessage)] == ["one", "two"]
                member.relay.enter(front)
        assert front.told("user") == ["three"] and [event.seq for event in history] == [*range(1, len(history) + 1)]
    relay = Relay()
    relay.arriving()
    relay.missed(100)
    relay.enter(front)
    relay.show(Block(100, Speaker.NOTE, "drawn already"))
    relay.show(Block(101, Speaker.NOTE, "new"))
    assert front.told("note") == ["new"]


async def test_who_comes_back_sees_the_stream_from_its_start(database: Database) -> None:
    front, other = Watcher(), Watcher()
    async with sailing(database) as crew:
        plays(crew, ("One ", Pause(0.05), "two ", Hang()))
        member = await joined(crew, front=front)
        member.runtime.tell(Submitted("hi"))
        await until(lambda: front.told("live"))
        await member.relay.leave()
        seen = len(front.seen)
        await until(lambda: "".join(each.text for each in member.relay._live[1]).endswith("two "))  # type: ignore[union-attr]
        member.runtime.tell(Submitted("next"))
        await until(lambda: member.relay.queue)
        assert len(front.seen) == seen, "nothing is drawn of an agent in the wings"
        member.relay.arriving()
        member.relay.missed(0)
        member.relay.enter(other)
        assert "".join(each.text for each in other.told("live")) == "One two "
        assert other.told("queued") == [("next",)] and other.memory is member.runtime.memory
        member.runtime.tell(Interrupted())
        await until(lambda: member.runtime.memory.open is None)
        assert other.told("returned") == ["next"] and other.told("assistant") == ["One two "]
        assert not front.told("assistant")


class Asking(Watcher):
    """A watcher who never answers by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Future[Answered]] = []
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answered:
        self.questions.append(question)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def test_a_question_waits_until_somebody_comes(database: Database) -> None:
    told, question = list[int](), yes_or_no("Really?", ("Think.",))
    relay = Relay(news=lambda: told.append(1))
    asked = asyncio.create_task(relay.ask(question))
    await until(lambda: relay.asked and told)
    front = Asking()
    relay.enter(front)
    await until(lambda: front.questions)
    await relay.leave()
    assert front.answers[0].cancelled() and not asked.done(), "it leaves the screen unanswered"
    relay.present(relay.asked[0], front, "heron")
    relay.present(relay.asked[0], front, "heron")
    await until(lambda: len(front.questions) == 2)
    assert front.questions[1].title == "heron: Really?" and front.questions[1].lines == question.lines
    front.answers[1].set_result(Answered("y"))
    assert await asked == Answered("y") and not relay.asked
    taken_back = asyncio.create_task(relay.ask(question))
    await until(lambda: relay.asked)
    taken_back.cancel()
    await asyncio.wait({taken_back})
    assert not relay.asked
    assert await Relay(asks=False).ask(question) == Answered("n", nobody=True)


async def test_approval_in_the_background(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    news = list[str]()
    async with sailing(database, news=lambda: news.append("")) as crew:
        touch = [Call("shell", {"command": f"touch {name}"}) for name in ("made", "more", "last")]
        plays(crew, (*touch[:2],), (touch[2],), "done")
        member = await joined(crew)
        member.runtime.tell(Submitted("make it"))
        await until(lambda: member.relay.asked)
        assert member.state == "asks" and not (tmp_path / "made").exists()
        front = Asking()
        member.relay.present(member.relay.asked[0], front, "x")
        for which, answer in enumerate(("t", "y")):  # together, and that follows at once: yes to all
            await until(lambda which=which: len(front.answers) > which)
            front.answers[which].set_result(Answered(answer))
        await until(lambda: (tmp_path / "more").exists() and member.relay.asked)
        assert len(front.answers) == 2, "the calls of the next reply wait until they are asked for"
        member.relay.present(member.relay.asked[0], front, "x")
        await until(lambda: len(front.answers) > 2)
        front.answers[2].set_result(Answered("y"))
        await until(lambda: member.relay.unseen is Ending.COMPLETED)
        assert (tmp_path / "made").exists() and member.relay.words == "done"
        await until(lambda: member.resting)  # when it has looked for mail


async def test_idle_agents_that_nobody_watches_are_put_down(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "IDLE_KEPT", 2)
    async with sailing(database) as made:
        members = [await joined(made, f"m{n}") for n in range(5)]
        for member in members:
            await until(lambda member=member: not member.runtime.busy)
            made.left(member)
        await until(lambda: len(made.members) == 2)
        assert set(made.members) == {member.agent.id for member in members[-2:]}
        again = await made.open(members[0].agent)
        assert again is not members[0] and again.log.closed is False
    check(dsn)


async def test_who_has_nothing_to_do_is_put_down_when_it_has_looked_for_mail(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "IDLE_KEPT", 0)
    async with sailing(database) as made:
        await joined(made)
        await until(lambda: not made.members)


async def test_who_has_a_summary_written_is_not_put_down_in_the_middle(database: Database) -> None:
    async with sailing(database) as made:
        plays(made, *["word " * 400] * 4, (Hang(),))
        member = await joined(made)
        for n in range(4):
            member.runtime.tell(Submitted(f"{n}?"))
            await until(lambda: member.relay.ended and not member.runtime.busy)
        await until(lambda: member.resting)
        member.runtime.tell(Condense())
        await until(lambda: not member.runtime.busy)
        assert member.runtime.condensing and not member.resting
        member.runtime.tell(Interrupted())
        await until(lambda: member.resting)


async def test_a_pen_that_is_lost_is_told_and_the_others_go_on(database: Database, dsn: str) -> None:
    lost = list[tuple[str, str]]()
    async with sailing(database, lost=lambda member, why: lost.append((member.agent.name, why))) as crew:
        one, two = await joined(crew, "one"), await joined(crew, "two")
        await until(lambda: not one.runtime.busy and not two.runtime.busy)
        with psycopg.connect(dsn) as other:  # somebody who keeps no rules writes to it
            other.execute(
                "insert into messages (agent_id, seq, event_id, kind) select %s, coalesce(max(seq), 0) + 1,"
                " gen_random_uuid(), 'command' from messages where agent_id = %s",
                (one.agent.id, one.agent.id),
            )
        one.runtime.tell(Submitted("lost"))
        await until(lambda: lost)
        assert lost[0][0] == "one" and "read-only" in lost[0][1] and "Another program wrote" in lost[0][1]
        assert list(crew.members) == [two.agent.id]
        two.runtime.tell(Submitted("alive"))
        await until(lambda: two.relay.ended)
        assert two.relay.words == "alive"


async def test_who_comes_back_to_an_agent_whose_pen_was_lost_sees_what_another_program_wrote(
    database: Database, dsn: str
) -> None:
    async with sailing(database) as crew:
        member = await joined(crew)
        await until(lambda: not member.runtime.busy)
        assert await crew.come_back(member) is member
        id = UUID(member.agent.id)
        with psycopg.connect(dsn, autocommit=True) as other:
            held = "select pid from pg_locks where locktype = 'advisory' and objid = %s and granted"
            other.execute(f"select pg_terminate_backend(pid, 5000) from ({held}) as gone", (pen.key(id),))
            other.execute("select pg_advisory_lock(%s, %s)", (pen.NAMESPACE, pen.number(id)))
            chosen = '{"values": {"budget": 7777}, "origins": {"budget": "agent"}}'
            other.execute(
                "insert into messages (agent_id, seq, event_id, kind, data) select %s, coalesce(max(seq), 0) + 1,"
                " gen_random_uuid(), 'settings', %s from messages where agent_id = %s",
                (id, chosen, id),
            )
            for _ in range(20):  # a call on a connection that is gone is Unavailable, and the next one connects again
                with contextlib.suppress(Unavailable):
                    with pytest.raises(Busy):
                        await crew.come_back(member)
                    break
            other.execute("select pg_advisory_unlock_all()")  # closing alone lets go of it a moment later
        assert not crew.members
        again = await crew.open(member.agent)
        assert again is not member and again.runtime.memory.own.get("budget") == 7777
        crew.begin(again)


async def test_a_pen_that_is_lost_in_a_reply_ends_it_at_once(database: Database, dsn: str) -> None:
    lost = list[str]()
    async with sailing(database, lost=lambda member, why: lost.append(why)) as crew:
        plays(crew, ("Half a ", *(("reply, ", Pause(0.3)) * 100), Hang()))
        member = await joined(crew)
        member.runtime.tell(Submitted("go"))
        await until(lambda: member.relay._saved)
        id = UUID(member.agent.id)
        with psycopg.connect(dsn, autocommit=True) as other, psycopg.connect(dsn, autocommit=True) as cutter:
            take = "select pg_advisory_lock(%s, %s)"
            waiting = asyncio.create_task(asyncio.to_thread(other.execute, take, (pen.NAMESPACE, pen.number(id))))
            cut = (
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = %s and granted"
            )
            waits = "select from pg_locks where locktype = 'advisory' and objid = %s and not granted"
            await until(lambda: cutter.execute(waits, (pen.key(id),)).rowcount)
            cutter.execute(cut, (pen.key(id),))
            await waiting
            await until(lambda: lost)
        assert "is being written by another program" in lost[0] and "kept in" in lost[0]
        assert lost[0].endswith(f"/switch {member.agent.name} opens it again, or follows it.")


async def test_the_database_is_cut_off_while_two_agents_stream(database: Database, dsn: str) -> None:
    """Both go on when it is back: nothing of theirs is lost, twice, or mixed, and each has its pen."""
    async with sailing(database) as crew:
        words = [f"word {n} " for n in range(20)]
        plays(crew, *[tuple(piece for word in words for piece in (word, Pause(0.02)))] * 4)
        both = [await joined(crew, name) for name in ("heron", "otter")]
        for member in both:
            member.runtime.tell(Submitted(f"{member.agent.name} asks"))
        await until(lambda: all(member.runtime.memory.open for member in both))
        for _ in range(3):
            await asyncio.sleep(0.1)
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
        await until(lambda: not any(member.runtime.busy for member in both))
        for member in both:
            member.runtime.tell(Submitted("again"))
        await until(
            lambda: all(
                member.runtime.memory.window.older.turns + len(member.runtime.memory.window.turns) == 2
                for member in both
            )
        )
        for member in both:
            assert await said(database, member, "user") == [f"{member.agent.name} asks", "again"]
            assert await said(database, member, "assistant") == ["".join(words)] * 2
            memory = await database.reader(member.agent).load(loading(crew.world.run, member.agent.id))
            assert memory == member.runtime.memory
    check(dsn)


async def test_fork_and_kill(database: Database, dsn: str) -> None:
    async with sailing(database) as crew:
        world = crew.world
        plays(crew, "first", (Hang(),), (Hang(),))
        root = await joined(crew, "root")
        root.runtime.tell(Submitted("one"))
        await until(lambda: root.relay.ended)
        root.runtime.tell(Submitted("busy"))
        await until(lambda: root.runtime.memory.open)
        made = await kin.fork(world, root.agent, Fork(0, {"budget": 5_000}, "child"), root.runtime.memory)
        assert kin.told(made) == f"This is child, forked from root at event #{made.at}. /switch root goes back."
        child = await crew.open(made.agent)
        crew.begin(child)
        assert child.runtime.memory.budget == 5_000 and len(child.runtime.memory.window.turns) == 1
        child.runtime.tell(Submitted("busy, too"))
        await until(lambda: child.runtime.memory.open)
        below = await kin.fork(world, child.agent, Fork(name="below"))
        assert root.runtime.memory.open, "the parent goes on"
        with pytest.raises(Refused, match="There is an agent named child already"):
            await kin.fork(world, root.agent, Fork(name="child"))
        with pytest.raises(Refused, match="roots cannot be killed"):
            await kin.doomed(database, root.agent)
        dying = await kin.doomed(database, child.agent)
        assert [link.name for link in dying] == ["below", "child"]
        assert await kin.kill(database, dying, crew) == []
        assert list(crew.members) == [root.agent.id]
        assert await said(database, child, "turn_end") == [None]
        lines = await kin.listed(database, crew, dead=True)
        assert [(line.place.kin.name, line.state) for line in lines] == [
            ("root", "waiting for the model"), ("child", "dead"), ("below", "dead"),
        ]  # fmt: skip
        dead = await database.agents.find("child")
        forks = kin.fork(world, dead, Fork()), kin.fork(world, root.agent, Fork(made.at + 3))
        for refused in (crew.open(dead), crew.open(made.agent), *forks):  # that one was asked for before it died
            with pytest.raises(Refused, match="child was killed") as why:
                await refused
            assert "/revive child" in why.value.remedy
        with pytest.raises(Refused, match="killed already"):
            await kin.doomed(database, dead)
        assert "Below it 1 is dead still." in await kin.revive(database, dead)
        with pytest.raises(Refused, match="child lives"):
            await kin.revive(database, await database.agents.find("child"))
        again = await crew.open(await database.agents.find("child"))
        assert again.runtime.memory.window.turns[-1].messages[-1].text != "" and below.agent.id not in crew.members
        root.runtime.tell(Interrupted())
        await until(lambda: not root.runtime.busy)
    check(dsn)


async def test_what_an_agent_runs_in_the_background_is_its_own(database: Database) -> None:
    """Others cannot see, read or stop it; it ends with the agent that is killed, and so does what is told of that."""
    told = list[list[str]]()
    async with sailing(database) as crew:
        crew._news = lambda: told.append([each.agent.name for each in crew.members.values()])
        start = Call("shell", {"command": "echo here; exec sleep 600", "background": True})
        plays(crew, (start,), "started", (Call("process_list"), Call("process_stop", {"id": "p1"})), "asked")
        root = await joined(crew, "root")
        child = await crew.open((await kin.fork(crew.world, root.agent, Fork(name="child"))).agent)
        crew.begin(child)
        for member in (child, root):
            member.runtime.tell(Change({"approval": "yolo"}))
            member.runtime.tell(Submitted("go"))
            await until(lambda member=member: member.relay.ended)
        assert (await said(database, root, "tool_result"))[0] == "[no processes]"
        assert "no process 'p1'" in (await said(database, root, "tool_result"))[1]
        (running,) = crew.world.workshop._processes[child.agent.id]
        assert running.running and "here" in (await said(database, child, "tool_result"))[0]
        await crew.put_down(child)
        assert running.running, "an agent that rests keeps it"
        assert told[-1] == ["root"]
        await kin.kill(database, await kin.doomed(database, child.agent), crew)
        assert not running.running


async def test_an_agent_that_another_program_holds_is_not_killed(dsn: str) -> None:
    first, second = await Database.open(dsn, MIGRATIONS), await Database.open(dsn, MIGRATIONS)
    root = await first.agents.create("root")
    top = await first.family.fork(root, 0, (Forked("root", 0),), "top")
    held = await first.family.fork(top, 0, (Forked("top", 0),), "held")
    log = await second.open_agent(held)
    with pytest.raises(Busy, match=r"Agent held is being written by another program") as refused:
        await kin.doomed(first, top)
    assert "Nothing was killed" in refused.value.remedy
    await log.close()
    assert len(await kin.doomed(first, top)) == 2
    await second.close()
    await first.close()
