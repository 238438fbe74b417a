"""Decisions for an agent, without IO: which events follow from an input, and which jobs should be under way.

    input                     while idle            while a turn is open
    Opened                    settings?             assistant? end settings?
    Submitted                 user recall?          refused
    Plan, Quote               user                  refused
    Steered                   user                  user | refused
    Retry                     rewind user recall?   refused
    Edit, RewindTo, RewindAt  rewind                refused
    Clear                     clear                 refused
    SetMark                   mark                  refused
    Undo, Redo                undo                  refused
    Change                    settings              settings | refused
    Condensed                 summary               refused
    Filter                    filter                refused
    Forget, Condense          refused               refused
    MailDelivered             user mail_taken*      refused
    InstructionsChanged       settings?             refused
    DefaultSystemChanged      settings?             refused
    McpToolsChanged           settings?             refused
    SkillsChanged             settings?             refused
    Interrupted               usage?                assistant? usage? end
    Replied                   -                     (assistant | tool_call | tool_result)* usage end?
    Failed                    -                     assistant? usage? end | usage? settings
    ContextOverflowed         -                     usage?
    ToolsRefused              -                     usage?
    Approved                  -                     approval? tool_started
    Denied                    -                     approval? tool_result
    ToolDone                  -                     (filter_plan | mail_sent | mail_taken)* tool_result
    NoteClosed                -                     end
    UsageRecorded             usage                 usage
    CommandFinished           command               command
    Send                      mail_sent             mail_sent
    MailArrived, Offered      -                     -

    end                       turn_end mail_sent* settings? filter?

Each cell is a pattern of kinds of events in their order: ? none or one, * any number, | either. While idle every
command can be refused for what it names, such as a mark that does not exist.

Opened        settings, if others are in force than the log has; the draft of a killed process as interrupted reply
Steered       refused while results of tools are awaited
Change        during a turn of the approval mode alone
Interrupted   the partial text as interrupted reply, as with Failed
Replied       no end while calls are left to run or the model paused; a failed one for `stop_reasons` and
              `repeated_failures`
Failed        settings of the next model, if this one is down and there is one
Forget        a front end makes a Filter of it, and the loop a Condensed of Condense
end           mail with the result, if another agent began the turn or the turn took work; settings of the first model,
              if another one answered; the filter of a planning talk, however it ended

Input that waits is refused here: `agent/input_queue` holds it until the turn has ended. Before the other inputs that
are refused, the loop makes sure that no turn is open.

Behind a turn_end `work` wants no job, so the loop cancels what runs: after Interrupted the model's stream and the
tools, each with its processes. Later requests say of a call without a result that it did not run or, if it was started,
that its outcome is unknown.

An input of a job that is no longer wanted is late: no event follows from it.
"""

from ikigai.core.agents.mail import join_messages
from ikigai.core.errors import Rejected
from ikigai.core.events.events import (
    CUT_OFF,
    FALLBACK_KEY,
    Cleared,
    CommandRan,
    Ending,
    Event,
    Filtered,
    FilterPlanned,
    Marked,
    Summarized,
    ToolStarted,
    TurnsRecalled,
    UserMessage,
)
from ikigai.core.events.messages import StopReason, ToolResult
from ikigai.core.request.reply import interrupted_events, is_own_call, reply_events
from ikigai.core.request.reply_draft import Draft, draft_blocks
from ikigai.core.state.decisions.accepted_message import accept_message
from ikigai.core.state.decisions.rewind import (
    next_label,
    redo_change,
    rewind_before,
    rewind_to_mark,
    rewind_to_turn,
    undo_change,
)
from ikigai.core.state.decisions.settings import (
    changed_default_system,
    changed_instructions,
    changed_mcp_tools,
    changed_skills,
    chosen_settings,
    settings_of_run,
)
from ikigai.core.state.decisions.turn_report import report_turn
from ikigai.core.state.decisions.unique_calls import with_unique_ids
from ikigai.core.state.fold import end_turn
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    CloseNote,
    Command,
    CommandFinished,
    Condense,
    Condensed,
    ContextOverflowed,
    DefaultSystemChanged,
    Denied,
    Edit,
    Failed,
    Filter,
    Forget,
    Input,
    InstructionsChanged,
    Interrupted,
    Job,
    MailArrived,
    MailDelivered,
    McpToolsChanged,
    NoteClosed,
    Offered,
    Opened,
    Plan,
    Quote,
    Redo,
    Replied,
    Retry,
    RewindAt,
    RewindTo,
    RunTool,
    Send,
    SetMark,
    SkillsChanged,
    StartTool,
    Steered,
    Submitted,
    ToolDone,
    ToolsRefused,
    Undo,
    UsageRecorded,
    acts_at_once,
)
from ikigai.core.state.memory import (
    AgentStatus,
    Memory,
    MemoryStart,
    replace,
    used_with_summary,
    used_without_open,
)
from ikigai.core.text.sanitize import storable


def work(memory: Memory) -> frozenset[Job]:
    """Return the jobs that should be under way, as a function of memory alone."""
    turn = memory.open
    if turn is None:
        return frozenset()
    if turn.alone:
        return frozenset({CloseNote(turn.first)})
    if not turn.pending:
        return frozenset({CallModel(turn.last)})
    return frozenset(RunTool(id, call) if call.id in turn.started else StartTool(id, call) for id, call in turn.pending)


def decide(memory: Memory, incoming: Input) -> tuple[Event, ...]:
    """Return the events that follow from the input, to be stored in one transaction. Raise Rejected if refused."""
    assert not memory.stale
    match incoming:
        case Submitted() if memory.open is None:  # first: the user waits, and each class takes a tenth of a µs to deny
            return _decide_while_idle(memory, incoming)
        case Opened(draft):
            settings = {key: value for key, value in memory.settings.items() if key != FALLBACK_KEY}
            recovered = _recover_turn(replace(memory, settings=settings), draft)
            return (*recovered, *settings_of_run(memory))  # which name the first model again
        case Replied(job=job) | Failed(job=job) | ContextOverflowed(job=job) | ToolsRefused(job=job) if job not in work(
            memory
        ):
            return ()
        case Approved(job=job) | Denied(job=job) | ToolDone(job=job) | NoteClosed(job=job) if job not in work(memory):
            return ()
        case UsageRecorded(usage):
            return (usage,)
        case MailArrived() | Offered():
            return ()
        case Send(mail):
            return (replace(mail, text=storable(mail.text)),)
        case CommandFinished(line, output):
            return (CommandRan(storable(line), storable(output)),)
        case ContextOverflowed(_, _, usage) | ToolsRefused(_, _, usage):  # the loop sends less, or comes with a Failed
            return (usage,) if usage else ()
        case Interrupted(blocks, usage):
            spent = (usage,) if usage else ()
            if memory.open is None:
                return spent
            partial = interrupted_events(with_unique_ids(memory, blocks), memory.model)
            return _end_turn(memory, (*partial, *spent), Ending.INTERRUPTED)
        case Replied():
            return _decide_replied(memory, incoming)
        case Failed():
            return _decide_failed(memory, incoming)
        case Approved(StartTool(_, call), decision):
            return (*((decision,) if decision else ()), ToolStarted(call.id))
        case Denied(_, result, decision):
            return (*((decision,) if decision else ()), *_results(memory, result))
        case ToolDone(_, result, extra_events):
            return (*extra_events, *_results(memory, result))
        case NoteClosed():
            return _end_turn(memory, (), Ending.COMPLETED)
        case Steered():
            if memory.status is AgentStatus.RUNNING_TOOLS:
                raise Rejected("The turn waits for the results of its tools.", "Send it after they have arrived.")
            message = UserMessage(incoming.text, incoming.images, documents=incoming.documents)
            return (accept_message(memory, message),)
        case Change(values) if acts_at_once(incoming):
            return chosen_settings(memory, values)
        case _ if memory.status is not AgentStatus.IDLE:
            raise Rejected(f"The agent is busy ({memory.status.value}).", "Stop it, or wait until it ends.")
        case _:
            return _decide_while_idle(memory, incoming)


def _decide_replied(memory: Memory, replied: Replied) -> tuple[Event, ...]:
    """Return the reply; behind it the end of the turn, unless it goes on."""
    from ikigai.core.state.decisions import repeated_failures, stop_reasons  # the first prompt needs none

    events = reply_events(with_unique_ids(memory, replied.blocks), replied.stop, memory.model)
    reply = (*repeated_failures.with_notes(memory, events), replied.usage)
    calls = tuple(filter(is_own_call, reply))
    if replied.stop is StopReason.PAUSED and not calls and stop_reasons.can_continue(memory, replied.blocks):
        return reply
    if not calls or replied.stop is StopReason.REFUSED:  # asked again it would refuse again
        reason = stop_reasons.no_text_reason(memory, replied)
        return _end_turn(memory, reply, Ending.COMPLETED, reason, counted=replied.counted)
    reason = stop_reasons.cut_calls_reason(memory, reply) or stop_reasons.unknown_tools_reason(memory, calls)
    if reason := reason or repeated_failures.repeated_failure_reason(memory, calls):
        return _end_turn(memory, reply, Ending.FAILED, reason)
    return reply


def _results(memory: Memory, result: ToolResult) -> tuple[Event, ...]:
    """Return the result of a call as it is stored."""
    if not result.is_error:
        return (result,)
    from ikigai.core.state.decisions.repeated_failures import with_notes

    return with_notes(memory, (result,))


def _decide_failed(memory: Memory, failed: Failed) -> tuple[Event, ...]:
    """Return the choice of the next model if this one is down and there is one; else the end of the turn."""
    spent = (failed.usage,) if failed.usage else ()
    if failed.outage and memory.run.fallback:
        from ikigai.core.state.decisions.fallback import fall_back  # few turns need it

        if change := fall_back(memory, failed.outage):
            return (*spent, change)
    partial = interrupted_events(with_unique_ids(memory, failed.blocks), memory.model)
    return _end_turn(memory, (*partial, *spent), Ending.FAILED, failed.reason)


def _plan(memory: Memory, plan: Plan) -> tuple[Event, ...]:
    """Return the message that begins a planning talk. Raise Rejected if none is possible here."""
    if not memory.run.planning():
        raise Rejected("Messages cannot be found by criteria here.", "Use /forget with ids.")
    if not memory.limits.tools:
        raise Rejected(
            f"{memory.model} does not support tools, so it cannot find messages by criteria.",
            "Use /forget with ids; /model chooses another model.",
        )
    return (replace(accept_message(memory, UserMessage(plan.criteria)), planning=plan.mode),)


def _decide_while_idle(
    memory: Memory,
    incoming: Submitted
    | InstructionsChanged
    | DefaultSystemChanged
    | McpToolsChanged
    | SkillsChanged
    | MailDelivered
    | Condensed
    | Command,
) -> tuple[Event, ...]:
    """Return the events that follow from an input that needs an idle agent. Raise Rejected if it is refused."""
    match incoming:
        case Submitted(text, images, sender, attended, documents, recalled):
            message = UserMessage(text, images, sender=sender, attended=attended, documents=documents)
            return (accept_message(memory, message), *_storable_recall(recalled))
        case InstructionsChanged(value):
            return changed_instructions(memory, value)
        case DefaultSystemChanged(value):
            return changed_default_system(memory, storable(value))
        case McpToolsChanged(value):
            return changed_mcp_tools(memory, value)
        case SkillsChanged(value):
            return changed_skills(memory, storable(value))
        case MailDelivered(mails):
            senders = ", ".join(dict.fromkeys(mail.shown for mail in mails))
            message = UserMessage(join_messages(mails), sender=senders)
            return (accept_message(memory, message), *(mail.taken for mail in mails))
        case Clear():
            if _is_cleared(memory):
                raise Rejected("The context is cleared already.", "Nothing was changed.")
            return (Cleared(memory.own, tuple(sorted(memory.run.overridden))),)
        case SetMark(label):
            return (Marked(label or next_label(memory)),)
        case RewindTo(label):
            return (rewind_to_mark(memory, label),)
        case RewindAt(to):
            return (rewind_to_turn(memory, to),)
        case Forget():
            raise Rejected("These ids have not been previewed.", "Type the command again.")
        case Condense():
            raise Rejected("There is no summary yet.", "Type /condense again.")
        case Condensed(summary, begins):
            return (_finish_summary(memory, summary, begins),)
        case Filter():
            return (_filtered(memory, incoming),)
        case Plan():
            return _plan(memory, incoming)
        case Quote(text):
            return (UserMessage(storable(text), alone=True),)
        case Undo(id):
            return (undo_change(memory, id),)
        case Redo():
            return (redo_change(memory),)
        case Retry(recalled):
            back, message = rewind_before(memory)
            return (back, accept_message(memory, message), *_storable_recall(recalled))
        case Edit(id):
            return rewind_before(memory, id)[:1]
        case Change(values):
            return chosen_settings(memory, values)


def _end_turn(
    memory: Memory, last: tuple[Event, ...], ending: Ending, reason: str = "", counted: int = 0
) -> tuple[Event, ...]:
    """Return the `last` events of the turn and its end; for a planning talk, also its filter."""
    turn = memory.open
    assert turn
    ended = end_turn(memory, last, ending, reason, counted)
    events = (*last, ended, *report_turn(memory, last, ending, reason))
    if memory.settings.get(FALLBACK_KEY):
        from ikigai.core.state.decisions.fallback import first_model_again

        events += first_model_again(memory)
    if not turn.planning:
        return events
    plan = turn.plan or FilterPlanned()
    planned, used = (plan.ranges, plan.ids, turn.first, plan.messages), used_without_open(memory)
    return (*events, Filtered(turn.planning, turn.criteria, *planned, used, used))


def _recover_turn(memory: Memory, draft: Draft | None) -> tuple[Event, ...]:
    """Close the turn that a killed process left open, with the part of the reply in its draft."""
    if memory.open is None:
        return ()
    if memory.open.alone:
        return _end_turn(memory, (), Ending.COMPLETED)
    reply: tuple[Event, ...] = ()
    if draft and CallModel(draft.asked_by) in work(memory):
        reply = interrupted_events(with_unique_ids(memory, draft_blocks(draft)), memory.model)
    return _end_turn(memory, reply, Ending.INTERRUPTED, CUT_OFF)


def _is_cleared(memory: Memory) -> bool:
    """Return True if nothing that a clear would take away has come since the last one."""
    newest = memory.changes[-1].id if memory.changes else None
    return memory.cleared is not None and memory.cleared == newest and not (memory.full_window.turns or memory.marks)


def _storable_recall(recalled: TurnsRecalled | None) -> tuple[Event, ...]:
    return (replace(recalled, text=storable(recalled.text)),) if recalled else ()


def _filtered(memory: Memory, chosen: Filter) -> Filtered:
    """Return the filter that the user confirmed. Raise Rejected if what it names has changed since it was looked up."""
    if chosen.start and memory.start_up_to(chosen.last) != chosen.start:
        raise Rejected("Nothing was forgotten, because the context has changed since.", "Type the command again.")
    used = memory.used
    return Filtered("forget", chosen.criteria, chosen.ranges, chosen.ids, 0, chosen.messages, used, used)


def _finish_summary(memory: Memory, summary: Summarized, begins: MemoryStart | None) -> Summarized:
    """Return the summary with the sizes before and after it. Raise Rejected if the events that it covers changed."""
    summary = replace(summary, text=storable(summary.text), focus=storable(summary.focus))
    if summary.closed:
        return summary
    if memory.start_up_to(summary.upto) != begins:
        raise Rejected("The summary was discarded, because the context has changed since.", "/condense makes another.")
    return replace(summary, before=memory.used, after=used_with_summary(memory, summary))
