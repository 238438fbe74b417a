"""The loop of one agent, from an input to its jobs. `AgentLoop._handle` names the steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ikigai.agent.apply_events import fold_rows, show_rows, show_rule, warn_of_keys
from ikigai.agent.context.lazy_condenser import LazyCondenser
from ikigai.agent.db_retry import DatabaseStatus, RetryUntilAvailable
from ikigai.agent.event_writer import EventWriter
from ikigai.agent.input_queue import InputQueue, as_new_message, is_command_result, typed_text
from ikigai.agent.jobs import Jobs
from ikigai.agent.loop_options import DEFAULTS, LoopOptions
from ikigai.agent.refused_requests import RefusedRequests
from ikigai.agent.request.usage_meter import Billing, preload
from ikigai.agent.turn_start import BEGINS_TURN, RecalledTurns, change_prompt
from ikigai.core.commands.arguments import is_id
from ikigai.core.errors import Rejected
from ikigai.core.events.events import Event, UsageReported
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.ports import Appended, Log, Tools, View
from ikigai.core.request.model import Provider
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.decisions.redacted_inputs import may_hold_foreign_words, redact_input
from ikigai.core.state.decisions.rewind import find_mark, text_to_edit
from ikigai.core.state.inputs import (
    NEEDS_IDLE,
    Condense,
    Condensed,
    ContextOverflowed,
    Denied,
    Edit,
    Failed,
    Input,
    Interrupted,
    MailDelivered,
    Offered,
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
    ToolsRefused,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory, replace
from ikigai.core.state.open_turn import turn_progress

if TYPE_CHECKING:
    from ikigai.agent.context.forget import ForgetContext
    from ikigai.core.context.condense_threshold import CondenseOptions
    from ikigai.core.state.effective_settings import RunConfig
    from ikigai.core.state.loading import Reading

_T = TypeVar("_T")


class AgentLoop:
    """Drives one agent. `provider` returns the provider of a model "provider/name"."""

    def __init__(
        self,
        memory: Memory,
        store: Log,
        provider: Callable[[str], Provider],
        tools: Tools,
        view: View,
        options: LoopOptions = DEFAULTS,
    ) -> None:
        self.memory = memory
        """The fold of the log so far."""
        self.inbox: asyncio.Queue[Input | None] = asyncio.Queue()
        """Inputs of the agent; None ends the loop."""
        self._log, self._provider, self._view = store, provider, view
        self.services, self._options = options.services, options
        self._prompt, self._mail, self._outputs = options.prompt, options.mail, options.outputs
        self.billing = Billing(self.services.price)
        self._condenser = LazyCondenser(self.forget_context, view, self._condense_options)
        self.queue = InputQueue(view, lambda: self.unsaved)
        """Input that no turn has taken yet."""
        self._db_status = DatabaseStatus(view)
        shown = self.queue.show, self.queue.sent.clear
        self.until_available = RetryUntilAvailable(self._db_status, view, options.db_timeout, *shown)
        """Repeats a call of the log while the database is away."""
        terms = self.billing, options.max_requests, self.services
        self.jobs = Jobs(self, store, provider, tools, view, self._db_status, *terms)
        self._writer = EventWriter(store, self.until_available, self.queue, self._outputs)
        self._recalled = RecalledTurns(store, self.until_available, self.services, self.queue)
        self._refused = RefusedRequests(self.services, view, self._reload, self.jobs.discard)
        self.can_ask = options.can_ask
        self.opened = asyncio.Event()
        """Set when the turns that an ended program left open are closed."""
        self.idle = asyncio.Event()
        """Set while no input waits and no turn is under way."""
        self.checks_mail = False
        """True while the loop looks for mail, which may begin a turn."""

    def put_input(self, incoming: Input) -> None:
        """Put an input into the inbox; while the database is away, show what the user sent as waiting."""
        if self.busy:
            incoming = self._with_file(incoming)
        self.queue.note_entered(incoming)
        self.idle.clear()
        self.inbox.put_nowait(incoming)
        if self._db_status.unreachable and isinstance(incoming, NEEDS_IDLE):
            self.queue.sent.append(typed_text(incoming))
            self.queue.show()

    def _with_file(self, incoming: Input) -> Input:
        """Return the result of a command of the user with a file that keeps it, and any other input as it is."""
        return self._outputs.save(incoming) if self._outputs and is_command_result(incoming) else incoming

    def put_result(self, incoming: Input) -> None:
        """Put the result of a job into the inbox."""
        self.inbox.put_nowait(incoming)

    async def run(self) -> None:
        self.checks_mail = self._mail is not None
        try:
            if self.billing.guard:
                await self.billing.guard.recover()
            await self._handle(Opened(await self.until_available(self._log.draft)))
            if self._outputs:
                self.queue.follow_up.extend(await self.until_available(self._outputs.pending))
            self.opened.set()
            from ikigai.core.views.context_report import cramped_notice

            if message := cramped_notice(self.memory):
                self._view.notice(message)
            await self._start_waiting()
            self._note_idle()
            while (incoming := await self.inbox.get()) is not None or await self._is_waiting_for_user():
                self.idle.clear()
                if incoming is not None:
                    await self._handle(incoming)
                    self.queue.note_taken(incoming)
                await self._start_waiting()
                self._note_idle()
        finally:
            await self.jobs.close(*self._condenser.tasks)
            if self.billing.guard:
                await self.billing.guard.close()

    def _note_idle(self) -> None:
        if not self.busy:
            self.idle.set()

    async def _start_waiting(self) -> None:
        """Handle the inputs that waited for the turn to end; then begin a turn with mail if nothing else waits."""
        while self.queue.follow_up and self.memory.open is None:
            await self._handle(self.queue.follow_up.popleft())
        mails = ()
        if self._mail and self.memory.open is None and self.inbox.empty():
            self.checks_mail = True
            mails = await self.until_available(self._mail.collect)
        self.checks_mail = False
        if mails:
            await self._handle(MailDelivered(mails))

    async def _is_waiting_for_user(self) -> bool:
        """Wait for a task of the user, then put None back into the inbox; return False if no task runs."""
        if self.memory.open and self.memory.open.alone:  # its end is coming, and more of its kind may wait for it
            await asyncio.sleep(0)
            self.inbox.put_nowait(None)
            return True
        if (task := self._condenser.manual_task) is None:
            return False
        await asyncio.wait({task})
        self.inbox.put_nowait(None)
        return True

    def preload(self) -> None:
        """Load the modules that price a request, ahead of the first one."""
        preload(self.billing, self.memory.model)

    @property
    def unsaved(self) -> tuple[Event, ...]:
        """The events that are being stored."""
        return self._writer.unsaved

    @property
    def busy(self) -> bool:
        """True while a turn is open or something that was sent is not stored yet."""
        is_storing = bool(self.unsaved) or self._recalled.active
        return self.memory.open is not None or is_storing or not self.inbox.empty()

    @property
    def condensing(self) -> bool:
        """True while a summary is being written or waits for the turn to end."""
        return not self._condenser.idle

    def unsent(self) -> list[Submitted | Quote]:
        """Return the messages that no turn took and the results of the user's commands, oldest first.

        Call it once, when the loop has ended.
        """
        return self.queue.unsent(self.inbox)

    async def _handle(self, incoming: Input) -> None:
        """Take one input from step to step. One that waits, needs no decision or is refused goes no further."""
        if (routed := await self._route(incoming)) is None:
            return
        redacted = self._redact(routed)
        try:
            if (prepared := await self._prepare(redacted)) is None:
                return
            before = self.memory
            events = self._decide(prepared)
        except Rejected as refusal:
            self._on_rejected(redacted, refusal)
            return
        await self._apply(events, prepared)
        self._tell(prepared, events, before)
        await self._reconcile(prepared, events)

    async def _apply(self, events: tuple[Event, ...], incoming: Input | None = None) -> None:
        """Store the events, fold the stored rows, and show them, in this order."""
        if not events:
            return
        before = self.memory
        appended = await self._store(events, incoming)
        folded = self._fold(appended)
        self._show(folded, appended)
        self._condenser.on_events(events, before, self.memory)
        if appended.memory:
            await self._end_foreign_turn(folded[-1])

    async def _route(self, incoming: Input) -> Input | None:
        """Return the input that is taken now; None if it waits for the end of the turn."""
        if isinstance(incoming, Steered) and self.memory.open is None:
            incoming = as_new_message(incoming)
        if self.queue.must_wait(incoming, self.memory.open is not None):
            self.queue.wait_for_turn(self._with_file(incoming))  # mail may have begun a turn since `put_input`
            return None
        return await self._interrupt_streams() if isinstance(incoming, Interrupted) else incoming

    def _redact(self, incoming: Input) -> Input:
        """Return the input without secrets."""
        return redact_input(incoming, self.services.redactor()) if may_hold_foreign_words(incoming) else incoming

    async def _prepare(self, incoming: Input) -> Input | None:
        """Return the input with what its decision needs of the log or of a model; None if no event follows from it at
        once. Raise Rejected.
        """
        match incoming:
            case Submitted() | Retry():
                return await self._recalled.add(self.memory, incoming)
            case ContextOverflowed(job) if job in work(self.memory):
                return await self._refused.shrink(self.memory, incoming)
            case ToolsRefused(job) if job in work(self.memory):
                return await self._refused.leave_out_tools(self.memory, incoming)
            case RewindTo(label) if is_id(label) and not find_mark(self.memory, label):
                return RewindAt(await self._turn_end_of(int(label)))
            case Condense(focus):
                self._condenser.toggle(self.memory, focus)
                return None
            case Offered(tools):
                await self._reload(replace(self.memory.run, tools=tools))
                self._view.changed(self.memory)
                return None
            case _:
                return incoming

    def _decide(self, incoming: Input) -> tuple[Event, ...]:
        """Return the events that follow from the input; before those that begin a turn, the changes of its prompt.

        They are stored together: alone they would hold the turn up while the database is away. Raise Rejected.
        """
        events = decide(self.memory, incoming)
        if not (events and self._prompt and isinstance(incoming, BEGINS_TURN)):
            return events  # a refused input leaves the run as it is, so that the next turn also finds the change
        self.memory, changed = change_prompt(self.memory, self._prompt)
        return (*changed, *events)

    async def _store(self, events: tuple[Event, ...], incoming: Input | None) -> Appended:
        """Store the events; change nothing if that fails."""
        if isinstance(incoming, Quote) and incoming.id:
            return await self._writer.store_output(self.memory, events, incoming)
        return await self._writer.store(self.memory, events)

    def _fold(self, appended: Appended) -> tuple[Memory, ...]:
        """Fold the stored rows into memory; return memory as it was, and after each of the rows."""
        folded = fold_rows(self.memory, appended.rows)
        self.memory = appended.memory or folded[-1]
        return folded

    def _show(self, folded: tuple[Memory, ...], appended: Appended) -> None:
        """Show the stored rows, warn of the keys in them, and tell the spending guard what they cost."""
        show_rows(self._view, folded, appended.rows, self.memory)
        warn_of_keys(self._view, appended.rows, self.services.redactor)
        if self.billing.guard:
            for row in appended.rows:
                if isinstance(row.event, UsageReported):
                    self.billing.guard.stored(row.event)

    def _tell(self, incoming: Input, events: tuple[Event, ...], before: Memory) -> None:
        """Tell the user of calls that have failed too often, and give back the message that is to be edited."""
        failed = any(isinstance(event, ToolResult) and event.is_error for event in events)
        if failed and isinstance(incoming, Replied | ToolDone | Denied):
            from ikigai.core.state.decisions.repeated_failures import failure_notices

            for notice in failure_notices(before, events):
                self._view.notice(notice)
        if isinstance(incoming, Edit):
            self._view.restore_input(text_to_edit(before, incoming.id))

    async def _reconcile(self, incoming: Input, events: tuple[Event, ...]) -> None:
        """Start and end jobs, so that exactly those run that memory wants."""
        if isinstance(incoming, Failed) and incoming.job in work(self.memory):
            self.jobs.discard(incoming.job)  # another model is asked
        if isinstance(incoming, Replied):
            self.jobs.run_as_written(incoming.job, [event for event in events if isinstance(event, ToolCall)])
        if self.queue.steering:
            await self._steer(isinstance(incoming, ToolDone | Denied))
        self.jobs.reconcile()
        self.queue.show()
        self._view.changed(self.memory)

    def _on_rejected(self, incoming: Input, refusal: Rejected) -> None:
        """Show the refusal of an input, and give back what it brought."""
        if isinstance(incoming, MailDelivered) and self._mail:
            self._mail.refuse(incoming.mails, refusal)
        else:
            self._view.notice(str(refusal))
        if isinstance(incoming, Condensed):
            self._condenser.on_rejected(self.memory)
        if isinstance(incoming, (Submitted, Plan, Retry)):
            self._view.restore_input(incoming.text if isinstance(incoming, Submitted) else "")
        self.queue.show()

    async def _steer(self, results: bool) -> None:
        """Insert steering messages after the last tool result, or queue them if the turn has ended."""
        turn = self.memory.open
        if turn is None or turn.planning:
            self.queue.requeue_steering()
        while results and self.queue.steering and self.memory.status is AgentStatus.WAITING:
            steered = self.queue.steering.popleft()
            try:
                await self._apply(decide(self.memory, steered))
            except Rejected as refusal:
                self._view.notice(str(refusal))
                self._view.restore_input(steered.text)

    async def _turn_end_of(self, id: int) -> int:
        """Return the id of the last event of the turn that event `id` belongs to. Raise Rejected."""
        from ikigai.core.context.forget_selection import turn_of

        run, agent = self.memory.run, self.memory.agent
        return await self.until_available(lambda: self._log.load(turn_of(run, agent, id)))

    def _condense_options(self, memory: Memory) -> CondenseOptions:
        options = self.services.condense_options(memory)
        return options if self._options.condenses else options.manual_only

    def forget_context(self) -> ForgetContext:
        """Return the services of a turn or command that forgets or condenses."""
        from ikigai.agent.context.forget import ForgetContext

        def load(reading: Reading[_T], /) -> Awaitable[_T]:
            return self.until_available(lambda: self._log.load(reading))

        return ForgetContext(load, self._provider, self.billing, self._view.ask, self.inbox.put_nowait)

    async def _interrupt_streams(self) -> Interrupted | Replied:
        """Cancel the streams, so that exactly what was shown is stored, and return queued messages to the prompt."""
        model_calls = self.jobs.cancel_streams()
        if self.memory.open is None:
            self._condenser.stop()
        self.queue.return_to_prompt()
        return await model_calls[0].stop() if model_calls else Interrupted()  # a turn has one model call at a time

    async def _reload(self, run: RunConfig) -> Memory:
        """Load memory anew under this run, and draw the context rule where that begins."""
        memory = self.memory
        self.memory = loaded = await self.until_available(lambda: self._log.load(load_memory(run, memory.agent)))
        show_rule(self._view, loaded, memory)
        await self._end_foreign_turn(memory)
        return self.memory

    async def _end_foreign_turn(self, expected: Memory) -> None:
        """Close the open turn as at a start if it was loaded with rows that this program did not store: no request and
        no tool follows from them.
        """
        if turn_progress(self.memory.open) == turn_progress(expected.open):
            return
        self._view.notice("Another program wrote to this agent. What it began was ended; nothing of it runs here.")
        await self._apply(decide(self.memory, Opened(None)))
        self.jobs.reconcile()
