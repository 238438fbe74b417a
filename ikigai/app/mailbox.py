"""The mail of the agents that one program has open: who hears that something waits, and who begins a turn by it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ikigai.core.agents.mail import MOST, Mail
from ikigai.core.agents.tree import descendants
from ikigai.core.errors import IkigaiError
from ikigai.core.events import Ending, MailSent, StoredEvent, TurnEnded, UserMessage
from ikigai.core.state.inputs import Heard

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.buffered_view import Relay
    from ikigai.app.services import World
    from ikigai.store.agents import Agent

log = logging.getLogger(__name__)

TURNS = 8
"""Turns in a row that an agent may begin by mail without a word of the user's."""


class Recipient(Protocol):
    """An open agent that can receive mail."""

    @property
    def agent(self) -> Agent: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def relay(self) -> Relay: ...


class AgentOpener(Protocol):
    """The open agents of this program, and the means to open another one."""

    @property
    def world(self) -> World: ...
    @property
    def members(self) -> Mapping[str, Recipient]:
        """The open agents by their ids."""
        ...

    async def start(self, agent: Agent) -> None:
        """Open `agent` and start its loop. Raises as `Crew.open` does."""
        ...

    def at_work(self, id: str) -> bool: ...


class Post:
    """`opens` says that an agent which is not open is opened when mail for it is sent here.

    What is claimed for a call that waits is not given to another one; the end of the turn gives it free.
    """

    def __init__(self, crew: AgentOpener, opens: bool) -> None:
        self._crew, self._opens = crew, opens
        self.closed = False
        self.starting = asyncio.Lock()  # whoever makes an agent: limits are looked at and kept by one at a time
        self.opening: set[str] = set()  # agents that mail has come for
        self.waiting: dict[str, int] = {}  # how many calls of an agent wait
        self._claimed: dict[str, set[int]] = {}
        self._due: set[str] = set()
        self._begun: dict[str, int] = {}
        self._stirred: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # ── what is told ──

    def opened(self, member: Recipient) -> None:
        """An agent was opened: it looks for mail; its own agents that a dead program left are opened, and report."""
        self._due.add(member.agent.id)
        if self._opens:
            self._keep(self._recover(member.agent.id))

    def heard(self, member: Recipient, stored: StoredEvent) -> None:
        """An agent has stored this."""
        id = member.agent.id
        match stored.event:
            case UserMessage(sender="") if self._begun.pop(id, 0):
                self._due.add(id)  # what was held
            case MailSent(to=to):
                self._due.add(to)
                if receiver := self._crew.members.get(to):
                    receiver.runtime.tell(Heard())
                elif self._opens and not self.closed:
                    self.opening.add(to)
                    self._keep(self._open(to))
                self.stir()
            case TurnEnded(ending):
                self._claimed.pop(id, None)
                self._due.add(id)  # another program may have sent something
                self.stir()
                if ending is Ending.INTERRUPTED and self._opens and not self.closed:
                    self._keep(self._still_at_work(member))
            case _:
                pass

    def stir(self) -> None:
        """Whoever waits looks again."""
        for event in self._stirred:
            event.set()

    # ── mail that begins turns ──

    async def collect(self, member: Recipient) -> tuple[Mail, ...]:
        """What the agent, which does nothing, begins a turn with."""
        id = member.agent.id
        if self.closed or id not in self._due:
            return ()
        self._due.discard(id)  # first: what is sent meanwhile makes it due again
        try:
            mails = await self._crew.world.database.mail.waiting(id)
        except BaseException:
            self._due.add(id)  # asked again it looks again
            raise
        if not mails:
            return ()
        if mails[0].by_user:
            self._begun.pop(id, None)
        elif self._begun.get(id, 0) >= TURNS:
            senders = ", ".join(dict.fromkeys(mail.name for mail in mails))
            member.relay.notice(
                f"{TURNS} turns in a row began with messages of agents. What {senders} sent waits for a word of yours."
            )
            return ()
        else:
            self._begun[id] = self._begun.get(id, 0) + 1
        found, characters = [mails[0]], len(mails[0].text)
        for mail in mails[1:]:
            characters += len(mail.text)
            if characters > MOST or mail.by_user or found[0].by_user:
                self._due.add(id)
                break
            found.append(mail)
        return tuple(found)

    # ── mail that calls wait for ──

    async def unclaimed(self, id: str) -> list[Mail]:
        waiting = await self._crew.world.database.mail.waiting(id)
        claimed = self._claimed.get(id, set())  # by now: another call may have claimed while this one asked
        return [mail for mail in waiting if mail.id not in claimed]

    def claim(self, id: str, mails: list[Mail]) -> tuple[Mail, ...]:
        self._claimed.setdefault(id, set()).update(mail.id for mail in mails)
        return tuple(mails)

    @contextlib.contextmanager
    def stirs(self):
        """Gives the event that says that something has happened."""
        event = asyncio.Event()
        self._stirred.add(event)
        try:
            yield event
        finally:
            self._stirred.discard(event)

    @contextlib.contextmanager
    def waits(self, id: str):
        """The same while a call of this agent waits."""
        self.waiting[id] = self.waiting.get(id, 0) + 1
        self.stir()  # others may wait for an agent that only waits itself
        try:
            with self.stirs() as event:
                yield event
        finally:
            self.waiting[id] -= 1
            if not self.waiting[id]:
                del self.waiting[id]

    # ── agents that are not open ──

    async def _open(self, id: str) -> None:
        try:
            agent = await self._crew.world.database.agents.get(id)
            if agent and not self.closed:
                await self._crew.start(agent)
                await asyncio.sleep(0)  # its loop has begun then, and looks for mail
        finally:
            self.opening.discard(id)
            self.stir()

    async def _recover(self, id: str) -> None:
        for child in await self._crew.world.database.mail.stopped(id):
            if child not in self._crew.members:
                with contextlib.suppress(IkigaiError):  # another program has it, or it is damaged
                    await self._open(child)

    async def _still_at_work(self, member: Recipient) -> None:
        tree = await self._crew.world.database.mail.tree(member.agent.id)
        busy = [each.name for each in descendants(tree, member.agent.id) if self._crew.at_work(each.id)]
        if busy:
            member.relay.notice(f"Still at work for it: {', '.join(busy)}. /kill NAME stops one.")

    def _keep(self, work) -> None:
        async def guarded() -> None:
            try:
                await work
            except IkigaiError as error:  # mail stays where it is, and comes when the agent is opened
                log.info("mail: %s", error)
            except Exception:
                log.exception("mail")

        task = asyncio.create_task(guarded(), name="mail")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # cancelled before it began it would be told as never awaited

    async def close(self) -> None:
        """Nobody begins anything any more."""
        self.closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
