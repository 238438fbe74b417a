"""The cyclic collector is off while somebody needs that, and then as it was; what stays is not looked through again."""

import gc
import sys
from collections.abc import Iterator

import pytest

from ikigai.system import gc_pause as collector


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize("before", [True, False])
def test_by_several_at_once_and_then_as_it_was(before: bool):
    if not before:
        gc.disable()
    one, two = collector.off(), collector.off()
    with one:
        two.__enter__()
        assert not gc.isenabled()
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled() is before


def test_switched_on_meanwhile():
    gc.disable()
    with collector.off():
        collector.on()
        with collector.off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    collector.on()
    assert gc.isenabled()


def test_what_was_imported_is_looked_through_no_more(monkeypatch: pytest.MonkeyPatch):
    with collector.off(imports=True):
        pass
    assert not gc.get_freeze_count()
    with collector.off(imports=True):
        monkeypatch.setitem(sys.modules, "a module of a test", collector)
        made = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= len(made) and gc.isenabled()
