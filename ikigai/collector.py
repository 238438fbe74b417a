"""Python's cyclic collector, off while much is made that stays: an agent's memory, and the modules of an SDK.

It would look through all of it again and again, and holds every thread for as long as that takes: 70 ms in the middle
of loading an SDK, with keys waiting.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_within = list[bool]()
"""Whether it was on, once for everybody who needs it off."""


@contextmanager
def off(stays: bool = False) -> Iterator[None]:
    """Nothing that is made in here is in a cycle that ends; with `stays` it is never looked through after that, either.

    May be entered by several at once, all of the same thread.
    """
    _within.append(_within[0] if _within else gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        if stays:
            gc.freeze()
        if _within.pop() and not _within:
            gc.enable()
