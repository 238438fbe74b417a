"""Random replies full of agent tools: each call finds what those before it did, and each answer comes once.

A boss has workers by calls that the dice choose, several in one reply; what came of them is read from the logs alone,
and compared with what calling one behind the other comes to.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ikigai.agent import db_retry as patience
from ikigai.core.events.messages import Role
from ikigai.core.state.inputs import Change, Interrupted, Submitted
from ikigai.providers.scripted import Reply, ScriptedCall, ScriptedFailure, ScriptedPause, ScriptedProvider
from tests.app.house import delivered, until
from tests.app.reply_verdict import LONG, Verdict
from tests.app.test_mailbox_lives import Life
from tests.support.examples import seeds
from tests.support.invariants import check

WORKERS = ("ant", "bee", "cat")
TURNS = 8
"""Things that the user asks for in one life; each is a few replies with calls."""


class Cast(ScriptedProvider):
    """The models of the boss and its workers, one for all programs of a life. `calm` ones only talk."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice, self.calm, self._texts = dice, False, 0

    def text(self) -> str:
        self._texts += 1
        return f"<{self._texts}>"

    def _script(self, name: str) -> Iterator[Reply]:
        newest = self.requests[-1].messages
        begins = max(n for n, message in enumerate(newest) if message.role is Role.USER)
        spoken = sum(message.role is Role.ASSISTANT for message in newest[begins:])
        by_agent = newest[begins].text.startswith("[Message from agent")
        if self.calm or (name == "boss" and by_agent):
            return iter((f"Ok {self.text()}.",))
        return iter((self._boss(spoken) if name == "boss" else self._worker(spoken),))

    def _boss(self, spoken: int) -> Reply:
        if spoken and self.dice.random() < 0.3 * spoken:
            return f"Done {self.text()}."
        return tuple(self._call() for _ in range(self.dice.randint(1, 5)))

    def _call(self) -> ScriptedCall:
        dice = self.dice
        name, seconds = dice.choice(WORKERS), 0 if dice.random() < 0.1 else LONG
        calls = (
            ScriptedCall("fork", {"prompt": self.text(), "name": name, "model": f"scripted/{name}"}),
            ScriptedCall("send", {"agent": name, "text": self.text()}),
            ScriptedCall("wait", {"agents": [name], "seconds": seconds}),
            ScriptedCall("wait", {"agents": dice.sample(WORKERS, 2), "seconds": seconds}),
            ScriptedCall("wait", {"seconds": seconds}),
            ScriptedCall("agents"),
            ScriptedCall("kill", {"agent": name}),
        )
        return dice.choices(calls, (5, 9, 8, 3, 3, 1, 0.5))[0]

    def _worker(self, spoken: int) -> Reply:
        dice, words = self.dice, f"Answer {self.text()}."
        replies: tuple[Reply, ...] = (
            words,
            (ScriptedPause(dice.random() / 20), words),
            (ScriptedCall("wait", {"seconds": dice.choice((0, 0.02, LONG))}),),
            (ScriptedCall("send", {"agent": "boss", "text": f"Note {self.text()}."}),),
            (words, ScriptedFailure()),
        )
        return words if spoken > 1 else dice.choices(replies, (6, 4, 1.5, 1, 0.5))[0]


class Replies(Life):
    """A boss, the user who asks it for things, and in half of the lives programs that die."""

    def __init__(self, dsn: str, folder: Path, seed: int) -> None:
        super().__init__(dsn, folder, seed)
        self.cast = Cast(self.dice)
        self.player = self.cast  # type: ignore[assignment]
        self.names, self.dies, self.deaths = ["boss"], seed % 2 == 0, 0

    async def people(self) -> None:
        boss = await self.house.manager.open(await self.house.world.create("boss"))
        self.house.manager.start_loop(boss)
        boss.agent_loop.put_input(Change({"model": "scripted/boss"}))
        await until(lambda: boss.agent_loop.memory.model == "scripted/boss")

    async def turn(self) -> None:
        """The user asks for something; the turn runs to its end, or is stopped, or its program dies."""
        boss = self.house.manager.find("boss")
        assert boss
        boss.agent_loop.put_input(Submitted("Go on."))
        fate = self.dice.random()
        if fate < 0.1:
            await self.breathe()
            boss.agent_loop.put_input(Interrupted())
        elif self.dies and fate < 0.5:
            await self.breathe()
            self.names = ["boss"]
            await self.die()
            self.deaths += 1
            self.house.manager.start_loop(await self.house.manager.open(await self.agent("boss")))
            return
        await until(lambda: boss.agent_loop.inbox.empty() and boss.agent_loop.memory.open is None)

    async def verdict(self) -> Verdict:
        """Bring all to rest, and read the logs."""
        self.cast.calm = True
        house = self.house
        boss = await self.agent("boss")
        tree = await house.database.mail.tree(boss.id)
        living = [agent for each in tree if not each.dead and (agent := await house.database.agents.get(each.id))]
        for agent in living:
            house.manager.start_loop(await house.manager.open(agent))
        await self._idle(living)
        logs = {each.name: await house.history(each.name) for each in tree}
        await delivered(house.database)
        check(self.dsn, idle=False)
        return Verdict(logs, boss.id, {each.name for each in tree if each.dead})


async def lived(dsn: str, folder: Path, seed: int) -> tuple[Verdict, int]:
    """The result of one life, and the number of programs killed in it."""
    life = Replies(dsn, folder, seed)
    await life.begin()
    await life.people()
    for _ in range(TURNS):
        await life.turn()
    verdict = await life.verdict()
    await life.house.manager.close()
    await life.house.world.tool_runtime.close()
    await life.house.database.close()
    return verdict, life.deaths


@pytest.mark.parametrize("seed", seeds(1, 100, first=1))
async def test_calls_of_a_reply_find_what_those_before_them_did(
    dsn: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "RETRY_AFTER", (0.02,))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    verdict, deaths = await lived(dsn, tmp_path, seed)
    print(f"{verdict.replies} replies, {len(verdict.calls)} calls, {verdict.answers} mails, {deaths} programs died:")
    print(f"{len(verdict.wrong)} wrong, {len(verdict.lost)} lost, {len(verdict.doubled)} doubled")
    assert (verdict.wrong, verdict.lost, verdict.doubled) == ({}, [], [])
    assert verdict.calls
