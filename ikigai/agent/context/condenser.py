"""Condense in the background: a model summarizes the oldest turns while the user goes on, and nothing waits for it.

A summary is stored only between turns and only while memory still begins as it did. It must be shorter by a quarter
than the turns it replaces. In every other case the window works as it would without a summary.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ikigai.agent.context.forget import ForgetContext
from ikigai.agent.context.summary_writer import CONTEXT_UNCHANGED, RETRY_REMEDY, SummaryWriter, WrittenSummary
from ikigai.core.context.condense_plan import (
    WIDENED_CEILING,
    SummaryScope,
    choose_scope,
    decide_condensing,
    has_grown,
    load_wider_window,
    whole_scope,
)
from ikigai.core.context.condense_threshold import CondenseOptions, CondenseVerdict
from ikigai.core.errors import IkigaiError, Rejected
from ikigai.core.events.events import CUT_OFF, Cleared, Event, Summarized, TurnEnded, Undone, UserMessage
from ikigai.core.ports import View
from ikigai.core.state.inputs import Condensed
from ikigai.core.state.memory import AgentStatus, Memory

SUMMARY_TIMEOUT = 180.0
"""Seconds that a summary may take in all, including its parts and retries."""
log = logging.getLogger(__name__)


class Condenser:
    """Requests summaries for one agent: one at a time, and beside it the summary of a cleared context.

    `view` takes sentences for the user. Results go as inputs to the `put_input` of `context`. `options` returns the
    options in force for a memory.
    """

    def __init__(
        self,
        context: ForgetContext,
        view: View,
        options: Callable[[Memory], CondenseOptions],
    ) -> None:
        self._context, self._view, self._options = context, view, options
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_manual = False
        self.is_pending = False  # a summary is written and waits for the open turn to end
        self._failed: Memory | None = None  # as it was when a summary was unusable, or was undone
        self._hinted: Memory | None = None

    @property
    def running(self) -> bool:
        """True while the context is being condensed."""
        return self._task is not None and not self._task.done()

    @property
    def manual_task(self) -> asyncio.Task[None] | None:
        """The running task that the user started; print mode waits for it."""
        return self._task if self._is_manual and self.running else None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        return tuple(task for task in (self._task, self._closing) if task and not task.done())

    def stop(self) -> bool:
        """Stop condensing; return False if nothing was running."""
        if not self.running or not self._task:
            return False
        self._task.cancel()
        self._view.note("Condensing was stopped; nothing was changed.")
        return True

    def toggle(self, memory: Memory, focus: str) -> None:
        """Start condensing for the user; stop it instead if it is running."""
        if self.stop():
            self._failed = memory
            return
        self._is_manual = True
        self._task = asyncio.create_task(self._condense(memory, focus, automatic=False), name="condense")

    def on_rejected(self, memory: Memory) -> None:
        """Note that the pending summary was rejected: memory begins differently now."""
        self.is_pending, self._failed = False, memory

    def on_events(self, events: tuple[Event, ...], before: Memory, now: Memory) -> None:
        """React to stored events: the end of a turn, a clear, and the undo of a summary. A turn that was cut off may
        be one of another program: no request follows from it.
        """
        for event in events:
            match event:
                case UserMessage() if self.running and self._task and self._is_local(now):
                    self._task.cancel()  # it does one thing at a time, and no request waits
                    if self._is_manual:
                        self._view.notice("Condensing was stopped: a local model does one thing at a time.")
                case TurnEnded(reason=reason) if now.status is AgentStatus.IDLE and reason != CUT_OFF:
                    self._check_pressure(now)
                case Cleared():
                    if self._task and self.running:
                        self._task.cancel()
                    if self._options(before).on_clear and (scope := whole_scope(before)) and now.cleared:
                        summary = self._summarize_cleared(before, scope, now.cleared)
                        self._closing = asyncio.create_task(summary, name="summarise what was cleared")
                case Summarized(closed=0):
                    self.is_pending = False
                case Undone(what="summary"):
                    self._failed = now
                case _:
                    pass

    def _is_local(self, memory: Memory) -> bool:
        models = (memory.model, self._options(memory).model or memory.model)
        return all(model.startswith("local/") for model in models)

    def _check_pressure(self, memory: Memory) -> None:
        """Start condensing, or notify the user, if the context is full enough at the end of a turn."""
        options = self._options(memory)
        if (
            options.mode == "off"
            or self.running
            or self.is_pending
            or (self._failed and not has_grown(self._failed, memory))
        ):
            return
        decision = decide_condensing(memory, CondenseOptions("auto", options.at_percent, options.to_percent))
        if decision.verdict is not CondenseVerdict.CONDENSE:
            return
        if options.mode == "auto":
            self._is_manual, self._failed = False, None
            self._task = asyncio.create_task(self._condense(memory, "", automatic=True), name="condense")
        elif self._hinted is None or has_grown(self._hinted, memory):
            self._hinted = memory
            self._view.notice(f"The context is {decision.threshold} % full. /condense summarises its oldest turns.")

    async def _condense(self, memory: Memory, focus: str, automatic: bool) -> None:
        try:
            await self._summarize_oldest(memory, focus, automatic)
        except IkigaiError as error:
            self._failed = memory
            self._view.notice(str(error))
        except Exception:
            self._failed = memory
            log.exception("condensing failed")
            self._view.notice("Condensing failed inside ikigai; the log file has the details. Nothing was changed.")

    async def _summarize_oldest(self, memory: Memory, focus: str, automatic: bool) -> None:
        """Summarize the oldest turns; raise Rejected with the reason if that is impossible."""
        options, widened = self._options(memory), memory
        if memory.window.older.turns:  # turns that left the window are among the oldest
            widened = await self._context.load(
                load_wider_window(memory.run, memory.agent, WIDENED_CEILING * memory.ceiling)
            )
        scope = choose_scope(memory, widened, options, by_hand=not automatic)
        if scope is None and automatic:
            self._failed = memory  # the user did not ask, and the window works without
            return
        if scope is None:
            raise Rejected("Nothing to condense yet: the latest two turns are always kept.")
        if not automatic:
            turns = f"{len(scope.turns):,} turn{'s' * (len(scope.turns) != 1)}"
            self._view.note(f"Condensing {turns} in the background; /condense again stops it.")
        summary = await self._write_summary(memory, scope, focus, options)
        covers = tuple((turn.id, turn.end) for turn in scope.turns)
        earlier = (scope.earlier.id,) if scope.earlier else ()
        event = Summarized(
            summary.text,
            scope.upto,
            covers,
            earlier,
            scope.count,
            scope.unseen,
            focus,
            automatic,
            summary.model,
            summary.cost,
        )
        self.is_pending = True
        self._context.put_input(Condensed(event, scope.begins))

    async def _summarize_cleared(self, memory: Memory, scope: SummaryScope, clear: int) -> None:
        try:
            summary = await self._write_summary(memory, scope, "", self._options(memory))
        except IkigaiError as error:
            self._view.notice(f"What was cleared was not summarised. {error}")
            return
        except Exception:
            log.exception("what was cleared was not summarised")
            return
        covers = tuple((turn.id, turn.end) for turn in scope.turns)
        event = Summarized(
            summary.text, 0, covers, (), scope.count, scope.unseen, "", True, summary.model, summary.cost, closed=clear
        )
        self._context.put_input(Condensed(event))

    async def _write_summary(
        self, memory: Memory, scope: SummaryScope, focus: str, options: CondenseOptions
    ) -> WrittenSummary:
        """Return the summary with its model and cost. Raise Rejected if no usable one comes."""
        writer = SummaryWriter(self._context, memory, scope, focus, options)
        try:
            async with asyncio.timeout(SUMMARY_TIMEOUT):
                return await writer.write()
        except TimeoutError:
            raise Rejected(
                f"Condensing took longer than {SUMMARY_TIMEOUT:g} s and was stopped.",
                f"{CONTEXT_UNCHANGED} {RETRY_REMEDY}",
            ) from None
