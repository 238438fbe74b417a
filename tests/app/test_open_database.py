"""These tests check that modules are imported beside the event loop, also one that another thread is importing."""

import asyncio
import importlib
import sys
import threading
from pathlib import Path

import pytest

from ikigai.app.run.open_database import import_module


async def test_module_that_another_thread_imports_is_waited_for_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "slow_module_of_a_test"
    (tmp_path / f"{name}.py").write_text("import time\ntime.sleep(0.5)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    other = threading.Thread(target=importlib.import_module, args=(name,))
    other.start()
    while name not in sys.modules:
        await asyncio.sleep(0.01)
    importing, turns = asyncio.create_task(import_module(name)), 0
    while not importing.done():
        await asyncio.sleep(0.01)
        turns += 1
    await importing
    other.join()
    assert sys.modules[name].is_whole and turns > 10, "the event loop goes on"
    with pytest.raises(StopIteration):  # nothing is waited for
        import_module(name).send(None)
