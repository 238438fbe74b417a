"""Measure S5: one more turn in a full window, whose accounting and pruning are O(1), exact to the byte."""

import time
from random import Random

from ikigai.core.events.events import AssistantMessage, Ending, Event, StoredEvent, UserMessage
from ikigai.core.events.messages import Text
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import empty_memory, end_turn, evolve
from ikigai.core.state.memory import next_request
from ikigai.core.text import tokens
from ikigai.providers.openai.chat_api import ChatEncoder
from tests.bench.figures import Figure
from tests.bench.prose import Prose

MESSAGES_OF_A_TURN = 2
WORDS = 170
"""Words of a message: about 1 KB."""


def measure(quick: bool) -> list[Figure]:
    return compare(1_000, 20_000, turns=300) if quick else compare(1_000, 100_000, turns=3_000)


def compare(few: int, many: int, turns: int) -> list[Figure]:
    """Compare windows full with `few` and `many` messages, over `turns` further turns each."""
    prose = Prose(Random(5))
    texts = [prose.text(WORDS) for _ in range(1_000)]
    small, large = _Talk(few, texts), _Talk(many, texts)
    taken = [(large.turn(), small.turn()) for _ in range(turns)]
    times, bases = zip(*taken, strict=True)
    again = [large.serialised() for _ in range(3)]
    size = len(large.body())
    turn = f"one turn more, {many:,} messages"
    return [
        Figure("S5", turn, "s", times, f"{few:,} messages", bases, 1.5),
        Figure("S5", turn, "s", times, "serialising the request anew", again, 0.001),
        Figure("S5", "bytes miscounted", "B", [abs(large.memory.size - size)], "the request's body", [size], 0.0),
    ]


class _Talk:
    """Memory whose window is full with about as many messages as given, so that every further turn drives one out."""

    def __init__(self, messages: int, texts: list[str]) -> None:
        self._texts = texts
        self._ids = 0
        self.memory = empty_memory(_run(budget=0), "a")
        for _ in range(20):
            self.turn()
        size = self.memory.window.size // len(self.memory.window.turns)
        budget = tokens.count_tokens("", "", size * messages // MESSAGES_OF_A_TURN)
        self.memory = empty_memory(_run(budget), "a")
        while not self.memory.window.older.turns:
            self.turn()
        assert abs(len(self.memory.window.turns) * MESSAGES_OF_A_TURN - messages) < messages / 5

    def turn(self) -> float:
        """Return seconds that folding one turn takes, its end decided in between."""
        asked = self._stored(UserMessage(self._text()))
        said = self._stored(AssistantMessage((Text(self._text()),)))
        began = time.perf_counter()
        memory = evolve(evolve(self.memory, asked), said)
        self.memory = evolve(memory, self._stored(end_turn(memory, (), Ending.COMPLETED)))
        return time.perf_counter() - began

    def body(self) -> bytes:
        return ChatEncoder().body(next_request(self.memory))

    def serialised(self) -> float:
        began = time.perf_counter()
        self.body()
        return time.perf_counter() - began

    def _text(self) -> str:
        # A new string every time: real messages do not share theirs.
        return f"{self._ids} {self._texts[self._ids % len(self._texts)]}"

    def _stored(self, event: Event) -> StoredEvent:
        self._ids += 1
        return StoredEvent(self._ids, "a", self._ids, 0.0, event)


def _run(budget: int) -> RunConfig:
    encoder = ChatEncoder()
    settings, rules = {"model": "scripted/demo", "budget": budget}, WindowRules(prune_fraction=0)  # all of it is used
    return RunConfig(settings, lambda _: ModelLimits(2**40, 0), lambda _: encoder, rules=rules)
