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

from ikigai.app.agents import agent_manager as manager
from ikigai.app.agents import agent_services
from ikigai.app.agents import agent_tree as kin
from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
from ikigai.app.agents.buffered_view import BufferedView
from ikigai.app.agents.managed_subagents import ManagedSubagents
from ikigai.app.run import factories as making
from ikigai.app.run.services import Services
from ikigai.config import Config
from ikigai.core.commands.fork import ForkRequest
from ikigai.core.errors import AgentLocked, Rejected, Unavailable
from ikigai.core.events.events import Ending, Forked, UserMessage
from ikigai.core.request.reply import RetryScheduled, TextDelta
from ikigai.core.state.fold import empty_memory
from ikigai.core.state.inputs import Change, Condense, Interrupted, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.views.questions import Question, QuestionAnswer, yes_or_no
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.providers.scripted import Reply, ScriptedCall, ScriptedHang, ScriptedPause, ScriptedProvider
from ikigai.store.database import Database
from ikigai.store.log import write_lock
from ikigai.system.paths import unsaved_files
from tests.agent.test_loop import Watcher
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.test_healing import lose
from tests.store.test_write_lock import CONNECTIONS
from tests.support.invariants import check


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep unsaved events out of the state folder of the user who runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def world(database: Database, config: Config | None = None) -> Services:
    config = config or Config(model="scripted/echo")
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    return Services(config, database, None, pool, making.make_run(config, pool, tools), tools)


@contextlib.asynccontextmanager
async def sailing(
    database: Database, config: Config | None = None, keeps: bool = False, **options: object
) -> AsyncIterator[AgentManager]:
    """Yield a manager of agents; `keeps` says that events are still unsaved at its end."""
    made = AgentManager(world(database, config), ManagedSubagents, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        message = await made.close()
        assert ("be saved; " in message) if keeps else message == "", message
        assert not made.agents


async def until(true: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


async def joined(manager: AgentManager, name: str = "", front: Watcher | None = None) -> OpenAgent:
    member = await manager.open(await manager.services.create(name), front)
    manager.start_loop(member)
    return member


def plays(manager: AgentManager, *replies: Reply, model: str = "scripted/echo") -> None:
    """The answer of the model to every agent."""
    scripted = ScriptedProvider(replies)
    manager.services.pool.provider = lambda name: scripted  # type: ignore[method-assign, assignment]


async def said(database: Database, member: OpenAgent, kind: str) -> list[str]:
    with psycopg.connect(database._session._conninfo) as other:
        query = "select content from messages where agent_id = %s and kind = %s order by seq"
        return [text for (text,) in other.execute(query, (member.agent.id, kind)).fetchall()]


async def test_agent_is_shown_before_its_loop_is_made(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of the loop would hold up the last turns on the screen."""
    made: list[str] = []
    make_loop = agent_services.make_loop

    def make(*arguments: object) -> object:
        made.append("loop")
        return make_loop(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(agent_services, "make_loop", make)
    async with sailing(database) as manager:
        open_agent = await manager.open(await manager.services.create("ann"))
        assert (open_agent.memory.agent, open_agent.busy, open_agent.state) == (open_agent.agent.id, False, "idle")
        assert not made
        manager.start_loop(open_agent)
        assert open_agent.agent_loop is open_agent.agent_loop and made == ["loop"]


@pytest.mark.parametrize("turns", [6, pytest.param(250, marks=pytest.mark.long)])
async def test_sixteen_agents_at_once(
    database: Database, dsn: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says its own; one after the other is watched; four events a turn."""
    monkeypatch.setattr("ikigai.app.agents.agent_manager.MAX_IDLE_AGENTS", 16)
    dice, front = random.Random(7), Watcher()
    async with sailing(database) as manager:
        members = [await joined(manager, f"agent-{n}") for n in range(16)]
        before = psutil.Process().memory_info().rss
        watching: OpenAgent | None = None
        for turn in range(turns):
            for member in members:
                member.agent_loop.put_input(Submitted(f"{member.agent.name} says {turn}"))
            watching = await _watch(database, dice.choice(members), watching, front)
        await until(lambda: not any(member.agent_loop.busy for member in members), seconds=150)
        for member in members:
            own = [f"{member.agent.name} says {turn}" for turn in range(turns)]
            assert await said(database, member, "user") == own == await said(database, member, "assistant")
            run = manager.services.run
            assert (
                await database.reader(member.agent).load(load_memory(run, member.agent.id)) == member.agent_loop.memory
            )
        with psycopg.connect(dsn) as other:
            ((connections,),) = other.execute(CONNECTIONS).fetchall()
        assert connections <= 3
        assert psutil.Process().memory_info().rss - before < 32 << 20, "bounded by their windows"
    check(dsn)
    assert front.told("user") and not front.told("returned")


async def _watch(database: Database, member: OpenAgent, before: OpenAgent | None, front: Watcher) -> OpenAgent:
    """Another agent comes on stage: what is drawn of its log and what is shown from then on are one sequence."""
    if before:
        await before.view.detach()
        shown = [text for speaker, text in front.seen if speaker == "user"]
        own = await said(database, before, "user")
        assert shown == own[own.index(shown[0]) :][: len(shown)] if shown else True, "no gap, nothing twice or mixed"
    front.seen.clear()
    member.view.start_buffering()
    history = list(await database.reader(member.agent).history(None, 60))
    await asyncio.sleep(0.02)  # it goes on meanwhile
    history += member.view.drain_buffer(history[-1].id if history else 0)
    front.seen += [("user", event.event.text) for event in history if isinstance(event.event, UserMessage)]
    member.view.attach(front)
    await asyncio.sleep(0.01)
    return member


async def test_events_stored_while_the_log_is_read_are_shown_once(database: Database) -> None:
    front = Watcher()
    async with sailing(database) as manager:
        member = await joined(manager)
        for text in ("one", "two", "three"):
            if text == "two":
                member.view.start_buffering()
                history = list(await database.reader(member.agent).history(None, 60))
            member.agent_loop.put_input(Submitted(text))
            await until(lambda text=text: member.view.ended and member.view.words == text)
            if text == "two":
                history += member.view.drain_buffer(history[-1].id)
                assert [event.event.text for event in history if isinstance(event.event, UserMessage)] == ["one", "two"]
                member.view.attach(front)
        assert front.told("user") == ["three"] and [event.seq for event in history] == [*range(1, len(history) + 1)]
    buffered_view = BufferedView()
    buffered_view.start_buffering()
    buffered_view.drain_buffer(100)
    buffered_view.attach(front)
    buffered_view.show(TranscriptBlock(100, Speaker.NOTE, "drawn already"))
    buffered_view.show(TranscriptBlock(101, Speaker.NOTE, "new"))
    assert front.told("note") == ["new"]


async def test_attached_view_draws_the_state_that_the_buffered_view_writes() -> None:
    front, buffered_view, other = Watcher(), BufferedView(), BufferedView()
    buffered_view.attach(front)
    buffered_view.show_delta(1, TextDelta("One"))
    buffered_view.draft_saved(1, 3)
    buffered_view.progress("c", "output")
    buffered_view.queued(("next",))
    buffered_view.database_unreachable(True)
    live = front.live
    assert live is buffered_view.live_state and live.reply and live.reply.saved == 3
    assert (live.outputs, live.waiting, live.database_unreachable) == ({"c": "output"}, ("next",), True)
    other.continue_reply(buffered_view)
    await buffered_view.detach()
    other.attach(front)
    assert front.live is other.live_state and other.live_state.reply is live.reply and not other.live_state.waiting
    buffered_view.queued(("later",))
    assert front.live.waiting == ()


async def test_next_agent_begins_with_nothing_of_the_last_one_but_what_was_typed_ahead() -> None:
    front, buffered_view = Watcher(), BufferedView()
    buffered_view.attach(front)
    buffered_view.show_delta(1, TextDelta("One"))
    buffered_view.progress("c", "output")
    buffered_view.queued(("next",))
    buffered_view.database_unreachable(True)
    await buffered_view.detach()
    memory = empty_memory(RUN, "b")
    buffered_view.begin(memory)
    buffered_view.attach(front)
    live = front.live
    assert (live.memory, live.reply, live.outputs) == (memory, None, {})
    assert live.waiting == ("next",) and not live.database_unreachable


async def test_reply_whose_request_is_sent_anew_is_not_shown_again() -> None:
    front, other, buffered_view = Watcher(), Watcher(), BufferedView()
    buffered_view.begin(empty_memory(RUN, "a"))
    buffered_view.attach(front)
    buffered_view.show_delta(1, RetryScheduled(30.0, 2, "busy"))
    buffered_view.drop_reply()
    assert front.live.reply is None and front.memory is front.live.memory
    buffered_view.show_delta(1, TextDelta("One"))
    await buffered_view.detach()
    buffered_view.attach(other)
    assert other.told("live") == [TextDelta("One")]


async def test_attached_view_gets_the_stream_from_its_start(database: Database) -> None:
    front, other = Watcher(), Watcher()
    async with sailing(database) as manager:
        plays(manager, ("One ", ScriptedPause(0.05), "two ", ScriptedHang()))
        member = await joined(manager, front=front)
        member.agent_loop.put_input(Submitted("hi"))
        await until(lambda: front.told("live"))
        await member.view.detach()
        seen, live = len(front.seen), member.view.live_state
        await until(lambda: (reply := live.reply) and "".join(each.text for each in reply.deltas).endswith("two "))  # type: ignore[union-attr]
        member.agent_loop.put_input(Submitted("next"))
        await until(lambda: live.waiting)
        assert len(front.seen) == seen, "nothing is drawn of an agent in the wings"
        member.view.start_buffering()
        member.view.drain_buffer(0)
        member.view.attach(other)
        assert "".join(each.text for each in other.told("live")) == "One two "
        assert other.told("queued") == [("next",)] and other.memory is member.agent_loop.memory
        member.agent_loop.put_input(Interrupted())
        await until(lambda: member.agent_loop.memory.open is None)
        assert other.told("returned") == ["next"] and other.told("assistant") == ["One two "]
        assert not front.told("assistant")


class Asking(Watcher):
    """A watcher who never answers by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Future[QuestionAnswer]] = []
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> QuestionAnswer:
        self.questions.append(question)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def test_question_waits_until_somebody_comes(database: Database) -> None:
    told, question = list[int](), yes_or_no("Really?", ("Think.",))
    buffered_view = BufferedView(on_change=lambda: told.append(1))
    asked = asyncio.create_task(buffered_view.ask(question))
    await until(lambda: buffered_view.questions and told)
    front = Asking()
    buffered_view.attach(front)
    await until(lambda: front.questions)
    await buffered_view.detach()
    assert front.answers[0].cancelled() and not asked.done(), "it leaves the screen unanswered"
    buffered_view.show_question(buffered_view.questions[0], front, "heron")
    buffered_view.show_question(buffered_view.questions[0], front, "heron")
    await until(lambda: len(front.questions) == 2)
    assert front.questions[1].title == "heron: Really?" and front.questions[1].lines == question.lines
    front.answers[1].set_result(QuestionAnswer("y"))
    assert await asked == QuestionAnswer("y") and not buffered_view.questions
    taken_back = asyncio.create_task(buffered_view.ask(question))
    await until(lambda: buffered_view.questions)
    taken_back.cancel()
    await asyncio.wait({taken_back})
    assert not buffered_view.questions
    assert await BufferedView(can_ask=False).ask(question) == QuestionAnswer("n", not_asked=True)


async def test_approval_in_the_background(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    news = list[str]()
    async with sailing(database, on_change=lambda: news.append("")) as manager:
        touch = [ScriptedCall("shell", {"command": f"touch {name}"}) for name in ("made", "more", "last")]
        plays(manager, (*touch[:2],), (touch[2],), "done")
        member = await joined(manager)
        member.agent_loop.put_input(Submitted("make it"))
        await until(lambda: member.view.questions)
        assert member.state == "asks" and not (tmp_path / "made").exists()
        front = Asking()
        member.view.show_question(member.view.questions[0], front, "x")
        for which, answer in enumerate(("t", "y")):  # together, and that follows at once: yes to all
            await until(lambda which=which: len(front.answers) > which)
            front.answers[which].set_result(QuestionAnswer(answer))
        await until(lambda: (tmp_path / "more").exists() and member.view.questions)
        assert len(front.answers) == 2, "the calls of the next reply wait until they are asked for"
        member.view.show_question(member.view.questions[0], front, "x")
        await until(lambda: len(front.answers) > 2)
        front.answers[2].set_result(QuestionAnswer("y"))
        await until(lambda: member.view.unseen_ending is Ending.COMPLETED)
        assert (tmp_path / "made").exists() and member.view.words == "done"
        await until(lambda: member.is_idle)  # when it has looked for mail


async def test_idle_agents_that_nobody_watches_are_put_down(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "MAX_IDLE_AGENTS", 2)
    async with sailing(database) as made:
        members = [await joined(made, f"m{n}") for n in range(5)]
        for member in members:
            await until(lambda member=member: not member.agent_loop.busy)
            made.detached(member)
        await until(lambda: len(made.agents) == 2)
        assert set(made.agents) == {member.agent.id for member in members[-2:]}
        again = await made.open(members[0].agent)
        assert again is not members[0] and again.log.closed is False
    check(dsn)


async def test_idle_agent_is_unloaded_after_its_mailbox_is_checked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "MAX_IDLE_AGENTS", 0)
    async with sailing(database) as made:
        await joined(made)
        await until(lambda: not made.agents)


async def test_agent_is_not_unloaded_while_it_condenses(database: Database) -> None:
    async with sailing(database) as made:
        plays(made, *["word " * 400] * 4, (ScriptedHang(),))
        member = await joined(made)
        for n in range(4):
            member.agent_loop.put_input(Submitted(f"{n}?"))
            await until(lambda: member.view.ended and not member.agent_loop.busy)
        await until(lambda: member.is_idle)
        member.agent_loop.put_input(Condense())
        await until(lambda: not member.agent_loop.busy)
        assert member.agent_loop.condensing and not member.is_idle
        member.agent_loop.put_input(Interrupted())
        await until(lambda: member.is_idle)


async def test_pen_that_is_lost_is_told_and_the_others_go_on(database: Database, dsn: str) -> None:
    lost = list[tuple[str, str]]()
    async with sailing(
        database, keeps=True, on_lost=lambda member, why: lost.append((member.agent.name, why))
    ) as manager:
        one, two = await joined(manager, "one"), await joined(manager, "two")
        await until(lambda: not one.agent_loop.busy and not two.agent_loop.busy)
        with psycopg.connect(dsn) as other:  # somebody who keeps no rules writes to it
            other.execute(
                "insert into messages (agent_id, seq, event_id, kind) select %s, coalesce(max(seq), 0) + 1,"
                " gen_random_uuid(), 'command' from messages where agent_id = %s",
                (one.agent.id, one.agent.id),
            )
        one.agent_loop.put_input(Submitted("lost"))
        await until(lambda: lost)
        assert lost[0][0] == "one" and "read-only" in lost[0][1] and "Another program wrote" in lost[0][1]
        assert list(manager.agents) == [two.agent.id]
        two.agent_loop.put_input(Submitted("alive"))
        await until(lambda: two.view.ended)
        assert two.view.words == "alive"


async def test_events_that_a_promoted_server_lacks_become_a_fork_where_another_program_went_on(
    database: Database, dsn: str
) -> None:
    lost = list[str]()
    async with sailing(database, on_lost=lambda member, why: lost.append(why)) as manager:
        member = await joined(manager, "one")
        await until(lambda: not member.agent_loop.busy)
        member.agent_loop.put_input(Submitted("shown"))
        await until(lambda: member.view.ended and not member.agent_loop.busy)
        lose(dsn, 1)
        other = await Database.open(dsn, MIGRATIONS)
        await (await other.open_agent(member.agent)).append((UserMessage("foreign"),))
        await other.close()
        member.agent_loop.put_input(Submitted("waits"))
        await until(lambda: lost)
        (fork,) = [each for each in await database.agents.all() if each.parent == member.agent.id]
        assert lost[0].startswith("The database lost ") and "another program went on" in lost[0]
        assert f"are in its fork {fork.name}: /switch {fork.name}" in lost[0] and "read-only" not in lost[0]
        again = await manager.open(fork)
        manager.start_loop(again)
        events = [stored.event for stored in await database.reader(fork).history(None, 99)]
        assert [event.text for event in events if isinstance(event, UserMessage)] == ["shown", "waits"]
    assert not unsaved_files(member.agent.id)
    check(dsn, idle=False)


async def test_agent_with_a_lost_write_lock_shows_the_events_of_the_other_program(database: Database, dsn: str) -> None:
    async with sailing(database) as manager:
        member = await joined(manager)
        await until(lambda: not member.agent_loop.busy)
        assert await manager.reacquire(member) is member
        id = UUID(member.agent.id)
        with psycopg.connect(dsn, autocommit=True) as other:
            held = "select pid from pg_locks where locktype = 'advisory' and objid = %s and granted"
            other.execute(
                f"select pg_terminate_backend(pid, 5000) from ({held}) as gone", (write_lock.lock_key(id, "ikigai"),)
            )
            other.execute(
                "select pg_advisory_lock(%s, %s)", (write_lock.WRITE_LOCK, write_lock.lock_number(id, "ikigai"))
            )
            chosen = '{"values": {"budget": 7777}, "origins": {"budget": "agent"}}'
            other.execute(
                "insert into messages (agent_id, seq, event_id, kind, data) select %s, coalesce(max(seq), 0) + 1,"
                " gen_random_uuid(), 'settings', %s from messages where agent_id = %s",
                (id, chosen, id),
            )
            for _ in range(20):  # a call on a connection that is gone is Unavailable, and the next one connects again
                with contextlib.suppress(Unavailable):
                    with pytest.raises(AgentLocked):
                        await manager.reacquire(member)
                    break
            other.execute("select pg_advisory_unlock_all()")  # closing alone lets go of it a moment later
        assert not manager.agents
        again = await manager.open(member.agent)
        assert again is not member and again.agent_loop.memory.unconfirmed == {"budget": 7777}
        manager.start_loop(again)


async def test_pen_that_is_lost_in_a_reply_ends_it_at_once(database: Database, dsn: str) -> None:
    lost = list[str]()
    async with sailing(database, keeps=True, on_lost=lambda member, why: lost.append(why)) as manager:
        plays(manager, ("Half a ", *(("reply, ", ScriptedPause(0.3)) * 100), ScriptedHang()))
        member = await joined(manager)
        member.agent_loop.put_input(Submitted("go"))
        await until(lambda: (reply := member.view.live_state.reply) and reply.saved)
        id = UUID(member.agent.id)
        with psycopg.connect(dsn, autocommit=True) as other, psycopg.connect(dsn, autocommit=True) as cutter:
            take = "select pg_advisory_lock(%s, %s)"
            waiting = asyncio.create_task(
                asyncio.to_thread(other.execute, take, (write_lock.WRITE_LOCK, write_lock.lock_number(id, "ikigai")))
            )
            cut = (
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = %s and granted"
            )
            waits = "select from pg_locks where locktype = 'advisory' and objid = %s and not granted"
            await until(lambda: cutter.execute(waits, (write_lock.lock_key(id, "ikigai"),)).rowcount)
            cutter.execute(cut, (write_lock.lock_key(id, "ikigai"),))
            await waiting
            await until(lambda: lost)
        assert "is open in another ikigai" in lost[0] and "kept in" in lost[0]
        assert lost[0].endswith(f"/switch {member.agent.name} opens or follows it again.")


async def test_database_is_cut_off_while_two_agents_stream(database: Database, dsn: str) -> None:
    """Both go on when it is back: nothing of theirs is lost, twice, or mixed, and each has its write lock."""
    async with sailing(database) as manager:
        words = [f"word {n} " for n in range(20)]
        plays(manager, *[tuple(piece for word in words for piece in (word, ScriptedPause(0.02)))] * 4)
        both = [await joined(manager, name) for name in ("heron", "otter")]
        for member in both:
            member.agent_loop.put_input(Submitted(f"{member.agent.name} asks"))
        await until(lambda: all(member.agent_loop.memory.open for member in both))
        for _ in range(3):
            await asyncio.sleep(0.1)
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute(
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
        await until(lambda: not any(member.agent_loop.busy for member in both))
        for member in both:
            member.agent_loop.put_input(Submitted("again"))
        await until(
            lambda: all(
                member.agent_loop.memory.window.older.turns + len(member.agent_loop.memory.window.turns) == 2
                for member in both
            )
        )
        for member in both:
            assert await said(database, member, "user") == [f"{member.agent.name} asks", "again"]
            assert await said(database, member, "assistant") == ["".join(words)] * 2
            memory = await database.reader(member.agent).load(load_memory(manager.services.run, member.agent.id))
            assert memory == member.agent_loop.memory
    check(dsn)


async def test_list_of_agents_shows_the_context_and_the_state_that_the_status_line_shows(database: Database) -> None:
    """The newest request is older than a change of the budget, and an ended turn that nobody has seen is done."""
    async with sailing(database) as manager:
        plays(manager, *[("words " * 200,)] * 3)
        root = await joined(manager, "root")
        for number in range(3):
            root.agent_loop.put_input(Submitted(f"question {number}"))
            await until(lambda n=number: len(root.agent_loop.memory.window.turns) == n + 1)
        (before,) = await kin.list_agents(database, manager)
        assert before.state == "done" and before.node.agent.tokens == root.agent_loop.memory.used
        root.agent_loop.put_input(Change({"budget": 500}))
        await until(lambda: root.agent_loop.memory.budget == 500)
        (after,) = await kin.list_agents(database, manager)
        assert after.node.agent.tokens == root.agent_loop.memory.used < before.node.agent.tokens
        root.view.attach(Watcher())
        assert [line.state for line in await kin.list_agents(database, manager)] == ["idle"]


async def test_fork_and_kill(database: Database, dsn: str) -> None:
    async with sailing(database) as manager:
        world = manager.services
        plays(manager, "first", (ScriptedHang(),), (ScriptedHang(),))
        root = await joined(manager, "root")
        root.agent_loop.put_input(Submitted("one"))
        await until(lambda: root.view.ended)
        root.agent_loop.put_input(Submitted("busy"))
        await until(lambda: root.agent_loop.memory.open)
        made = await kin.fork(world, root.agent, ForkRequest(0, {"budget": 5_000}, "child"), root.agent_loop.memory)
        assert (
            kin.fork_message(made) == f"This is child, forked from root at event #{made.at}. To go back: /switch root"
        )
        child = await manager.open(made.agent)
        manager.start_loop(child)
        assert child.agent_loop.memory.budget == 5_000 and len(child.agent_loop.memory.window.turns) == 1
        child.agent_loop.put_input(Submitted("busy, too"))
        await until(lambda: child.agent_loop.memory.open)
        below = await kin.fork(world, child.agent, ForkRequest(name="below"))
        assert root.agent_loop.memory.open, "the parent goes on"
        with pytest.raises(Rejected, match="There is an agent named child already"):
            await kin.fork(world, root.agent, ForkRequest(name="child"))
        with pytest.raises(Rejected, match="only forks can be killed"):
            await kin.subtree_to_kill(database, root.agent)
        dying = await kin.subtree_to_kill(database, child.agent)
        assert [link.name for link in dying] == ["below", "child"]
        assert await kin.kill(database, dying, manager) == []
        assert list(manager.agents) == [root.agent.id]
        assert await said(database, child, "turn_end") == [None]
        lines = await kin.list_agents(database, manager, unlisted=True)
        assert [(line.node.agent.name, line.state) for line in lines] == [
            ("root", "waiting for the model"), ("child", "killed"), ("below", "killed"),
        ]  # fmt: skip
        dead = await database.agents.find("child")
        forks = kin.fork(world, dead, ForkRequest()), kin.fork(world, root.agent, ForkRequest(made.at + 3))
        for refused in (manager.open(dead), manager.open(made.agent), *forks):  # that one was asked for before it died
            with pytest.raises(Rejected, match="child was killed") as why:
                await refused
            assert "/revive child" in why.value.remedy
        with pytest.raises(Rejected, match="killed already"):
            await kin.subtree_to_kill(database, dead)
        assert "1 below it is still killed." in await kin.revive(database, dead)
        with pytest.raises(Rejected, match="child was not killed"):
            await kin.revive(database, await database.agents.find("child"))
        again = await manager.open(await database.agents.find("child"))
        assert again.agent_loop.memory.window.turns[-1].messages[-1].text != "" and below.agent.id not in manager.agents
        root.agent_loop.put_input(Interrupted())
        await until(lambda: not root.agent_loop.busy)
    check(dsn)


async def test_background_processes_belong_to_one_agent(database: Database) -> None:
    """Others cannot see, read or stop it; it ends with the agent that is killed, and so does what is told of that."""
    told = list[list[str]]()
    async with sailing(database) as manager:
        manager._on_change = lambda: told.append([each.agent.name for each in manager.agents.values()])
        start = ScriptedCall("shell", {"command": "echo here; exec sleep 600", "background": True})
        plays(
            manager,
            (start,),
            "started",
            (ScriptedCall("process_list"), ScriptedCall("process_stop", {"id": "p1"})),
            "asked",
        )
        root = await joined(manager, "root")
        child = await manager.open((await kin.fork(manager.services, root.agent, ForkRequest(name="child"))).agent)
        manager.start_loop(child)
        for member in (child, root):
            member.agent_loop.put_input(Change({"approval": "yolo"}))
            member.agent_loop.put_input(Submitted("go"))
            await until(lambda member=member: member.view.ended)
        assert (await said(database, root, "tool_result"))[0] == "[no processes]"
        assert "no process 'p1'" in (await said(database, root, "tool_result"))[1]
        (running,) = manager.services.tool_runtime._processes[child.agent.id]
        assert running.is_running and "here" in (await said(database, child, "tool_result"))[0]
        await manager.unload(child)
        assert running.is_running, "an agent that rests keeps it"
        assert told[-1] == ["root"]
        await kin.kill(database, await kin.subtree_to_kill(database, child.agent), manager)
        assert not running.is_running


async def test_agent_that_another_program_holds_is_not_killed(dsn: str) -> None:
    first, second = await Database.open(dsn, MIGRATIONS), await Database.open(dsn, MIGRATIONS)
    root = await first.agents.create("root")
    top = await first.tree.fork(root, 0, (Forked("root", 0),), "top")
    held = await first.tree.fork(top, 0, (Forked("top", 0),), "held")
    log = await second.open_agent(held)
    with pytest.raises(AgentLocked, match=r"Agent held is open in another ikigai") as refused:
        await kin.subtree_to_kill(first, top)
    assert "Nothing was killed" in refused.value.remedy
    await log.close()
    assert len(await kin.subtree_to_kill(first, top)) == 2
    await second.close()
    await first.close()
