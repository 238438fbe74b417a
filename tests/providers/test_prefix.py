"""A conversation at a full window sends nearly the same beginning again and again, in every format."""

from pathlib import Path
from random import Random

import pytest

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Approved, CallModel, Replied, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.memory import next_request
from ikigai.tools.builtin_specs import builtin_specs
from tests.core.agent import Agent
from tests.providers.formats import FORMATS
from tests.providers.test_conformance import pool_at
from tests.support.examples import seeds

TURNS, BUDGET = 50, 12_000


def bodies(run: RunConfig, seed: int) -> list[bytes]:
    """Return the bodies of all requests; every fifth turn uses two tools."""
    agent, draw, sent = Agent(run), Random(seed), list[bytes]()

    def text(words: int) -> str:
        return " ".join(draw.choice(("window", "of", "the", "river", "and", "stone")) for _ in range(words))

    def send() -> CallModel:
        sent.append(agent.run.encoder(agent.memory.model).body(next_request(agent.memory)))  # type: ignore[attr-defined]
        return agent.job(CallModel)

    def reply(*said: Text | ToolCall) -> None:
        stop = StopReason.TOOLS if isinstance(said[-1], ToolCall) else StopReason.END
        agent.happen(Replied(send(), said, stop, UsageReported(agent.memory.model)))

    for turn in range(TURNS):
        agent.happen(Submitted(f"{turn}? {text(draw.randrange(20, 60))}"))
        for call in (f"a{turn}", f"b{turn}") if turn % 5 == 4 else ():
            reply(Text("Let me look."), ToolCall(call, "read_file", '{"path":"a"}'))
            agent.happen(Approved(agent.job(StartTool)))
            agent.happen(ToolDone(agent.job(RunTool), ToolResult(call, text(draw.randrange(100, 300)))))
        reply(Text(text(draw.randrange(150, 350))))
    return sent


def kept(sent: list[bytes]) -> float:
    """Return the share of the bytes of each request with which the next one also begins."""
    same = whole = 0
    for before, now in zip(sent, sent[1:], strict=False):
        first = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), len(before))
        same, whole = same + first, whole + len(before)
    return same / whole


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", seeds(1, 6, first=1))
def test_full_window_keeps_the_prefix_of_its_requests(tmp_path: Path, form: str, seed: int) -> None:
    pool, model = pool_at(lambda form: "http://127.0.0.1:1/v1", tmp_path), FORMATS[form].model
    settings = {"model": model, "system": "Be brief.", "budget": BUDGET}
    shares = [
        kept(bodies(RunConfig(settings, pool.limits, pool.encoder, tools=builtin_specs(), **rules), seed))
        for rules in ({}, {"rules": WindowRules(prune_fraction=0)})
    ]
    assert shares[0] >= 0.9 and shares[1] < 0.8, shares
