"""The words and thoughts of a reply while it streams, saved as they come, and how the database answers meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from ikigai.core.errors import WAITED_FOR, Busy, StoreError
from ikigai.core.ports import Log, View
from ikigai.core.request.reply import Accumulator
from ikigai.core.request.reply_draft import Draft, parts

DRAFT_EVERY = 0.3
"""Seconds between two saves of a streaming reply; a kill loses what came since the last one, a second at most."""
SLOW = 2.0
"""Seconds without an answer from the database after which the user is told."""


class Link:
    """How the database answers: tells the view when it has not for a while or cannot, and when it does again."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.away = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """While something is asked of it."""
        slow = asyncio.get_running_loop().call_later(SLOW, self._set, True)
        try:
            yield
        except WAITED_FOR:
            self._set(True)
            raise
        else:
            self._set(False)
        finally:
            slow.cancel()

    def _set(self, away: bool) -> None:
        if away is not self.away:
            self.away = away
            self._view.away(away)


class Drafts:
    """Saves a streaming reply while it grows, one save at a time, and says how far its words are safe.

    The thoughts before words that are safe are so, too. `lost` is called when another program has the pen: the rest
    of the reply could not be stored either.
    """

    def __init__(
        self, store: Log, view: View, link: Link, asked_by: int, reply: Accumulator, lost: Callable[[], object]
    ) -> None:
        self._store, self._view, self._link, self._lost = store, view, link, lost
        self._asked_by, self._reply = asked_by, reply
        self._news = asyncio.Event()
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Drafts:
        self._job = asyncio.current_task()
        self._task = asyncio.create_task(self._save(), name="drafts")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        self._news.set()
        await asyncio.wait([self._task])  # a save under way ends by itself: it is never cancelled half-way

    def grown(self) -> None:
        self._news.set()

    async def _save(self) -> None:
        saved = 0, 0
        while True:
            await self._news.wait()
            self._news.clear()
            if self._ended.is_set() or (self._job and self._job.cancelling()):
                return  # a cancelled reply may take a while to end, and its turn has ended by then
            text, thinking = self._reply.text, self._reply.thinking
            grown = len(text), len(thinking)
            if grown != saved:
                draft = Draft(self._asked_by, text, thinking, parts(self._reply.blocks()))
                try:
                    with self._link.watched():
                        await self._store.save_draft(draft)
                except Busy:
                    self._lost()
                    return
                except StoreError:
                    self._news.set()  # again in a moment, though nothing more may come; the append that ends it waits
                else:
                    saved = grown
                    self._view.saved(self._asked_by, len(text))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), DRAFT_EVERY)
