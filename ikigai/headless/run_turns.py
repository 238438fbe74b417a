"""Run turns or one command without a terminal, and choose the exit code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ikigai.core.errors import ExitCode, Rejected
from ikigai.core.events.events import Ending
from ikigai.core.events.messages import StopReason
from ikigai.core.request.reply import TRANSIENT_FAILURES
from ikigai.core.state.inputs import Command, Forget, Interrupted, Plan, Retry, Submitted
from ikigai.core.state.memory import AgentStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ikigai.agent.loop import AgentLoop
    from ikigai.headless.printer import PrintView


async def carry_out(agent_loop: AgentLoop, printer: PrintView, command: Command) -> int:
    """Carry out `command`, print what it did, and return the exit code: 1 if it was refused or declined."""
    if isinstance(command, Forget):
        await _forget(agent_loop, printer, command)
    else:
        agent_loop.inbox.put_nowait(command)
        agent_loop.inbox.put_nowait(None)
        await agent_loop.run()
    printer.print_report()
    await printer.streams.finish()
    return ExitCode.OK if printer.notes else ExitCode.FAILED


async def _forget(agent_loop: AgentLoop, printer: PrintView, command: Forget) -> None:
    """Ask about what the ids name, once the agent is open, and forget it if that is confirmed."""
    from ikigai.agent.context.forget import select_named

    loop, idle = asyncio.create_task(agent_loop.run()), asyncio.create_task(agent_loop.idle.wait())
    try:
        await asyncio.wait({loop, idle}, return_when=asyncio.FIRST_COMPLETED)
        if not loop.done():
            chosen = await select_named(agent_loop.forget_context(), agent_loop.memory, command)
            if chosen:
                agent_loop.inbox.put_nowait(chosen)
            else:
                printer.notice("Nothing was forgotten.")
    except Rejected as refusal:
        printer.notice(str(refusal))
    finally:
        idle.cancel()
        agent_loop.inbox.put_nowait(None)
        await loop


async def run_turns(
    agent_loop: AgentLoop, printer: PrintView, submissions: AsyncIterator[Submitted | Plan | Retry]
) -> int:
    """Submit each of `submissions` when the turn before has ended, and return the exit code of the first that was not
    answered, else 0.
    """
    loop, code = asyncio.create_task(agent_loop.run()), 0
    try:
        async for submission in submissions:
            printer.begin_turn()
            outcome = await _run_turn(agent_loop, loop, printer, submission)
            code = code or outcome
            await printer.streams.drain()
            if printer.streams.lost or loop.done():
                break
    finally:
        agent_loop.inbox.put_nowait(None)
        await asyncio.wait({loop}, timeout=3)
    lost = printer.streams.lost
    if lost and not isinstance(lost, BrokenPipeError):
        printer.notice(f"The answer could not be written: {lost.strerror}. {printer.stored_answer}")
        return 1
    return code


async def _run_turn(
    agent_loop: AgentLoop, loop: asyncio.Task[None], printer: PrintView, submission: Submitted | Plan | Retry
) -> int:
    """Submit `submission`, wait for the turn to end, and return the exit code.

    The code is 0 for an answer, even one that is cut off at its longest length. It is 1 if there is no answer: the turn
    failed, the model or its provider refused, the model sent no text, not a word came before the longest length, a plan
    to forget forgot nothing, or the reply does not match the schema. It is 3 if a spending cap stopped the turn. It is
    75 if a later try may work.
    """
    ended = asyncio.create_task(printer.ended())
    try:
        agent_loop.inbox.put_nowait(submission)
        await asyncio.wait({loop, ended}, return_when=asyncio.FIRST_COMPLETED)
        if loop.done():
            loop.result()  # the loop ends by itself only when it raises
    except asyncio.CancelledError:
        agent_loop.inbox.put_nowait(Interrupted())
        if agent_loop.memory.status is not AgentStatus.IDLE:
            await asyncio.wait({loop, ended}, timeout=3, return_when=asyncio.FIRST_COMPLETED)
        printer.finish()
        raise
    finally:
        ended.cancel()
    failed = printer.ending is not None and printer.ending.ending is Ending.FAILED
    cap_refusal = agent_loop.billing.guard.refusal if failed and agent_loop.billing.guard else None
    printer.finish(cap_refusal)
    if printer.ending is None or printer.ending.ending is Ending.COMPLETED:
        if printer.incomplete:
            printer.notice(printer.incomplete)
        if printer.mismatch:
            printer.notice(printer.mismatch)
        nothing_forgotten = isinstance(submission, Plan) and not printer.filtered
        no_answer = printer.incomplete and (printer.stop is not StopReason.LENGTH or printer.is_silent)
        failed = nothing_forgotten or printer.refused or no_answer or printer.mismatch
        return ExitCode.FAILED if failed else ExitCode.OK
    printer.notice(printer.ending.reason or printer.ending.ending.value)
    if cap_refusal:
        return ExitCode.SPENDING_LIMIT
    passes = printer.usage and printer.usage[-1].failure in TRANSIENT_FAILURES
    return ExitCode.TRY_AGAIN if passes else ExitCode.FAILED
