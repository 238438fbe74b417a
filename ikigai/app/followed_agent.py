"""An agent that another program writes, shown as it grows: its events, the reply under way, and who has the pen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from ikigai.agent.apply_events import show_rows
from ikigai.agent.db_retry import RETRY_AFTER
from ikigai.core.commands import table as commands
from ikigai.core.errors import WAITED_FOR, Bug, IkigaiError, Refused, StoreError
from ikigai.core.events import (
    CHANGES_THE_PAST,
    AssistantMessage,
    Event,
    StoredEvent,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from ikigai.core.messages import ReplyBlock, ToolCall
from ikigai.core.request.reply_draft import Telling
from ikigai.core.state.inputs import CallModel
from ikigai.core.state.loading import loading
from ikigai.core.state.machine import work
from ikigai.core.state.memory import Memory, replace

if TYPE_CHECKING:
    from ikigai.app.services import World
    from ikigai.core.ports import View
    from ikigai.core.request.reply import Delta
    from ikigai.core.request.reply_draft import Draft
    from ikigai.store.agents import Agent
    from ikigai.store.follow import Follower, News
    from ikigai.store.write_lock import Holder

log = logging.getLogger(__name__)


class Following:
    """Follows one agent from `begin` on; `memory` is what its log means, by the same fold as the writer's.

    `holder` is the program that has the pen, as far as is known: "host, pid N"; "" when none has. `on_holder` is told
    when it is another, `on_name` when the agent was renamed, and calls `rename` then.
    """

    memory: Memory

    def __init__(
        self,
        world: World,
        agent: Agent,
        view: View,
        on_holder: Callable[[str], object],
        on_name: Callable[[str], object],
    ) -> None:
        self.holder = ""
        self._on_holder, self._on_name = on_holder, on_name
        self.name, self._view = agent.name, view
        self._run, self._last = world.run, world.database.reader(agent).last_counted
        self._follower: Follower = world.database.follow(agent, lambda: loading(self._run, agent.id))
        self._telling = Telling(0)
        self._words: list[Delta] = []  # of a reply whose question has not been read yet
        self._missed = 0  # looks in a row at which nobody had the pen
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> Memory:
        """The memory to begin with."""
        try:
            self.memory, holder = await self._follower.begin()
            if (last := await self._last()) and self._learns(last):
                self.memory, holder = await self._follower.begin()
        except BaseException:
            await self._follower.close()
            raise
        self.holder = _living(holder)
        return self.memory

    def drawn(self, rows: list[StoredEvent]) -> list[StoredEvent]:
        """Of these rows, those that memory has: the others are still to come."""
        return [row for row in rows if row.agent != self.memory.agent or row.seq <= self._follower.seq]

    def start(self) -> None:
        """Show what comes from now on."""
        self._task = asyncio.create_task(self._follow(), name=f"{self.name} followed")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        await self._pause()
        await self._follower.close()

    async def finish(self) -> None:
        """Show what is still to come, and stop: the pen is held here. Goes on following where that fails."""
        await self._pause()
        try:
            while (news := await self._follower.look()).rows:
                self._show(news._replace(looked=False))
            self._show(news._replace(looked=False))
        except BaseException:
            self.start()
            raise
        await self._follower.close()

    def rename(self, name: str) -> None:
        self.name = name
        self._on_holder(self.holder)

    def told(self) -> str:
        """What the user should know first."""
        refused = self.refusal()
        return f"{refused.what} It is shown read-only: {refused.remedy}"

    def refusal(self) -> Refused:
        """Why nothing can be sent here, and what to do."""
        fork = "/fork goes on from here in another agent, " if "fork" in commands.BY_NAME else ""
        elsewhere = f"{fork}/new begins another, /switch goes to one."
        if self.holder:
            what = f"Agent {self.name} is being written by another program ({self.holder})."
            return Refused(what, f"/takeover when that has gone, {elsewhere}")
        return Refused(f"Agent {self.name} is only followed here.", f"/takeover goes on with it, {elsewhere}")

    async def _pause(self) -> None:
        if self._task:
            self._task.remove_done_callback(self._ended)
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _follow(self) -> None:
        waits, lost = iter(RETRY_AFTER), set[type[StoreError]]()
        while True:
            try:
                news = await self._follower.news()
            except WAITED_FOR as error:
                if type(error) not in lost:
                    self._view.notice(f"{error.what} What comes meanwhile is shown when it is back.")
                    self._view.away(True)
                lost.add(type(error))
                await asyncio.sleep(next(waits, RETRY_AFTER[-1]))
                continue
            if lost:
                self._view.notice("The database is back.")
                self._view.away(False)
            waits, lost = iter(RETRY_AFTER), set()
            self._show(news)

    def _show(self, news: News) -> None:
        self._complete(news.rows)
        for rows, loaded in _groups(news):
            self.memory = show_rows(self._view, self.memory, rows, loaded)
        if news.rows or news.memory:
            self._view.changed(self.memory)
        for row in news.rows:
            if isinstance(row.event, UsageReported) and not row.event.purpose and self._learns(row.event):
                self._follower.reload()
        if news.draft:
            self._read(news.draft)
        if self._words and CallModel(self._telling.asked_by) in work(self.memory):
            self._tell()
        if news.name not in ("", self.name):
            self._view.notice(f"{self.name} is called {news.name} now.")
            self._on_name(news.name)
        if news.looked:
            self._look(news.holder)

    def _learns(self, used: UsageReported) -> bool:
        """Whether the writer asks another model than is known here: not all that its flags say is in the log."""
        if used.model in ("", self.memory.model) or used.model == self._run.below.get("model"):
            return False
        above = {key: value for key, value in self._run.above.items() if key not in ("model", "level")}
        self._run = replace(self._run, below={**self._run.below, "model": used.model, "level": ""}, above=above)
        return True

    def _read(self, draft: Draft) -> None:
        if self._telling.asked_by != draft.asked_by:
            self._telling = Telling(draft.asked_by)
            self._words.clear()
        self._words += self._telling.more(draft.text, draft.thinking, draft.parts)

    def _complete(self, rows: Sequence[StoredEvent]) -> None:
        """Say the last words of the reply that was followed before it is shown as stored: they were in no draft."""
        facts = [row.event for row in rows]
        since = dropwhile(lambda fact: not isinstance(fact, AssistantMessage | UserMessage), facts)
        said = list(takewhile(lambda fact: isinstance(fact, AssistantMessage | ToolCall), since))
        told = self._telling.text or self._telling.thinking
        if said and told and not self._words and CallModel(self._telling.asked_by) in work(self.memory):
            blocks = [block for fact in said for block in _blocks(fact)]
            self._words += self._telling.rest(blocks)
            self._tell()

    def _tell(self) -> None:
        """Show more of the reply under way. All that is read of it is in the database."""
        for delta in self._words:
            self._view.live(self._telling.asked_by, delta)
        self._words.clear()
        self._view.saved(self._telling.asked_by, len(self._telling.text))

    def _look(self, holder: Holder | None) -> None:
        """Somebody else has the pen, or nobody; a writer that lost its connection may be on its way back."""
        self._missed = 0 if holder else self._missed + 1
        now = _living(holder)
        if now == self.holder or (not now and self._missed == 1):
            return
        if now:
            self._view.notice(f"Agent {self.name} is being written by another program ({now}).")
        else:
            gone = f"No program writes to {self.name} any more ({self.holder} did)."
            self._view.notice(f"{gone} /takeover goes on here.")
        self.holder = now
        self._on_holder(now)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """It ends by itself where the database cannot be used any more, or there is a bug."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, IkigaiError):
            log.error("following ended", exc_info=error)
            error = Bug()
        self._view.notice(f"{error} {self.name} is not followed any more: /switch {self.name} does it again.")


def _blocks(fact: Event) -> tuple[ReplyBlock, ...]:
    match fact:
        case AssistantMessage(blocks):
            return blocks
        case ToolCall():
            return (fact,)
        case _:
            return ()


def _living(holder: Holder | None) -> str:
    """The holder in words; "" for none, and for a program that is known to have ended."""
    return str(holder) if holder and not holder.is_dead() else ""


def _groups(news: News) -> list[tuple[tuple[StoredEvent, ...], Memory | None]]:
    """The rows as they were probably stored, so that the rule is drawn where the writer drew it.

    A group ends with a turn; what changes the past, and all behind it, is one group, for memory was loaded behind that.
    """
    groups: list[tuple[tuple[StoredEvent, ...], Memory | None]] = []
    rows: list[StoredEvent] = []
    changed = False
    for row in news.rows:
        rows.append(row)
        changed = changed or isinstance(row.event, CHANGES_THE_PAST)
        if isinstance(row.event, TurnEnded) and not changed:
            groups.append((tuple(rows), None))
            rows = []
    return [*groups, (tuple(rows), news.memory)] if rows or news.memory else groups
