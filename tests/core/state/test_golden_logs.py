"""Logs of mended defects mean for ever what they mean now.

Each file in tests/golden/logs has a line that says what is expected, and the rows of one agent behind it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.memory import next_request
from tests import GOLDEN
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits
from tests.core.memory_log import MemoryLog, StoredRow, seal

FILES = sorted((GOLDEN / "logs").glob("*.jsonl"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_log_means_what_it_meant(file: Path) -> None:
    first, *lines = map(json.loads, file.read_text().splitlines())
    log = MemoryLog()
    log.create("a")
    for n, row in enumerate(lines, 1):
        data = row["data"] and json.dumps(row["data"])
        log.rows.append(StoredRow(n, "a", n, row["kind"], row["content"], data))
    below = {"model": "chat/large", "budget": 100_000, "approval": "ask", **first["configuration"]}
    rules = WindowRules(keep_first_turn=first.get("keep_first_turn", False))
    agent = Agent(RunConfig(below, limits, encoder, rules=rules, seal=seal), log)
    assert found(agent) == first["expected"]
    stored = len(log.rows)
    assert found(Agent(agent.run, log)) == first["expected"] and len(log.rows) == stored, "opened again"


def found(agent: Agent) -> dict[str, Any]:
    memory, request = agent.memory, next_request(agent.memory)
    assert not work(memory) and memory == agent.loaded()
    return {
        "model": memory.model,
        "approval": memory.settings.get("approval"),
        "system": request.system,
        "messages": [message.text for message in request.messages],
        "unconfirmed": sorted(memory.unconfirmed),
    }
