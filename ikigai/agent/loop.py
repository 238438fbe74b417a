"""This module implements the agent loop: input → events → stored → folded → shown → jobs reconciled. One per open
agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ikigai.agent.apply_events import fold_rows, show_rows, show_rule
from ikigai.agent.db_retry import DatabaseStatus, RetryUntilAvailable
from ikigai.agent.input_queue import InputQueue, as_new_message, is_command_result, typed_text
from ikigai.agent.jobs import Jobs
from ikigai.agent.lazy_condenser import LazyCondenser
from ikigai.agent.loop_options import DEFAULTS, LoopOptions
from ikigai.agent.usage_meter import Billing, preload
from ikigai.core import tokens
from ikigai.core.commands.arguments import is_id
from ikigai.core.errors import Rejected
from ikigai.core.events import CHANGES_THE_PAST, Event, Filtered, UsageReported
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.model import Provider
from ikigai.core.ports import Appended, Log, Tools, View
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY, with_instructions
from ikigai.core.state import overflow
from ikigai.core.state.decisions import decide, work
from ikigai.core.state.inputs import (
    NEEDS_IDLE,
    Condense,
    Condensed,
    ContextOverflowed,
    DefaultSystemChanged,
    Denied,
    Edit,
    Failed,
    Input,
    InstructionsChanged,
    Interrupted,
    Job,
    MailDelivered,
    McpToolsChanged,
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
    UsageRecorded,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory, replace
from ikigai.core.state.open_turn import turn_progress
from ikigai.core.state.redacted_inputs import TYPED_EVENTS, key_notice, may_hold_foreign_words, redact_input
from ikigai.core.state.rewind import find_mark, rewind_before, text_to_edit

if TYPE_CHECKING:
    from ikigai.agent.forget import ForgetContext
    from ikigai.core.condense.threshold import CondenseOptions
    from ikigai.core.state.effective_settings import RunConfig
    from ikigai.core.state.loading import Reading

_T = TypeVar("_T")

BEGINS_TURN = Submitted, Plan, Retry, MailDelivered
NO_TOOLS_REMEDY = 'Remove tools = "yes" under [models] in the configuration, or choose another model.'
"""The advice where the configuration promises tools that a model refuses."""

log = logging.getLogger(__name__)


class AgentLoop:
    """Drives one agent. Put inputs into `inbox`; None ends the loop. `memory` is the fold of the log so far.

    `provider` returns the provider of a model "provider/name".
    """

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
        self.inbox: asyncio.Queue[Input | None] = asyncio.Queue()
        self.unsaved: tuple[Event, ...] = ()
        self._store, self._provider, self._view = store, provider, view
        self.services, self._options = options.services, options
        self._prompt, self._mail, self._outputs = options.prompt, options.mail, options.outputs
        self.billing = Billing(self.services.price)
        self._condenser = LazyCondenser(self.forget_context, view, self._condense_options)
        self.queue = InputQueue(view, lambda: self.unsaved)
        self._db_status = DatabaseStatus(view)
        shown = self.queue.show, self.queue.sent.clear
        self._retry = RetryUntilAvailable(self._db_status, view, options.db_timeout, *shown)
        terms = self.billing, options.max_requests, self.services
        self._jobs = Jobs(self, store, provider, tools, view, self._db_status, *terms)
        self.can_ask = options.can_ask
        self.opened = asyncio.Event()  # turns that an ended program left open are closed
        self.idle = asyncio.Event()  # nothing that was sent is left to do
        self.checks_mail = False  # which may begin a turn
        self._is_recalling = False  # for a message that is stored after it
        self._shrunk: tuple[Job | None, int] = (None, 0)  # the request that was shrunk, and how often

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
            await self._handle(Opened(await self._retry(self._store.draft)))
            if self._outputs:
                self.queue.follow_up.extend(await self._retry(self._outputs.pending))
            self.opened.set()
            from ikigai.core.views.context_report import cramped_notice  # behind the last turns on screen

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
            await self._jobs.close(*self._condenser.tasks)
            if self.billing.guard:
                await self.billing.guard.close()

    async def until_available(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of a call of the database, repeated until that can be reached."""
        return await self._retry(call)

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
            mails = await self._retry(self._mail.collect)
        self.checks_mail = False
        if mails:
            await self._handle(MailDelivered(mails))

    async def _is_waiting_for_user(self) -> bool:
        """Wait for a task of the user, then put None back into the inbox; False if there is none."""
        if self.memory.open and self.memory.open.alone:  # its end is coming, and more of its kind may wait for it
            await asyncio.sleep(0)
            self.inbox.put_nowait(None)
            return True
        if (task := self._condenser.manual_task) is None:
            return False
        await asyncio.wait({task})
        self.inbox.put_nowait(None)
        return True

    def require_schema(self, schema: str) -> None:
        """Ask for replies that match this JSON schema from now on; "" for any."""
        self._jobs.schema = schema

    def retry_now(self) -> None:
        """Send the request that waits for its next attempt at once."""
        self._jobs.retry_now()

    def preload(self) -> None:
        """Load the modules that price a request, ahead of the first one."""
        preload(self.billing, self.memory.model)

    @property
    def busy(self) -> bool:
        """True while a turn is open or something that was sent is not stored yet."""
        is_storing = bool(self.unsaved) or self._is_recalling
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
        """Take one input: store and apply the events that follow from it, then start and end jobs."""
        if isinstance(incoming, Steered) and self.memory.open is None:
            incoming = as_new_message(incoming)
        if self.queue.must_wait(incoming, self.memory.open is not None):
            self.queue.wait_for_turn(self._with_file(incoming))  # mail may have begun a turn since `put_input`
            return
        if isinstance(incoming, Interrupted):
            incoming = await self._interrupt_streams()
        if may_hold_foreign_words(incoming):
            incoming = redact_input(incoming, self.services.redactor())
        if isinstance(incoming, (Condense, Offered)):
            await self._handle_aside(incoming)
            return
        if isinstance(incoming, ContextOverflowed) and incoming.job in work(self.memory):
            incoming = await self._shrink_request(incoming)
        if isinstance(incoming, ToolsRefused) and incoming.job in work(self.memory):
            incoming = await self._leave_out_tools(incoming)
        if isinstance(incoming, Submitted | Retry):
            incoming = await self._with_recalled(incoming)
        try:
            if isinstance(incoming, RewindTo) and not find_mark(self.memory, label := incoming.label) and is_id(label):
                incoming = RewindAt(await self._turn_end_of(int(label)))
            returned = text_to_edit(self.memory, incoming.id) if isinstance(incoming, Edit) else ""
            events = self._turn_events(incoming) if isinstance(incoming, BEGINS_TURN) else decide(self.memory, incoming)
        except Rejected as refusal:
            self._on_rejected(incoming, refusal)
            return
        failures = self._failure_notices(incoming, events)
        if isinstance(incoming, Quote) and incoming.id:
            await self._append_output(incoming, events)
        elif events:
            await self._append_and_apply(events)
        for notice in failures:
            self._view.notice(notice)
        if isinstance(incoming, Failed) and incoming.job in work(self.memory):
            self._jobs.discard(incoming.job)  # another model is asked
        if isinstance(incoming, Replied):
            self._jobs.run_as_written(incoming.job, [event for event in events if isinstance(event, ToolCall)])
        if returned:
            self._view.restore_input(returned)
        if self.queue.steering:
            await self._steer(isinstance(incoming, ToolDone | Denied))
        self._jobs.reconcile()
        self.queue.show()
        self._view.changed(self.memory)

    def _failure_notices(self, incoming: Input, events: tuple[Event, ...]) -> tuple[str, ...]:
        """Return what the user is told of calls that have failed too often, by memory before these events."""
        has_result = isinstance(incoming, Replied | ToolDone | Denied)
        if not (has_result and any(isinstance(event, ToolResult) and event.is_error for event in events)):
            return ()
        from ikigai.core.state.repeated_failures import failure_notices

        return failure_notices(self.memory, events)

    async def _handle_aside(self, incoming: Condense | Offered) -> None:
        """Take an input from which no event follows at once."""
        match incoming:
            case Condense(focus):
                self._condenser.toggle(self.memory, focus)
            case Offered(tools):
                await self._reload(replace(self.memory.run, tools=tools))
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
                await self._append_and_apply(decide(self.memory, steered))
            except Rejected as refusal:
                self._view.notice(str(refusal))
                self._view.restore_input(steered.text)

    async def _with_recalled(self, incoming: Submitted | Retry) -> Submitted | Retry:
        """Return the input with what is recalled for a message of the user."""
        try:
            back, message = rewind_before(self.memory) if isinstance(incoming, Retry) else (None, incoming)
        except Rejected:  # `decide` says so
            return incoming
        if isinstance(incoming, Submitted) and incoming.sender:
            return incoming
        self._is_recalling = True
        try:
            memory = self.memory
            if back:  # the turn that is taken back has nothing in the window then, and others may come back
                memory = await self._retry(lambda: self._store.load(load_memory(memory.run, memory.agent, back)))
            recalled = await self.services.recall_for(memory, message.text)
        except BaseException:  # the loop ends here, and what waits is returned to the user
            self.queue.follow_up.appendleft(incoming)
            raise
        finally:
            self._is_recalling = False
        if recalled is None:
            return incoming
        return replace(incoming, recalled=replace(recalled, text=self.services.redactor().foreign(recalled.text)))

    def _turn_events(self, incoming: Input) -> tuple[Event, ...]:
        """Return the events that follow from an input which begins a turn; before them those about the project's
        instructions, the default system prompt and the tools of MCP servers, where others are in force.

        They are stored together: alone they would hold the turn up while the database is away. Raise Rejected if the
        input is refused.
        """
        events = decide(self.memory, incoming)
        if not events:
            return ()
        # Behind the decision: a refused input leaves the run as it is, so that the next turn finds the change, too.
        changed = self._changed_instructions(self._prompt.instructions()) if self._prompt else ()
        return (*changed, *self._changed_prompt(), *events)

    def _changed_prompt(self) -> tuple[Event, ...]:
        """Return the events about the default system prompt and the tools of MCP servers, where others are in force."""
        memory, source = self.memory, self._prompt
        if source is None:
            return ()
        changed = decide(memory, DefaultSystemChanged(source.default_system(memory)))
        return changed + decide(memory, McpToolsChanged(source.mcp_tools(memory)))

    def _changed_instructions(self, value: str) -> tuple[Event, ...]:
        """Give the run these instructions of the project; return the event if others are in force."""
        run = self.memory.run
        if (run.below.get(INSTRUCTIONS_KEY) or "") == value:
            return ()
        events = decide(self.memory, InstructionsChanged(value))
        self.memory = replace(self.memory, run=replace(run, below=with_instructions(run.below, value)))
        return events

    async def _turn_end_of(self, id: int) -> int:
        """Return the id of the last event of the turn that event `id` belongs to. Raise Rejected."""
        from ikigai.core.forget.selection import turn_of

        run, agent = self.memory.run, self.memory.agent
        return await self._retry(lambda: self._store.load(turn_of(run, agent, id)))

    def _condense_options(self, memory: Memory) -> CondenseOptions:
        options = self.services.condense_options(memory)
        return options if self._options.condenses else options.manual_only

    def forget_context(self) -> ForgetContext:
        """Return the services of a turn or command that forgets or condenses."""
        from ikigai.agent.forget import ForgetContext

        def load(reading: Reading[_T], /) -> Awaitable[_T]:
            return self._retry(lambda: self._store.load(reading))

        return ForgetContext(load, self._provider, self.billing, self._view.ask, self.inbox.put_nowait)

    async def _interrupt_streams(self) -> Interrupted | Replied:
        """Cancel the streams, so that exactly what was shown is stored, and return queued messages to the prompt."""
        model_calls = self._jobs.cancel_streams()
        if self.memory.open is None:
            self._condenser.stop()
        self.queue.return_to_prompt()
        return await model_calls[0].stop() if model_calls else Interrupted()  # a turn has one model call at a time

    async def _shrink_request(self, incoming: ContextOverflowed) -> Input:
        """Drop older turns and iterations and send the request again; a turn that cannot be made to fit fails.

        Memory is loaded anew under the limits just learned, so that it equals the memory of a restart under them.
        """
        job, tries = self._shrunk
        tries = tries + 1 if job == incoming.job else 1
        self._shrunk = incoming.job, tries
        memory = self.memory
        self.services.learn_context(memory.model, overflow.learned_context(memory, incoming.reason))
        smaller = await self._reload(memory.run)
        fails = tries > overflow.MAX_SHRINKS or smaller.size >= memory.size or not memory.budget
        if fails:
            return Failed(incoming.job, overflow.overflow_message(smaller, incoming.reason), (), incoming.usage)
        sizes = " → ".join(tokens.format_tokens(each.used) for each in (memory, smaller))
        self._view.notice(f"{incoming.reason} Sending a smaller request: {sizes} tokens.")
        return self._send_again(incoming)

    async def _leave_out_tools(self, incoming: ToolsRefused) -> Input:
        """Send the request again without tools, and offer this model none from now on."""
        model = self.memory.model
        self.services.learn_no_tools(model)
        memory = await self._reload(self.memory.run)
        if memory.limits.tools:  # the configuration says that it takes some
            return Failed(incoming.job, f"{incoming.reason} {NO_TOOLS_REMEDY}", (), incoming.usage)
        self._view.notice(f"{model} does not support tools: it is offered none from now on.")
        return self._send_again(incoming)

    def _send_again(self, incoming: ContextOverflowed | ToolsRefused) -> Input:
        """Have the refused request sent anew, as memory is now; return the input that is left of the refusal."""
        self._jobs.discard(incoming.job)
        return UsageRecorded(incoming.usage) if incoming.usage else incoming

    async def _reload(self, run: RunConfig) -> Memory:
        """Load memory anew under this run, and draw the context rule where that begins."""
        memory = self.memory
        loaded = await self._retry(lambda: self._store.load(load_memory(run, memory.agent)))
        show_rule(self._view, loaded, memory)
        await self._adopt(loaded, memory)
        return self.memory

    async def _adopt(self, loaded: Memory, expected: Memory) -> None:
        """Go on with memory as it was loaded. If its open turn has rows that this program did not store, close it as at
        a start: no request and no tool follows from them.
        """
        self.memory = loaded
        if turn_progress(loaded.open) == turn_progress(expected.open):
            return
        self._view.notice("Another program wrote to this agent. What it began was ended; nothing of it runs here.")
        if events := decide(loaded, Opened(None)):
            await self._append_and_apply(events)
        self._jobs.reconcile()

    async def _append_output(self, quote: Quote, events: tuple[Event, ...]) -> None:
        """Store the output of a command and delete its file; if storing fails the output goes on waiting."""
        assert self._outputs
        try:
            await self._append_and_apply(events, (quote.id,))
        except BaseException:
            self.unsaved = ()
            self.queue.follow_up.appendleft(quote)
            raise
        self._outputs.delete(quote)

    async def _append_and_apply(self, events: tuple[Event, ...], ids: tuple[str, ...] = ()) -> None:
        """Store the events, fold the returned rows and show them, in this order; change nothing if storing fails."""
        kinds = frozenset(map(type, events))
        reload = not kinds.isdisjoint(CHANGES_THE_PAST)
        self.unsaved = events
        if Filtered in kinds:
            self.unsaved = events = await self._with_sizes(events)
        appended = await self._append(events, reload, ids)
        self.unsaved = ()
        before = self.memory
        folded = fold_rows(before, appended.rows)
        self.memory = appended.memory or folded[-1]
        show_rows(self._view, folded, appended.rows, self.memory)
        for row in appended.rows:
            if self.billing.guard and isinstance(row.event, UsageReported):
                self.billing.guard.stored(row.event)
            if isinstance(row.event, TYPED_EVENTS) and (
                message := key_notice(row.event, row.id, self.services.redactor())
            ):
                self._view.notice(message)
        self._condenser.on_events(events, before, self.memory)
        if appended.memory:
            await self._adopt(appended.memory, folded[-1])

    async def _with_sizes(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events with the size of the next request in each filter among them."""
        from ikigai.core.forget.request_size import add_sizes

        return await self._retry(lambda: self._store.load(add_sizes(self.memory, events)))

    async def _append(self, events: tuple[Event, ...], reload: bool, ids: tuple[str, ...]) -> Appended:
        def append() -> Awaitable[Appended]:
            loading = load_memory(self.memory.run, self.memory.agent) if reload else None
            return self._store.append(events, loading, ids)

        return await self._retry(append)
