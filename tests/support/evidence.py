"""Observe programs from outside while they run, and check invariants of their log however they ended.

The numbers name invariants: I1 nothing that was acknowledged is missing, there twice, or changed; I2 no gap in `seq`;
I3 requests are sound; I4 no command ran twice, or before its approval and its start were stored; I5 replayed twice it
is the same, and recovering a second time writes nothing; I6 a start ends at a prompt, with nothing under way; I7
nothing of a killed program is left; I8 the terminal is as it was before.
"""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from ikigai.core.state.memory import AgentStatus
from tests.e2e.account import ECHO, Account
from tests.e2e.program import Program
from tests.support.invariants import check

LIVE = 8
"""Rows of the live area, at most: a third of the terminal."""
GONE_WITHIN = 15.0
"""Seconds that the children of a killed program may outlive it."""
ROWS = """
select id, agent_id::text, seq, kind, content, data from messages order by id
"""


class Evidence:
    """Evidence about one account.

    Commands write a line into `ran` when they run, and name what they leave running `token`.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.ran = account.home / "ran"
        self.token = f"left{uuid4().hex}"
        self.shown: set[str] = set()
        self.streamed: dict[int, dict[str, Any]] = {}
        self._known: dict[int, tuple[Any, ...]] = {}

    def saw(self, program: Program) -> None:
        """Record the whole lines of the conversation in the scrollback, without the input and its frame."""
        while program.pump(0.02):
            pass
        lines = program.scrollback()
        input = max((n for n, line in enumerate(lines) if line.startswith("❯")), default=0)
        busy = next((n - LIVE for n, line in enumerate(lines) if "Esc stops" in line), input)
        settled = lines[: max(0, min(input, busy))]
        self.shown |= {line.strip("●❯ ") for line in settled if "words." in line or line.startswith("❯ question")}

    def read(self, output: str) -> None:
        """Record the events that print mode printed as JSON; the last line may be cut off."""
        for line in output.splitlines(keepends=True):
            if line.endswith("\n") and (told := json.loads(line))["type"] == "event":
                self.streamed[told["id"]] = told

    def verify(self, idle: bool = False) -> None:
        """Check I1 to I4, I7 and the first half of I5; with `idle` no turn may be open."""
        self._nothing_is_left()
        check(self.account.dsn, idle)
        with psycopg.connect(self.account.dsn) as connection:
            rows = {row[0]: row for row in connection.execute(ROWS).fetchall()}
        assert self._known.items() <= rows.items(), "what was in the log is there, and as it was"
        self._known = rows
        for id, told in self.streamed.items():
            stored = dict(zip(("id", "agent_id", "seq", "kind", "content", "data"), rows[id], strict=True))
            assert stored == {name: told[name] for name in stored}, f"event {id} was told otherwise"
        texts = [row[4] or "" for row in rows.values() if row[3] in ("user", "assistant")] + self.account.drafts()
        whole = "\n".join(texts)
        for line in self.shown:
            assert line in whole, f"{line!r} was on the screen and is nowhere"
        asked = [row[4] for row in rows.values() if row[3] == "user" and row[4].startswith("question ")]
        assert len(asked) == len(set(asked)), "a message is there twice"
        self._ran_once(list(rows.values()))

    def verify_restart(self) -> None:
        """Check I5, I6 and I8: every agent with an open turn recovers once, and has nothing to do the second time."""
        memories = check(self.account.dsn, idle=False)
        cut = [name for name, memory in memories.items() if memory.status is not AgentStatus.IDLE]
        for again in (False, True):
            before = self.account.rows()
            for agent in (*((f"--resume={name}",) for name in cut), ()):
                for unsent in (self.account.home / ".local" / "state" / "ikigai").glob("unsent-*"):
                    unsent.unlink()  # what was typed before the kill would come into the input, some time
                with self.account.terminal(*ECHO, *agent, rows=40) as program:
                    program.ready().leave()
            assert not again or self.account.rows() == before, "recovering a second time writes nothing"
        self.verify(idle=True)

    def _nothing_is_left(self) -> None:
        until = time.monotonic() + GONE_WITHIN
        while left := self._left():
            assert time.monotonic() < until, f"still running: {left}"
            time.sleep(0.05)
        self.account.alone(lambda pid: not Path(f"/proc/{pid}").exists())

    def _left(self) -> dict[int, str]:
        found = dict[int, str]()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words.startswith(self.token) and int(folder.name) != os.getpid():
                found[int(folder.name)] = words.strip()
        return found

    def _ran_once(self, rows: list[tuple[Any, ...]]) -> None:
        ran = self.ran.read_text().split() if self.ran.exists() else []
        assert len(ran) == len(set(ran)), "a command ran twice"
        calls = dict[str, str]()  # what a command writes → its call
        events = dict[tuple[str, str], int]()  # what was stored of a call → where
        for id, _, _, kind, content, data in rows:
            if kind == "tool_call" and (found := re.search(r"echo (\S+) >> ran", content)):
                assert found[1] not in calls, f"the call for {found[1]} is stored twice"
                calls[found[1]] = data["id"]
            elif kind == "tool_started" or (kind == "approval" and data["allowed"]):
                events[kind, data["call_id"]] = id
        for each in ran:
            call = calls.get(each)
            assert call and ("tool_started", call) in events, f"{each} ran before that was stored"
            approved = events.get(("approval", call), 0)
            assert 0 < approved < events["tool_started", call], f"{each} ran without approval"


def end(program: Program, number: signal.Signals) -> int:
    """Send a signal that a program can handle and return its exit code; I8 holds then."""
    program.process.send_signal(number)
    code = program.ended()
    if code >= 0:  # else it came before the program had got to itself
        program.assert_restored()
    return code
