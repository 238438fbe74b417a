"""HOPS: modules on the way from Enter to the request's first byte, and from a delta to the terminal.

A reader who follows a message through the code with "go to definition" opens these files; `hops_program` says what is
on the way. Each way is judged by its goal. All modules that are entered meanwhile are reported beside it: helpers of
helpers, and what else runs at that time. Both are counted in the running program, in a terminal, with a server that
speaks Chat Completions; the SDK is loaded by then.
"""

from collections import defaultdict
from pathlib import Path

from tests.bench import histories
from tests.bench.exchanges import Exchanges, word
from tests.bench.figures import Figure
from tests.bench.terminal import Terminal, home

GOALS = {"request": {"modules": 38, "packages": 8}, "delta": {"modules": 22}}
"""Largest permitted numbers for each way."""
WARM_UP = 2
REST = 0.5
LOADED = 3.0
"""Seconds from the prompt until SDK and tools are loaded in the background."""


def measure(quick: bool) -> list[Figure]:
    with histories.history(10) as history, home(history) as environ:
        taken = ways(3 if quick else 7, environ)
    figures = list[Figure]()
    for way, what in (("request", "from Enter to the request"), ("delta", "from a delta to the terminal")):
        counted = {
            "modules": [len(each) for each in taken[way]],
            "packages": [len({module.partition("/")[0] for module in each}) for each in taken[way]],
        }
        figures += [
            Figure("HOPS", f"{unit} {what}", unit, counted[unit], "the goal", [goal], 1.0)
            for unit, goal in GOALS[way].items()
        ]
        entered = [len(each) for each in taken[f"{way}-entered"]]
        figures.append(Figure("HOPS", f"modules entered {what}", "modules", entered, "on the way", counted["modules"]))
    return figures


def ways(exchanges: int, environ: dict[str, str], warm_up: int = WARM_UP) -> dict[str, list[list[str]]]:
    """Return the modules of each way, by its name, a list for each exchange; `environ` says where the database is."""
    folder = Path(environ["HOME"], ".config", "ikigai")
    folder.mkdir(parents=True)
    file = folder / "ways"
    with Exchanges(pause=REST) as server:
        served = f'[providers.bench]\nbase_url = "{server.address}/v1"\napi = "chat"\n'
        folder.joinpath("config.toml").write_text(served)
        program = ("-m", "tests.bench.hops_program", str(file), "--new", "-m", "bench/chat")
        terminal = Terminal(program, environ)
        terminal.until_prompt()
        terminal.wait(LOADED)
        for number in range(1, warm_up + exchanges + 1):
            terminal.type(f"Question {number}")
            terminal.wait(REST)
            terminal.type("\r")
            terminal.until(word(number))
            terminal.wait(3 * REST)
        terminal.close()
    taken = defaultdict[str, list[list[str]]](list)
    for line in file.read_text().splitlines():
        way, *modules = line.split()
        taken[way].append(modules)
    return {way: each[warm_up:] for way, each in taken.items()}
