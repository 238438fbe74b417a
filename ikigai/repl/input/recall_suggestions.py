"""Suggest earlier turns while the user pauses in typing; Tab adds their excerpts to the message."""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING

from ikigai.core.commands import table
from ikigai.core.errors import StoreError
from ikigai.core.search import recall_choice

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory
    from ikigai.repl.session import Session

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25
"""Seconds without a key until turns are looked for."""
MIN_CHARACTERS, MAX_CHARACTERS = 3, 2_000
"""Characters of a text that turns are looked for with: neither a letter nor a paste says what is meant."""


class RecallSuggestions:
    """The turns that are suggested for the text in the input. Each change of it begins a new pause."""

    def __init__(self, session: Session) -> None:
        self._session, self._screen, self._view = session, session.screen, session.view
        self._pause: asyncio.TimerHandle | None = None
        self._search: asyncio.Task[None] | None = None
        self._turns: tuple[recall_choice.RecallMatch, ...] = ()
        self._agent = ""  # whose turns these are

    def changed(self) -> None:
        """Take note that the text in the input may have changed: stop the search, and begin another in a moment."""
        self._stop()
        if self._screen.has_input:
            self._pause = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._begin)
        else:
            self.clear()

    def clear(self) -> None:
        """Suggest nothing: the text was sent or deleted."""
        self._stop()
        self._show(())

    def add(self) -> bool:
        """Add the excerpts of the suggested turns to the text; return False if nothing is suggested."""
        memory, services = self._session.memory, self._session.services
        turns, self._turns = self._turns, ()
        self._screen.status.suggest_recalled(())
        if not turns or memory is None or services is None or memory.agent != self._agent:
            return False
        able = [turn for turn in turns if recall_choice.is_recallable(memory, turn)]
        from ikigai.app.history.auto_recall import MAX_EXCERPT_TOKENS  # loaded: it has found the turns

        recalled = recall_choice.join_excerpts(able, MAX_EXCERPT_TOKENS)
        if recalled is None:
            return False
        self._stop()
        self._screen.input.append(services.redaction.redactor().foreign(recalled.text))
        return True

    def _stop(self) -> None:
        if self._pause:
            self._pause.cancel()
        if self._search:
            self._search.cancel()
        self._pause = self._search = None

    def _begin(self) -> None:
        """Look for turns that match the text, if it is a message."""
        memory, services, text = self._session.memory, self._session.services, self._screen.input.text.strip()
        is_fit = MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS and recall_choice.HEADER not in text
        if not is_fit or self._view.bare or text.startswith("!") or table.is_command(text):
            self._show(())
        elif memory is None or services is None:  # the conversation is still being opened
            self._pause = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._begin)
        elif memory.cutoff is None or services.context_settings(memory).auto_recall != "suggest":
            self._show(())
        else:
            self._search = asyncio.create_task(self._look(memory, text), name="suggestion")
            self._session.track(self._search)

    async def _look(self, memory: Memory, text: str) -> None:
        services = self._session.services
        assert services
        await asyncio.to_thread(importlib.import_module, "ikigai.app.history.auto_recall")
        from ikigai.app.history.auto_recall import MAX_EXCERPT_TOKENS, find_turns

        try:
            turns = await find_turns(
                services.database, memory, text, MAX_EXCERPT_TOKENS, recall_choice.CLEAR_SHARE, catch_up=0.0
            )
        except StoreError:
            log.debug("nothing is suggested", exc_info=True)
            turns = ()
        self._agent = memory.agent
        self._show(turns)

    def _show(self, turns: tuple[recall_choice.RecallMatch, ...]) -> None:
        if turns or self._turns:
            self._turns = turns
            self._screen.status.suggest_recalled([turn.name for turn in turns])
