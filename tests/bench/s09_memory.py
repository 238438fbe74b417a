"""Measure S9: the most resident memory when the prompt stands and the last turns are on screen."""

from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.histories import AGENT
from tests.bench.terminal import BARE, IKIGAI, SKILLS, Terminal, home, sample

SDK = ("-m", "ikigai", "-m", "openai/gpt-5", "-r", AGENT)
SDK_KEY = {"OPENAI_API_KEY": "unused", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
SETTLED = 1.0
"""Seconds without growth after which nothing more is being loaded."""


def measure(quick: bool) -> list[Figure]:
    events, rounds = (20_000, 1) if quick else (1_000_000, 5)
    with (
        histories.history(events) as long,
        histories.history(10) as short,
        home(long) as much,
        home(short) as little,
        home(short, SKILLS) as skilled,
    ):
        sides = [lambda: _at_the_prompt(little), lambda: _at_the_prompt(much), _bare, lambda: _at_the_prompt(skilled)]
        measured = sample(sides, rounds)
        sdk = [_with_sdk({**little, **SDK_KEY})]
    few, many, bare, skills = ([memory for (memory,) in samples] for samples in measured)
    return [
        Figure("S9", "peak memory at the prompt", "B", few, "bare prompt_toolkit", bare, 1.7),
        Figure("S9", f"peak memory, {events:,} events", "B", many, "10 events", few, 1.1),
        Figure("S9", f"peak memory, {SKILLS} skills", "B", skills, "bare prompt_toolkit", bare, 1.7),
        Figure("S9", "peak memory, OpenAI's SDK loaded", "B", sdk, "before it is loaded", few),
    ]


def _at_the_prompt(environ: dict[str, str]) -> tuple[float, ...]:
    terminal = Terminal(IKIGAI, environ)
    terminal.until_prompt()
    terminal.until_history()
    memory = terminal.peak_memory()
    terminal.close()
    return (memory,)


def _bare() -> tuple[float, ...]:
    with home() as environ:
        terminal = Terminal(BARE, environ)
        terminal.until_prompt()
        terminal.until_keys()
        memory = terminal.peak_memory()
        terminal.close()
    return (memory,)


def _with_sdk(environ: dict[str, str]) -> float:
    """Return the memory once the SDK is loaded, a moment after the history is on screen."""
    terminal = Terminal(SDK, environ)
    terminal.until_prompt()
    terminal.until_history()
    memory, before = terminal.peak_memory(), 0
    while memory > before:
        terminal.wait(SETTLED)
        before, memory = memory, terminal.peak_memory()
    terminal.close()
    return memory
