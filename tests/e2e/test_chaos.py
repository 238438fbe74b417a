"""Killed at random, again and again, in the middle of whatever it does; CHAOS_SEED repeats a run."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.account import ECHO, Account
from tests.e2e.program import Program
from tests.support.invariants import check

ROUNDS = 40
LIVE = 8
"""Rows of the live area, at most: a third of the terminal."""
LONGEST = 3.0
"""Seconds until a kill, at most: a start takes less than one, and a turn of the script about two."""


def script(folder: Path, number: int, dice: random.Random) -> Path:
    """Replies with words, pauses and calls; every call of the whole run has a number of its own."""
    replies = []
    for turn in range(3):
        words = [f"Round {number}, part {turn}-{n}, with some words." for n in range(dice.randrange(1, 9))]
        calls = [
            {"do": "call", "name": "touch", "arguments": {"n": 100 * number + 10 * turn + n}}
            for n in range(dice.randrange(4))
        ]
        pause = {"do": "pause", "seconds": dice.random() / 2}
        replies += [["\n\n".join(words), pause, "\n\nThe end of it.", *calls]]
    file = folder / f"script-{number}.json"
    file.write_text(json.dumps(replies))
    return file


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_random_kills(account: Account):
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    dice = random.Random(seed)
    tool_log = account.home / "touched"
    env = {"TOOL_LOG": str(tool_log), "KILL_AT": ""}
    kept: set[str] = set()  # words of the conversation that were in the scrollback
    for number in range(ROUNDS):
        model = ("-m", f"scripted/{script(account.home, number, dice)}")
        with account.terminal(*model, module="tests.e2e.toy", env=env) as program:
            until = time.monotonic() + dice.random() * LONGEST
            typed = 0
            while time.monotonic() < until:
                program.pump(0.02)
                if typed < 2 and "ctx" in program.status():
                    program.type(f"question {number}-{typed}\r")
                    typed += 1
            program.kill()
            kept |= spoken(program)
        check(account.dsn, idle=False)
        stored = "\n".join(account.said("user", "assistant")) + "\n".join(account.drafts())
        for line in kept:
            assert line in stored, f"{line!r} was on the screen and is nowhere"
        touched = tool_log.read_text().split() if tool_log.exists() else []
        assert len(touched) == len(set(touched)), "a tool ran twice"
        started = [data["call_id"] for _, _, data in account.rows("tool_started")]
        assert len(touched) <= len(started), "a tool ran before that was stored"
    with account.terminal(*ECHO) as program:
        program.ready().leave()
    before = account.rows()
    with account.terminal(*ECHO) as program:
        program.ready().leave()
    assert account.rows() == before, "recovering a second time writes nothing"
    assert set(account.endings()) <= {"completed", "interrupted"} and kept and tool_log.exists()


def spoken(program: Program) -> set[str]:
    """Whole lines of the conversation that have moved up into the scrollback, without what stands around the input."""
    lines = program.scrollback()
    busy = next((n - LIVE for n, line in enumerate(lines) if "Esc stops" in line), len(lines))
    settled = lines[: max(0, busy)]
    return {line.strip("●❯ ") for line in settled if "words." in line or line.startswith("❯ question")}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_at_random(account: Account, number: signal.Signals):
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    dice = random.Random(seed)
    codes = set()
    for _ in range(200):
        program = account.start(*ECHO, "-p", "hello")
        time.sleep(dice.uniform(0.05, 0.4))
        program.send_signal(number)
        program.communicate(timeout=30)
        codes.add(program.returncode)
    # 1 is Python's own, when it is interrupted before it gets to the program.
    assert {0, 128 + number} <= codes <= {0, 1, 128 + number, -number}
    assert set(account.endings()) <= {"completed", "interrupted"}
