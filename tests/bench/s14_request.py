"""Measure REQ: building the body of a request with a large window, which costs only what is new."""

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Approved, CallModel, Replied, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.memory import next_request
from ikigai.providers.anthropic.messages_api import MessagesEncoder
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.google.generate_content_api import ContentsEncoder
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.openai.responses_api import ResponsesEncoder
from tests.bench.figures import Figure
from tests.bench.prose import Prose
from tests.core.agent import Agent

ENCODERS: dict[str, Callable[[], BodyEncoder]] = {
    "Messages": lambda: MessagesEncoder("claude-sonnet-5-5", ModelTraits("adaptive")),
    "Responses": lambda: ResponsesEncoder("openai/gpt-x", ModelTraits("effort")),
    "Chat Completions": ChatEncoder,
    "generateContent": lambda: ContentsEncoder("gemini-x", ModelTraits("level")),
}
BAR = 0.2
"""Share of the whole: less than a hundredth of it is new, and all of it has to be copied."""
WORDS = 120
"""Words of a message."""


def measure(quick: bool) -> list[Figure]:
    return compare(1_000, 10_000, rounds=3) if quick else compare(10_000, 100_000, rounds=60)


def compare(few: int, many: int, rounds: int) -> list[Figure]:
    """Compare windows of `few` and `many` tokens, over `rounds` further turns in each."""
    prose = Prose(Random(14))
    return [figure for name in ENCODERS for figure in _compared(name, prose, few, many, rounds)]


def _compared(name: str, prose: Prose, few: int, many: int, rounds: int) -> Iterator[Figure]:
    small, large = _Talk(few, ENCODERS[name], prose), _Talk(many, ENCODERS[name], prose)
    taken = [(*large.turn(), *small.turn()) for _ in range(rounds)]
    asked, built, anew, _, less, _ = zip(*taken, strict=True)
    what = f"{name}: one turn more, {many:,} tokens"
    yield Figure("REQ", f"{what}: the request", "s", asked, "its body encoded anew", anew, BAR)
    yield Figure("REQ", f"{what}: its body", "s", built, "its body encoded anew", anew, BAR)
    yield Figure("REQ", f"{what}: its body", "s", built, f"{few:,} tokens", less)


class _Talk:
    """A conversation with tools whose window holds about so many tokens and is full."""

    def __init__(self, tokens: int, made: Callable[[], BodyEncoder], prose: Prose) -> None:
        self._made, self._encoder, self._prose = made, made(), prose
        settings = {"model": "bench/model", "system": self._prose.text(200), "budget": tokens}
        self._agent = Agent(RunConfig(settings, lambda _: ModelLimits(2**40, 0), lambda _: self._encoder))
        self._turns = 0
        while not self._agent.memory.window.older.turns:
            self._ask()
            self._finish()
        self._encoder.body(self._ask())

    def turn(self) -> tuple[float, float, float]:
        """Return seconds to make the next request of memory, to write its body, and to write it without any
        before it.
        """
        self._finish()
        self._agent.happen(Submitted(self._text()))
        sent, asked = _timed(lambda: next_request(self._agent.memory))
        body, built = _timed(lambda: self._encoder.body(sent))
        fresh = self._made()
        again, anew = _timed(lambda: fresh.body(sent))
        assert body == again
        return asked, built, anew

    def _ask(self) -> Request:
        self._agent.happen(Submitted(self._text()))
        return next_request(self._agent.memory)

    def _finish(self) -> None:
        """Add two calls, their results, and an answer."""
        calls = [
            ToolCall(f"call_{self._turns}_{n}", "shell", f'{{"command":"ls {self._prose.path()}"}}') for n in (1, 2)
        ]
        self._reply(Text(self._text()), *calls)
        for _ in calls:
            self._agent.happen(Approved(self._agent.job(StartTool)))
            job = self._agent.job(RunTool)
            self._agent.happen(ToolDone(job, ToolResult(job.call.id, self._prose.printed(15))))
        self._reply(Text(self._text()))

    def _reply(self, *said: Any) -> None:
        usage = UsageReported(self._agent.memory.model)
        self._agent.happen(Replied(self._agent.job(CallModel), said, StopReason.END, usage))

    def _text(self) -> str:
        self._turns += 1
        return f"{self._turns} {self._prose.text(WORDS)}"


def _timed(do: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    done = do()
    return done, time.perf_counter() - began
