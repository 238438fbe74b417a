"""Measure FIRST: from the start of a program until the first byte of its request.

In print mode it begins with the start of `ikigai -p`, and in the REPL too, with a text that was typed at once. Both are
compared with a Python that only imports the vendor's SDK, in the same run. Other programs are reported where they are
installed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import histories, peers
from tests.bench.exchanges import Exchanges, word
from tests.bench.figures import Figure
from tests.bench.terminal import CHECKOUT, Terminal, home
from tests.providers.formats import FORMATS

SDKS = {"messages": "anthropic", "responses": "openai", "contents": "google.genai"}
BARS = {"messages": 0.8, "responses": 1.2, "contents": 1.2}
PATIENCE = 60
"""Seconds that a program may take for its answer."""
REST = 1.0
"""Seconds from the answer until the program is left: the turn has ended by then."""


def measure(quick: bool) -> list[Figure]:
    with histories.history(10) as history, home(history) as environ:
        return compare(["responses"] if quick else list(SDKS), 1 if quick else 7, environ)


def compare(formats: list[str], rounds: int, environ: dict[str, str], with_peers: bool = True) -> list[Figure]:
    figures = list[Figure]()
    for name in formats:
        imported, printed, typed = list[float](), list[float](), list[float]()
        others = dict[str, list[float]]()
        for number in range(rounds + 1):
            figures_of_round = _import_sdk(SDKS[name]), _print_mode(name, environ), _repl(name, environ)
            peers_of_round = _peers(name) if with_peers else {}
            if number:  # the first round fills caches
                for taken, seconds in zip((imported, printed, typed), figures_of_round, strict=True):
                    taken.append(seconds)
                for peer, seconds in peers_of_round.items():
                    others.setdefault(peer, []).append(seconds)
        against = f"import {SDKS[name]}"
        figures += [
            Figure("FIRST", f"-p until the request, {name}", "s", printed, against, imported, BARS[name]),
            Figure("FIRST", f"REPL until the request of what was typed at once, {name}", "s", typed, against, imported),
            *(
                Figure("FIRST", f"{peer} until the request", "s", taken, against, imported)
                for peer, taken in others.items()
            ),
        ]
    return figures


def configure(folder: str, address: str, name: str) -> None:
    """Configure a provider `bench` of this format at the address, for the user of this home folder."""
    file = Path(folder, ".config", "ikigai", "config.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    form = FORMATS[name]
    file.write_text(f'[providers.bench]\nbase_url = "{address}{form.path}"\napi = "{form.api}"\n')


def _import_sdk(sdk: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {sdk}"], check=True, cwd=CHECKOUT)
    return time.perf_counter() - began


def _print_mode(name: str, environ: dict[str, str]) -> float:
    with home() as own, Exchanges() as server:
        configure(own["HOME"], server.address, name)
        command = [sys.executable, "-m", "ikigai", "-p", "hi", "-m", f"bench/{FORMATS[name].name}"]
        return _until_request(command, {**own, **environ, "HOME": own["HOME"]}, server)


def _repl(name: str, environ: dict[str, str]) -> float:
    with home() as own, Exchanges() as server:
        configure(own["HOME"], server.address, name)
        arguments = ("-m", "ikigai", "--new", "-m", f"bench/{FORMATS[name].name}")
        began = time.perf_counter()
        terminal = Terminal(arguments, {**own, **environ, "HOME": own["HOME"]})
        terminal.type("hi\r")
        terminal.until(word(1))
        terminal.wait(REST)
        terminal.close()
        return server.came[0] - began


def _peers(name: str) -> dict[str, float]:
    """Return the seconds that each installed program of this format takes until its request."""
    taken = dict[str, float]()
    with home() as own, Exchanges() as server:
        for peer in peers.installed(server.address, own["HOME"]):
            if peer.form == name:
                server.came.clear()
                taken[peer.name] = _until_request([*peer.command, "hi"], peer.environ, server)
    return taken


def _until_request(command: list[str], environ: dict[str, str], server: Exchanges) -> float:
    began = time.perf_counter()
    with open(os.devnull, "r+b") as nothing:
        subprocess.run(
            command, env=environ, cwd=environ["HOME"], stdin=nothing, stdout=nothing, stderr=nothing, timeout=PATIENCE
        )
    return server.came[0] - began
