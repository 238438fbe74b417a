"""Keep unsent input by agent: while another agent is on screen, and in files for after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ikigai.core.errors import StoreError
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.core.text.sanitize import storable
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import OpenAgent
    from ikigai.repl.drafts.draft_files import DraftFiles
    from ikigai.terminal.screen import Screen

ReadEvents: TypeAlias = Callable[[int | None, int], Awaitable[Sequence[StoredEvent]]]

SAVE_INTERVAL = 0.5
"""Seconds from a key until the draft is saved, which a kill may lose. A line that is queued is saved at once."""
STORE_SECONDS = 0.05
"""Seconds from Enter until the message is also saved in a file, unless the log has it: ten times as long as that takes.
"""
CLOCK_SKEW = 5.0
"""Seconds by which a message in the log may seem older than its draft: the clocks are two."""
MAX_SEARCHED_EVENTS = 50
"""Events of the log that are searched for messages that were sent."""
OPEN_TIMEOUT = 2.0
"""Seconds that closing a killed program's open turn may take until the user is told of the draft."""


class InputDrafts:
    """Unsent input, by agent id.

    `current_id` returns the id of the agent on screen, "" for none. `queued` returns what other agents wait to send,
    `unstored` what was entered for the one on screen, is not in the log yet and shown nowhere.
    """

    def __init__(
        self,
        screen: Screen,
        current_id: Callable[[], str],
        queued: Callable[[], Mapping[str, Sequence[str]]],
        unstored: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._screen, self._view, self._current_id, self._queued = screen, screen.view, current_id, queued
        self._unstored = unstored
        self._stashed: dict[str, str] = {}
        self._files: DraftFiles | None = None  # drafts on disk
        self._has_changed = False  # since the last save
        self._save_now = asyncio.Event()
        self._saved_ids = set[str]()  # agents whose draft was saved to a file here
        self._save_timer: asyncio.TimerHandle | None = None  # until the task below begins
        self._save_task: asyncio.Task[None] | None = None
        self._notice_task: asyncio.Task[None] | None = None

    def stash_current(self) -> None:
        """Keep the text in the input for the agent on screen."""
        if (id := self._current_id()) and (text := self._screen.input.take()):
            self._stashed[id] = text

    def stash(self, id: str, text: str) -> None:
        """Keep `text` for an agent that is not on screen."""
        if text:
            self._stashed[id] = text

    def pop(self, id: str) -> str:
        """Return the agent's draft and drop it here, because its input has it from now on."""
        return self._stashed.pop(id, "")

    def changed(self, entered: bool = False) -> None:
        """Save the drafts in a moment, as the input or the queue may have changed; at once if a line was `entered`."""
        if self._files and self._current_id():
            self._has_changed = True
            if self._save_task and not self._save_task.done():
                if entered:
                    self._save_now.set()
            elif entered:
                self._begin_saving(self._files)
            elif self._save_timer is None:  # a task that waits would hold up the message that this key may send
                loop = asyncio.get_running_loop()
                self._save_timer = loop.call_later(SAVE_INTERVAL, self._begin_saving, self._files)

    def sent(self) -> None:
        """Save a message that was sent, unless the log has it in a moment. Until then no draft is saved, which would
        hold the message up.
        """
        self._cancel_timer()
        asyncio.get_running_loop().call_later(STORE_SECONDS, self._save_unstored)

    def _save_unstored(self) -> None:
        if self._unstored() or self._current_id() in self._saved_ids:  # a draft that was sent must not stay in its file
            self.changed(entered=True)
        elif self._has_changed:
            self.changed()

    def _begin_saving(self, files: DraftFiles) -> None:
        self._cancel_timer()
        self._save_task = asyncio.create_task(self._save_all(files), name="unsent")

    def _cancel_timer(self) -> None:
        if self._save_timer:
            self._save_timer.cancel()
            self._save_timer = None

    async def recover(self, id: str, open_agent: OpenAgent | None, read_events: ReadEvents) -> None:
        """Return the draft of a killed program to the input, without the messages that the log has.

        A program may die between a message and the end of its draft. `read_events` returns a number of the events
        before an id, None for the newest. If the log cannot be read, all of the draft is returned.
        """
        if self._files is None:
            from ikigai.repl.drafts.draft_files import DraftFiles

            self._files = DraftFiles(paths.state_dir(), os.environ)
        text, written = await self._files.take(id)
        if text:
            try:
                text = without_sent(text, written, await read_events(None, MAX_SEARCHED_EVENTS))
            except StoreError:
                pass
            finally:  # also if the user leaves meanwhile: the input is saved then
                self._view.restore_input(text)
        if text:
            self._notice_task = asyncio.create_task(self._notify_recovered(open_agent), name="recovered")
        self.changed()  # also what has been typed meanwhile

    async def close(self, ending: Awaitable[str]) -> str:
        """Save the input left for the next program, await `ending`, then save the input that it returns."""
        self._cancel_timer()
        if self._save_task:
            self._save_task.cancel()
        files, self._files = self._files, None
        if not (files and (id := self._current_id())):
            return await ending
        await files.save(id, self._unsent())
        unsaved = await ending
        await files.save(id, self._screen.unsent)
        files.close()
        return unsaved

    async def _notify_recovered(self, open_agent: OpenAgent | None) -> None:
        """Notify the user, below what the killed program left of its turn."""
        if open_agent:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(open_agent.agent_loop.opened.wait(), OPEN_TIMEOUT)
        self._view.note("The unsent input of the last run is restored.")

    async def _save_all(self, files: DraftFiles) -> None:
        while self._has_changed:
            self._save_now.clear()
            self._has_changed = False
            current_id, queued = self._current_id(), self._queued()
            for id in {*queued, *self._stashed, *self._saved_ids} - {current_id}:
                await self._save(files, id, _joined(*queued.get(id, ()), self._stashed.get(id)))
            if current_id := self._current_id():  # a stashed text stays while another agent is being opened
                await self._save(files, current_id, _joined(self._unsent(), self._stashed.get(current_id)))
            if self._has_changed:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._save_now.wait(), SAVE_INTERVAL)

    def _unsent(self) -> str:
        """Return what the agent on screen has to send, oldest first."""
        return _joined(*self._unstored(), self._screen.unsent)

    async def _save(self, files: DraftFiles, id: str, text: str) -> None:
        (self._saved_ids.add if text else self._saved_ids.discard)(id)
        await files.save(id, text)


def without_sent(draft: str, written: float, events: Sequence[StoredEvent]) -> str:
    """Return `draft` without the user's messages stored since it was `written`, in seconds since 1970."""
    for each in events:
        if isinstance(each.event, UserMessage) and not each.event.sender and each.at > written - CLOCK_SKEW:
            sent, rest = f"{each.event.text}\n", storable(f"{draft}\n")
            if rest.startswith(sent):
                draft = draft[len(sent) :]
            elif each.at > written and each.event.text.startswith(storable(draft)):  # it was completed and sent since
                draft = ""
    return draft


def _joined(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))
