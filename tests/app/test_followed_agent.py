"""A follower shows exactly the log, in any order of appended events, drafts, cut connections and lost writers."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from ikigai.app.agents.followed_agent import FollowedAgent
from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text, Thinking, ToolResult, Usage
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import Delta, RetryScheduled, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.request.reply_draft import Draft, draft_parts
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.inputs import (
    CallModel,
    Change,
    Clear,
    Denied,
    Failed,
    Interrupted,
    Replied,
    RewindTo,
    SetMark,
    StartTool,
    Submitted,
    Undo,
)
from ikigai.core.state.memory import Memory, replace
from ikigai.core.views.context_rule import ContextRule, context_rule
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.store.connection import connection
from ikigai.store.database import Database
from ikigai.store.log.follow import FollowUpdate
from ikigai.terminal.output.live_reply import FinishedPiece, FoldedThinking, LiveReply
from tests.conftest import MIGRATIONS
from tests.core.agent import RUN
from tests.store.proxy import TO_CLIENT, proxied
from tests.store.talk import Talk
from tests.support.examples import seeds

SMALL = replace(RUN, below={**RUN.below, "budget": 300}, limits=lambda _: ModelLimits(100_000, 1_000))


class Watcher:
    """A view that keeps what rises into the scrollback, as the terminal does."""

    def __init__(self) -> None:
        self.rows: list[ev.StoredEvent] = []
        self.said: list[str] = []  # words of the model, by piece
        self.thought: list[str] = []
        self.rules: list[ContextRule] = []
        self.notices: list[str] = []
        self.aways: list[bool] = []
        self.holders: list[str] = []
        self.names: list[str] = []
        self.reply: LiveReply | None = None
        self.memory: Memory | None = None

    def show(self, block: TranscriptBlock) -> None:
        if block.speaker is Speaker.STOPPED and self.reply:
            self.finish(self.reply.dropped())
        if block.speaker is not Speaker.ASSISTANT:
            return
        if self.reply and self.reply.waits:
            self.finish(self.reply.stored(block.text, len(block.thoughts)))
        else:
            self.said.append(block.text)
            self.thought += [thought.text for thought in block.thoughts]

    def show_delta(self, asked_by: int, event: Delta | RetryScheduled) -> None:
        if self.reply is None or self.reply.asked_by != asked_by:
            self.reply = LiveReply(asked_by)
        self.finish(self.reply.add(event))

    def draft_saved(self, asked_by: int, characters: int) -> None:
        assert self.reply and self.reply.asked_by == asked_by
        self.finish(self.reply.saved(characters))

    def finish(self, pieces: list[FinishedPiece]) -> None:
        for piece in pieces:
            if isinstance(piece, FoldedThinking):
                self.thought.append(piece.text)
            else:
                self.said.append(piece.source)

    def stored(self, event: ev.StoredEvent) -> None:
        self.rows.append(event)

    def changed(self, memory: Memory) -> None:
        self.memory = memory
        if memory.open is None:
            self.reply = None

    def rule(self, rule: ContextRule) -> None:
        self.rules.append(rule)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    note = notice

    def database_unreachable(self, is_unreachable: bool) -> None:
        self.aways.append(is_unreachable)

    async def ask(self, question: Question) -> QuestionAnswer:
        return QuestionAnswer(question.default)

    def progress(self, call_id: str, text: str) -> None: ...
    def restore_input(self, text: str) -> None: ...
    def queued(self, texts: tuple[str, ...]) -> None: ...


def follows(database: Database, talk: Talk, view: Watcher) -> FollowedAgent:
    world: Any = SimpleNamespace(database=database, run=talk.run)  # what of it a follower needs
    return FollowedAgent(world, talk.agent, view, view.holders.append, view.names.append)


async def caught_up(watcher: Watcher, talk: Talk, start: int) -> None:
    """Wait until it has shown all that is stored."""
    async with asyncio.timeout(60):
        while start + len(watcher.rows) < (talk.log._last_seq or 0):
            await asyncio.sleep(0.01)


class Writer:
    """A program that writes, a random step at a time."""

    def __init__(self, talk: Talk, dice: random.Random) -> None:
        self.talk, self.dice = talk, dice
        self.reply = ReplyBuilder()
        self.calls = 0

    async def step(self) -> None:
        talk, dice = self.talk, self.dice
        jobs = [job for job in work(talk.memory) if isinstance(job, CallModel)]
        if not jobs:
            await self.idle()
            return
        (job,) = jobs
        match dice.randrange(10):
            case 0:
                usage = ev.UsageReported(talk.memory.model)
                blocks = self.reply.blocks()
                stopped = dice.random() < 0.3
                await talk.happen(
                    Interrupted(blocks, usage) if stopped else Replied(job, blocks, StopReason.END, usage)
                )
                self.reply = ReplyBuilder()
                await self.run_tools()
            case 1 | 2 | 3:
                blocks = self.reply.blocks()
                await talk.log.save_draft(
                    Draft(job.asked_by, self.reply.text, self.reply.thinking, draft_parts(blocks))
                )
            case _:
                self.reply.add(self.delta())

    def delta(self) -> Delta:
        words = self.dice.choice(["word ", "**bold** ", "\n\n", "- item\n", "end.\n\n", "```\ncode\n", "x" * 30])
        match self.dice.randrange(8):
            case 0:
                return ThinkingDelta(words, self.dice.choice(["", "", "signed"]))
            case 1:
                self.calls += 1
                return ToolCallDelta(self.calls, f"call{self.calls}", "not_there", "{}")
            case _:
                return TextDelta(words)

    async def run_tools(self) -> None:
        """Answer the calls, so that the turn goes on."""
        self.calls = 0
        while starts := [job for job in work(self.talk.memory) if isinstance(job, StartTool)]:
            await self.talk.happen(Denied(starts[0], ToolResult(starts[0].call.id, "no", is_error=True)))

    async def idle(self) -> None:
        talk, dice = self.talk, self.dice
        match dice.randrange(8):
            case 0:
                await talk.happen(SetMark("here"))
            case 1 if talk.memory.marks:
                await talk.happen(RewindTo(""))
            case 2 if talk.memory.marks or talk.memory.full_window.turns:  # else it may be cleared already
                await talk.happen(Clear())
            case 3 if any(act.kind != "undo" for act in talk.memory.changes):
                await talk.happen(Undo())
            case 4:
                if (budget := dice.randrange(200, 400)) != talk.memory.own.get("budget"):
                    await talk.happen(Change({"budget": budget}))
            case _:
                await talk.happen(Submitted(f"message {dice.random()}"))


async def interleaved(dsn: str, seed: int, steps: int) -> None:
    dice = random.Random(seed)
    database, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk = await Talk.open(database, await database.agents.create(), SMALL)
    writer = Writer(talk, dice)
    for _ in range(dice.randrange(20)):
        await writer.step()
    watcher = Watcher()
    following = follows(other, talk, watcher)
    begun = await following.begin()
    start = following._follower.seq
    following.start()
    with psycopg.connect(dsn, autocommit=True) as admin:
        for _ in range(steps):
            match dice.randrange(30):
                case 0:
                    pid = following._follower._session.info.backend
                    admin.execute("select pg_terminate_backend(%s)", (pid,))
                case 1:
                    await asyncio.sleep(dice.random() * 0.1)
                case 2:
                    following._follower._has_news = False  # a hint is lost
                case _:
                    await writer.step()
            if dice.random() < 0.3:
                await asyncio.sleep(0)
        await caught_up(watcher, talk, start)
    await following.catch_up()
    assert [row.seq for row in watcher.rows] == list(range(start + 1, (talk.log._last_seq or 0) + 1))
    agrees(watcher, begun, following.memory, talk)
    await database.close()
    await other.close()


def agrees(watcher: Watcher, begun: Memory, memory: Memory, talk: Talk) -> None:
    assert memory == talk.memory == replace(watcher.memory or begun, stale=False)
    if watcher.rules:
        last = context_rule(memory)
        assert last is None or watcher.rules[-1].before == last.before
    messages = [row.event for row in watcher.rows if isinstance(row.event, ev.AssistantMessage)]
    shown, stored = ("".join("".join(texts).split()) for texts in (watcher.said, [each.text for each in messages]))
    if memory.open:  # the reply under way has risen in part
        assert shown.startswith(stored)
    else:
        thoughts = [block.text for each in messages for block in each.blocks if isinstance(block, Thinking)]
        assert shown == stored
        assert "".join("".join(watcher.thought).split()) == "".join("".join(thoughts).split())


async def told(watcher: Watcher, *words: str) -> None:
    """Wait until the newest notice says this."""
    async with asyncio.timeout(60):
        while not (watcher.notices and all(word in watcher.notices[-1] for word in words)):
            await asyncio.sleep(0.02)


async def test_lock_owner_and_its_absence_are_notified_once(dsn: str) -> None:
    writer, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk = await Talk.open(writer, await writer.agents.create("heron"))
    watcher = Watcher()
    following = follows(other, talk, watcher)
    await following.begin()
    following.start()
    assert "heron is open in another terminal" in following.refusal().what and "pid" in following.owner
    holder = following.owner
    await talk.log.close()
    await told(watcher, f"heron is no longer open in another terminal ({holder}).", "/takeover")
    assert following.owner == "" and following.refusal().what == "You only watch heron here."
    await asyncio.sleep(1.2)  # more than a look
    assert len(watcher.notices) == 1
    again = await Talk.open(writer, talk.agent)
    await told(watcher, f"heron is open in another terminal ({holder}).")
    await again.turn("on", "and on")
    await caught_up(watcher, again, following._follower.seq - len(watcher.rows))
    assert watcher.said == ["and on"] and len(watcher.notices) == 2 and watcher.holders == ["", holder]
    await following.stop()
    await writer.close()
    await other.close()


async def test_connection_that_is_cut_once_is_not_told(dsn: str) -> None:
    async with proxied(dsn) as (proxy, through):
        writer, other = await Database.open(dsn, MIGRATIONS), await Database.open(through, MIGRATIONS)
        talk, watcher = await Talk.open(writer), Watcher()
        following = follows(other, talk, watcher)
        await following.begin()
        start = following._follower.seq
        following.start()
        for cuts in range(3):
            proxy.cut_after(TO_CLIENT, 300 * cuts)
            await talk.turn("before", "the cut")
            await caught_up(watcher, talk, start)
        assert not watcher.notices and following.memory == talk.memory
        await following.stop()
        await writer.close()
        await other.close()


@pytest.mark.parametrize("refusal", [(), ("28P01", 'password authentication failed for user "me"')])
async def test_database_that_is_away_is_told_and_comes_back(
    dsn: str, refusal: tuple[str, str] | tuple[()], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REFUSAL_RETRY_DELAY", 0.2)
    async with proxied(dsn) as (proxy, through):
        writer, other = await Database.open(dsn, MIGRATIONS), await Database.open(through, MIGRATIONS)
        talk, watcher = await Talk.open(writer), Watcher()
        following = follows(other, talk, watcher)
        await following.begin()
        start = following._follower.seq
        following.start()
        await talk.turn("before", "the cut")
        await caught_up(watcher, talk, start)
        if refusal:
            proxy.refuse(*refusal)
        else:
            proxy.down = True
            proxy.reset()
        await talk.turn("during", "the cut")
        async with asyncio.timeout(60):
            while not watcher.notices:
                await asyncio.sleep(0.01)
        proxy.down = False
        proxy.refuse()
        await told(watcher, "The database is back.")
        await caught_up(watcher, talk, start)
        assert watcher.aways == [True, False]
        assert watcher.notices[0].endswith("New messages are shown when it is back.") and len(watcher.notices) == 2
        assert watcher.said == ["the cut"] * 2 and following.memory == talk.memory
        await following.stop()
        await writer.close()
        await other.close()


async def test_draft_read_before_its_user_message_is_kept(dsn: str) -> None:
    """The rows are read before the draft: what came in between is in the one and not in the other."""
    writer, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk, watcher = await Talk.open(writer), Watcher()
    following = follows(other, talk, watcher)
    await following.begin()
    await talk.happen(Submitted("?"))
    (job,) = work(talk.memory)
    rows = (await following._follower.look()).rows
    await talk.log.save_draft(Draft(job.asked_by, "Half", "", (("text", 4),)))
    following._show(await following._follower.look())
    assert watcher.reply is None, "nobody has asked yet"
    following._show(FollowUpdate(rows=rows))
    assert watcher.reply and watcher.reply.tail(80, 5)[0] == ["Half"]
    await talk.happen(Replied(job, (Text("Half and half"),), StopReason.END, ev.UsageReported(talk.memory.model)))
    following._show(await following._follower.look())
    assert "".join(watcher.said).split() == ["Half", "and", "half"]
    await following.stop()
    await writer.close()
    await other.close()


async def test_follower_learns_what_the_agent_is_called_now(dsn: str) -> None:
    writer, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk, watcher = await Talk.open(writer), Watcher()
    following = follows(other, talk, watcher)
    await following.begin()
    following.start()
    await writer.tree.rename(talk.agent, "dusk")
    async with asyncio.timeout(60):
        while not watcher.names:
            await asyncio.sleep(0.01)
    assert watcher.notices == [f"{talk.agent.name} is now called dusk."] and watcher.names == ["dusk"]
    following.rename("dusk")
    assert "dusk is open in another terminal" in following.refusal().what and watcher.holders == [following.owner]
    await following.catch_up()
    assert watcher.names == ["dusk"]
    await writer.close()
    await other.close()


async def test_model_of_the_writers_flag_is_learned(dsn: str) -> None:
    """The first settings of an agent are in no event, and what a flag says is not in the log after a clear."""
    writer, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk = await Talk.open(writer, run=replace(RUN, above={"model": "chat/small"}))
    here = replace(RUN, limits=lambda model: ModelLimits(100 if model == "chat/small" else 9, 1))
    watcher = Watcher()
    following = FollowedAgent(cast("Any", SimpleNamespace(database=other, run=here)), talk.agent, watcher, print, print)
    await following.begin()
    following.start()
    assert following.memory.model == RUN.below["model"] != "chat/small"
    await talk.happen(Submitted("one"))
    (job,) = work(talk.memory)
    usage = ev.UsageReported("chat/small", Usage(input=9), size=40)
    await talk.happen(Replied(cast("CallModel", job), (Text("two"),), StopReason.END, usage))
    await talk.happen(Submitted("three"))
    async with asyncio.timeout(60):
        while not (watcher.memory and watcher.memory.model == "chat/small" and watcher.memory.open):
            await asyncio.sleep(0.01)
    assert watcher.memory.limits.context == 100 and len(watcher.rows) == 5
    await following.catch_up()
    later = FollowedAgent(cast("Any", SimpleNamespace(database=other, run=here)), talk.agent, watcher, print, print)
    assert (await later.begin()).model == "chat/small"
    await later.stop()
    await writer.close()
    await other.close()


@pytest.mark.parametrize("where", ["before", "in the turn", "behind"])
async def test_model_of_a_fallback_is_not_taken_for_the_chosen_one(dsn: str, where: str) -> None:
    writer, other = [await Database.open(dsn, MIGRATIONS) for _ in range(2)]
    talk = await Talk.open(writer, run=replace(RUN, fallback=(("chat/small", ""),)))
    watcher = Watcher()
    following = FollowedAgent(cast("Any", SimpleNamespace(database=other, run=RUN)), talk.agent, watcher, print, print)

    async def follow(when: str) -> None:
        if when == where:
            await following.begin()
            following.start()

    await follow("before")
    await talk.happen(Submitted("one"))
    (job,) = work(talk.memory)
    await talk.happen(Failed(cast("CallModel", job), "down", (), outage="chat/large is down."))
    assert talk.memory.model == "chat/small"
    await follow("in the turn")
    (job,) = work(talk.memory)
    usage = ev.UsageReported("chat/small", Usage(input=9), size=40)
    await talk.happen(Replied(cast("CallModel", job), (Text("two"),), StopReason.END, usage))
    await talk.happen(Clear())
    await follow("behind")
    await talk.happen(SetMark("m"))
    async with asyncio.timeout(10):
        while not following.memory.marks:
            await asyncio.sleep(0.01)
    assert following.memory.model == talk.memory.model == "chat/large"
    assert following.memory.room == talk.memory.room
    await following.catch_up()
    await writer.close()
    await other.close()


@pytest.mark.parametrize("seed", seeds(1, 6))
async def test_followed_agent_shows_the_log(dsn: str, seed: int) -> None:
    await interleaved(dsn, seed, 150)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
async def test_followed_agent_shows_the_log_for_long(dsn: str, seed: int) -> None:
    await interleaved(dsn, seed, 600)
