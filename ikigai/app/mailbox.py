"""The mail of the agents that one program has open: who hears that something waits, and who begins a turn by it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ikigai.app.waiting_calls import WaitingCalls
from ikigai.core.agents.mail import MOST, Mail
from ikigai.core.agents.tree import descendants
from ikigai.core.errors import IkigaiError
from ikigai.core.events import Ending, MailSent, StoredEvent, TurnEnded, UserMessage
from ikigai.core.state.inputs import Heard
from ikigai.core.state.turn_report import maker

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.buffered_view import Relay
    from ikigai.app.services import World
    from ikigai.store.agents import Agent

log = logging.getLogger(__name__)

TURNS = 8
"""Turns in a row that an agent may begin by mail without a word of the user's, to it or to one that it works for.

Work that an agent below is given within a turn that the user asked for does not count, nor does the answer to it.
"""
HELD = (
    "What was sent to {name} is held: {turns} of its turns in a row began with messages of agents. Say so to the user: "
    "a word of theirs to it (/send {name} TEXT) or to an agent that it works for lets it go on."
)
"""What a model is told of it."""


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
        self.calls = WaitingCalls()
        self.held: dict[str, str] = {}  # agents that are open, whose mail begins no turn; and why, for models
        self.unopened: dict[str, str] = {}  # agents that could not be opened for their mail, and why
        self._claimed: dict[str, set[int]] = {}
        self._due: set[str] = set()
        self._begun: dict[str, int] = {}
        self._makers: dict[str, str] = {}  # of agents that were opened here
        self._recovering: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ── what is told ──

    def opened(self, member: Recipient) -> None:
        """An agent was opened: it looks for mail; its own agents that a dead program left are opened, and report."""
        id = member.agent.id
        self.unopened.pop(id, None)
        self._due.add(id)
        self._makers[id] = maker(member.runtime.memory)
        if self._opens:
            self._recovering[id] = self._keep(self._recover(id))

    def heard(self, member: Recipient, stored: StoredEvent) -> None:
        """An agent has stored this."""
        id = member.agent.id
        match stored.event:
            case UserMessage(sender=sender):
                self.calls.wake()
                if not sender:
                    self._let_go(id)
            case MailSent(to=to) as sent:
                self._notify(to, self._opens or (sent.wants_reply and sent.attended))
                self.calls.wake()
            case TurnEnded(ending):
                self._claimed.pop(id, None)
                self._due.add(id)  # another program may have sent something
                self.calls.wake()
                if ending is Ending.INTERRUPTED and self._opens and not self.closed:
                    self._keep(self._still_at_work(member))
            case _:
                pass

    def _notify(self, id: str, opens: bool) -> None:
        """There is mail for this agent; `opens` says that it is opened for that."""
        self._due.add(id)
        if receiver := self._crew.members.get(id):
            receiver.runtime.tell(Heard())
        elif opens and not self.closed:
            self.opening.add(id)
            self._keep(self._open(id))

    def _let_go(self, id: str) -> None:
        """The user has said something to this agent: what was held for it, and for those that work for it, may come."""
        for each in [each for each in self._begun if each == id or id in self._above(each)]:
            del self._begun[each]
            if self.held.pop(each, ""):
                self._notify(each, self._opens)

    def _above(self, id: str) -> Iterator[str]:
        """The agents that this one works for, its own maker first."""
        makers = dict(self._makers)
        while id := makers.pop(id, ""):
            yield id

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
            self.held.pop(id, None)
            return ()
        if any(mail.by_user for mail in mails):
            self._begun.pop(id, None)
        elif not any(mail.attended for mail in mails):
            if self._begun.get(id, 0) >= TURNS:
                self._hold(member, mails)
                return ()
            self._begun[id] = self._begun.get(id, 0) + 1
        self.held.pop(id, None)
        found, characters = [mails[0]], len(mails[0].text)
        for mail in mails[1:]:
            characters += len(mail.text)
            if characters > MOST or mail.by_user or found[0].by_user:
                self._due.add(id)
                break
            found.append(mail)
        return tuple(found)

    def _hold(self, member: Recipient, mails: Iterable[Mail]) -> None:
        """Leave the mail where it is, and say so, once, where the user looks."""
        id, name = member.agent.id, member.agent.name
        known, self.held[id] = id in self.held, HELD.format(name=name, turns=TURNS)
        if known:
            return
        senders = ", ".join(dict.fromkeys(mail.name for mail in mails))
        begun = f"in a row began with messages of agents. What {senders} sent"
        member.relay.notice(f"{TURNS} turns {begun} is held: say something here to let it come.")
        for above in self._above(id) if member.relay.front is None else ():
            if other := self._crew.members.get(above):
                other.relay.notice(
                    f"{TURNS} turns of {name} {begun} to it is held: say something here, or /send {name} TEXT."
                )

    def why_silent(self, id: str) -> str:
        """Why an agent does not take its mail, for models; "" where nothing is known to keep it from that."""
        return self.held.get(id) or self.unopened.get(id, "")

    # ── mail that calls wait for ──

    async def unclaimed(self, id: str) -> list[Mail]:
        waiting = await self._crew.world.database.mail.waiting(id)
        claimed = self._claimed.get(id, set())  # by now: another call may have claimed while this one asked
        return [mail for mail in waiting if mail.id not in claimed]

    def claim(self, id: str, mails: list[Mail]) -> tuple[Mail, ...]:
        self._claimed.setdefault(id, set()).update(mail.id for mail in mails)
        if any(mail.by_user for mail in mails):
            self._let_go(id)
        return tuple(mails)

    # ── agents that are not open ──

    async def _open(self, id: str) -> None:
        self.opening.add(id)
        try:
            agent = await self._crew.world.database.agents.get(id)
            if agent and not self.closed:
                try:
                    await self._crew.start(agent)
                except IkigaiError as error:
                    self.unopened[id] = f"{agent.name} could not be opened for its messages: {error}"
                    raise
                await asyncio.sleep(0)  # its loop has begun then, and looks for mail
        finally:
            self.opening.discard(id)
            self.calls.wake()

    async def recovered(self, id: str) -> None:
        """Wait until the agents of this one that a dead program left have been opened."""
        if task := self._recovering.get(id):
            await asyncio.wait({task})

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

    def _keep(self, work) -> asyncio.Task[None]:
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
        return task

    async def close(self) -> None:
        """Nobody begins anything any more."""
        self.closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
