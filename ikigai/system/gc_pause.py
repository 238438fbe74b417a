"""Python's cyclic collector, off while much is made that stays: an agent's memory, and the modules of an SDK.

It would look through all of it again and again, and holds every thread for as long as that takes: 70 ms in the middle
of loading an SDK, with keys waiting.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_within = list[bool]()
"""Whether it was on, once for everybody who needs it off."""


def on() -> None:
    """Let it work; where somebody needs it off, from their end on."""
    if _within:
        _within[:] = [True] * len(_within)
    else:
        gc.enable()


@contextmanager
def off(imports: bool = False) -> Iterator[None]:
    """Hold it off. With `imports` all that is there at the end is never looked through again, if modules were loaded.

    May be entered by several at once, all of the same thread.
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
