"""Pause Python's cyclic collector while many lasting objects are made: an agent's memory, an SDK's modules.

The collector would look through all of them again and again, and hold every thread meanwhile: 70 ms in the middle of
loading an SDK, with keys waiting.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_within = list[bool]()
"""The former state of the collector, once for each user that needs it off."""


def resume_gc() -> None:
    """Resume the collector; inside of `pause_gc`, from its end on."""
    if _within:
        _within[:] = [True] * len(_within)
    else:
        gc.enable()


@contextmanager
def pause_gc(imports: bool = False) -> Iterator[None]:
    """Pause the collector. With `imports`, freeze all objects at the end if modules were loaded: they are never looked
    through again.

    Several callers may enter at once, all of the same thread.
    """
    _within.append(_within[0] if _within else gc.isenabled())
    gc.disable()
    loaded = len(sys.modules)
    try:
        yield
    finally:
        if imports and len(sys.modules) > loaded:
            gc.freeze()
        if _within.pop() and not _within:
            gc.enable()
