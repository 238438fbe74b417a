"""Tests of what is known of a provider's cache: its lifetime goes by the requests that were sent."""

import pytest
from msgspec.structs import replace

from ikigai.agent.request.prompt_cache import PromptCache
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.request.cache_diagnosis import CacheUse
from ikigai.core.state.inputs import Submitted
from ikigai.core.state.memory import next_request
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder

ANTHROPIC = replace(RUN, above={"model": "anthropic/large", "budget": 100_000}, encoder=lambda _: encoder("chat/large"))


class Clock:
    """The time in seconds since 1970, which moves only by `pass_time`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr("ikigai.agent.request.prompt_cache.time.time", lambda: self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


async def test_lifetime_counts_the_requests_that_were_sent_and_not_those_built(monkeypatch: pytest.MonkeyPatch):
    agent, clock = Agent(ANTHROPIC), Clock(monkeypatch)
    agent.happen(Submitted("hi"))
    memory = agent.memory

    async def load() -> tuple[list[float], CacheUse | None]:
        return [], None

    cache = PromptCache(load, lambda _: "auto")

    def ttl() -> str:
        return cache.prepare(memory, next_request(memory)).cache_ttl

    async def send() -> None:
        await cache.judge(memory, next_request(memory), UsageReported(memory.model, Usage(100, 5)))

    await send()
    for _ in range(10):
        clock.pass_time(600.0)
        assert ttl() == "1h", "pauses of ten minutes"
        await send()
    for _ in range(500):  # the user types for long, and pauses after each word
        clock.pass_time(1.5)
        ttl()
    assert ttl() == "1h"
    for _ in range(500):
        clock.pass_time(1.5)
        await send()
    assert ttl() == "5m"
