"""Tests of the garbage collector's pause: it ends with its last user, and frozen objects are not scanned again."""

import gc
import sys
from collections.abc import Iterator

import pytest

from ikigai.system import gc_pause as collector


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
def test_by_several_at_once_and_then_as_it_was(before: bool):
    if not before:
        gc.disable()
    one, two = collector.pause_gc(), collector.pause_gc()
    with one:
        two.__enter__()
        assert not gc.isenabled()
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled() is before


def test_switched_on_meanwhile():
    gc.disable()
    with collector.pause_gc():
        collector.resume_gc()
        with collector.pause_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    collector.resume_gc()
    assert gc.isenabled()


def test_frozen_objects_are_not_scanned_again(monkeypatch: pytest.MonkeyPatch):
    before = gc.get_freeze_count()
    with collector.pause_gc(imports=True):
        pass
    assert gc.get_freeze_count() <= before
    with collector.pause_gc(imports=True):
        monkeypatch.setitem(sys.modules, "a module of a test", collector)
        made = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= before + len(made) and gc.isenabled()
