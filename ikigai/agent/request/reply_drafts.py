"""Save the text and thinking of a reply while it streams, every 0.3 seconds.

There is one draft for each agent, a row of its own in the database (`AgentLog.save_draft`). The append that stores the
reply or the end of its turn deletes it. After a kill the next start makes an interrupted reply of it (`Opened`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ikigai.agent.db_retry import DatabaseStatus
from ikigai.core.errors import AgentLocked, StoreError
from ikigai.core.ports import Log, View
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.request.reply_draft import Draft, draft_parts

DRAFT_EVERY = 0.3
"""Seconds between two saves of a streaming reply; a kill loses the text since the last one, at most a second."""


class ReplyDraftSaver:
    """Saves a streaming reply while it grows, one save at a time, and tells the view how much text is saved.

    Thinking that comes before saved text is also saved. `on_lock_lost` is called when another program has the write
    lock: the rest of the reply could not be stored either.
    """

    def __init__(
        self,
        store: Log,
        view: View,
        status: DatabaseStatus,
        asked_by: int,
        reply: ReplyBuilder,
        on_lock_lost: Callable[[], object],
    ) -> None:
        self._store, self._view, self._status, self._on_lock_lost = store, view, status, on_lock_lost
        self._asked_by, self._reply = asked_by, reply
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    async def __aenter__(self) -> ReplyDraftSaver:
        self._job = asyncio.current_task()
        self._task = asyncio.create_task(self._save(), name="drafts")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        self._changed.set()
        await asyncio.wait([self._task])  # a save under way ends by itself: it is never cancelled half-way

    def notify(self) -> None:
        self._changed.set()

    async def _save(self) -> None:
        saved = 0, 0, 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._ended.is_set() or (self._job and self._job.cancelling()):
                return  # a cancelled reply may take a while to end, and its turn has already ended
            text, thinking = self._reply.text, self._reply.thinking
            lengths = len(text), len(thinking), self._reply.hosted
            if lengths != saved:
                draft = Draft(self._asked_by, text, thinking, draft_parts(self._reply.blocks()))
                try:
                    with self._status.watch():
                        await self._store.save_draft(draft)
                except AgentLocked:
                    self._on_lock_lost()
                    return
                except StoreError:
                    self._changed.set()  # retry soon, even if no more text comes; the append that ends the reply waits
                else:
                    saved = lengths
                    self._view.draft_saved(self._asked_by, len(text))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), DRAFT_EVERY)
