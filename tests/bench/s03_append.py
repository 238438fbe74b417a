"""Measure S3: one event through the loop and the log, from input to view, against a bare INSERT.

Both sides write the same row into the same table of the embedded server, one after the other. The bare side is psycopg
without asyncio, on a connection that commits by itself: one round trip and one flush, less is not possible.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from random import Random
from uuid import UUID

import psycopg

from ikigai.agent.loop import AgentLoop
from ikigai.core.events import codec
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.core.state.inputs import Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.providers.scripted import ScriptedProvider
from ikigai.store.database import Database
from ikigai.store.log.append_attempt import new_event_id
from ikigai.tools.registry import ToolRegistry
from tests.bench import histories
from tests.bench.figures import Figure, percentile
from tests.bench.generator import RUN
from tests.bench.prose import Prose

INSERT = "insert into messages (agent_id, seq, event_id, kind, content, data) values (%s, %s, %s, %s, %s, %s)"
WORDS = 170
"""Words of a message: about 1 KB."""


def measure(quick: bool) -> list[Figure]:
    with histories.empty() as dsn:
        return asyncio.run(compare(dsn, 100 if quick else 2_000))


async def compare(dsn: str, events: int) -> list[Figure]:
    """Store `events` user messages each way, into a database that holds nothing but the schema."""
    prose = Prose(Random(3))
    warm_up = events // 10
    taken: list[tuple[float, float]] = []
    talk = await _Talk.open(dsn, warm_up + events)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            bare = _bare(connection, (await talk.database.agents.create("bare")).id)
            for _ in range(warm_up + events):
                text = prose.text(WORDS)
                taken.append((await talk.say(text), bare(text)))
    finally:
        await talk.close()
    times, bases = zip(*taken[warm_up:], strict=True)
    tail, base_tail = percentile(times, 99), percentile(bases, 99)
    return [
        Figure("S3", "one event decided, stored, folded, shown", "s", times, "INSERT and commit", bases, 1.6),
        Figure("S3", "one event, p99", "s", [tail], "median", times, 3.0),
        Figure("S3", "INSERT and commit, p99", "s", [base_tail], "median", bases),
        Figure("S3", "one event, the slowest", "s", [max(times)], "INSERT and commit, the slowest", [max(bases)]),
    ]


def _bare(connection: psycopg.Connection, agent: str) -> Callable[[str], float]:
    """Return a function that stores a user's message without ikigai and returns the seconds it took."""
    numbers = count(1)

    def insert(text: str) -> float:
        row = (UUID(agent), next(numbers), new_event_id(), *codec.encode(UserMessage(text)))
        began = time.perf_counter()
        connection.execute(INSERT, row)
        return time.perf_counter() - began

    return insert


class _Talk:
    """A running loop over the database, with a model that answers at once; and its view."""

    _runtime: AgentLoop
    _loop: asyncio.Task[None]

    def __init__(self, database: Database) -> None:
        self.database = database
        self._idle = asyncio.Event()
        self._shown = 0.0

    @classmethod
    async def open(cls, dsn: str, turns: int, name: str = "looped") -> "_Talk":
        database = await Database.open(dsn, histories.MIGRATIONS)
        talk = cls(database)
        store = await database.open_agent(await database.agents.create(name))
        memory = await store.load(load_memory(RUN, store.agent))
        model = ScriptedProvider(["Good."] * turns)
        talk._runtime = AgentLoop(memory, store, lambda _: model, ToolRegistry(), talk)
        talk._loop = asyncio.create_task(talk._runtime.run())
        await talk._idle.wait()
        return talk

    async def say(self, text: str) -> float:
        """Return seconds from the submission until the view got it, after the turn has ended."""
        self._idle.clear()
        began = time.perf_counter()
        self._runtime.inbox.put_nowait(Submitted(text))
        await self._idle.wait()
        return self._shown - began

    async def close(self) -> None:
        self._runtime.inbox.put_nowait(None)
        await self._loop
        await self.database.close()

    def show(self, block: TranscriptBlock) -> None:
        if block.speaker is Speaker.USER:
            self._shown = time.perf_counter()

    def changed(self, memory: Memory) -> None:
        if memory.open is None:
            self._idle.set()

    def rule(self, rule: ContextRule) -> None: ...
    def show_delta(self, asked_by: int, event: object) -> None: ...
    def progress(self, call_id: str, text: str) -> None: ...
    async def ask(self, question: Question) -> QuestionAnswer:
        return QuestionAnswer(question.default)

    def draft_saved(self, asked_by: int, characters: int) -> None: ...
    def stored(self, event: StoredEvent) -> None: ...
    def notice(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def database_unreachable(self, is_unreachable: bool) -> None: ...
    def restore_input(self, text: str) -> None: ...
    def queued(self, texts: tuple[str, ...]) -> None: ...
