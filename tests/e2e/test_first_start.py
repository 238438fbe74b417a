"""Tests of the first start on a fresh machine: no configuration, server or key; its own database and model."""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import psutil
import pytest

from ikigai.providers.local import weights
from ikigai.store.embedded import account as embedded_account
from ikigai.store.embedded import location as embedded_place
from ikigai.store.embedded import server as embedded
from tests.e2e.program import Program, run
from tests.support.local_weights import smol_weights
from tests.support.screens import Screens

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
SLOWLY = 150.0
"""Seconds for a small model on a busy machine."""


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield an empty home with a short path; the model's weights are there already, as a first setup leaves them."""
    with tempfile.TemporaryDirectory(prefix="ikigai-home-", dir="/tmp") as name:
        data = Path(name) / ".local" / "share" / "ikigai"
        models = data / "models"
        models.mkdir(parents=True)
        for folder in (data, models):
            folder.chmod(0o700)
        (models / weights.WEIGHTS_FILE).symlink_to(smol_weights())
        yield Path(name)
        until(lambda: not embedded.embedded_status(data).running, "the end of the server")
        if os.geteuid() == 0:
            shutil.rmtree(embedded_account.SYSTEM_DIR / "data" / name[1:], ignore_errors=True)


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def test_setup_first_talk_and_the_next_day(home: Path):
    """The first steps of the README and the tutorial, as they are written there."""
    first, second = (run(home, "setup") for _ in range(2))
    for result, database in ((first, "created"), (second, "ready")):
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.splitlines() == [
            f"database   embedded PostgreSQL {embedded_place.MAJOR_VERSION}, {database}",
            "key        none (add one: ikigai login)",
            "ready      local/smollm2-135m answers when you run ikigai",
        ]

    with Program(home) as program, Screens("setup") as screens:
        screens.printed("setup", first.stdout)
        screens.agrees("first-screen", program.ready())
        assert "local/smollm2-135m · ctx" in program.status() and program.status().endswith("· embedded")
        program.say("Hello! Who are you?")
        program.wait(lambda: _answers(program) == 1 and not _busy(program), "the first answer", SLOWLY)
        program.say("Tell me a long story about the sea.")
        program.wait(lambda: _answers(program) == 2, "the second answer", SLOWLY)
        assert len(_model_servers(home)) == 1
        program.type("\x1b")
        program.wait(lambda: not _busy(program), "the end of the turn", SLOWLY)
        program.leave()
        talk = takewhile(lambda line: not line.startswith("To continue: "), program.scrollback())
        shown = [line for line in talk if line.strip() and "interrupted" not in line]
        assert not _model_servers(home), "the model's server ends with the program"

    with Program(home, env={"IKIGAI_SLIDING_CONTEXT_TOKENS": "1"}) as program:
        program.ready()
        program.wait(lambda: all(line in program.scrollback() for line in shown), "the talk to be there again")
        lines = program.scrollback()
        (rule,) = [n for n, line in enumerate(lines) if line.startswith("─")]
        assert '1 turn out · context begins: "Tell me a long story about the sea."' in lines[rule]
        assert lines[rule - 1] == lines[rule + 1] == ""
        assert lines[rule + 2] == "❯ Tell me a long story about the sea."
        program.leave()

    for file in (home / ".local").rglob("ikigai/**/*"):
        if not file.is_symlink():
            assert not stat.S_IMODE(file.stat().st_mode) & 0o077, f"{file} can be read by others"


def _model_servers(home: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any("server_child" in word for word in process.cmdline()) and process.environ().get("HOME") == str(home):
                found.append(process.pid)
    return found


def _answers(program: Program) -> int:
    return sum(line.startswith("● ") for line in program.scrollback())


def _busy(program: Program) -> bool:
    return any("Esc stops" in line for line in program.lines())
