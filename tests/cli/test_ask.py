"""Questions at the terminal: a signal ends them, whenever it comes."""

import os
import select
import signal
import subprocess
import sys

TIMES = 1500
"""Without a clock that ticks, one signal in a few hundred is not seen."""
ASKING = f"""
import readline
from ikigai.cli import ask as questions
for _ in range({TIMES}):
    try:
        questions.line("? ")
    except SystemExit as end:
        print(end.code, flush=True)
"""
PATIENCE = 30
"""Seconds for what comes at once: the machine may be busy."""


def test_a_signal_that_comes_just_before_the_wait_for_a_key_is_seen():
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
