"""Tests that kill the program at random, again and again, whatever it does; half of the time in the REPL.

IKIGAI_LONG_KILLS sets the number of kills (2,000), CHAOS_SEED repeats a run.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.account import ECHO, Account
from tests.e2e.program import Program
from tests.support.evidence import Evidence, end

KILLS = int(os.environ.get("IKIGAI_LONG_KILLS") or 2_000)
BATCH = 50
"""Kills of one account, after which its log is checked."""
RESTART_EACH = 10
"""Kills after which two starts in a row, and an orderly end, are checked."""
LONGEST = 3.0
"""Seconds until a kill, at most: a start takes less than one, and a turn of the script about two."""
TOOLS = {"IKIGAI_TOOLS_ENABLED": "true"}
QUESTION = "[y] yes"
COMMANDS = ("/mark m", "/clear", "/undo", "/rewind m", "/fork", "/status", "/context", "!echo mine", "\x1b")


class Dice(random.Random):
    """The random choices of the campaign."""

    def script(self, folder: Path, number: int, token: str) -> tuple[str, str]:
        """Return flags for a model with words, pauses and calls; every call of the account has a number of its own."""
        replies = []
        for turn in range(4):
            words = [f"Round {number}, part {turn}-{n}, with some words." for n in range(self.randrange(1, 9))]
            calls = [self.call(f"{number}-{turn}-{n}", token) for n in range(self.choice((0, 0, 1, 1, 2, 3)))]
            pause = {"do": "pause", "seconds": self.random() / 2}
            thought = {"do": "think", "text": f"Let me see about {turn}."}
            replies += [[thought, "\n\n".join(words), pause, "\n\nThe end of it.", *calls]]
        file = folder / f"script-{number}.json"
        file.write_text(json.dumps(replies))
        return "-m", f"scripted/{file}"

    def call(self, name: str, token: str) -> dict[str, object]:
        """Return a command that reports its run; some run for ever, some in the background, some detached from their
        parents.
        """
        stay = f"exec -a {token} sleep 1000"
        behind = self.choice(("true", "sleep 0.2", stay, f"setsid bash -c '{stay}' & true", f"({stay}) & sleep 0.1"))
        arguments: dict[str, object] = {"command": f"echo {name} >> ran; {behind}", "timeout": 2}
        if self.random() < 0.15:
            arguments |= {"command": f"echo {name} >> ran; {stay}", "background": True}
        return {"do": "call", "name": "shell", "arguments": arguments}


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("batch", range(-(-KILLS // BATCH)))
def test_random_kills(account: Account, batch: int):
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    dice, evidence = Dice(seed + batch), Evidence(account)
    kills = min(BATCH, KILLS - batch * BATCH)
    for number in range(kills):
        model = dice.script(account.home, number, evidence.token)
        if number % 2:
            _print(evidence, dice, model, number)
        else:
            with _repl(evidence, dice, model, number) as program:
                program.kill()
                evidence.saw(program)
        evidence.verify()
        if number % RESTART_EACH == RESTART_EACH - 1:
            _orderly(evidence, dice, number)
            evidence.verify_restart()
    evidence.verify_restart()
    ran = len(evidence.ran.read_text().split()) if evidence.ran.exists() else 0
    print(
        f"{kills} kills, {len(evidence.shown)} lines seen on screen, "
        f"{len(evidence.streamed)} events told by print mode, {ran} commands run, {len(account.rows())} events stored"
    )
    assert evidence.shown or kills < 10


def _repl(evidence: Evidence, dice: Dice, model: tuple[str, str], number: int, seconds: float = LONGEST) -> Program:
    """Return a program in a terminal that was used for a while: messages, commands, answers to its questions."""
    yolo = ("--yolo",) * (dice.random() < 0.5)
    program = evidence.account.terminal(*model, *yolo, env=TOOLS, rows=40)
    until = time.monotonic() + dice.uniform(0.1, seconds)
    typed, next_at = 0, 0.0
    while (now := time.monotonic()) < until:
        program.pump(0.02)
        if now < next_at or " ctx " not in program.status():
            continue
        if any(QUESTION in line for line in program.lines()):
            program.type(dice.choice("yyyn"))
        elif typed < 3 or dice.random() < 0.1:
            ask = not typed or dice.random() < 0.6
            program.type("\x15" + (f"question {number}-{typed}" if ask else dice.choice(COMMANDS)) + "\r")
            typed += 1
        next_at = now + dice.uniform(0.1, 0.7)
    return program


def _print(evidence: Evidence, dice: Dice, model: tuple[str, str], number: int) -> None:
    fresh = ("--new",) * (dice.random() < 0.2)
    asked = ("-c", "-p", f"question {number}", "--output-format", "stream-json", "--yolo")
    program = evidence.account.start(*model, *fresh, *asked, **TOOLS)
    time.sleep(dice.uniform(0.1, LONGEST))
    program.kill()
    evidence.read(program.communicate()[0])


def _orderly(evidence: Evidence, dice: Dice, number: int) -> None:
    """Send a signal that a program can handle; the terminal is restored then as well."""
    signalled = dice.choice((signal.SIGTERM, signal.SIGHUP))
    model = dice.script(evidence.account.home, 1_000 + number, evidence.token)
    with _repl(evidence, dice, model, 1_000 + number) as program:
        code = end(program, signalled)
        assert code in (128 + signalled, -signalled), program.text()
        evidence.saw(program)
    evidence.verify()


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
        program.communicate(timeout=60)
        codes.add(program.returncode)
    # 1 is Python's own, when it is interrupted before it gets to the program.
    assert {0, 128 + number} <= codes <= {0, 1, 128 + number, -number}
    assert set(account.endings()) <= {"completed", "interrupted"}
