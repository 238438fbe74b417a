"""Run the jobs that memory wants as tasks, and pass their results to the loop as inputs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ikigai.agent.db_retry import DatabaseStatus
from ikigai.agent.loop_options import RunServices
from ikigai.agent.request.model_call import ModelCall, turn_request
from ikigai.agent.request.usage_meter import PriceOf
from ikigai.core.errors import Bug
from ikigai.core.events.events import Choices
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.ports import Log, Tools, View
from ikigai.core.request.model import Provider
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.decisions.redacted_inputs import redact_events, redact_result
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    CloseNote,
    Denied,
    Failed,
    Input,
    Interrupted,
    Job,
    NoteClosed,
    RunTool,
    StartTool,
    ToolDone,
)
from ikigai.core.state.memory import Memory

if TYPE_CHECKING:
    from ikigai.agent.context.forget import FilterPlanner, ForgetContext

MIN_THREADED_CHARACTERS = 200_000
"""Characters of a result from which a thread searches it for secrets: 1 MB takes 5 ms, hostile text 500."""

log = logging.getLogger(__name__)


class JobOwner(Protocol):
    """The agent loop that jobs run for. `memory` is the agent's current memory."""

    memory: Memory

    def put_result(self, incoming: Input) -> None:
        """Take the result of a job."""
        ...

    def forget_context(self) -> ForgetContext:
        """Return the services of a planning turn."""
        ...


class SettingsInForce:
    """The settings of an agent as `core.ports.LiveSettings`; `update` replaces them."""

    def __init__(self, values: Choices) -> None:
        self.values = values
        self._changed = asyncio.Event()

    def update(self, values: Choices) -> None:
        """Put these settings in force."""
        if values != self.values:
            self.values = values
            self._changed.set()
            self._changed = asyncio.Event()

    def changed(self) -> Awaitable[object]:
        return self._changed.wait()


class Jobs:
    """The running jobs of one agent, for its loop `owner`.

    `max_requests` limits the requests of a turn; 0 means no limit.
    """

    def __init__(
        self,
        owner: JobOwner,
        store: Log,
        provider: Callable[[str], Provider],
        tools: Tools,
        view: View,
        status: DatabaseStatus,
        price: PriceOf,
        max_requests: int,
        services: RunServices,
    ) -> None:
        self._services = services
        self.schema = ""  # JSON schema that the replies of turns must match; "" for none
        # Those of the last reply that the log has redacted, as the model wrote them.
        self._calls: dict[str, ToolCall] = {}
        self._owner, self._store, self._provider, self._tools, self._view = owner, store, provider, tools, view
        self._status, self._price, self._max_requests = status, price, max_requests
        self._settings = SettingsInForce(owner.memory.settings)
        self._jobs: dict[Job, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()  # cancelled, and still cleaning up
        self._model_calls: dict[Job, ModelCall] = {}
        self._planner: tuple[int, FilterPlanner] | None = None  # of the planning turn that begins with this event

    async def close(self, *others: asyncio.Task[None]) -> None:
        """Cancel all jobs and the tasks `others` of the loop, and wait for their end."""
        for task in (*self._jobs.values(), *others):
            self.end(task)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def cancel_streams(self) -> list[ModelCall]:
        """Cancel the streams; return the model calls that were running, at most one."""
        model_calls = [model_call for job, model_call in self._model_calls.items() if job in self._jobs]
        for job, task in self._jobs.items():
            if isinstance(job, CallModel):
                self.end(task)
        return model_calls

    def retry_now(self) -> None:
        """Send the request that waits for its next attempt at once; its attempts are counted anew."""
        for job in [job for job, model_call in self._model_calls.items() if model_call.is_waiting]:
            self.discard(job)
        self.reconcile()

    def discard(self, job: Job) -> None:
        """Cancel a job whose result is no longer wanted."""
        if model_call := self._model_calls.pop(job, None):
            model_call.abandon()
        if task := self._jobs.pop(job, None):
            self.end(task)

    def run_as_written(self, job: CallModel, stored: Sequence[ToolCall]) -> None:
        """Run the tool calls of the reply to `job` as the model wrote them, even if a key was redacted in `stored`."""
        if model_call := self._model_calls.get(job):
            self._calls = model_call.as_written(stored)

    def reconcile(self) -> None:
        """Start and cancel jobs until exactly those run that memory wants."""
        self._settings.update(self._owner.memory.settings)
        wanted = work(self._owner.memory)
        for job in self._jobs.keys() - wanted:
            self.discard(job)
        for job in sorted(wanted - self._jobs.keys(), key=lambda job: job.asked_by):
            self._jobs[job] = asyncio.create_task(self._run_job(job), name=f"{self._owner.memory.agent} {_name(job)}")

    def _has_no_requests_left(self, memory: Memory) -> bool:
        return 0 < self._max_requests <= (memory.open.requests if memory.open else 0)

    async def _run_job(self, job: Job) -> None:
        try:
            match job:
                case CallModel():
                    await self._call_model(job)
                case StartTool():
                    self._owner.put_result(await self._start_tool(job))
                case RunTool():
                    self._owner.put_result(await self._run_tool(job))
                case CloseNote():
                    self._owner.put_result(NoteClosed(job))
        except Exception:  # a bug: the turn must end nevertheless, and the log file says where
            log.exception("%s failed", _name(job))
            self._owner.put_result(await self._on_bug(job))

    async def _start_tool(self, job: StartTool) -> Approved | Denied:
        """Ask the tools if the call may run; they may ask the user."""
        opened = self._owner.memory.open
        if opened is None or opened.planning:
            return Approved(job)
        call = self._calls.get(job.call.id, job.call)
        started = await self._tools.start(call, opened.first, self._settings, self._view.ask)
        if started.refusal:
            result = ToolResult(job.call.id, started.refusal, is_error=True)
            return Denied(job, redact_result(result, self._services.redactor()), started.decision)
        return Approved(job, started.decision)

    async def _run_tool(self, job: RunTool) -> ToolDone:
        opened = self._owner.memory.open
        if not (opened and opened.planning):
            call = self._calls.get(job.call.id, job.call)
            result = await self._tools.run(call, partial(self._view.progress, job.call.id))
            redactor = self._services.redactor()
            if len(result.content) + len(result.diff) > MIN_THREADED_CHARACTERS:
                result = await asyncio.to_thread(redact_result, result, redactor)
            else:
                result = redact_result(result, redactor)
            return ToolDone(job, result, redact_events(self._tools.extra_events(job.call.id), redactor))
        from ikigai.agent.context.forget import FilterPlanner

        if self._planner is None or self._planner[0] != opened.first:
            self._planner = opened.first, FilterPlanner(self._owner.forget_context(), self._owner.memory)
        return ToolDone(job, *await self._planner[1].run(job.call))

    async def _call_model(self, job: CallModel) -> None:
        memory = self._owner.memory
        if self._has_no_requests_left(memory):
            requests = memory.open.requests if memory.open else 0
            reason = (
                f"Stopped after {requests} request{'s' * (requests != 1)} in one turn (--max-turns). "
                "Allow more, or send another message."
            )
            self._owner.put_result(Failed(job, reason, ()))
            return
        provider, redactor = self._provider(memory.model), self._services.redactor()
        request = turn_request(memory, self.schema, self._services.request_cache())
        model_call = self._model_calls[job] = ModelCall(
            job, memory, request, provider, self._price, redactor, self._services.request_cache()
        )
        self._calls = {}
        await model_call.run(self._store, self._view, self._status, self._owner.put_result)

    async def _on_bug(self, job: Job) -> Input:
        reason = str(Bug())
        match job:
            case CallModel():
                model_call = self._model_calls.get(job)
                return await model_call.fail(reason) if model_call else Failed(job, reason, ())
            case RunTool(_, call):
                return ToolDone(job, ToolResult(call.id, reason, is_error=True))
            case StartTool(_, call):
                return Denied(job, ToolResult(call.id, reason, is_error=True))
            case CloseNote():
                return Interrupted()

    def end(self, task: asyncio.Task[None]) -> None:
        """Cancel a job once: a second time would interrupt its cleanup, which the end of the loop waits for."""
        if not task.done() and not task.cancelling():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _name(job: Job) -> str:
    return type(job).__name__
