"""Ctrl+R's way through the log: everything that users ever typed, stretch by stretch, while the screen goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ikigai.core.errors import IkigaiError
from ikigai.core.search.prompt_history import EXACTLY, Earlier, fits
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.store.database import Database

log = logging.getLogger(__name__)

REST = 0.02
"""Seconds without another key after which the log is looked through."""
ENOUGH = 100
"""Texts of this directory that fit, and others, from which no older ones are looked for."""


class Looking:
    """One search. `stop` lets the statement under way end: one that is cut off would cost the connection."""

    def __init__(self, database: Database, typed: str, found: Callable[[Sequence[Earlier]], object]) -> None:
        self._database, self._typed, self._found = database, typed, found
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        """Tell what fits, the newest first, until there is enough of this directory or nothing older."""
        await asyncio.sleep(REST if self._typed else 0)
        here, before = paths.directory(), None
        texts: dict[bool, set[str]] = {True: set(), False: set()}
        try:
            while not self._stopped and len(texts[True]) < ENOUGH:
                most = ENOUGH, max(ENOUGH - len(texts[False]), 0)
                more, before = await self._database.earlier(self._typed, here, before, most)
                if more and not self._stopped:
                    self._found(more)
                if before is None:
                    return
                for each in more:
                    if fits(self._typed, each.text) == EXACTLY:
                        texts[each.here].add(each.text)
        except IkigaiError as error:  # what is at hand is still offered
            log.info("the log could not be searched: %s", error)
