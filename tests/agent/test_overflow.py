"""A provider finds the request larger than the model's context: less is sent, at most three times, then it fails."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from ikigai.agent.loop import AgentLoop
from ikigai.agent.loop_options import LoopOptions
from ikigai.core.errors import Unavailable
from ikigai.core.events.events import Ending, TurnEnded, UsageReported
from ikigai.core.events.messages import ToolResult
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, ProviderEvent, StreamFailed
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Interrupted, Submitted
from ikigai.core.state.loading import Loading
from ikigai.core.state.memory import Memory
from ikigai.core.views.context_rule import ContextRule
from ikigai.providers.scripted import ScriptedCall, ScriptedFailure, ScriptedHang
from ikigai.tools.registry import ToolRegistry
from tests.agent.test_loop import AGENT, Priced, Session, tool
from tests.core.agreement import is_sound
from tests.core.encoders import encoder, limits
from tests.core.memory_log import LogOf
from tests.core.program import Learned

MODEL = "chat/small"
"""It takes 800 tokens; 520 of them, 2,080 bytes, are for the request."""
TURNS = 7
"""So many turns of some 280 bytes are nearly all that fits."""
SAID = "y" * 200


def refused(text: str = "Input is too long.") -> tuple[ScriptedFailure, ...]:
    return (ScriptedFailure(FailureKind.CONTEXT, text),)


class Learning(Priced):
    """Services that remember the contexts of models."""

    def __init__(self, learned: Learned) -> None:
        super().__init__()
        self._learned = learned

    def learn_context(self, model: str, context: int) -> None:
        self._learned.learn(model, context)


class Narrow(Session):
    """A session with that model, which learns what its provider says. It has `TURNS` turns behind it once `filled`."""

    def __init__(
        self, replies: list[Any], tools: ToolRegistry | None = None, budget: int = 100_000, log: Any = None
    ) -> None:
        super().__init__(replies, tools)
        self.learned = Learned()
        settings = {"model": MODEL, "level": "", "budget": budget, "system": ""}
        specs = tools.specs if tools else ()
        self.run_settings = self.learned.taught(RunConfig(settings, limits, encoder, tools=specs))
        store = log(self.logs) if log else LogOf(self.logs, AGENT)
        self.runtime = AgentLoop(
            self.load(),
            store,
            lambda model: self.provider,
            tools or ToolRegistry(),
            self.view,
            LoopOptions(services=Learning(self.learned)),
        )

    async def ask(self, text: str) -> Ending:
        """One turn; how it ended."""
        turns = len(self.ended()) + 1
        self.tell(Submitted(text))
        await self.idle(turns)
        return self.ended()[-1]

    async def filled(self) -> None:
        for n in range(TURNS):
            assert await self.ask(f"{n}?") is Ending.COMPLETED
        assert len(self.runtime.memory.window.turns) == TURNS

    @property
    def requests(self) -> list[Request]:
        return self.provider.requests

    def sizes(self, last: int) -> list[int]:
        """Bytes of the last requests; each was sound."""
        for request in self.requests[-last:]:
            is_sound(request)
        return [encoder(MODEL).weight(request) for request in self.requests[-last:]]

    def failures(self) -> list[str]:
        return [usage.failure for usage in self.events(UsageReported)]

    @property
    def room(self) -> int:
        return self.runtime.memory.room


async def test_older_turns_leave_and_the_same_question_is_sent_again():
    session = Narrow([SAID] * TURNS + [refused(), "Now it fits.", SAID])
    async with session.running():
        await session.filled()
        before = session.runtime.memory
        rules = len(session.view.told("rule"))
        assert await session.ask("and?") is Ending.COMPLETED
        first, second = session.sizes(2)
        assert second <= first * 0.75 + 4, "a quarter less, for nobody said how much"
        assert session.requests[-1].messages[-1] == session.requests[-2].messages[-1]
        assert session.requests[-1].messages[0].text.startswith("[conversation truncated")
        drawn: list[ContextRule] = session.view.told("rule")[rules:]
        assert len(drawn) == 1 and drawn[0].left == drawn[0].turns > 0
        assert (drawn[0].used_before, drawn[0].used) == (-(-first // 4), -(-second // 4))
        assert drawn[0].words == session.requests[-1].messages[1].text
        assert session.failures()[-2:] == ["context", ""] and len(session.failures()) == TURNS + 2
        assert any("Sending a smaller request" in notice for notice in session.view.told("notice"))
        assert session.learned.contexts[MODEL] < before.limits.context
        assert session.room < before.used
        assert await session.ask("more?") is Ending.COMPLETED
        assert -(-session.sizes(1)[0] // 4) <= session.room, "what was learned holds"
        assert len(session.view.told("rule")) >= rules + 1


@pytest.mark.parametrize(
    ("limit", "sent"), [(400, 2), (300, 2), (799, 2), (50, 2)], ids=["stated", "less", "wrong", "no context"]
)
async def test_limit_that_is_stated_is_gone_by(limit: int, sent: int):
    reason = f"This model's maximum context length is {limit} tokens."
    session = Narrow([SAID] * TURNS + [refused(reason), "Now it fits."])
    async with session.running():
        await session.filled()
        assert await session.ask("and?") is Ending.COMPLETED
        assert len(session.requests) == TURNS + sent
        first, second = session.sizes(2)
        assert second < first and -(-second // 4) <= session.room
        learned = session.learned.contexts[MODEL]
        if limit in (300, 400):
            assert learned == limit
        else:
            assert 300 < learned < 800, "nothing that can be gone by: a quarter less"


@pytest.mark.parametrize("times", [2, 3])
async def test_each_time_less_is_sent(times: int):
    session = Narrow([SAID] * TURNS + [refused()] * times + ["At last."])
    async with session.running():
        await session.filled()
        assert await session.ask("and?") is Ending.COMPLETED
        sizes = session.sizes(times + 1)
        assert sizes == sorted(set(sizes), reverse=True), "strictly smaller each time"
        assert session.failures()[TURNS:] == ["context"] * times + [""]


async def test_after_three_smaller_ones_the_turn_fails():
    session = Narrow([SAID] * TURNS + [refused("Too long.")] * 9)
    async with session.running():
        await session.filled()
        assert await session.ask("and?") is Ending.FAILED
        sizes = session.sizes(4)
        assert sizes == sorted(set(sizes), reverse=True) and len(session.requests) == TURNS + 4
        assert session.failures()[TURNS:] == ["context"] * 4
        reason = session.events(TurnEnded)[-1].reason
        assert reason.startswith("Too long. The largest part is ") and "/model" in reason
        assert session.view.told("stopped") == [reason]
        # The limit that the fourth refusal showed is also learned.
        assert await session.ask("again?") is Ending.FAILED
        assert session.sizes(1)[0] < sizes[0]
    requests = session.requests[TURNS:]
    assert len({str(request) for request in requests}) == len(requests), "never the same request twice"


async def test_turn_that_cannot_be_made_smaller_fails_at_once_and_says_what_is_too_big():
    session = Narrow([refused("Too long."), "Fine."])
    async with session.running():
        assert await session.ask("x" * 1500) is Ending.FAILED
        assert len(session.requests) == 1 and session.failures() == ["context"]
        reason = session.events(TurnEnded)[-1].reason
        assert "your message (about" in reason and "Send less of it" in reason
        assert await session.ask("short?") is Ending.COMPLETED
        assert session.requests[-1].messages[-1].text == "short?"


async def test_iterations_are_dropped_where_no_turns_are_left():
    async def look(arguments: dict[str, object]) -> str:
        return "z" * 240

    calls = [[ScriptedCall("toy", {"n": n}, id=f"c{n}")] for n in range(4)]
    session = Narrow([*calls, refused(), "Seen."], tool("toy", look))
    async with session.running():
        assert await session.ask("look") is Ending.COMPLETED
        first, second = session.sizes(2)
        assert second < first * 0.8
        seen = [[call.id for message in request.messages for call in message.calls] for request in session.requests]
        assert seen[-2] == ["c0", "c1", "c2", "c3"] and 0 < len(seen[-1]) < 4 and seen[-1][-1] == "c3"
        assert session.requests[-1].messages[0].text == "look"
        assert len(session.events(ToolResult)) == 4, "the log keeps all"
        results = [block for m in session.requests[-1].messages for block in m.blocks if isinstance(block, ToolResult)]
        assert [result.call_id for result in results] == seen[-1]


async def test_with_the_window_off_nothing_leaves_and_the_ways_out_are_told():
    session = Narrow([SAID] * 3 + [refused("Too long.")], budget=0)
    async with session.running():
        for n in range(3):
            await session.ask(f"{n}?")
        assert await session.ask("and?") is Ending.FAILED
        assert len(session.requests) == 4 and not session.view.told("rule")
        reason = session.events(TurnEnded)[-1].reason
        assert "The window is off" in reason and "/budget 100k" in reason and "/clear" in reason


async def test_escape_between_two_tries_ends_the_turn():
    session = Narrow([SAID] * TURNS + [refused(), (ScriptedHang(),), "Hello."])
    async with session.running():
        await session.filled()
        session.tell(Submitted("and?"))
        await session.until(lambda: len(session.requests) == TURNS + 2)
        session.tell(Interrupted())
        await session.idle(TURNS + 1)
        assert session.ended()[-1] is Ending.INTERRUPTED
        assert session.failures()[TURNS:] == ["context", "interrupted"]
        assert await session.ask("still there?") is Ending.COMPLETED


class Impatient:
    """A provider whose user presses Esc in the moment of its refusal."""

    def __init__(self, session: Narrow) -> None:
        self._session, self._given = session, session.provider
        self.requests = self._given.requests

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if request.messages[-1].text == "and?":
            self._session.tell(Interrupted())
            yield StreamFailed(FailureKind.CONTEXT, "Too long.")
            return
        async for event in self._given.stream(request):
            yield event


async def test_refusal_that_comes_after_escape_is_late():
    session = Narrow([SAID] * TURNS + ["Hello."])
    session.provider = Impatient(session)
    async with session.running():
        await session.filled()
        assert await session.ask("and?") is Ending.INTERRUPTED
        assert await session.ask("still there?") is Ending.COMPLETED
        assert len(session.failures()) == TURNS + 2, "an attempt is stored once"
        assert MODEL not in session.learned.contexts


class Flaky(LogOf):
    """A log that cannot be reached for a moment, while memory is loaded anew."""

    lost = 0

    async def load(self, loading: Loading) -> Memory:
        self.lost += 1
        if self.lost == 1:
            raise Unavailable("The database is gone.", "Wait.")
        return await super().load(loading)


async def test_database_away_meanwhile_only_delays_it():
    session = Narrow([SAID] * TURNS + [refused(), "Now it fits."], log=lambda logs: Flaky(logs, AGENT))
    async with session.running():
        await session.filled()
        assert await session.ask("and?") is Ending.COMPLETED
        assert len(session.requests) == TURNS + 2


async def test_with_the_first_turn_kept_it_stays_and_is_named_when_it_is_too_big():
    session = Narrow([SAID] * 4 + [refused("Too long.")] * 4)
    rules = replace(session.run_settings.rules, keep_first_turn=True)
    session.run_settings = replace(session.run_settings, rules=rules)
    session.runtime.memory = session.load()
    async with session.running():
        for asked in ("x" * 900, "1?", "2?", "3?"):
            await session.ask(asked)
        assert await session.ask("and?") is Ending.FAILED
        assert all(request.messages[0].text == "x" * 900 for request in session.requests)
        reason = session.events(TurnEnded)[-1].reason
        assert "the first turn" in reason and "keep_first_turn" in reason
