"""Measure S1: the start as the user sees it, until the prompt takes keys and the last turns are shown."""

import sys
from pathlib import Path

from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.histories import History
from tests.bench.terminal import BARE, IKIGAI, PROMPT, SKILLS, Terminal, home, sample


def measure(quick: bool) -> list[Figure]:
    rounds = 2 if quick else 30
    with histories.history(10) as history:
        figures = _running(history, rounds)
        figures += _with_servers(history, rounds)
        figures += _with_skills(history, rounds)
    return [*figures, *_stopped(history, 1 if quick else 5)]


def _running(history: History, rounds: int) -> list[Figure]:
    """Compare with a bare prompt, and one behind a connection to the same server; the server runs."""
    with home(history) as environ:
        (starts, bare, connected, nothing) = sample(
            [
                lambda: start(environ),
                lambda: _prompt(environ),
                lambda: _prompt(environ, history.dsn),
                lambda: _python(environ),
            ],
            rounds,
        )
    seen, keys, turns = zip(*starts, strict=True)
    bare, connected, nothing = ([time for (time,) in times] for times in (bare, connected, nothing))
    return [
        Figure("S1", "until keys are taken", "s", keys, "bare prompt_toolkit", bare, 1.25),
        Figure("S1", "until the last turns are on screen", "s", turns, "the same, connected", connected, 1.4),
        Figure("S1", "until the first paint", "s", seen, "python writes a sign", nothing),
    ]


def _with_servers(history: History, rounds: int) -> list[Figure]:
    """Compare a start with three configured MCP servers with one without; both read a configuration."""
    table = '[mcp_servers.{}]\ncommand = "{}"\nargs = ["-m", "tests.tools.mcp.scripted_server", "good"]\n'
    with home(history) as without, home(history) as environ:
        tables = "".join(table.format(name, sys.executable) for name in ("one", "two", "three"))
        for side, text in ((environ, tables), (without, "[terminal]\nupdate_notice = true\n")):
            file = Path(side["HOME"]) / ".config/ikigai/config.toml"
            file.parent.mkdir(parents=True)
            file.write_text(text)
        (starts, bases) = sample([lambda: start(environ), lambda: start(without)], rounds)
    _, keys, turns = zip(*starts, strict=True)
    _, base_keys, base_turns = zip(*bases, strict=True)
    return [
        Figure("S1", "until keys are taken, three MCP servers", "s", keys, "none", base_keys, 1.05),
        Figure("S1", "until the last turns, three MCP servers", "s", turns, "none", base_turns, 1.05),
    ]


def _with_skills(history: History, rounds: int) -> list[Figure]:
    """Compare a start with many skills of the user's with one without."""
    with home(history) as without, home(history, SKILLS) as environ:
        (starts, bases) = sample([lambda: start(environ), lambda: start(without)], rounds)
    _, keys, turns = zip(*starts, strict=True)
    _, base_keys, base_turns = zip(*bases, strict=True)
    return [
        Figure("S1", f"until keys are taken, {SKILLS} skills", "s", keys, "none", base_keys, 1.05),
        Figure("S1", f"until the last turns, {SKILLS} skills", "s", turns, "none", base_turns, 1.05),
    ]


def _stopped(history: History, rounds: int) -> list[Figure]:
    """Measure a start at which the server has stopped, and starts with the program."""
    cold: list[tuple[float, ...]] = []
    preload: list[tuple[float, ...]] = []
    with home(history) as environ:
        for _ in range(rounds):
            histories.wait_until_stopped(history)
            cold.append(start(environ))
            preload.append(start(environ))  # within the time that the server outlives its last program
    (_, cold_keys, cold_turns), (_, keys, turns) = zip(*cold, strict=True), zip(*preload, strict=True)
    return [
        Figure("S1", "keys, the server's start included", "s", cold_keys, "the server running", keys),
        Figure("S1", "last turns, the server's start included", "s", cold_turns, "the server running", turns),
    ]


def start(environ: dict[str, str]) -> tuple[float, ...]:
    """Return seconds of one start of ikigai until the prompt is seen, until keys are taken, until the last turns are
    seen.
    """
    terminal = Terminal(IKIGAI, environ)
    times = terminal.until_prompt(), terminal.until_keys(), terminal.until_history()
    terminal.close()
    return times


def _prompt(environ: dict[str, str], dsn: str = "") -> tuple[float, ...]:
    terminal = Terminal((*BARE, dsn) if dsn else BARE, environ)
    terminal.until_prompt()
    time = terminal.until_keys()
    terminal.close()
    return (time,)


def _python(environ: dict[str, str]) -> tuple[float, ...]:
    terminal = Terminal(("-c", f"import os; os.write(1, {PROMPT!r}.encode()); input()"), environ)
    time = terminal.until_prompt()
    terminal.close()
    return (time,)
