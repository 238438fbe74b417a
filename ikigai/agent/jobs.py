"""The jobs that memory wants, as tasks: started, cancelled, and what comes of each told to the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ikigai.agent.model_call import Asking
from ikigai.agent.reply_drafts import Link
from ikigai.agent.usage_meter import Price
from ikigai.core.errors import Bug
from ikigai.core.messages import ToolCall, ToolResult
from ikigai.core.model import Provider
from ikigai.core.ports import Log, Tools, View
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Denied,
    Failed,
    Input,
    Interrupted,
    Job,
    Note,
    Noted,
    RunTool,
    StartTool,
    ToolDone,
)
from ikigai.core.state.machine import work
from ikigai.core.state.memory import Memory
from ikigai.core.state.redacted_inputs import redacted_facts, redacted_result

if TYPE_CHECKING:
    from ikigai.agent.forget import Planner, World
    from ikigai.core.redaction import Redactor

IN_A_THREAD = 200_000
"""Characters of a result from which secrets are looked for beside the loop: 1 MB takes 5 ms, hostile text 500."""

log = logging.getLogger(__name__)


class Jobs:
    """What is under way for one agent. `memory` gives what its log means now, `tell` takes what came of a job.

    `planning` gives what a planning talk may ask. `max_requests` bounds the requests of a turn, 0 does not.
    `redactor` gives what replaces ikigai's own keys, as they are now.
    """

    def __init__(
        self,
        memory: Callable[[], Memory],
        store: Log,
        provider: Callable[[str], Provider],
        tools: Tools,
        view: View,
        link: Link,
        price: Price,
        planning: Callable[[], World],
        tell: Callable[[Input], None],
        max_requests: int,
        redactor: Callable[[], Redactor],
    ) -> None:
        self._redactor = redactor
        self._calls: dict[str, ToolCall] = {}  # of the last reply, as the model wrote those that the log has otherwise
        self._memory, self._store, self._provider, self._tools, self._view = memory, store, provider, tools, view
        self._link, self._price, self._planning = link, price, planning
        self._tell, self._max_requests = tell, max_requests
        self._jobs: dict[Job, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()  # cancelled, and still tidying up
        self._asked: dict[Job, Asking] = {}
        self._planner: tuple[int, Planner] | None = None  # of the planning talk that begins with this event

    async def close(self, *others: asyncio.Task[None]) -> None:
        """Cancel all of them, and other tasks of the loop, and wait for their end."""
        for task in (*self._jobs.values(), *others):
            self.end(task)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def hang_up(self) -> list[Asking]:
        """End the streams; returns the requests under way, one at most."""
        asked = [asking for job, asking in self._asked.items() if job in self._jobs]
        for job, task in self._jobs.items():
            if isinstance(job, CallModel):
                self.end(task)
        return asked

    def drop(self, job: Job) -> None:
        """End a job of which nothing more is wanted."""
        self._asked.pop(job, None)
        if task := self._jobs.pop(job, None):
            self.end(task)

    def run_as_written(self, job: CallModel, stored: Sequence[ToolCall]) -> None:
        """Of the calls that were stored of the reply to `job`, run those as the model wrote them that the log has
        without a key.
        """
        if asking := self._asked.get(job):
            self._calls = asking.as_written(stored)

    def reconcile(self) -> None:
        """Make what is under way what memory wants."""
        wanted = work(self._memory())
        for job in self._jobs.keys() - wanted:
            self.drop(job)
        for job in sorted(wanted - self._jobs.keys(), key=lambda job: job.asked_by):
            self._jobs[job] = asyncio.create_task(self._do(job), name=f"{self._memory().agent} {_name(job)}")

    async def _do(self, job: Job) -> None:
        try:
            match job:
                case CallModel():
                    await self._call_model(job)
                case StartTool():
                    self._tell(await self._start_tool(job))
                case RunTool():
                    self._tell(await self._run_tool(job))
                case Note():
                    self._tell(Noted(job))
        except Exception:  # a bug: the turn must end all the same, and the log file says where
            log.exception("%s failed", _name(job))
            self._tell(await self._broken(job))

    async def _start_tool(self, job: StartTool) -> Approved | Denied:
        """Whether the call may run: as the tools say, which may ask the user."""
        opened = self._memory().open
        if opened is None or opened.planning:
            return Approved(job)
        call = self._calls.get(job.call.id, job.call)
        started = await self._tools.start(call, opened.first, self._memory().settings, self._view.ask)
        if started.refused:
            result = ToolResult(job.call.id, started.refused, is_error=True)
            return Denied(job, redacted_result(result, self._redactor()), started.decision)
        return Approved(job, started.decision)

    async def _run_tool(self, job: RunTool) -> ToolDone:
        opened = self._memory().open
        if not (opened and opened.planning):
            call = self._calls.get(job.call.id, job.call)
            result = await self._tools.run(call, partial(self._view.progress, job.call.id))
            redactor = self._redactor()
            if len(result.content) + len(result.diff) > IN_A_THREAD:
                result = await asyncio.to_thread(redacted_result, result, redactor)
            else:
                result = redacted_result(result, redactor)
            return ToolDone(job, result, redacted_facts(self._tools.also(job.call.id), redactor))
        from ikigai.agent.forget import Planner

        if self._planner is None or self._planner[0] != opened.first:
            self._planner = opened.first, Planner(self._planning(), self._memory())
        return ToolDone(job, *await self._planner[1].run(job.call))

    async def _call_model(self, job: CallModel) -> None:
        memory = self._memory()
        requests = memory.open.requests if memory.open else 0
        if self._max_requests and requests >= self._max_requests:
            why = f"Stopped after {requests} requests in one turn (--max-turns). Allow more, or send another message."
            self._tell(Failed(job, why, ()))
            return
        provider, redactor = self._provider(memory.model), self._redactor()
        asking = self._asked[job] = Asking(job, memory, provider, self._price, redactor)
        self._calls = {}
        await asking.run(self._store, self._view, self._link, self._tell)

    async def _broken(self, job: Job) -> Input:
        why = str(Bug())
        match job:
            case CallModel():
                asking = self._asked.get(job)
                return await asking.fail(why) if asking else Failed(job, why, ())
            case RunTool(_, call):
                return ToolDone(job, ToolResult(call.id, why, is_error=True))
            case StartTool(_, call):
                return Denied(job, ToolResult(call.id, why, is_error=True))
            case Note():
                return Interrupted()

    def end(self, task: asyncio.Task[None]) -> None:
        """Cancel a job, once: a second time would interrupt its tidying up, which the end of the loop waits for."""
        if not task.done() and not task.cancelling():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _name(thing: Job | Input) -> str:
    return type(thing).__name__
