"""Measure S7: from a key to its echo, during a stream and the load of an SDK, against an idle program.

The stream has a thousand tokens a second. Each key is a sign of its own, so that its echo is no earlier one drawn
again. The program that streams is idle first: both sides are of one process, in turns.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.bench import histories
from tests.bench.figures import Figure, percentile
from tests.bench.terminal import Terminal, home

SIGNS = count(0x100)
"""Letters that no other text here holds, and that are as wide as a cell."""
PIECE, PAUSE = "wörd and more w ", 0.004
"""Sixteen bytes every four milliseconds: a thousand tokens a second."""
APART = 0.03
"""Seconds between two keys."""
IN_A_LINE = 40
REST = 3.0
"""Seconds after the start until all that the program loads by itself is loaded."""
LOADING = 3.0
"""Seconds of the start in which the SDK is loaded."""


def measure(quick: bool) -> list[Figure]:
    with histories.history(10) as history, home(history) as environ:
        return compare(1, 10, environ) if quick else compare(4, 80, environ)


def compare(rounds: int, keys: int, environ: dict[str, str]) -> list[Figure]:
    """Type `keys` keys in `rounds` programs each; `environ` also says where the database is."""
    idle, streaming, loading = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        with _running(environ, "scripted//{home}/script.json", keys) as terminal:
            terminal.wait(REST)
            idle += _echoed(terminal, keys)
            terminal.type("\x15go\r")
            terminal.until(PIECE.strip())
            streaming += _echoed(terminal, keys)
        with _running(environ, "bench/x", keys) as terminal:
            terminal.until("ctx")  # the agent is open; the SDK comes next
            began = time.perf_counter()
            while time.perf_counter() - began < LOADING:
                loading += _echoed(terminal, 10)
    base = [percentile(idle, 99)]
    what = "a key until its echo, p99, while"
    return [
        Figure("S7", f"{what} 1,000 tokens/s stream", "s", [percentile(streaming, 99)], "at rest", base, 3.0),
        Figure("S7", f"{what} an SDK loads", "s", [percentile(loading, 99)], "at rest", base, 8.0),
    ]


@contextmanager
def _running(environ: dict[str, str], model: str, keys: int) -> Iterator[Terminal]:
    with home() as own:
        folder = Path(own["HOME"], ".config", "ikigai")
        folder.mkdir(parents=True)
        served = '[providers.bench]\nbase_url = "http://127.0.0.1:9"\napi = "anthropic"\n'
        folder.joinpath("config.toml").write_text(served)
        pieces = int(2 * keys * APART / PAUSE) + 250
        script = [[step for _ in range(pieces) for step in (PIECE, {"do": "pause", "seconds": PAUSE})]]
        Path(own["HOME"], "script.json").write_text(json.dumps(script))
        environ = {**own, **environ, "HOME": own["HOME"], "ANTHROPIC_API_KEY": "none"}
        model = model.format(home=own["HOME"].strip("/"))
        terminal = Terminal(("-m", "ikigai", "--new", "-m", model), environ)
        try:
            terminal.until_prompt()
            yield terminal
        finally:
            terminal.type("\x1b")
            terminal.wait(0.5)
            terminal.close()


def _echoed(terminal: Terminal, keys: int) -> list[float]:
    """Return the seconds that each of `keys` keys took."""
    taken = list[float]()
    for number in range(keys):
        sign = chr(next(SIGNS))
        began = time.perf_counter()
        terminal.type(sign)
        terminal.until(sign)
        taken.append(time.perf_counter() - began)
        terminal.wait(APART)
        if number % IN_A_LINE == IN_A_LINE - 1:
            terminal.type("\x15")
    return taken
