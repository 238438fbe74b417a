"""Count S10: modules loaded at the first prompt that takes keys; psycopg and rich may load behind it."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import histories
from tests.bench.figures import Figure
from tests.bench.terminal import IKIGAI, SKILLS, Terminal, home

FORBIDDEN = ("anthropic", "openai", "google.genai", "xllamacpp", "pydantic", "httpx", "rich.markdown", "yaml")
NEEDED = "import argparse, sys, tomllib, msgspec, prompt_toolkit; print(len(sys.modules))"
MAX_MODULES_RATIO = 450 / 348
"""Permitted ratio of loaded modules to needed ones: counted with the versions of November 2026."""


def measure(quick: bool) -> list[Figure]:
    needed = [int(subprocess.run([sys.executable, "-c", NEEDED], capture_output=True, check=True).stdout)]
    with histories.history(10) as history, home(history, SKILLS) as environ:
        loaded = _loaded(environ)
    found = sorted(name for name in loaded["keys"] if name in FORBIDDEN)
    told = f"forbidden modules there ({', '.join(found) or 'none'})"
    against = "prompt_toolkit, msgspec, argparse, tomllib"
    return [
        Figure(
            "S10", "modules when keys are taken", "modules", [len(loaded["keys"])], against, needed, MAX_MODULES_RATIO
        ),
        Figure("S10", told, "modules", [len(found)], "those looked for", [len(FORBIDDEN)], 0.0),
        Figure("S10", "modules at the first paint", "modules", [len(loaded["paint"])], "the same", needed),
    ]


def _loaded(environ: dict[str, str]) -> dict[str, list[str]]:
    """Return the names of the modules at either moment, "paint" and "keys"."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "modules"
        terminal = Terminal(("-m", "tests.bench.prompt_modules", str(file), *IKIGAI[2:]), environ)
        terminal.until_prompt()
        terminal.until_history()
        terminal.close()
        lines = (line.split() for line in file.read_text().splitlines())
        return {moment: names for moment, *names in lines}
