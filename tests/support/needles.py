"""Measure what condensing leaves of early events in a long conversation, and at which cost.

The same conversation goes through ikigai (its loop, its database, a model behind real HTTP) and through the two rules
of Roo-Code, simulated: to hide half of the messages, and to put a summary in the place of everything. All ask the same
summarizer, which copies the newest sentences with a figure in them that there is room for.

Prices are Anthropic's in input tokens at full price. The part that a request shares with the one before costs 0.1, the
rest of it 1.25. Other input of a summarizer costs 1, its output 5. Replies cost the same everywhere and are left out.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ikigai.agent.loop import AgentLoop
from ikigai.agent.loop_options import LoopOptions, NoServices
from ikigai.app.history.recall_commands import MAX_EXCERPT_CHARACTERS, MAX_EXCERPTS, format_excerpts
from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.store.database import Database
from ikigai.tools.registry import ToolRegistry
from tests.agent.test_loop import Watcher
from tests.bench.prose import Prose
from tests.support.wire_server import Answer, Received, WireServer, completion

READ, WRITTEN, SHOWN, WROTE = 0.1, 1.25, 1.0, 5.0
SYSTEM = "You are a careful assistant."
Said = dict[str, str]
"""A message as it is sent: role and content."""


@dataclass
class Needle:
    question: str
    text: str


@dataclass
class Outcome:
    """The needles in the next request, those that recall finds besides, and costs in input tokens."""

    name: str
    kept: int
    recalled: int
    needles: int
    price: float
    recalling: float
    window: float
    summaries: int

    def row(self) -> str:
        found = self.kept + self.recalled
        return (
            f"{self.name:<44} {self.kept:>3} {self.recalled:>4} {found:>4}/{self.needles}"
            f" {self.price:>11,.0f} {self.recalling:>9,.0f} {self.window:>8,.0f} {self.summaries:>4}"
        )


HEAD = f"{'':<44} {'in':>3} {'rec.':>4} {'found':>7} {'price':>11} {'recalling':>9} {'window':>8} {'sum.':>4}"


def conversation(turns: int, words: int, needles: int, seed: int = 8) -> tuple[list[tuple[str, str]], list[Needle]]:
    """Return questions and answers of about `words` words each; needles lie in the first half of them, anywhere in a
    turn.
    """
    random = Random(seed)
    prose = Prose(random)
    places = sorted(random.sample(range(turns // 2), needles))
    said, found = list[tuple[str, str]](), list[Needle]()
    for turn in range(turns):
        event = f"Ticket {random.randrange(10_000, 99_999)} moved {prose.path()} to {random.randrange(9)}.{turn}."
        asked, answered = f"{turn}: {prose.text(words // 6)} {event}", prose.text(words)
        if turn in places:
            what = f"{prose.name()} {prose.name()}{turn}"
            text = f"{prose.name()}-{random.randrange(16**6):06x}"
            hidden = f"The access word of the {what} is {text}."
            found.append(Needle(f"What is the access word of the {what}?", text))
            if random.random() < 0.5:
                asked = f"{asked} {hidden}"
            else:
                middle = answered.find(". ", len(answered) // 2) + 2
                answered = f"{answered[:middle]}{hidden} {answered[middle:]}"
        said.append((asked, answered))
    return said, found


def summary_of(asked: str) -> str:
    """Return the summarizer's answer: the newest sentences with a figure, up to the number of words it may write."""
    most = int(re.findall(r"at most (\d+) words", asked)[-1])
    kept = list[str]()
    for sentence in reversed(re.split(r"(?<=\.)\s+|\n+", asked.rpartition("[end of the conversation]")[0])):
        most -= len(sentence.split())
        if most < 0:
            break
        if re.search(r"\d", sentence) and sentence not in kept:
            kept.append(sentence)
        else:
            most += len(sentence.split())
    return " ".join(reversed(kept))


def size(message: Said) -> int:
    return len(json.dumps(message, ensure_ascii=False).encode())


def priced(requests: list[list[Said]]) -> tuple[float, float]:
    """Return the cost of these requests one after the other, and their mean size, in tokens."""
    cost = total = 0.0
    before: list[Said] = []
    for now in requests:
        same = 0
        while same < min(len(before), len(now)) and before[same] == now[same]:
            same += 1
        read, written = sum(map(size, now[:same])) / 4, sum(map(size, now[same:])) / 4
        cost, total, before = cost + READ * read + WRITTEN * written, total + read + written, now
    return cost, total / len(requests)


def summarising(asked: str, answered: str) -> float:
    return SHOWN * len(asked) / 4 + WROTE * len(answered) / 4


async def ours(
    name: str,
    database: Database,
    talk: list[tuple[str, str]],
    needles: list[Needle],
    budget: int,
    options: CondenseOptions,
    cheaper: float = 1.0,
) -> Outcome:
    """Send the conversation through ikigai; a summarizer of its own costs `cheaper` times as much."""
    answers = iter(answer for _, answer in talk)

    def answer(received: Received) -> Answer:
        messages = received.json["messages"]
        return completion(summary_of(_shown(messages)) if _is_asked(messages) else next(answers), piece=4_000)

    async with WireServer() as server:
        server.answer = answer
        provider = OpenAIProvider("wire", server.base_url, "key", traits=lambda _: ModelTraits())
        settings = {"model": "wire/x", "budget": budget, "system": SYSTEM}
        limits = ModelLimits(10 * budget, 1_000)
        run = RunConfig(settings, lambda _: limits, provider.encoder, rules=WindowRules(prune_fraction=0))
        agent = await database.agents.create()
        log = await database.open_agent(agent)
        memory = await log.load(load_memory(run, agent.id))
        chosen = LoopOptions(services=_Condensing(options))
        runtime = AgentLoop(memory, log, lambda _: provider, ToolRegistry(), Watcher(), chosen)
        loop = asyncio.create_task(runtime.run())
        for turn, (asked, _) in enumerate(talk, 1):
            runtime.inbox.put_nowait(Submitted(asked))
            await _until(lambda turn=turn: _ended(runtime, turn))
        requests = [received.json["messages"] for received in server.requests]
        made = [asked for asked in requests if _is_asked(asked)]
        sent = [asked for asked in requests if asked not in made]
        last = json.dumps([*map(_text, sent[-1]), talk[-1][1]], ensure_ascii=False)
        runtime.inbox.put_nowait(None)
        await loop
        await log.close()
        await provider.close()
    while await database.indexer.index_some():
        pass
    kept, recalled, recalling = 0, 0, 0.0
    for needle in needles:
        if needle.text in last:
            kept += 1
            continue
        found = await database.recall(needle.question, MAX_EXCERPTS, MAX_EXCERPT_CHARACTERS)
        text = format_excerpts(found.turns)
        recalled += needle.text in text
        recalling += WRITTEN * len(text) / 4
    price, window = priced(sent)
    price += sum(_beside(sent, asked) if len(asked) > 2 else cheaper * _apart(asked) for asked in made)
    return Outcome(name, kept, recalled, len(needles), price, recalling, window, len(made))


class _Condensing(NoServices):
    """Services with these options."""

    def __init__(self, options: CondenseOptions) -> None:
        self._options = options

    def condense_options(self, memory: Memory) -> CondenseOptions:
        return self._options


def _is_asked(messages: list[Said]) -> bool:
    return messages[-1]["content"].endswith("nothing else.")


def _shown(messages: list[Said]) -> str:
    """Return the text that a summarizer reads, without the instruction at its end."""
    if len(messages) == 2:
        return messages[-1]["content"]
    said = "\n\n".join(message["content"] for message in messages[1:-1])
    return f"{said}\n\n[end of the conversation]\n\n{messages[-1]['content']}"


def _apart(asked: list[Said]) -> float:
    text = _shown(asked)
    return summarising(asked[0]["content"] + text, summary_of(text))


def _beside(sent: list[list[Said]], asked: list[Said]) -> float:
    """Return a request that shares all but its last message with one of the conversation."""
    assert any(each[: len(asked) - 1] == asked[:-1] for each in sent), "it could be served by a cache"
    wrote = WROTE * len(summary_of(_shown(asked))) / 4
    return READ * sum(map(size, asked[:-1])) / 4 + WRITTEN * size(asked[-1]) / 4 + wrote


def _text(message: Any) -> str:
    return str(message["content"])


def _ended(runtime: AgentLoop, turn: int) -> bool:
    """Return True once the turn has ended and its summary is stored: the user is slower than the summarizer."""
    if runtime.memory.status is not AgentStatus.IDLE or runtime.memory.full_window.total.turns < turn:
        return False
    return not runtime.condensing


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.001)


def theirs(name: str, talk: list[tuple[str, str]], needles: list[Needle], ceiling: int, condense: bool) -> Outcome:
    """Send the conversation under a rule of Roo-Code's: half of the messages are hidden, or a summary replaces all."""
    system, requests, made = {"role": "system", "content": SYSTEM}, list[list[Said]](), 0
    visible, markers, price = list[Said](), list[Said](), 0.0
    for asked, answered in talk:
        visible.append({"role": "user", "content": asked})
        if sum(map(size, (system, *markers, *visible))) / 4 > ceiling:
            if condense:
                words = max(40, min(4_000, ceiling // 20) * 3 // 5)
                whole = "\n\n".join(message["content"] for message in visible)
                text = f"{whole}\n\n[end of the conversation]\n\nIn at most {words} words."
                summary = summary_of(text)
                price += summarising(text, summary)
                visible, made = [{"role": "user", "content": f"## Conversation Summary\n{summary}"}], made + 1
            else:
                hidden = (len(visible) - 1) // 2 // 2 * 2
                del visible[1 : 1 + hidden]
                marker = f"[Sliding window truncation: {hidden} messages hidden to reduce context]"
                markers.append({"role": "user", "content": marker})
        requests.append([system, visible[0], *markers, *visible[1:]])
        visible.append({"role": "assistant", "content": answered})
    last = json.dumps([message["content"] for message in visible], ensure_ascii=False)
    kept = sum(needle.text in last for needle in needles)
    cost, window = priced(requests)
    return Outcome(name, kept, 0, len(needles), price + cost, 0.0, window, made)
