"""What was typed and not sent, by agent: put by while another is on screen, and kept in files for after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ikigai.core.errors import StoreError
from ikigai.core.events import StoredEvent, UserMessage
from ikigai.core.sanitize import storable
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.app.agent_manager import Member
    from ikigai.repl.draft_files import Unsent
    from ikigai.terminal.screen import Screen

Newest: TypeAlias = Callable[[int | None, int], Awaitable[Sequence[StoredEvent]]]

EVERY = 0.5
"""Seconds from a key until what was typed is kept: what a kill may lose. What was entered is kept at once."""
SKEW = 5.0
"""Seconds by which a message in the log may seem older than a draft of it: the clocks are two."""
LOOKED_AT = 50
"""Events of the log that are looked through for what was sent."""
OPENED_WITHIN = 2.0
"""Seconds that closing what a dead program left open may take until something else is told."""


class Typed:
    """By ids of agents. `here` gives that of the one on screen, "" for none; `queued` what others wait to send."""

    def __init__(
        self, screen: Screen, here: Callable[[], str], queued: Callable[[], Mapping[str, Sequence[str]]]
    ) -> None:
        self._screen, self._here, self._queued = screen, here, queued
        self._by: dict[str, str] = {}
        self._unsent: Unsent | None = None  # the same, kept in files
        self._newer = False  # than what is being kept
        self._at_once = asyncio.Event()
        self._kept = set[str]()  # by whom there is a draft in a file that was kept here
        self._keeping: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    def put_by(self) -> None:
        """Keep what is in the input for the agent on screen."""
        if (id := self._here()) and (text := self._screen.put_by()):
            self._by[id] = text

    def lay_by(self, id: str, text: str) -> None:
        """Keep this for an agent that is not on screen."""
        if text:
            self._by[id] = text

    def take(self, id: str) -> str:
        """What was put by for the agent; its input has it from now on."""
        return self._by.pop(id, "")

    def changed(self, entered: bool = False) -> None:
        """What is in the input, or waits to be sent, may be another text: keep it, in a moment; at once what was
        `entered`.
        """
        if self._unsent and self._here():
            self._newer = True
            if entered:
                self._at_once.set()
            if self._keeping is None or self._keeping.done():
                self._keeping = asyncio.create_task(self._keep(self._unsent), name="unsent")

    async def recover(self, id: str, member: Member | None, newest: Newest) -> None:
        """What was typed in a program that died is in the input again.

        Unless the log has it: a program may die between the message and its draft's end. `newest` gives so many of the
        agent's events before an id; where the log cannot tell, all of the draft is given back.
        """
        if self._unsent is None:
            from ikigai.repl.draft_files import Unsent

            self._unsent = Unsent(paths.state_dir(), os.environ)
        text, written = await self._unsent.take(id)
        if text:
            try:
                text = without_sent(text, written, await newest(None, LOOKED_AT))
            except StoreError:
                pass
            finally:  # also where the user leaves meanwhile: what is in the input is kept then
                self._screen.returned(text)
        if text:
            self._telling = asyncio.create_task(self._tell_recovered(member), name="recovered")
        self.changed()  # what has been typed meanwhile is kept from now on

    async def close(self, ending: Awaitable[str]) -> str:
        """Keep what is left for who comes next, and then what comes back while the agents are `ending`."""
        if self._keeping:
            self._keeping.cancel()
        unsent, self._unsent = self._unsent, None
        if not (unsent and (id := self._here())):
            return await ending
        await unsent.keep(id, self._screen.unsent)
        told = await ending
        await unsent.keep(id, self._screen.unsent)
        unsent.close()
        return told

    async def _tell_recovered(self, member: Member | None) -> None:
        """Say so, below what that program has left of its turn."""
        if member:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(member.runtime.opened.wait(), OPENED_WITHIN)
        self._screen.notice("What had been typed when ikigai ended is in the input again.")

    async def _keep(self, unsent: Unsent) -> None:
        while self._newer:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._at_once.wait(), EVERY)
            self._at_once.clear()
            self._newer = False
            here, queued = self._here(), self._queued()
            for id in {*queued, *self._by, *self._kept} - {here}:
                await self._write(unsent, id, _joined(*queued.get(id, ()), self._by.get(id)))
            if here := self._here():  # what was put by stays on its way to another agent
                await self._write(unsent, here, _joined(self._screen.unsent, self._by.get(here)))

    async def _write(self, unsent: Unsent, id: str, text: str) -> None:
        (self._kept.add if text else self._kept.discard)(id)
        await unsent.keep(id, text)


def without_sent(draft: str, written: float, events: Sequence[StoredEvent]) -> str:
    """What of a draft is not in the log: messages stored since it was `written` (seconds since 1970) are left out."""
    for each in events:
        if isinstance(each.event, UserMessage) and each.at > written - SKEW:
            sent, rest = f"{each.event.text}\n", storable(f"{draft}\n")
            draft = draft[len(sent) :] if rest.startswith(sent) else draft
    return draft


def _joined(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))
