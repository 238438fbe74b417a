"""Search the log for prompts that users sent, stretch by stretch, behind Ctrl+R."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ikigai.core.errors import IkigaiError
from ikigai.core.search.prompt_history import EXACTLY, SentPrompt, match_rank
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.store.database import Database

log = logging.getLogger(__name__)

TYPING_PAUSE = 0.02
"""Seconds without another key before the log is searched."""
ENOUGH_PROMPTS = 100
"""Matches of this directory, and of others, after which no older prompts are searched."""


class PromptSearch:
    """One search for `typed`.

    `stop` lets the statement under way end: cancelling it would cost the connection.
    """

    def __init__(self, database: Database, typed: str, on_matches: Callable[[Sequence[SentPrompt]], object]) -> None:
        self._typed, self._on_matches = typed, on_matches
        self._prompts = database.search_prompts(typed, paths.current_directory())
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._prompts.stop()

    async def run(self) -> None:
        """Report matches, the newest first, until this directory has enough or nothing is left."""
        await asyncio.sleep(TYPING_PAUSE if self._typed else 0)
        texts: dict[bool, set[str]] = {True: set(), False: set()}
        try:
            while not (self._stopped or self._prompts.complete) and len(texts[True]) < ENOUGH_PROMPTS:
                limits = ENOUGH_PROMPTS, max(ENOUGH_PROMPTS - len(texts[False]), 0)
                matches = await self._prompts.more(limits)
                if matches and not self._stopped:
                    self._on_matches(matches)
                for each in matches:
                    if match_rank(self._typed, each.text) == EXACTLY:
                        texts[each.here].add(each.text)
        except IkigaiError as error:  # prompts at hand are still offered
            log.info("the log could not be searched: %s", error)
