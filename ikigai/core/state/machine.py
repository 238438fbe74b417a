"""The agent without IO: what happened → which facts follow, and which jobs should be under way.

    happened        while idle                    while a turn is open
    Opened          settings, if they differ      the draft as interrupted reply, turn_end interrupted, settings
    Submitted, Plan, Quote   user                 refused (the loop queues it)
    Steered         user                          user; refused while results are awaited (the loop keeps it)
    Replied         -                             the reply; turn_end completed behind it without calls or if refused,
                                                  failed behind the third in a row that calls only what is not there
    Failed          -                             what was said as interrupted reply, turn_end failed
    Exceeded        -                             usage (the loop has sent less by then, or makes a Failed of it)
    Used, Ran       usage, command                usage, command
    Send            mail_sent                     mail_sent
    Heard           -                             -
    Mailed          user, mail_taken of each      refused (the loop looks while idle)
    Approved        -                             approval, tool_started
    Denied          -                             approval, tool_result
    ToolDone        -                             tool_result
    Noted           -                             turn_end completed
    Interrupted     -                             what was said as interrupted reply, turn_end interrupted
    Clear, SetMark, RewindTo, RewindAt, Filter, Undo, Edit, Change   the fact, refused while busy (the loop queues it)
    Condensed       summary, refused if what it covers has changed since    refused while busy (the loop queues it)
    Instructed      settings, if they differ         refused (the loop looks while idle)
    Retry           rewind, user                  refused (the loop queues it)

Behind the turn_end of a turn that another agent began, or that has taken work, stands what came of it, as mail to whom
this agent works for and to whoever gave the work.
Behind the turn_end of a talk that plans a filter stands the filter, however the talk ended: what was planned, and the
talk itself, leave memory.

A Replied, Failed, Exceeded, Approved or ToolDone whose job is no longer wanted is late, and nothing follows from it.
"""

from ikigai.core import tokens
from ikigai.core.agents.mail import together
from ikigai.core.errors import Refused
from ikigai.core.events import (
    Cleared,
    CommandRan,
    Ending,
    Event,
    Filtered,
    FilterPlanned,
    Marked,
    Summarised,
    ToolStarted,
    UserMessage,
)
from ikigai.core.messages import Image, ReplyBlock, Role, StopReason, Text, Thinking, ToolCall
from ikigai.core.request.build import grow
from ikigai.core.request.reply import facts, interrupted, storable_blocks
from ikigai.core.request.reply_draft import Draft
from ikigai.core.sanitize import storable
from ikigai.core.state.fold import ended
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    Command,
    Condense,
    Condensed,
    Denied,
    Edit,
    Exceeded,
    Failed,
    Filter,
    Forget,
    Heard,
    Input,
    Instructed,
    Interrupted,
    Job,
    Mailed,
    Note,
    Noted,
    Opened,
    Plan,
    Quote,
    Ran,
    Replied,
    Retry,
    RewindAt,
    RewindTo,
    RunTool,
    Send,
    SetMark,
    StartTool,
    Steered,
    Submitted,
    ToolDone,
    Undo,
    Used,
)
from ikigai.core.state.memory import (
    Beginning,
    Memory,
    Status,
    measured,
    offered,
    replace,
    used_with_summary,
    used_without_open,
)
from ikigai.core.state.rewind import before_newest, next_number, rewound, rewound_at, undone
from ikigai.core.state.settings import chosen, reconfigured, reinstructed
from ikigai.core.state.turn_report import report

CERTAINLY = 4
"""Times the model's context from which a message is refused unsent: below that, bytes may have counted too many."""


def work(memory: Memory) -> frozenset[Job]:
    """The jobs that should be under way, as a function of memory alone."""
    turn = memory.open
    if turn is None:
        return frozenset()
    if turn.alone:
        return frozenset({Note(turn.first)})
    if not turn.pending:
        return frozenset({CallModel(turn.last)})
    return frozenset(RunTool(id, call) if call.id in turn.started else StartTool(id, call) for id, call in turn.pending)


def decide(memory: Memory, happened: Input) -> tuple[Event, ...]:
    """The facts that follow, to be stored in one transaction. Raises Refused."""
    assert not memory.stale
    match happened:
        case Opened(draft):
            return (*_recovered(memory, draft), *reconfigured(memory))
        case Replied(to=job) | Failed(to=job) | Exceeded(to=job) if job not in work(memory):
            return ()
        case Approved(to=job) | Denied(to=job) | ToolDone(of=job) | Noted(to=job) if job not in work(memory):
            return ()
        case Used(usage):
            return (usage,)
        case Heard():
            return ()
        case Send(mail):
            return (replace(mail, text=storable(mail.text)),)
        case Ran(line, output):
            return (CommandRan(storable(line), storable(output)),)
        case Exceeded(_, _, usage):  # the loop sends less, or says that it failed
            return (usage,) if usage else ()
        case Interrupted(said, usage):
            spent = (usage,) if usage else ()
            if memory.open is None:
                return spent
            return _stopped(memory, (*interrupted(said, memory.model), *spent), Ending.INTERRUPTED)
        case Replied(_, blocks, stop, usage, counted):
            said = (*facts(_distinct(memory, blocks), stop, memory.model), usage)
            calls = tuple(fact for fact in said if isinstance(fact, ToolCall))
            if not calls or stop is StopReason.REFUSED:  # asked again it would refuse again
                return _stopped(memory, said, Ending.COMPLETED, counted=counted)
            if why := _astray(memory, calls):
                return _stopped(memory, said, Ending.FAILED, why)
            return said
        case Failed(_, reason, blocks, usage):
            spent = (usage,) if usage else ()
            return _stopped(memory, (*interrupted(blocks, memory.model), *spent), Ending.FAILED, reason)
        case Approved(StartTool(_, call), decision):
            return (*((decision,) if decision else ()), ToolStarted(call.id))
        case Denied(_, result, decision):
            return (*((decision,) if decision else ()), result)
        case ToolDone(_, result, also):
            return (*also, result)
        case Noted():
            return _stopped(memory, (), Ending.COMPLETED)
        case Steered(text, images):
            if memory.status is Status.RUNNING_TOOLS:
                raise Refused("The turn waits for the results of its tools.", "Send it when they have come.")
            return _submitted(memory, text, images)
        case _ if memory.status is not Status.IDLE:
            raise Refused(f"The agent is busy ({memory.status.value}).", "Esc stops it.")
        case _:
            return _while_idle(memory, happened)


def _while_idle(memory: Memory, happened: Submitted | Instructed | Mailed | Condensed | Command) -> tuple[Event, ...]:
    """The facts that follow from what the loop queues while a turn is open. Raises Refused."""
    match happened:
        case Instructed(value):
            return reinstructed(memory, value)
        case Submitted(text, images, sender, attended):
            return _submitted(memory, text, images, sender, attended)
        case Mailed(mails):
            begun = _submitted(memory, together(mails), (), ", ".join(dict.fromkeys(mail.shown for mail in mails)))
            return (*begun, *(mail.taken for mail in mails))
        case Clear():
            return (Cleared(memory.own),)
        case SetMark(label):
            return (Marked(label or next_number(memory)),)
        case RewindTo(label):
            return (rewound(memory, label),)
        case RewindAt(to):
            return (rewound_at(memory, to),)
        case Forget():
            raise Refused("Nobody has looked what these ids are.", "Name them again.")
        case Condense():
            raise Refused("Nobody has made a summary.", "Ask for it again.")
        case Condensed(summary, begins):
            return (_summarised(memory, summary, begins),)
        case Filter(ranges, ids, messages, criteria):
            return (Filtered("forget", criteria, ranges, ids, 0, messages, memory.used, memory.used),)
        case Plan(mode, criteria):
            if not memory.run.planning():
                raise Refused("Nothing here can look for messages by criteria.", "/forget takes ids, too.")
            if not memory.limits.tools:
                raise Refused(
                    f"{memory.model} takes no tools, and looks for no messages by criteria.",
                    "/forget takes ids, too; /model chooses another model.",
                )
            asked = _submitted(memory, criteria, ())
            return tuple(replace(fact, planning=mode) for fact in asked)
        case Quote(text):
            return (UserMessage(storable(text), alone=True),)
        case Undo(id):
            return (undone(memory, id),)
        case Retry():
            back, text, images = before_newest(memory)
            return (back, *_submitted(memory, text, images))
        case Edit():
            return before_newest(memory)[:1]
        case Change(values):
            return chosen(memory, values)


def _stopped(
    memory: Memory, said: tuple[Event, ...], ending: Ending, reason: str = "", counted: int = 0
) -> tuple[Event, ...]:
    """The end of the turn; of a planning talk, with the filter that it came to."""
    turn = memory.open
    assert turn
    facts = (*said, ended(memory, said, ending, reason, counted), *report(memory, said, ending, reason))
    if not turn.planning:
        return facts
    plan = turn.plan or FilterPlanned()
    named, used = (plan.ranges, plan.ids, turn.first, plan.messages), used_without_open(memory)
    return (*facts, Filtered(turn.planning, turn.criteria, *named, used, used))


def _astray(memory: Memory, calls: tuple[ToolCall, ...]) -> str:
    """Why a turn is given up whose replies call only tools that are not offered, ASTRAY in a row; "" to go on."""
    known = {tool.name for tool in offered(memory)}
    turn = memory.open
    if turn is None or turn.requests < ASTRAY - 1:
        return ""
    replies = [message.calls for message in turn.messages if message.role is Role.ASSISTANT][1 - ASTRAY :]
    earlier = [call for reply in replies for call in reply]
    if len(replies) < ASTRAY - 1:  # older ones had to make room
        earlier = [call for _, call in turn.calls]
    if any(call.name in known for call in (*earlier, *calls)):
        return ""
    names = ", ".join(dict.fromkeys(call.name[:NAMED] for call in calls[:NAMES]))
    return f"{memory.model} keeps calling tools that do not exist ({names}). /model chooses another."


ASTRAY = 3
"""Rounds after which a model that was told each time which tools there are will not find one."""
NAMES, NAMED = 5, 40
"""Names of such tools that are said, and characters of each."""


def _recovered(memory: Memory, draft: Draft | None) -> tuple[Event, ...]:
    """Close the turn that a dead program left open, with what it had said."""
    if memory.open is None:
        return ()
    said: tuple[Event, ...] = ()
    if draft and CallModel(draft.asked_by) in work(memory):
        said = interrupted((Thinking(draft.thinking), Text(draft.text)), memory.model)
    if memory.open.alone:
        return _stopped(memory, (), Ending.COMPLETED)
    return _stopped(memory, said, Ending.INTERRUPTED, "the program ended")


def _distinct(memory: Memory, blocks: tuple[ReplyBlock, ...]) -> tuple[ReplyBlock, ...]:
    """The same blocks, each call under an id of its own: results are matched by it, and vendors refuse it twice."""
    taken = _ids(memory) if any(isinstance(block, ToolCall) for block in blocks) else set[str]()
    found: list[ReplyBlock] = []
    for block in storable_blocks(blocks):
        if isinstance(block, ToolCall):
            given = block.id or "call"
            id, n = given, 1
            while id in taken:
                n += 1
                id = f"{given}_{n}"
            taken.add(id)
            block = ToolCall(id, block.name, block.arguments, block.malformed)
        found.append(block)
    return tuple(found)


def _ids(memory: Memory) -> set[str]:
    """The ids of all calls in context, and of those of the open turn that were dropped from it."""
    first = (memory.full.first,) if memory.full.first else ()
    ended = {call.id for turn in (*first, *memory.full.turns) for message in turn.messages for call in message.calls}
    return ended | {call.id for _, call in memory.open.calls} if memory.open else ended


def _submitted(
    memory: Memory, text: str, images: tuple[Image, ...], sender: str = "", attended: bool = False
) -> tuple[Event, ...]:
    text, sender = storable(text), storable(sender)
    if not memory.model:
        raise Refused("There is no model to ask.", "Type /model PROVIDER/NAME, or run: ikigai login or ikigai setup")
    asked = measured(memory, grow((), UserMessage(text, images, sender=sender)))
    alone = tokens.count(memory.provider, memory.model, memory.envelope + asked)
    if alone > CERTAINLY * memory.limits.context:
        raise Refused(
            f"This message takes about {tokens.short(alone)} tokens, and {memory.model} takes"
            f" {tokens.short(memory.limits.context)} in all.",
            "Send less of it, or choose a model with a larger context with /model.",
        )
    if not memory.budget:
        size = tokens.count(memory.provider, memory.model, memory.size + asked)
        if memory.window.turns and size > memory.room:
            raise Refused(
                f"Context full: {tokens.short(size)} of {tokens.short(memory.room)} tokens, and the window is off.",
                "Use /clear or /rewind, or switch the window on with /budget 100k.",
            )
    return (UserMessage(text, images, sender=sender, attended=attended),)


def _summarised(memory: Memory, summary: Summarised, begins: Beginning | None) -> Summarised:
    """The summary with what it saves, if all that it covers is still in memory as it was."""
    summary = replace(summary, text=storable(summary.text), focus=storable(summary.focus))
    if summary.closed:
        return summary
    if memory.begins(summary.upto) != begins:
        raise Refused("The summary was discarded: memory begins otherwise now.", "/condense makes another.")
    return replace(summary, before=memory.used, after=used_with_summary(memory, summary))
