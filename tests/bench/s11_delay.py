"""Measure S11: the program's delay from Enter to the request, and from the answer to the screen.

Both count from first byte to first byte. A server on this machine reports when bytes came and went, a terminal when the
word of the answer was written; against the same exchange with httpx and nothing else. The program has run for a while:
its SDK is loaded. What the first request takes beyond the load of its SDK is measured apart, in programs that have just
been started, against a later request of theirs.

Bare httpx keeps its connection from one exchange to the next, as ikigai has one open by the time that Enter is pressed:
a new connection would flatter ikigai. The bar for the request is against psycopg in front of httpx: ikigai stores its
message before it sends it, and so would the smallest program.
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

SENDING_BAR, SHOWING_BAR, FIRST_BAR = 2.2, 2.0, 2.2
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
        formats, rounds, starts = (["chat"], 2, 1) if quick else (list(FORMATS), 30, 10)
        figures = compare(formats, rounds, history.dsn, environ)
        return [*figures, *(figure for name in formats for figure in first_requests(name, starts, environ))]


def compare(formats: list[str], rounds: int, dsn: str, environ: dict[str, str], warm_up: int = WARM_UP) -> list[Figure]:
    """Compare `rounds` exchanges over each format, in turns with the bare ones; `environ` also says where the database
    is.
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


def first_requests(name: str, starts: int, environ: dict[str, str]) -> list[Figure]:
    """Compare the first request of a program with a later one, `starts` times.

    Enter is pressed at the first prompt. What counts is the time from when the SDK is loaded.
    """
    first, whole, later = list[float](), list[float](), list[float]()
    for _ in range(starts):
        with Exchanges() as server, home() as own:
            file = Path(own["HOME"], "loads")
            environ = {**own, **environ, "HOME": own["HOME"]}
            program = "tests.bench.load_program", str(file)
            terminal = Terminal(("-m", *program, *_configured(name, server.address, environ)), environ)
            terminal.until_prompt()
            entered = time.perf_counter()
            terminal.type("Question 1\r")
            terminal.until(word(1))
            loaded, came = float(file.read_text().split()[0]), server.came[0]
            first.append(came - max(loaded, entered))
            whole.append(came - entered)
            terminal.wait(REST)
            later.append([_exchange(terminal, server).sending for _ in range(WARM_UP)][-1])
            terminal.close()
    return [
        Figure("S11", f"SDK loaded until the first request, {name}", "s", first, "a later one", later, FIRST_BAR),
        Figure("S11", f"first Enter until the request, {name}", "s", whole, "a later one", later),
    ]


def _configured(name: str, address: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Configure a provider of this format at the address; return the arguments that choose it in a new agent."""
    form = FORMATS[name]
    folder = Path(environ["HOME"], ".config", "ikigai")
    folder.mkdir(parents=True)
    served = f'[providers.bench]\nbase_url = "{address}{form.path}"\napi = "{form.api}"\n'
    folder.joinpath("config.toml").write_text(served)
    return "--new", "-m", f"bench/{form.name}"


@contextmanager
def _running(name: str, address: str, dsn: str, environ: dict[str, str]) -> Iterator[Terminal]:
    """Yield the program with a provider of this format, or a bare one, at its prompt."""
    with home() as own:
        environ = {**own, **environ, "HOME": own["HOME"]}
        arguments = ("-m", "tests.bench.bare_http", f"{address}/v1/chat/completions", *[dsn] * (name == STORED))
        if name in FORMATS:
            arguments = ("-m", "ikigai", *_configured(name, address, environ))
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
