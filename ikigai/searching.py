"""Ctrl+R's way through the log: everything that users ever typed, stretch by stretch, while the screen goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ikigai import paths
from ikigai.core.earlier import EXACTLY, Earlier, fits
from ikigai.core.errors import IkigaiError

if TYPE_CHECKING:
    from ikigai.store.database import Database

log = logging.getLogger(__name__)

REST = 0.02
"""Seconds without another key after which the log is looked through."""
ENOUGH = 100
"""Texts of this directory that fit from which no older ones are looked for."""


async def search(database: Database, typed: str, found: Callable[[Sequence[Earlier]], object]) -> None:
    """Call `found` with what fits, the newest first, until there is enough or nothing older."""
    await asyncio.sleep(REST if typed else 0)
    here, before, texts = paths.directory(), None, set[str]()
    try:
        while len(texts) < ENOUGH:
            more, before = await database.earlier(typed, here, before)
            if more:
                found(more)
            if before is None:
                return
            texts.update(each.text for each in more if each.here and fits(typed, each.text) == EXACTLY)
    except IkigaiError as error:  # what is at hand is still offered
        log.info("the log could not be searched: %s", error)
