"""Tests of a database that another program is still making: a start waits with progress, as long as the user wants."""

import fcntl
import os
import shutil
from pathlib import Path

from ikigai.store.embedded import keeper
from ikigai.store.embedded import location as embedded_place
from tests.e2e.account import ECHO
from tests.e2e.program import Program


def test_it_is_waited_for_until_ctrl_c(tmp_path: Path):
    folder = embedded_place.folder_of(tmp_path / ".local" / "share" / "ikigai")
    embedded_place.make_folder(folder)
    try:
        with (folder / "server.lock").open("wb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keeper.write_state(lock.fileno(), keeper.MAKING)
            with Program(tmp_path, *ECHO, "-p", "hi") as program:
                program.wait_for("Preparing the database … 2 s")
                program.type("\x03")
                assert program.ended() == 130
                assert "Preparing" not in program.text() and "Traceback" not in program.text()
    finally:
        if os.geteuid() == 0:
            shutil.rmtree(folder)
