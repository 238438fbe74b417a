"""Random lives of a small tree of agents: whatever dies between two statements, mail comes once and in order."""

import asyncio
import contextlib
import os
import random
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from ikigai.agent import db_retry as patience
from ikigai.app.agents import agent_tree as kin
from ikigai.app.agents.agent_manager import AgentManager, OpenAgent
from ikigai.app.agents.mailbox import MAX_UNATTENDED_TURNS
from ikigai.app.agents.managed_subagents import ManagedSubagents
from ikigai.config import Config
from ikigai.config.records import ContextSettings
from ikigai.core.errors import AgentLocked, Unavailable
from ikigai.core.events.events import MailSent, MailTaken
from ikigai.core.state.inputs import Change, Interrupted, Send, Submitted
from ikigai.providers.scripted import Reply, ScriptedCall, ScriptedHang, ScriptedPause, ScriptedProvider
from ikigai.store.agents.agents import Agent
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.database import Database
from tests.app.house import House, delivered, until
from tests.conftest import MIGRATIONS
from tests.support.examples import seeds
from tests.support.invariants import check

STEPS = 50
T = TypeVar("T")
UNMASKED = ContextSettings(tool_result_keep_first=0, tool_result_keep_last=0)
"""In a long turn mail that a call has brought would be masked, as other results are."""
NOWHERE = "host=/nonexistent"


class Player(ScriptedProvider):
    """Models that write to each other, wait, talk and hang as the dice have it; one for all programs of a life.

    Every text has a number of its own in angle brackets. `calm` models only talk, so that the world comes to rest.
    """

    def __init__(self, dice: random.Random, names: list[str]) -> None:
        super().__init__()
        self.dice, self.names, self.calm, self._texts = dice, names, False, 0

    def text(self) -> str:
        self._texts += 1
        return f"<{self._texts}>"

    def _script(self, name: str) -> Iterator[Reply]:
        return iter((self._reply(name),))

    def _reply(self, name: str) -> Reply:
        if self.calm:
            return self.text()
        others, dice = [other for other in self.names if other != name], self.dice
        send = ScriptedCall("send", {"agent": dice.choice(others), "text": self.text()})
        wait = ScriptedCall("wait", {"seconds": dice.choice((0, 0.01, 0.03))})
        wait_for = ScriptedCall("wait", {"agents": dice.sample(others, 1), "seconds": dice.choice((0, 0.02))})
        replies: tuple[Reply, ...] = (
            self.text(),
            (ScriptedPause(dice.random() / 100), self.text()),
            (send,),
            (self.text(), send, ScriptedCall("send", {"agent": dice.choice(others), "text": self.text()})),
            (wait,),
            (wait_for,),
            (wait, wait),
            (send, wait, wait_for),
            (self.text(), ScriptedHang()),
        )
        return dice.choices(replies, (5, 3, 4, 2, 3, 2, 2, 2, 1))[0]


class Life:
    """The programs that open one tree of agents, one after the other, and what happens to them."""

    def __init__(self, dsn: str, folder: Path, seed: int) -> None:
        self.dsn, self.folder, self.dice = dsn, folder, random.Random(seed)
        kids = self.dice.randint(1, 3)
        self.names = ["boss", *(f"kid{n}" for n in range(kids))]
        self.player = Player(self.dice, self.names)
        self.lost = list[str]()
        self.house: House

    async def begin(self) -> None:
        """A program opens the database, and no agent yet."""
        database = await _patiently(lambda: Database.open(self.dsn, MIGRATIONS))
        self.house = House(database, self.folder, Config(model="scripted/echo", context=UNMASKED))
        self.house.world.pool.provider = lambda name: self.player  # type: ignore[method-assign, assignment]
        self.house.manager = AgentManager(
            self.house.world, ManagedSubagents, on_lost=lambda member, why: self.lost.append(why)
        )

    async def people(self) -> None:
        """The boss, and those that work for it: the last of three for the one before."""
        boss = await self.house.manager.open(await self.house.world.create("boss"))
        self.house.manager.start_loop(boss)
        boss.agent_loop.put_input(Change({"model": "scripted/boss"}))
        await until(lambda: boss.agent_loop.memory.model == "scripted/boss")
        for n, name in enumerate(self.names[1:]):
            maker = boss if n < 2 else self.house.manager.find(self.names[n])
            assert maker
            own = ManagedSubagents(self.house.manager, maker.agent.id)
            await own.start(self.player.text(), name=name, model=f"scripted/{name}")

    async def agent(self, name: str) -> Agent:
        return await self.house.database.agents.find(name)

    @property
    def open(self) -> list[OpenAgent]:
        return [member for member in self.house.all if member.loop_task]

    async def step(self) -> None:
        does = (self.breathe, self.say, self.send, self.stop, self.leave, self.enter, self.kill, self.revive)
        act = self.dice.choices((*does, self.cut, self.die), (16, 6, 8, 2, 2, 4, 1, 2, 1, 2))[0]
        with contextlib.suppress(AgentLocked, Unavailable):  # it is just being opened; the connection was cut
            await act()

    async def breathe(self) -> None:
        await asyncio.sleep(self.dice.random() / 50)

    async def say(self) -> None:
        if self.open:
            self.dice.choice(self.open).agent_loop.put_input(Submitted(self.player.text()))

    async def send(self) -> None:
        to = await self.agent(self.dice.choice(self.names))
        if self.open and not to.killed_at:
            here = self.dice.choice(self.open)
            here.agent_loop.put_input(Send(MailSent(to.id, self.player.text(), by_user=True)))

    async def stop(self) -> None:
        for member in self.open:
            member.agent_loop.put_input(Interrupted())

    async def leave(self) -> None:
        if self.open:
            await self.house.manager.unload(self.dice.choice(self.open))

    async def enter(self) -> None:
        agent = await self.agent(self.dice.choice(self.names))
        if not agent.killed_at:
            self.house.manager.start_loop(await self.house.manager.open(agent))

    async def kill(self) -> None:
        agent = await self.agent(self.dice.choice(self.names[1:]))
        if not agent.killed_at:
            database = self.house.database
            await kin.kill(database, await kin.subtree_to_kill(database, agent), self.house.manager)

    async def revive(self) -> None:
        for name in self.names:
            if (agent := await self.agent(name)).killed_at:
                await kin.revive(self.house.database, agent)
                return

    async def cut(self) -> None:
        """The connection is gone, and the program goes on."""
        await asyncio.to_thread(self._terminate)

    async def die(self) -> None:
        """As kill -9 does: nothing more is stored from here on; another program opens whom the dice name."""
        house, database = self.house, self.house.database
        await self._between_statements(database._session)
        _disconnect(database._session)
        _disconnect(database._beside)
        house.manager.mailbox.closed = True
        ending = [member.loop_task for member in house.all if member.loop_task] + [*house.manager.mailbox._tasks]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await house.world.tool_runtime.close()
        await asyncio.to_thread(self._terminate)
        await self.begin()
        for name in self.dice.sample(self.names, self.dice.randint(0, len(self.names))):
            if not (agent := await self.agent(name)).killed_at:
                self.house.manager.start_loop(await self.house.manager.open(agent))

    async def _between_statements(self, session: DatabaseSession) -> None:
        """Until the connection is lost before one of the next statements, or none comes."""
        use, left, reached = session.use, self.dice.randint(1, 12), asyncio.Event()

        @contextlib.asynccontextmanager
        async def counted(patient: bool = False) -> AsyncIterator[Cursor]:
            nonlocal left
            left -= 1
            if left <= 0:
                _disconnect(session)
                reached.set()
            async with use(patient) as cursor:
                yield cursor

        session.use = counted  # type: ignore[method-assign]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reached.wait(), 0.05)

    def _terminate(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
            )

    async def rest(self) -> list[Agent]:
        """Everybody who lives is opened, all that waits comes, and each is asked once more; who lives."""
        self.player.calm = True
        await _patiently(lambda: self.agent("boss"))  # the connection may have been cut just now
        if self.dice.random() < 0.5:
            await self.die()
        while self.dice.random() < 0.7:
            with contextlib.suppress(AgentLocked):  # it is just being opened, and refused then
                await self.revive()
        living = [agent for name in self.names if not (agent := await self.agent(name)).killed_at]
        for agent in living:
            self.house.manager.start_loop(await self.house.manager.open(agent))
        await self.stop()
        await self._idle(living)
        for member in self.open:
            member.agent_loop.put_input(Submitted("What have you heard?"))
        await self._idle(living)
        return living

    async def _idle(self, living: list[Agent]) -> None:
        house, waiting = self.house, dict[str, int]()

        async def at_rest() -> bool:
            for member in self.open:
                if house.manager.mailbox._unattended.get(
                    member.agent.id, 0
                ) >= MAX_UNATTENDED_TURNS and not house.manager.is_running(member.agent.id):
                    member.agent_loop.put_input(
                        Submitted("Go on.")
                    )  # a word of the user's, which what is held waits for
            waiting.clear()
            for agent in living:
                waiting[agent.name] = len((await house.database.mail.waiting(agent.id)).own)
            return not any(waiting.values()) and not any(house.manager.is_running(agent.id) for agent in living)

        try:
            await until(at_rest)
        except TimeoutError:
            raise AssertionError(f"what waits, and nobody takes: {waiting}; lost: {self.lost}") from None

    async def check(self, living: list[Agent]) -> tuple[int, int]:
        """How many messages were sent, and how many of them came."""
        assert not self.lost
        came = await delivered(self.house.database)
        check(self.dsn, idle=False)
        names, sent = {agent.id: agent.name for agent in living}, dict[int, MailSent]()
        for name in self.names:
            for row in await self.house.history(name):
                if isinstance(row.event, MailSent):
                    sent[row.id] = row.event
        assert sent.keys() == came.keys()
        assert not [each for id, each in sent.items() if each.to in names and came[id] != 1], "once to each who lives"
        for to, name in names.items():
            taken = {row.event.of for row in await self.house.history(name) if isinstance(row.event, MailTaken)}
            assert taken == {id for id, each in sent.items() if each.to == to}
            self._seen(name, [each.text for each in sent.values() if each.to == to])
        return len(sent), sum(came.values())

    def _seen(self, name: str, texts: list[str]) -> None:
        """Check that the requests of this agent's model show no text twice, and in the end every text."""
        requests = [repr(request.messages) for request in self.player.requests if request.model == name]
        for token in {token for text in texts for token in re.findall(r"<\d+>", text)}:
            assert requests[-1].count(token) == 1, f"{name}: {token} in the last request"
            assert all(request.count(token) <= 1 for request in requests), f"{name}: {token} came twice"


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    for _ in range(3):
        with contextlib.suppress(Unavailable):
            return await ask()
    return await ask()


def _disconnect(session: DatabaseSession) -> None:
    """Without a farewell, and for good; whoever is being answered hears it from the connection."""
    session._conninfo = NOWHERE
    if session._connected and not session._connected[0].closed:
        with socket.socket(fileno=os.dup(session._connected[0].pgconn.socket)) as wire, contextlib.suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)


async def live(dsn: str, folder: Path, seed: int) -> tuple[int, int]:
    life = Life(dsn, folder, seed)
    await life.begin()
    await life.people()
    for _ in range(STEPS):
        await life.step()
    found = await life.check(await life.rest())
    await life.house.manager.close()
    await life.house.world.tool_runtime.close()
    await life.house.database.close()
    return found


@pytest.mark.parametrize("seed", seeds(1, 199, first=1))
async def test_mail_comes_once_and_in_order(
    dsn: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "RETRY_AFTER", (0.02,))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # of what the dead have not saved
    sent, came = await live(dsn, tmp_path, seed)
    assert sent >= came > 0
