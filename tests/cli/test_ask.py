"""Tests of questions at the terminal: a signal ends them, whenever it comes."""

import os
import select
import signal
import subprocess
import sys

TIMES = 1500
"""Runs: without a ticking clock, one signal in a few hundred is missed."""
ASKING = f"""
import readline
from ikigai.cli import ask as questions
for _ in range({TIMES}):
    try:
        questions.read_answer("? ")
    except SystemExit as end:
        print(end.code, flush=True)
"""
PATIENCE = 30
"""Seconds to wait for immediate effects: the machine may be busy."""


def test_signal_just_before_the_wait_for_a_key_ends_the_question():
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", ASKING], stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        said = b""
        try:
            for before in range(TIMES):
                while said.count(b"?") <= before:
                    assert select.select([ours], [], [], PATIENCE)[0], f"signal {before} was not seen"
                    said += os.read(ours, 65536)
                child.send_signal(signal.SIGINT)
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()
            os.close(ours)
