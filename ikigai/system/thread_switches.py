"""Let threads take turns more often than Python does by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.0005
"""Seconds for which one thread may keep another from going on, a tenth of Python's own. At the start a thread imports
modules, and the answers of the database, about a dozen, each waited for it.
"""


@contextmanager
def switch_often() -> Iterator[None]:
    """Let threads take turns often within the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
