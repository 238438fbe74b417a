"""This module measures S11: the program's delay from Enter to the request, and from the answer to the screen.

Both count from first byte to first byte. A server on this machine reports when bytes came and went, a terminal when the
word of the answer was written; against the same exchange with httpx and nothing else. The program has run for a while:
its SDK is loaded.

Bare httpx keeps its connection from one exchange to the next, as ikigai has one open by the time that Enter is pressed:
a new connection would flatter ikigai. The bar for the request is against psycopg in front of httpx: ikigai stores its
message before it sends it, so that the least program would, too.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench import histories
from tests.bench.exchanges import Exchanges, word
from tests.bench.figures import Figure
from tests.bench.terminal import Terminal, home
from tests.providers.formats import FORMATS

SENDING_BAR, SHOWING_BAR = 1.5, 2.0
BARE, STORED = "bare httpx", "psycopg, httpx"
WARM_UP = 2
"""Exchanges of each side that do not count: the SDK is loaded by then, and caches are full."""
REST = 0.5
"""Seconds between two exchanges: the message is stored by then, and the screen is still."""


class Delay(NamedTuple):
    """Seconds from Enter to the request, and from the answer to the screen."""

    sending: float
    showing: float


def measure(quick: bool) -> list[Figure]:
    with histories.history(10) as history, home(history) as environ:
        formats, rounds = (["chat"], 2) if quick else (list(FORMATS), 30)
        return compare(formats, rounds, history.dsn, environ)


def compare(formats: list[str], rounds: int, dsn: str, environ: dict[str, str], warm_up: int = WARM_UP) -> list[Figure]:
    """Compare `rounds` exchanges over each format, in turns with the bare ones; `environ` says where the database is,
    too.
    """
    taken: dict[str, list[Delay]] = {name: [] for name in (BARE, STORED, *formats)}
    with ExitStack() as stack:
        server = stack.enter_context(Exchanges())
        sides = {name: stack.enter_context(_running(name, server.address, dsn, environ)) for name in taken}
        for number in range(warm_up + rounds):
            for name, terminal in sides.items():
                delay = _exchange(terminal, server)
                if number >= warm_up:
                    taken[name].append(delay)
    figures = [figure for name in formats for figure in _figures(name, taken)]
    return [*figures, _sending(STORED, taken, BARE)]


@contextmanager
def _running(name: str, address: str, dsn: str, environ: dict[str, str]) -> Iterator[Terminal]:
    """Yield the program with a provider of this format, or a bare one, at its prompt."""
    with home() as own:
        environ = {**own, **environ, "HOME": own["HOME"]}
        arguments = ("-m", "tests.bench.bare_http", f"{address}/v1/chat/completions", *[dsn] * (name == STORED))
        if name in FORMATS:
            form = FORMATS[name]
            folder = Path(environ["HOME"], ".config", "ikigai")
            folder.mkdir(parents=True)
            served = f'[providers.bench]\nbase_url = "{address}{form.path}"\napi = "{form.api}"\n'
            folder.joinpath("config.toml").write_text(served)
            arguments = ("-m", "ikigai", "--new", "-m", f"bench/{form.name}")
        terminal = Terminal(arguments, environ)
        try:
            terminal.until_prompt()
            terminal.wait(REST)
            yield terminal
        finally:
            terminal.close()


def _figures(name: str, taken: dict[str, list[Delay]]) -> Iterator[Figure]:
    yield _sending(name, taken, BARE)
    yield _sending(name, taken, STORED)._replace(bar=SENDING_BAR)
    showing, base = ([each.showing for each in taken[side]] for side in (name, BARE))
    yield Figure("S11", f"first byte until the screen, {name}", "s", showing, BARE, base, SHOWING_BAR)


def _sending(name: str, taken: dict[str, list[Delay]], against: str) -> Figure:
    sending, base = ([each.sending for each in taken[side]] for side in (name, against))
    return Figure("S11", f"Enter until the request, {name}", "s", sending, against, base)


def _exchange(terminal: Terminal, server: Exchanges) -> Delay:
    number = len(server.came) + 1
    terminal.type(f"Question {number}")
    terminal.wait(REST)
    entered = time.perf_counter()
    terminal.type("\r")
    terminal.until(word(number))
    shown = time.perf_counter()
    terminal.wait(REST)
    return Delay(server.came[-1] - entered, shown - server.went[-1])
