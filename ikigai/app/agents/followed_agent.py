"""Follow an agent that another program writes: its events, its streaming reply and the lock owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from ikigai.agent.apply_events import fold_rows, show_rows
from ikigai.agent.db_retry import DatabaseStatus, RetryMessages, RetryUntilAvailable
from ikigai.core.errors import Bug, IkigaiError, Rejected
from ikigai.core.events.events import (
    CHANGES_THE_PAST,
    FALLBACK_KEY,
    AgentKilled,
    AgentRevived,
    AssistantMessage,
    Event,
    SettingsChanged,
    StoredEvent,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import ReplyBlock, ToolCall, ToolResult
from ikigai.core.request.reply_draft import DraftFollower
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.inputs import CallModel
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, replace

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.core.ports import View
    from ikigai.core.request.reply import Delta
    from ikigai.core.request.reply_draft import Draft
    from ikigai.store.agents.agents import Agent
    from ikigai.store.log.follow import Follower, FollowUpdate
    from ikigai.store.log.write_lock import LockOwner

WATCHING = RetryMessages("New messages are shown when it is back.", "The database is back.")

log = logging.getLogger(__name__)


class FollowedAgent:
    """Follows one agent from `begin` on; `memory` comes from its log by the writer's fold.

    `owner` is the program that has the write lock, as far as is known: "host, pid N"; "" if none has. `asks` is true
    while the agent waits for its user's answer. `on_owner` is called when one of them changes. `on_name` is called when
    the agent was renamed, and calls `rename`.
    """

    memory: Memory

    def __init__(
        self,
        services: Services,
        agent: Agent,
        view: View,
        on_owner: Callable[[str], object],
        on_name: Callable[[str], object],
    ) -> None:
        self.owner, self.asks, self._killed = "", False, agent.killed_at is not None
        self._on_owner, self._on_name = on_owner, on_name
        self.name, self._view = agent.name, view
        self._retry = RetryUntilAvailable(DatabaseStatus(view), view, messages=WATCHING)
        # What the writer has granted is shown, whoever that is: nothing runs here.
        self._run = replace(services.run, seal=None)
        self._chosen_model = services.database.reader(agent).chosen_model
        self._fell_back = False  # a fallback's model answers
        self._follower: Follower = services.database.follow(agent, lambda: load_memory(self._run, agent.id))
        self._draft = DraftFollower(0)
        self._deltas: list[Delta] = []  # of a reply whose user message has not been read yet
        self._missed = 0  # checks in a row without a lock owner
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> Memory:
        """Load and return the memory."""
        try:
            self.memory, holder = await self._follower.begin()
            if self._has_other_model(await self._chosen_model()):
                self.memory, holder = await self._follower.begin()
            self._fell_back = bool(self.memory.settings.get(FALLBACK_KEY))
        except BaseException:
            await self._follower.close()
            raise
        self.owner, self.asks = _living(holder), holder is not None and holder.is_waiting
        return self.memory

    def known_rows(self, rows: list[StoredEvent]) -> list[StoredEvent]:
        """Return the rows that memory has already; the others are still to come."""
        return [row for row in rows if row.agent != self.memory.agent or row.seq <= self._follower.seq]

    def start(self) -> None:
        """Start following: show new events."""
        self._task = asyncio.create_task(self._follow(), name=f"{self.name} followed")
        self._task.add_done_callback(self._on_end)

    async def stop(self) -> None:
        await self._pause()
        await self._follower.close()

    async def catch_up(self) -> None:
        """Show the remaining events and stop, after this program took the write lock. On failure go on following."""
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
        self._on_owner(self.owner)

    def refusal(self) -> Rejected:
        """Return the error for a message that cannot be sent here."""
        elsewhere = "/new starts a conversation, /fork continues this one."
        if self._killed:
            return Rejected(f"Agent {self.name} was killed.", f"/revive {self.name} brings it back.")
        if self.owner:
            return Rejected(
                f"{self.name} is open in another terminal ({self.owner}); you only watch it here.", elsewhere
            )
        return Rejected(f"You only watch {self.name} here.", f"/takeover lets you write to it. {elsewhere}")

    async def _pause(self) -> None:
        if self._task:
            self._task.remove_done_callback(self._on_end)
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _follow(self) -> None:
        while True:
            await self._follower.wait()
            self._show(await self._retry(self._follower.look))

    def _show(self, news: FollowUpdate) -> None:
        self._complete(news.rows)
        for rows, loaded in _group_rows(news):
            folded = fold_rows(self.memory, rows)
            self.memory = loaded or folded[-1]
            show_rows(self._view, folded, rows, self.memory)
        if news.rows or news.memory:
            self._view.changed(self.memory)
        for row in news.rows:
            self._killed = isinstance(row.event, AgentKilled) or (
                self._killed and not isinstance(row.event, AgentRevived)
            )
            if isinstance(row.event, SettingsChanged) and FALLBACK_KEY in row.event.values:
                self._fell_back = bool(row.event.values[FALLBACK_KEY])
            used = row.event.model if isinstance(row.event, UsageReported) and not row.event.purpose else ""
            if not self._fell_back and self._has_other_model(used):
                self._follower.reload()
        if news.draft:
            self._read(news.draft)
        if self._deltas and CallModel(self._draft.asked_by) in work(self.memory):
            self._show_draft()
        if news.name not in ("", self.name):
            self._view.note(f"{self.name} is now called {news.name}.")
            self._on_name(news.name)
        if news.looked:
            self._check_owner(news.owner)

    def _has_other_model(self, used: str) -> bool:
        """Return True, and adapt the run, if the writer uses another model: its flags are not all in the log."""
        if used in ("", self.memory.model) or used == self._run.below.get("model"):
            return False
        above = {key: value for key, value in self._run.above.items() if key not in ("model", "level")}
        self._run = replace(self._run, below={**self._run.below, "model": used, "level": ""}, above=above)
        return True

    def _read(self, draft: Draft) -> None:
        if self._draft.asked_by != draft.asked_by:
            self._draft = DraftFollower(draft.asked_by)
            self._deltas.clear()
        self._deltas += self._draft.add_state(draft.text, draft.thinking, draft.parts)

    def _complete(self, rows: Sequence[StoredEvent]) -> None:
        """Show the end of the followed reply, which was in no draft, before the stored reply is shown."""
        events = [row.event for row in rows]
        since = dropwhile(lambda event: not isinstance(event, AssistantMessage | UserMessage), events)
        reply = list(takewhile(_is_of_reply, since))
        has_draft = self._draft.text or self._draft.thinking
        if reply and has_draft and not self._deltas and CallModel(self._draft.asked_by) in work(self.memory):
            blocks = [block for event in reply for block in _blocks(event)]
            self._deltas += self._draft.finish(blocks)
            self._show_draft()

    def _show_draft(self) -> None:
        """Show the new deltas of the streaming reply, all of which are in the database."""
        for delta in self._deltas:
            self._view.show_delta(self._draft.asked_by, delta)
        self._deltas.clear()
        self._view.draft_saved(self._draft.asked_by, len(self._draft.text))

    def _check_owner(self, owner: LockOwner | None) -> None:
        """Report a change of the lock owner; a writer that lost its connection gets one more check to come back."""
        self._missed = 0 if owner else self._missed + 1
        now, asked, self.asks = _living(owner), self.asks, owner is not None and owner.is_waiting
        if now == self.owner and asked is not self.asks:
            self._on_owner(now)
        if now == self.owner or (not now and self._missed == 1):
            return
        if now:
            self._view.notice(f"{self.name} is open in another terminal ({now}).")
        else:
            gone = f"{self.name} is no longer open in another terminal ({self.owner})."
            self._view.notice(str(self.refusal()) if self._killed else f"{gone} /takeover lets you write to it here.")
        self.owner = now
        self._on_owner(now)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Notify the user that following ended by itself: the database is unusable, or there is a bug."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, IkigaiError):
            log.error("following ended", exc_info=error)
            error = Bug()
        self._view.notice(f"{error} {self.name} is no longer followed. To follow it again: /switch {self.name}")


def _is_of_reply(event: Event) -> bool:
    """Return True for the events that a reply becomes, but for errors of its calls."""
    return isinstance(event, AssistantMessage | ToolCall) or (isinstance(event, ToolResult) and bool(event.hosted))


def _blocks(event: Event) -> tuple[ReplyBlock, ...]:
    match event:
        case AssistantMessage(blocks):
            return blocks
        case ToolCall():
            return (event,)
        case _:
            return ()


def _living(owner: LockOwner | None) -> str:
    """Return the lock owner in words; "" for none and for a program that is known to have ended."""
    return str(owner) if owner and not owner.is_dead() else ""


def _group_rows(news: FollowUpdate) -> list[tuple[tuple[StoredEvent, ...], Memory | None]]:
    """Group the rows as they were probably stored, so that the context rule is drawn where the writer drew it.

    A group ends with a turn. An event that changes the past and all later rows are one group, because memory was
    loaded after them.
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
