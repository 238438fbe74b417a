"""The loop: what happened → facts → stored → folded → shown → jobs started and cancelled. One per open agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ikigai.agent.apply_events import show_rows, show_rule
from ikigai.agent.db_retry import Patience
from ikigai.agent.input_queue import Pending, whole, words
from ikigai.agent.jobs import Jobs
from ikigai.agent.lazy_condenser import Background
from ikigai.agent.reply_drafts import Link
from ikigai.agent.usage_meter import Price, unpriced, warm
from ikigai.core import tokens
from ikigai.core.commands.arguments import is_id
from ikigai.core.condense.threshold import Options
from ikigai.core.errors import IkigaiError, Refused
from ikigai.core.events import CHANGES_THE_PAST, Event, Filtered
from ikigai.core.messages import ToolCall
from ikigai.core.model import Provider
from ikigai.core.ports import Appended, Log, Tools, View
from ikigai.core.request.system_prompt import KEY, instructed
from ikigai.core.state import overflow as exceeded
from ikigai.core.state.inputs import (
    NEEDS_IDLE,
    Condense,
    Condensed,
    Denied,
    Edit,
    Exceeded,
    Failed,
    Forget,
    Input,
    Instructed,
    Interrupted,
    Job,
    Mailed,
    Opened,
    Plan,
    Quote,
    Replied,
    Retry,
    RewindAt,
    RewindTo,
    Steered,
    Submitted,
    ToolDone,
    Used,
)
from ikigai.core.state.loading import loading
from ikigai.core.state.machine import decide, work
from ikigai.core.state.memory import Memory, Status, replace
from ikigai.core.state.redacted_inputs import FOREIGN, TYPED, key_notice, no_redactor, redacted
from ikigai.core.state.rewind import marked, newest_text
from ikigai.core.views.context_report import cramped
from ikigai.core.views.transcript import rule

if TYPE_CHECKING:
    from ikigai.agent.forget import World
    from ikigai.core.agents.mail import Mail
    from ikigai.core.redaction import Redactor
    from ikigai.core.state.loading import Reading

_T = TypeVar("_T")


class Runtime:
    """Drives one agent. Put what happens into `inbox`; None ends the loop. `memory` is what the log means now.

    `provider` gives the provider of a model "provider/name". `max_requests` bounds the requests of a turn, 0 does not.
    `patience` is how long, in seconds, to wait for a lost database before Unavailable is raised; None is for ever.
    `learn` takes a model and the context in tokens that its provider turned out to give it.
    `price` says what a request cost. `instructions` gives those of the project as they are now, `condensing` what was
    chosen of that for a memory; without it nothing is condensed but what is asked for. `post` gives the mail that a
    turn begins with. `redactor` gives what replaces secrets, as they are now.
    """

    def __init__(
        self,
        memory: Memory,
        store: Log,
        provider: Callable[[str], Provider],
        tools: Tools,
        view: View,
        max_requests: int = 0,
        patience: float | None = None,
        price: Price = unpriced,
        learn: Callable[[str, int], None] = lambda model, context: None,
        instructions: Callable[[], str] | None = None,
        condensing: Callable[[Memory], Options] = lambda memory: Options(),
        post: Callable[[], Awaitable[tuple[Mail, ...]]] | None = None,
        redactor: Callable[[], Redactor] | None = None,
    ) -> None:
        self.memory = memory
        self.inbox: asyncio.Queue[Input | None] = asyncio.Queue()
        self.unsaved: tuple[Event, ...] = ()
        self._store, self._provider, self._view = store, provider, view
        self._price, self._learn = price, learn
        self._instructions, self._post, self._redactor = instructions, post, redactor or no_redactor
        self._background = Background(self._planning, view.notice, condensing)
        self._pending = Pending(view, lambda: self.unsaved)
        self._link = Link(view)
        self._patiently = Patience(self._link, view, patience, self._pending.tell, self._pending.sent.clear)
        terms = price, self._planning, self.inbox.put_nowait, max_requests, self._redactor
        self._jobs = Jobs(lambda: self.memory, store, provider, tools, view, self._link, *terms)
        self.opened = asyncio.Event()  # what the last program left open is closed
        self.looking = False  # for mail, which may begin a turn
        self._smaller: tuple[Job | None, int] = (None, 0)  # the request made smaller, and how often
        self._forgetting: asyncio.Task[None] | None = None  # what is named by ids is looked up and confirmed

    def tell(self, happened: Input) -> None:
        """Something happened; what the user sent is shown as waiting while the database is away."""
        self.inbox.put_nowait(happened)
        if self._link.away and isinstance(happened, NEEDS_IDLE):
            self._pending.sent.append(words(happened))
            self._pending.tell()

    async def run(self) -> None:
        self.looking = self._post is not None
        try:
            await self._take(Opened(await self._patiently(self._store.draft)))
            self.opened.set()
            if told := cramped(self.memory):
                self._view.notice(told)
            await self._collect()
            while (happened := await self.inbox.get()) is not None or await self._asks_still():
                if happened is not None:
                    await self._take(happened)
                while self._pending.queue and self.memory.open is None:
                    await self._take(self._pending.queue.popleft())
                await self._collect()
        finally:
            forgetting = (self._forgetting,) if self._forgetting else ()
            await self._jobs.close(*forgetting, *self._background.tasks)

    async def _collect(self) -> None:
        """Begin a turn with what other agents have sent, where nothing else is to be done first."""
        mails = ()
        if self._post and self.memory.open is None and self.inbox.empty():
            self.looking = True
            mails = await self._patiently(self._post)
        self.looking = False
        if mails:
            await self._take(Mailed(mails))

    async def _asks_still(self) -> bool:
        """Whether the end has to wait for what the user is asked, asked for or ran: wait, and be asked to end again."""
        if self.memory.open and self.memory.open.alone:  # its end is on the way, and more of its kind may wait for it
            await asyncio.sleep(0)
            self.inbox.put_nowait(None)
            return True
        forgetting = self._forgetting if self._forgetting and not self._forgetting.done() else None
        if (task := forgetting or self._background.asked_for) is None:
            return False
        await asyncio.wait({task})
        self.inbox.put_nowait(None)
        return True

    def warm(self) -> None:
        """Load what pricing a request takes, ahead of the first one."""
        warm(self._price, self.memory.model)

    @property
    def busy(self) -> bool:
        """Whether a turn is open, or something that was sent has not been stored yet."""
        return self.memory.open is not None or bool(self.unsaved) or not self.inbox.empty()

    @property
    def condensing(self) -> bool:
        """Whether a summary is being written, or waits for its turn to end."""
        return not self._background.idle

    def unqueue(self) -> str:
        """Take back the newest message that waits for the turn to end; empty when there is none."""
        return self._pending.unqueue()

    def unsent(self) -> list[Submitted | Quote]:
        """The messages that nobody took any more, and what commands of the user's have done, oldest first; to be asked
        once when the loop has ended.
        """
        return self._pending.unsent(self.inbox)

    async def _take(self, happened: Input) -> None:
        if isinstance(happened, Steered):
            if self.memory.open is None:
                happened = whole(happened)
            else:
                self._pending.steering.append(happened)
                self._pending.tell()
                return
        if isinstance(happened, NEEDS_IDLE) and self.memory.open is not None:
            self._pending.queue.append(happened)
            self._pending.tell()
            return
        if isinstance(happened, Interrupted):
            happened = await self._stopped()
        if isinstance(happened, Forget):
            if self._forgetting and not self._forgetting.done():
                self._view.notice(str(Refused("You are being asked what to forget.", "Answer that first.")))
            else:
                self._forgetting = asyncio.create_task(self._forget(happened), name="forget")
            return
        if isinstance(happened, FOREIGN):
            happened = redacted(happened, self._redactor())
        if isinstance(happened, Condense):
            self._background.asked(self.memory, happened.focus)
            return
        if isinstance(happened, Exceeded) and happened.to in work(self.memory):
            happened = await self._send_less(happened)
        if isinstance(happened, Submitted | Plan | Retry | Mailed) and self._instructions:
            await self._instruct(self._instructions())
        try:
            if isinstance(happened, RewindTo) and not marked(self.memory, label := happened.label) and is_id(label):
                happened = RewindAt(await self._place(int(label)))
            returned = newest_text(self.memory) if isinstance(happened, Edit) else ""
            facts = decide(self.memory, happened)
        except Refused as refusal:
            self._view.notice(str(refusal))
            if isinstance(happened, Condensed):
                self._background.refused(self.memory)
            if isinstance(happened, (Submitted, Plan, Retry)):
                self._view.returned(happened.text if isinstance(happened, Submitted) else "")
            self._pending.tell()
            return
        if facts:
            await self._record(facts)
        if isinstance(happened, Replied):
            self._jobs.run_as_written(happened.to, [fact for fact in facts if isinstance(fact, ToolCall)])
        if returned:
            self._view.returned(returned)
        if self._pending.steering:
            await self._steer(isinstance(happened, ToolDone | Denied))
        self._jobs.reconcile()
        self._pending.tell()
        self._view.changed(self.memory)

    async def _steer(self, results: bool) -> None:
        """What is meant for the open turn goes in with the last of its results; if the turn has ended it is next."""
        turn = self.memory.open
        if turn is None or turn.planning:
            self._pending.too_late()
        while results and self._pending.steering and self.memory.status is Status.WAITING:
            steered = self._pending.steering.popleft()
            try:
                await self._record(decide(self.memory, steered))
            except Refused as refusal:
                self._view.notice(str(refusal))
                self._view.returned(steered.text)

    async def _instruct(self, value: str) -> None:
        """The run has these instructions of the project from here on; a fact says so where others are in force."""
        run = self.memory.run
        if (run.below.get(KEY) or "") == value:
            return
        facts = decide(self.memory, Instructed(value))
        self.memory = replace(self.memory, run=replace(run, below=instructed(run.below, value)))
        if facts:
            await self._record(facts)

    async def _place(self, id: int) -> int:
        """The end of the turn that an event belongs to. Raises Refused."""
        from ikigai.core.forget.selection import turn_of

        run, agent = self.memory.run, self.memory.agent
        return await self._patiently(lambda: self._store.load(turn_of(run, agent, id)))

    async def _forget(self, happened: Forget) -> None:
        """Look what the ids name, ask the user, and forget it, unless the conversation has gone on meanwhile."""
        from ikigai.agent.forget import named

        before = self.memory
        try:
            found = await named(self._planning(), before, happened)
            if self.memory is not before:
                raise Refused("The conversation has gone on meanwhile; nothing was forgotten.", "Ask again.")
            if found is None:
                self._view.notice("Nothing was forgotten.")
            else:
                self.inbox.put_nowait(found)
        except IkigaiError as error:
            self._view.notice(str(error))

    def _planning(self) -> World:
        from ikigai.agent.forget import World

        def load(asking: Reading[_T], /) -> Awaitable[_T]:
            return self._patiently(lambda: self._store.load(asking))

        return World(load, self._provider, self._price, self._view.ask, self.inbox.put_nowait)

    async def _stopped(self) -> Interrupted | Replied:
        """End the streams, so that what was shown is what is stored, and give back what is queued."""
        asked = self._jobs.hang_up()
        if self._forgetting:
            self._jobs.end(self._forgetting)
        if self.memory.open is None:
            self._background.stop()
        self._pending.give_back()
        return await asked[0].stop() if asked else Interrupted()  # a turn asks once at a time

    async def _send_less(self, happened: Exceeded) -> Input:
        """Let go of older turns and iterations and send the request again; a turn that cannot be made to fit fails.

        Memory is loaded anew under the limits just learned, so that it is what a restart under them makes it.
        """
        job, tries = self._smaller
        tries = tries + 1 if job == happened.to else 1
        self._smaller = happened.to, tries
        memory = self.memory
        self._learn(memory.model, exceeded.learned(memory, happened.reason))
        smaller = await self._patiently(lambda: self._store.load(loading(memory.run, memory.agent)))
        self.memory = smaller
        fails = tries > exceeded.TRIES or smaller.size >= memory.size or not memory.budget
        if not fails:
            sizes = " → ".join(tokens.short(each.used) for each in (memory, smaller))
            self._view.notice(f"{happened.reason} Sending it again with less: {sizes} tokens.")
        show_rule(self._view, smaller, rule(memory), memory.used)
        if fails:
            return Failed(happened.to, exceeded.complaint(smaller, happened.reason), (), happened.usage)
        self._jobs.drop(happened.to)
        return Used(happened.usage) if happened.usage else happened

    async def _record(self, facts: tuple[Event, ...]) -> None:
        """Store, fold the rows that came back, show them: in this order, and nothing when storing fails."""
        reload = any(isinstance(fact, CHANGES_THE_PAST) for fact in facts)
        self.unsaved = facts
        if any(isinstance(fact, Filtered) for fact in facts):
            self.unsaved = facts = await self._sized(facts)
        appended = await self._append(facts, reload)
        self.unsaved = ()
        was = self.memory
        self.memory = show_rows(self._view, was, appended.rows, appended.memory)
        for row in appended.rows:
            if isinstance(row.event, TYPED) and (told := key_notice(row.event, row.id, self._redactor())):
                self._view.notice(told)
        self._background.recorded(facts, was, self.memory)

    async def _sized(self, facts: tuple[Event, ...]) -> tuple[Event, ...]:
        """The facts with the size that the next request has behind a filter among them."""
        from ikigai.core.forget.request_size import sized

        return await self._patiently(lambda: self._store.load(sized(self.memory, facts)))

    async def _append(self, facts: tuple[Event, ...], reload: bool) -> Appended:
        def append() -> Awaitable[Appended]:
            return self._store.append(facts, loading(self.memory.run, self.memory.agent) if reload else None)

        return await self._patiently(append)
