"""Measure TURN and LONG: own time between the end of an answer with one `echo` call and the next request.

A program in print mode makes its calls in one turn, and its own time is compared at the turn's beginning and end: what
grows is work that is done anew for each call. Against codex in the same run, where it is installed. LONG is the same
behind a long history and at a full window.
"""

import os
import subprocess
import sys
from collections.abc import Callable

from ikigai.core.events.messages import StopReason, Text, ToolCall
from tests.bench import histories, peers
from tests.bench.exchanges import Exchanges, Reply
from tests.bench.figures import Figure
from tests.bench.s22_first import configure
from tests.bench.terminal import home
from tests.providers.formats import FORMATS

CALLS = 1000
ENDS = 20
"""Calls at each end of a turn that are compared."""
WARM_UP = 3
"""Calls at the beginning that do not count: modules are loaded in them."""
GROWTH_BAR, CODEX_BAR = 1.15, 0.6
LONG_EVENTS = 100_000
"""Events of 10,000 turns, about."""
SETTLED = 0.0, 0.0
PATIENCE = 600
ECHO = {"ikigai": ("shell", "command"), "codex": ("exec_command", "cmd"), "Claude Code": ("Bash", "command")}
"""The tool that runs a command, and the name of its argument."""


def measure(quick: bool) -> list[Figure]:
    calls = 50 if quick else CALLS
    with histories.history(10) as history, home(history) as environ:
        own = own_times("responses", calls, environ, "--new")
        with home() as other, Exchanges(before=SETTLED) as server:
            names = [peer.name for peer in peers.installed(server.address, other["HOME"])]
        others = {name: _peer_times(name, 200 if name == "Claude Code" else calls) for name in names}
    with histories.history(1000 if quick else LONG_EVENTS) as history, home(history) as environ:
        late = own_times("responses", 50, environ, "-r", histories.AGENT)
    begin, end = own[:ENDS], own[-ENDS:]
    figures = [
        Figure("TURN", f"the last {ENDS} of {calls} calls", "s", end, f"the first {ENDS}", begin, GROWTH_BAR),
        Figure(
            "LONG", f"the first {ENDS} calls behind {LONG_EVENTS:,} events", "s", late[:ENDS], "in a new agent", begin
        ),
    ]
    for name, times in others.items():
        bar = CODEX_BAR if name == "codex" else None
        figures.append(Figure("TURN", f"the first {ENDS} calls", "s", begin, name, times[:ENDS], bar))
        figures.append(Figure("TURN", f"the last {ENDS} calls", "s", end, name, times[-ENDS:]))
    return figures


def own_times(name: str, calls: int, environ: dict[str, str], *chosen: str) -> list[float]:
    """Return the program's own seconds behind each answer but the first ones."""
    with home() as own, Exchanges(before=SETTLED, reply=_calls("ikigai", calls)) as server:
        configure(own["HOME"], server.address, name)
        command = [sys.executable, "-m", "ikigai", "-p", "go", "-m", f"bench/{FORMATS[name].name}", "--yolo", *chosen]
        _run(command, {**own, **environ, "HOME": own["HOME"]})
        return _times(server)


def _peer_times(name: str, calls: int) -> list[float]:
    with home() as own, Exchanges(before=SETTLED, reply=_calls(name, calls)) as server:
        peer = next(each for each in peers.installed(server.address, own["HOME"]) if each.name == name)
        _run([*peer.command, "go"], peer.environ)
        return _times(server)


def _calls(program: str, calls: int) -> Callable[[int], Reply]:
    tool, argument = ECHO[program]

    def reply(number: int) -> Reply:
        if number > calls:
            return (Text("Done."),), StopReason.END
        return (ToolCall(f"call_{number}", tool, f'{{"{argument}": "echo {number}"}}'),), StopReason.TOOLS

    return reply


def _times(server: Exchanges) -> list[float]:
    pairs = zip(server.went, server.came[1:], strict=False)
    return [came - went for went, came in pairs][WARM_UP:]


def _run(command: list[str], environ: dict[str, str]) -> None:
    with open(os.devnull, "r+b") as nothing:
        subprocess.run(
            command, env=environ, cwd=environ["HOME"], stdin=nothing, stdout=nothing, stderr=nothing, timeout=PATIENCE
        )
