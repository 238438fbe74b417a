"""Keep drafts that the user has put aside with a key, in a file, for this run and the next ones.

One stash serves all agents, so that a draft can be brought back at another one. It is a stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING

from ikigai.core.commands.key_actions import key_label
from ikigai.repl.drafts.draft_files import DraftFiles
from ikigai.repl.drafts.input_drafts import SAVE_INTERVAL
from ikigai.system import paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from ikigai.terminal.screen import Screen

STASH = "stash"
"""The name of its draft file, in the place of an agent's id. A line of the file is a draft as a JSON string."""


class DraftStash:
    """The drafts of the user, the newest last. `key` returns the key that puts them aside and brings them back: it may
    change. With `is_kept` false they end with this program, and drafts of other programs are left to the next one.
    """

    def __init__(self, screen: Screen, key: Callable[[], str], is_kept: bool = True) -> None:
        self._screen, self._key, self._is_kept = screen, key, is_kept
        self._drafts: list[str] = []
        self._files = DraftFiles(paths.state_dir(), os.environ)
        self._saving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def toggle(self) -> str:
        """Put the input aside, or with an empty one bring the newest draft back; return a message about that."""
        text = self._screen.input.take()
        if text.strip():
            self.put_aside(text)
            return f"Draft put aside{self._count()}. {self._label()} on an empty line brings it back."
        if not self._drafts:
            return f"No draft is put aside. {self._label()} puts the text of the input aside."
        self._screen.view.restore_input(self._drafts.pop())
        self._save(2 * SAVE_INTERVAL)  # the input is in a file by then: a kill loses neither
        return f"Draft brought back{self._count()}."

    def put_aside(self, text: str) -> None:
        """Add this draft to the stash."""
        self._drafts.append(text)
        self._save()

    async def recover(self) -> None:
        """Take over the drafts of programs that have ended, and tell the user."""
        if not self._is_kept:
            return
        text, _ = await self._files.take(STASH)
        found: list[str] = []
        for line in text.split("\n"):
            with contextlib.suppress(ValueError):
                found.append(str(json.loads(line)))
        self._drafts[:0] = found
        if count := len(found):
            what = "A draft is" if count == 1 else f"{count} drafts are"
            self._screen.view.note(f"{what} put aside. {self._label()} on an empty line brings the newest back.")

    async def close(self) -> None:
        """Finish saving; the drafts that are left stay for the next program."""
        self._closing.set()
        if self._saving:
            await self._saving
        self._files.close()

    def _label(self) -> str:
        return key_label(self._key())

    def _count(self) -> str:
        return f" ({len(self._drafts)} in the stash)" if self._drafts else ""

    def _save(self, delay: float = 0.0) -> None:
        if self._is_kept:
            self._saving = asyncio.create_task(self._save_after(delay, self._saving), name="stash")

    async def _save_after(self, delay: float, before: asyncio.Task[None] | None) -> None:
        if before:
            await before
        if delay:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), delay)
        await self._files.save(STASH, "\n".join(json.dumps(each, ensure_ascii=False) for each in self._drafts))
