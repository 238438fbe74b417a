"""Deliver the mail of the agents that one program has open: notify them of mail and begin turns with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ikigai.app.agents.exchanges import MAX_ANSWERS, Exchanges
from ikigai.app.agents.waiting_calls import WaitingCalls
from ikigai.core.agents.mail import MAX_MESSAGE_CHARACTERS, Mail
from ikigai.core.errors import IkigaiError, Rejected
from ikigai.core.events.events import Ending, MailSent, StoredEvent, TurnEnded, UserMessage
from ikigai.core.state.decisions.turn_report import working_for
from ikigai.core.state.inputs import MailArrived
from ikigai.core.text.sanitize import clean_line

if TYPE_CHECKING:
    from ikigai.agent.loop import AgentLoop
    from ikigai.app.agents.buffered_view import BufferedView
    from ikigai.app.run.services import Services
    from ikigai.core.state.memory import Memory
    from ikigai.store.agents.agents import Agent

log = logging.getLogger(__name__)

MAX_UNATTENDED_TURNS = 8
"""Turns in a row that an agent may begin by mail without a message of the user to it or to one that it works for.

Work given to a descendant within a turn that the user started does not count, nor does the answer to it. The count ends
with the program: a user who starts ikigai is present, and that counts as a message to all agents.
"""
MAIL_HELD = (
    "What was sent to {name} is held: {turns} of its turns in a row began with messages of agents. Tell the user: "
    "a message to it, or to an agent that it works for, lets it continue."
)
"""The message to models about mail that is held."""
REFUSED_MAIL = "What was sent to {name} is held, because it cannot start a turn: {why} Tell the user."


MAX_SHOWN_CHARACTERS = 200
"""Characters of a message that is not delivered, in the notice of it."""


class Recipient(Protocol):
    """An open agent that can receive mail."""

    @property
    def agent(self) -> Agent: ...
    @property
    def agent_loop(self) -> AgentLoop: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def view(self) -> BufferedView: ...


class AgentOpener(Protocol):
    """The open agents of this program, and the means to open another one."""

    @property
    def services(self) -> Services: ...
    @property
    def agents(self) -> Mapping[str, Recipient]:
        """The open agents by their ids."""
        ...

    async def start(self, agent: Agent) -> None:
        """Open `agent` and start its loop. Raise the errors of `AgentManager.open`."""
        ...

    def is_running(self, id: str) -> bool: ...


class Mailbox:
    """The mail of all open agents. With `opens`, an agent that is not open is opened when mail for it is sent here.

    Mail claimed for a waiting call is not given to another call; the end of the turn releases it.
    """

    def __init__(self, manager: AgentOpener, opens: bool) -> None:
        self._manager, self._opens = manager, opens
        self.closed = False
        self.starting = asyncio.Lock()  # serializes the creation of agents, so that limits are checked one at a time
        self.opening: set[str] = set()  # agents being opened for their mail
        self.calls, self.exchanges = WaitingCalls(), Exchanges()
        self.held: dict[str, str] = {}  # open agents whose mail begins no turn, with the message for models
        self.refused: dict[str, str] = {}  # open agents that cannot begin a turn with their mail, and why
        self.unopened: dict[str, str] = {}  # agents that could not be opened for their mail, and why
        self._told: set[int] = set()  # messages of others that the user was told of
        self._claimed: dict[str, set[int]] = {}
        self._needs_check: set[str] = set()
        self._unattended: dict[str, int] = {}
        self._makers: dict[str, str] = {}  # the maker of each agent that was opened here
        self._recovering: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ── notifications ──

    def on_opened(self, recipient: Recipient) -> None:
        """Check the mail of a new open agent, and open its subagents that an ended program left: they report."""
        id = recipient.agent.id
        self.unopened.pop(id, None)
        self._needs_check.add(id)
        self._makers[id] = working_for(recipient.memory)
        if self._opens:
            self._recovering[id] = self._start_task(self._recover(id))

    def on_stored(self, recipient: Recipient, stored: StoredEvent) -> None:
        """Handle an event that an open agent has stored."""
        id = recipient.agent.id
        if id in self.refused:
            self._needs_check.add(id)  # the cause may have passed
        match stored.event:
            case UserMessage(sender=sender):
                self.calls.wake()
                self.refused.pop(id, None)
                if not sender:
                    self._release_held(id)
            case MailSent(to=to) as sent:
                self._notify(to, self._opens or (sent.wants_reply and sent.attended))
                self.calls.wake()
            case TurnEnded(ending):
                self._claimed.pop(id, None)
                self.exchanges.end(id)
                self._needs_check.add(id)  # another program may have sent mail
                self.calls.wake()
                if ending is Ending.INTERRUPTED and self._opens and not self.closed:
                    self._start_task(self._report_running(recipient))
            case _:
                pass

    def _notify(self, id: str, opens: bool) -> None:
        """Notify an agent of mail; with `opens`, open it if it is not open."""
        self._needs_check.add(id)
        if receiver := self._manager.agents.get(id):
            receiver.agent_loop.put_input(MailArrived())
        elif opens and not self.closed:
            self.opening.add(id)
            self._start_task(self._open(id))

    def _release_held(self, id: str) -> None:
        """Release the mail held for this agent and those that work for it, because the user has written to it."""
        agents = {*self._unattended, *self.exchanges.agents()}
        for each in [each for each in agents if each == id or id in self._ancestors(each)]:
            self.exchanges.end(each)
            self._unattended.pop(each, None)
            if self.held.pop(each, ""):
                self._notify(each, self._opens)

    def _ancestors(self, id: str) -> Iterator[str]:
        """Yield the agents that this one works for, its maker first."""
        makers = dict(self._makers)
        while id := makers.pop(id, ""):
            yield id

    # ── mail that begins turns ──

    async def collect(self, recipient: Recipient) -> tuple[Mail, ...]:
        """Return the mail that the idle agent begins a turn with."""
        id = recipient.agent.id
        if self.closed or id not in self._needs_check:
            return ()
        self._needs_check.discard(id)  # first: mail sent meanwhile adds it again
        try:
            mails, foreign = await self._manager.services.database.mail.waiting(id)
        except BaseException:
            self._needs_check.add(id)  # the next call checks again
            raise
        self._report_foreign(recipient, foreign)
        if not mails:
            self.clear_held(id)
            return ()
        if any(mail.by_user for mail in mails):
            self._unattended.pop(id, None)
        elif not any(mail.attended for mail in mails):
            if self._unattended.get(id, 0) >= MAX_UNATTENDED_TURNS:
                self._hold(recipient, mails)
                return ()
            self._unattended[id] = self._unattended.get(id, 0) + 1
        self.held.pop(id, None)
        taken, characters = [mails[0]], len(mails[0].text)
        for mail in mails[1:]:
            characters += len(mail.text)
            if characters > MAX_MESSAGE_CHARACTERS or mail.by_user or taken[0].by_user:
                self._needs_check.add(id)
                break
            taken.append(mail)
        return tuple(taken)

    def _report_foreign(self, recipient: Recipient, mails: Iterable[Mail]) -> None:
        """Tell the user once of messages that others stored: no turn begins with these."""
        new = [mail for mail in mails if mail.id not in self._told]
        if not new:
            return
        self._told.update(mail.id for mail in new)
        names, many = ", ".join(dict.fromkeys(mail.name for mail in new)), len(new) > 1
        text = clean_line(new[0].text)
        shown = text[:MAX_SHOWN_CHARACTERS] + "…" * (len(text) > MAX_SHOWN_CHARACTERS)
        what = f"{len(new):,} messages from {names} were" if many else f"A message from {names} was"
        why = f"not delivered, because no program of yours on this machine sent {'them' if many else 'it'}"
        self._notify_user(
            recipient,
            f'{what} {why}: "{shown}". To use {"one" if many else "it"}, type it here. To read: /switch {new[0].name}',
            f"{what} {why}. Go there: /switch {recipient.agent.name}",
        )

    def clear_held(self, id: str) -> None:
        """Forget that mail is held for the agent."""
        self.held.pop(id, None)
        self.refused.pop(id, None)

    def _hold(self, recipient: Recipient, mails: Iterable[Mail]) -> None:
        """Leave the mail in the mailbox, and tell the user once."""
        id, name = recipient.agent.id, recipient.agent.name
        was_held, self.held[id] = id in self.held, MAIL_HELD.format(name=name, turns=MAX_UNATTENDED_TURNS)
        if was_held:
            return
        begun = f"in a row began with messages of agents. What {_senders(mails)} sent"
        self._notify_user(
            recipient,
            f"{MAX_UNATTENDED_TURNS} turns {begun} is held: send a message here to release it.",
            f"{MAX_UNATTENDED_TURNS} turns of {name} {begun} to it is held: send a message here, or /send {name} TEXT.",
        )

    def refuse(self, recipient: Recipient, mails: Sequence[Mail], error: Rejected) -> None:
        """Hold these messages, which the agent could not begin a turn with, until it changes; tell the user once."""
        id, name = recipient.agent.id, recipient.agent.name
        before, self.refused[id] = self.refused.get(id), REFUSED_MAIL.format(name=name, why=error.what)
        if not any(mail.by_user or mail.attended for mail in mails):
            self._unattended[id] -= 1
        if before != self.refused[id]:
            self._notify_user(
                recipient,
                f"What {_senders(mails)} sent is held: {error}",
                f"What {_senders(mails)} sent to {name} is held, because it cannot start a turn: {error.what} "
                f"Go there: /switch {name}",
                [mail.sender for mail in mails if mail.by_user],
            )
            self.calls.wake()

    def _notify_user(self, recipient: Recipient, own: str, others: str, more: Iterable[str] = ()) -> None:
        """Notify the user on the view of an agent; if it is detached also on the views of its ancestors and `more`."""
        recipient.view.notice(own)
        if recipient.view.attached_view:
            return
        for id in dict.fromkeys((*self._ancestors(recipient.agent.id), *more)):
            if other := self._manager.agents.get(id):
                other.view.notice(others)

    def is_held(self, id: str) -> bool:
        """Return True if mail of the agent is held until the user writes."""
        return id in self.held or id in self.refused or id in self.exchanges.over

    def hold_reason(self, id: str) -> str:
        """Return the reason why an agent does not take its mail, for models; "" if none is known."""
        return self.held.get(id) or self.refused.get(id) or self.unopened.get(id, "")

    def refuse_answer(self, recipient: Recipient, to: str) -> None:
        """Tell the user once that `recipient` may send no more answers to the agent called `to` in its turn."""
        if recipient.agent.id in self.exchanges.over:
            return
        self.exchanges.over.add(recipient.agent.id)
        name, begun = (
            recipient.agent.name,
            f"The last {MAX_ANSWERS} messages of agents only answered one another:",
        )
        self._notify_user(
            recipient,
            f"{begun} nothing more is sent to {to} in this turn. Send a message here to let it continue.",
            f"{begun} {name} sends nothing more to {to} in its turn. Send a message here, or /send {name} TEXT.",
        )

    # ── mail that calls wait for ──

    async def unclaimed(self, id: str) -> list[Mail]:
        waiting, _ = await self._manager.services.database.mail.waiting(id)
        claimed = self._claimed.get(id, set())  # read afterwards: another call may have claimed meanwhile
        return [mail for mail in waiting if mail.id not in claimed]

    def claim(self, id: str, mails: list[Mail]) -> tuple[Mail, ...]:
        self._claimed.setdefault(id, set()).update(mail.id for mail in mails)
        if mails:
            self.exchanges.returned(id, mails[-1])
        if any(mail.by_user for mail in mails):
            self._release_held(id)
        return tuple(mails)

    # ── agents that are not open ──

    async def _open(self, id: str) -> None:
        self.opening.add(id)
        try:
            agent = await self._manager.services.database.agents.get(id)
            if agent and not self.closed:
                try:
                    await self._manager.start(agent)
                except IkigaiError as error:
                    self.unopened[id] = f"{agent.name} could not be opened for its messages: {error}"
                    raise
                await asyncio.sleep(0)  # then its loop has started and checks its mail
        finally:
            self.opening.discard(id)
            self.calls.wake()

    async def wait_for_recovery(self, id: str) -> None:
        """Wait until the subagents of this agent that an ended program left running have been opened."""
        if task := self._recovering.get(id):
            await asyncio.wait({task})

    async def _recover(self, id: str) -> None:
        for child in await self._manager.services.database.mail.stopped(id):
            if child not in self._manager.agents:
                with contextlib.suppress(IkigaiError):  # another program has it, or it is damaged
                    await self._open(child)

    async def _report_running(self, recipient: Recipient) -> None:
        from ikigai.core.agents.tree import descendants

        tree = await self._manager.services.database.mail.tree(recipient.agent.id)
        busy = [each.name for each in descendants(tree, recipient.agent.id) if self._manager.is_running(each.id)]
        if busy:
            recipient.view.note(f"Still running for it: {', '.join(busy)}. /kill NAME stops one.")

    def _start_task(self, work) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except IkigaiError as error:  # the mail stays stored and is delivered when the agent is opened
                log.info("mail: %s", error)
            except Exception:
                log.exception("mail")

        task = asyncio.create_task(guarded(), name="mail")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(
            lambda _: work.close()
        )  # else one cancelled before its start warns that it was never awaited
        return task

    async def close(self) -> None:
        """Cancel all tasks; start none from now on."""
        self.closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _senders(mails: Iterable[Mail]) -> str:
    return ", ".join(dict.fromkeys("you" if mail.by_user else mail.name for mail in mails))
