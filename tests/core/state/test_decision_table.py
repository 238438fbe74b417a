"""Table of the state machine: for each state and input, the events, the next status and the wanted jobs."""

import itertools
import re
from collections.abc import Callable
from typing import get_args

import pytest

from ikigai.core.agents.mail import WORKS_FOR, Mail
from ikigai.core.context.forget_selection import EventRange
from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import (
    Image,
    ReplyBlock,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.decisions import decisions
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.decisions.rewind import text_to_edit
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import (
    NEEDS_IDLE,
    Approved,
    CallModel,
    Change,
    Clear,
    CloseNote,
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
)
from ikigai.core.state.memory import AgentStatus
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder, limits

# The states. "idle" has a turn with the call o behind it and the mark m; "tools" has c1 asked for, c2 begun, c3 done;
# "astray" has two rounds of calls that are all of no tool, "mixed" the same with one of a tool in the first.
# Events: ! stands for interrupted or an error. Jobs: "call" the model, "start" or "run" a tool.
TABLE = """
state   | input              | facts                                                     | then    | jobs

idle    | open               |                                                           | idle    |
idle    | open, draft        |                                                           | idle    |
idle    | open, other budget | settings(budget)                                          | idle    |
idle    | submit             | user                                                      | waiting | call
idle    | submit, recalled   | user recall                                               | waiting | call
idle    | submit nothing     | user                                                      | waiting | call
idle    | submit a picture   | user                                                      | waiting | call
idle    | steer              | user                                                      | waiting | call
idle    | interrupt          |                                                           | idle    |
idle    | interrupt, words   |                                                           | idle    |
idle    | interrupt, usage   | usage                                                     | idle    |
idle    | used               | usage                                                     | idle    |
idle    | heard              |                                                           | idle    |
idle    | offer              |                                                           | idle    |
idle    | send               | mail_sent                                                 | idle    |
idle    | mail               | user mail_taken mail_taken                                | waiting | call
idle    | reply              |                                                           | idle    |
idle    | fail               |                                                           | idle    |
idle    | exceeded           |                                                           | idle    |
idle    | tools refused      |                                                           | idle    |
idle    | approve c1         |                                                           | idle    |
idle    | deny c1            |                                                           | idle    |
idle    | result of c2       |                                                           | idle    |
idle    | clear              | clear                                                     | idle    |
idle    | mark               | mark(1)                                                   | idle    |
idle    | mark 7             | mark(7)                                                   | idle    |
idle    | rewind             | rewind                                                    | idle    |
idle    | rewind m           | rewind                                                    | idle    |
idle    | rewind elsewhere   | refused: There is no mark "elsewhere".                    | idle    |
idle    | change budget      | settings(budget)                                          | idle    |
idle    | change the mode    | settings(approval)                                        | idle    |
idle    | instruct           | settings(instructions)                                    | idle    |
idle    | instruct nothing   |                                                           | idle    |
idle    | describe           | settings(default_system)                                  | idle    |
idle    | offer MCP tools    | settings(mcp_tools)                                       | idle    |
idle    | offer skills       | settings(skills)                                          | idle    |
idle    | rewind to 0        | rewind                                                    | idle    |
idle    | rewind at the end  | refused: Nothing in the context comes after event 20.     | idle    |
idle    | forget ids         | refused: These ids have not been previewed.            | idle    |
idle    | filter             | filter                                                    | idle    |
idle    | plan               | user                                                      | waiting | call
idle    | condense           | refused: There is no summary yet.                       | idle    |
idle    | condensed          | summary                                                   | idle    |
idle    | condensed, late    | refused: The summary was discarded, because the context has changed since. | idle |
idle    | condensed, cleared | summary                                                   | idle    |
idle    | quote              | user                                                      | waiting | note
idle    | undo               | refused: There is nothing to undo.                        | idle    |
idle    | undo 1             | refused: #1 cannot be undone.                             | idle    |
idle    | redo               | refused: There is nothing to redo.                        | idle    |
idle    | retry              | rewind user                                               | waiting | call
idle    | retry, recalled    | rewind user recall                                        | waiting | call
idle    | edit               | rewind                                                    | idle    |
idle    | ran                | command                                                   | idle    |
idle    | noted              |                                                           | idle    |
idle    | change nothing     | refused: Already set.                                     | idle    |

waiting | open               | turn_end(interrupted)                                     | idle    |
waiting | open, draft        | assistant! turn_end(interrupted)                          | idle    |
waiting | open, empty draft  | turn_end(interrupted)                                     | idle    |
waiting | open, old draft    | turn_end(interrupted)                                     | idle    |
waiting | open, other budget | turn_end(interrupted) settings(budget)                    | idle    |
waiting | submit             | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | steer              | user                                                      | waiting | call
waiting | mail               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | instruct           | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | describe           | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | offer MCP tools    | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | offer skills       | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | interrupt          | turn_end(interrupted)                                     | idle    |
waiting | interrupt, words   | assistant! turn_end(interrupted)                          | idle    |
waiting | interrupt, usage   | usage turn_end(interrupted)                               | idle    |
waiting | interrupt, both    | assistant! usage turn_end(interrupted)                    | idle    |
waiting | used               | usage                                                     | waiting | call
waiting | heard              |                                                           | waiting | call
waiting | offer              |                                                           | waiting | call
waiting | send               | mail_sent                                                 | waiting | call
waiting | interrupt, thought | assistant! turn_end(interrupted)                          | idle    |
waiting | interrupt, call    | assistant! turn_end(interrupted)                          | idle    |
waiting | reply              | assistant usage turn_end(completed)                       | idle    |
waiting | reply nothing      | assistant usage turn_end(completed)                       | idle    |
waiting | reply, calls       | assistant tool_call(x) tool_call(y) usage                 | tools   | start x, start y
waiting | reply, only a call | assistant tool_call(x) usage                              | tools   | start x
waiting | reply, words amid  | assistant tool_call(x) assistant tool_call(y) usage       | tools   | start x, start y
waiting | reply, same ids    | assistant tool_call(x) tool_call(x_2) usage               | tools   | start x, start x_2
waiting | reply, id of old   | assistant tool_call(o_2) usage                            | tools   | start o_2
waiting | reply, no id       | assistant tool_call(call) usage                           | tools   | start call
waiting | reply, malformed   | assistant tool_call(b) tool_result(b)! usage              | waiting | call
waiting | reply, both        | assistant tool_call(b) tool_call(x) tool_result(b)! usage | tools   | start x
waiting | reply, cut off     | assistant tool_call(x) tool_call(y) tool_result(y)! usage | tools   | start x
waiting | reply, refused     | assistant usage turn_end(completed)                       | idle    |
waiting | reply, refused call | assistant tool_call(x) tool_result(x)! usage turn_end(completed) | idle    |
waiting | late reply         |                                                           | waiting | call
waiting | fail               | usage turn_end(failed)                                    | idle    |
waiting | fail, words        | assistant! usage turn_end(failed)                         | idle    |
waiting | fail, unsent       | turn_end(failed)                                          | idle    |
waiting | late fail          |                                                           | waiting | call
waiting | exceeded           | usage                                                     | waiting | call
waiting | exceeded, unsent   |                                                           | waiting | call
waiting | late exceeded      |                                                           | waiting | call
waiting | tools refused      | usage                                                     | waiting | call
waiting | late tools refused |                                                           | waiting | call
waiting | approve c1         |                                                           | waiting | call
waiting | deny c1            |                                                           | waiting | call
waiting | result of c2       |                                                           | waiting | call
waiting | clear              | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | mark               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | rewind             | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | rewind to 0        | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | forget ids         | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | filter             | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | plan               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | condense           | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | condensed          | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | quote              | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | undo               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | redo               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | retry              | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | edit               | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | ran                | command                                                   | waiting | call
waiting | noted              |                                                           | waiting | call
waiting | change budget      | refused: The agent is busy (waiting for the model).       | waiting | call
waiting | change the mode    | settings(approval)                                        | waiting | call

tools   | open               | turn_end(interrupted)                                     | idle    |
tools   | open, draft        | turn_end(interrupted)                                     | idle    |
tools   | open, other budget | turn_end(interrupted) settings(budget)                    | idle    |
tools   | submit             | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | steer              | refused: The turn waits for the results of its tools.     | tools   | start c1, run c2
tools   | mail               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | instruct           | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | describe           | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | offer MCP tools    | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | offer skills       | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | interrupt          | turn_end(interrupted)                                     | idle    |
tools   | interrupt, usage   | usage turn_end(interrupted)                               | idle    |
tools   | used               | usage                                                     | tools   | start c1, run c2
tools   | heard              |                                                           | tools   | start c1, run c2
tools   | offer              |                                                           | tools   | start c1, run c2
tools   | send               | mail_sent                                                 | tools   | start c1, run c2
tools   | reply              |                                                           | tools   | start c1, run c2
tools   | fail               |                                                           | tools   | start c1, run c2
tools   | exceeded           |                                                           | tools   | start c1, run c2
tools   | tools refused      |                                                           | tools   | start c1, run c2
tools   | approve c1         | tool_started(c1)                                          | tools   | run c1, run c2
tools   | approve c1, why    | approval tool_started(c1)                                 | tools   | run c1, run c2
tools   | deny c1            | approval tool_result(c1)!                                 | tools   | run c2
tools   | deny c1, unasked   | tool_result(c1)!                                          | tools   | run c2
tools   | deny c2            |                                                           | tools   | start c1, run c2
tools   | approve c2         |                                                           | tools   | start c1, run c2
tools   | approve c3         |                                                           | tools   | start c1, run c2
tools   | result of c1       |                                                           | tools   | start c1, run c2
tools   | result of c2       | tool_result(c2)                                           | tools   | start c1
tools   | error of c2        | tool_result(c2)!                                          | tools   | start c1
tools   | result of c3       |                                                           | tools   | start c1, run c2
tools   | clear              | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | mark               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | rewind             | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | rewind to 0        | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | forget ids         | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | filter             | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | plan               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | condense           | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | condensed          | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | quote              | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | undo               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | redo               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | retry              | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | edit               | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | ran                | command                                                   | tools   | start c1, run c2
tools   | noted              |                                                           | tools   | start c1, run c2
tools   | change budget      | refused: The agent is busy (running tools).               | tools   | start c1, run c2
tools   | change the mode    | settings(approval)                                        | tools   | start c1, run c2

tools   | answer of c2       | mail_sent mail_taken tool_result(c2)                      | tools   | start c1
last    | result of c1       | tool_result(c1)                                           | waiting | call

quoting | noted              | turn_end(completed)                                       | idle    |
quoting | interrupt          | turn_end(interrupted)                                     | idle    |
quoting | open               | turn_end(completed)                                       | idle    |

planning | reply             | assistant usage turn_end(completed) filter                | idle    |
planning | fail              | usage turn_end(failed) filter                             | idle    |
planning | interrupt         | turn_end(interrupted) filter                              | idle    |
planning | open              | turn_end(interrupted) filter                              | idle    |
planning | open, other budget | turn_end(interrupted) filter settings(budget)            | idle    |
applying | plan made         | filter_plan tool_result(p)                                | waiting | call
undoing | undo               | undo                                                      | idle    |
undone  | redo               | undo                                                      | idle    |

working | reply              | assistant usage turn_end(completed) mail_sent             | idle    |
falling | fail, outage       | usage settings(model, level, fallback)                    | waiting | call
fallen  | reply              | assistant usage turn_end(completed) settings(model, level, fallback) | idle |

astray  | reply              | assistant usage turn_end(completed)                       | idle    |
astray  | reply, calls       | assistant tool_call(x) tool_call(y) usage turn_end(failed) | idle   |
astray  | reply, malformed   | assistant tool_call(b) tool_result(b)! usage turn_end(failed) | idle |
astray  | reply, a real one  | assistant tool_call(x) tool_call(t) usage                 | tools   | start x, start t
mixed   | reply, calls       | assistant tool_call(x) tool_call(y) usage                 | tools   | start x, start y
"""

CELLS = [tuple(cell.strip() for cell in line.split("|")) for line in TABLE.splitlines()[3:] if line]


def idle() -> Agent:
    agent = Agent(RunConfig(RUN.below, limits, encoder, planning=lambda: (ToolSpec("filter_context", "", "{}"),)))
    agent.happen(Submitted("?"))
    agent.reply(ToolCall("o", "look", "{}", malformed="["))
    agent.reply(Text("!"))
    agent.happen(SetMark("m"))
    return agent


def waiting() -> Agent:
    agent = idle()
    agent.happen(Submitted("Do it."))
    return agent


def tools() -> Agent:
    agent = waiting()
    agent.reply(Text("I will."), *(ToolCall(id, "look") for id in ("c1", "c2", "c3")))
    agent.happen(Approved(agent.job(StartTool, 1)))
    agent.happen(Approved(agent.job(StartTool, 1)))
    agent.happen(ToolDone(agent.job(RunTool, 1), ToolResult("c3", "seen")))
    return agent


def last() -> Agent:
    """Return an agent with one tool still running."""
    agent = tools()
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("c2", "seen")))
    agent.happen(Approved(agent.job(StartTool)))
    return agent


def astray(*first: str) -> Agent:
    """Return an agent that waits behind two rounds of calls; there is one tool, `touch`."""
    agent = Agent(RunConfig(RUN.below, limits, encoder, tools=(ToolSpec("touch", "", "{}"),)))
    agent.happen(Submitted("Do it."))
    for names in (("look", *first), ("look",)):
        agent.reply(*(ToolCall("", name) for name in names))
        while agent.memory.status is AgentStatus.RUNNING_TOOLS:
            agent.happen(Approved(agent.job(StartTool)))
            agent.happen(ToolDone(job := agent.job(RunTool), ToolResult(job.call.id, "No.", is_error=True)))
    return agent


def mixed() -> Agent:
    return astray("touch")


def quoting() -> Agent:
    agent = idle()
    agent.happen(Quote("> said before"))
    return agent


def planning() -> Agent:
    agent = idle()
    agent.happen(Plan("forget", "all of it"))
    return agent


def applying() -> Agent:
    agent = planning()
    agent.reply(ToolCall("p", "filter_context"))
    agent.happen(Approved(agent.job(StartTool)))
    return agent


def undoing() -> Agent:
    agent = idle()
    agent.happen(Clear())
    return agent


def undone() -> Agent:
    agent = undoing()
    agent.happen(Undo())
    return agent


def working() -> Agent:
    """Return an agent in a turn that another agent began."""
    agent = worker()
    agent.happen(Submitted("Do it.", sender="heron"))
    return agent


def falling() -> Agent:
    agent = Agent(RunConfig({**RUN.below, "level": ""}, limits, encoder, fallback=(("chat/small", ""),)))
    agent.happen(Submitted("Do it."))
    return agent


def fallen() -> Agent:
    agent = falling()
    agent.happen(INPUTS["fail, outage"](agent))
    return agent


def reply(*said: ReplyBlock, late: bool = False, stop: StopReason = StopReason.END) -> Callable[[Agent], Input]:
    return lambda agent: Replied(asked(agent, late), said, stop, ev.UsageReported("m"))


def fail(*said: ReplyBlock, late: bool = False) -> Callable[[Agent], Input]:
    return lambda agent: Failed(asked(agent, late), "It broke.", said, ev.UsageReported("m"))


def asked(agent: Agent, late: bool) -> CallModel:
    """Return the job of asking the model, now or before the turn."""
    return CallModel(1 if late or not agent.memory.open else agent.memory.open.last)


def call(agent: Agent, id: str) -> tuple[int, ToolCall]:
    """Return a call of the open turn with the id of its event; an unknown call if the turn has none."""
    calls = agent.memory.open.calls if agent.memory.open else ()
    return next((found for found in calls if found[1].id == id), (1, ToolCall(id, "look")))


def denied(agent: Agent, id: str) -> Denied:
    why = ev.ApprovalDecided(id, False, "user", "not now")
    return Denied(StartTool(*call(agent, id)), ToolResult(id, "no", is_error=True), why)


def draft(text: str, off: int = 0) -> Callable[[Agent], Input]:
    return lambda agent: Opened(Draft((agent.memory.open.last if agent.memory.open else 1) + off, text))


def x(id: str = "x") -> ToolCall:
    return ToolCall(id, "look")


def condensed(agent: Agent, late: bool = False) -> Condensed:
    """Return a summary of the whole memory, made before or behind another one."""
    begins = agent.memory.start_up_to(20)
    if late:
        agent.happen(Condensed(ev.Summarized("It was.", 20), begins))
    return Condensed(ev.Summarized("It was.", 20), begins)


USAGE = ev.UsageReported("m", Usage(70, 3), size=280)
RECALLED = ev.TurnsRecalled("It was.")
BAD = ToolCall("b", "look", "{}", malformed="[")
INPUTS: dict[str, Callable[[Agent], Input]] = {
    "open": lambda agent: Opened(),
    "open, draft": draft("I was say"),
    "open, empty draft": draft(""),
    "open, old draft": draft("I was say", off=-1),
    "open, other budget": lambda agent: Opened(),
    "submit": lambda agent: Submitted("Hello."),
    "steer": lambda agent: Steered("And mind the gap."),
    "instruct": lambda agent: InstructionsChanged("Obey."),
    "instruct nothing": lambda agent: InstructionsChanged(""),
    "describe": lambda agent: DefaultSystemChanged("Date: 1"),
    "offer MCP tools": lambda agent: McpToolsChanged('{"deferred":["files"]}'),
    "offer skills": lambda agent: SkillsChanged("Skills:\n- pdf: Extracts text."),
    "submit nothing": lambda agent: Submitted(""),
    "submit a picture": lambda agent: Submitted("", (Image("image/png", "iVBO", 2, 1),)),
    "submit, recalled": lambda agent: Submitted("Do it.", recalled=RECALLED),
    "interrupt": lambda agent: Interrupted(),
    "interrupt, words": lambda agent: Interrupted((Text("I was say"),)),
    "interrupt, thought": lambda agent: Interrupted((Thinking("Hm."),)),
    "interrupt, call": lambda agent: Interrupted((Text("I look."), x())),
    "interrupt, usage": lambda agent: Interrupted((), USAGE),
    "interrupt, both": lambda agent: Interrupted((Text("I was say"),), USAGE),
    "used": lambda agent: UsageRecorded(USAGE),
    "heard": lambda agent: MailArrived(),
    "offer": lambda agent: Offered(()),
    "send": lambda agent: Send(ev.MailSent("b", "Look again.", "heron")),
    "mail": lambda agent: MailDelivered((Mail(1, "b", "heron", "Done."), Mail(2, "b", "heron", "Sorry."))),
    "reply": reply(Text("Yes.")),
    "reply nothing": reply(),
    "reply, calls": reply(Text("I look."), x(), x("y")),
    "reply, only a call": reply(x()),
    "reply, words amid": reply(Text("This"), x(), Text("and that"), x("y")),
    "reply, same ids": reply(Text("I look."), x(), x()),
    "reply, id of old": reply(x("o")),
    "reply, no id": reply(x("")),
    "reply, malformed": reply(BAD),
    "reply, both": reply(BAD, x()),
    "reply, cut off": reply(Text("I look."), x(), x("y"), stop=StopReason.LENGTH),
    "reply, refused": reply(stop=StopReason.REFUSED),
    "reply, refused call": reply(Text("I look."), x(), stop=StopReason.REFUSED),
    "reply, a real one": reply(x(), ToolCall("t", "touch")),
    "late reply": reply(Text("Yes."), late=True),
    "fail": fail(),
    "fail, words": fail(Text("I was say")),
    "fail, unsent": lambda agent: Failed(asked(agent, False), "There is no model.", ()),
    "fail, outage": lambda agent: Failed(asked(agent, False), "It is down.", (), ev.UsageReported("m"), "It is down."),
    "late fail": fail(late=True),
    "exceeded": lambda agent: ContextOverflowed(asked(agent, False), "Too long.", USAGE),
    "exceeded, unsent": lambda agent: ContextOverflowed(asked(agent, False), "Too long."),
    "late exceeded": lambda agent: ContextOverflowed(asked(agent, True), "Too long.", USAGE),
    "tools refused": lambda agent: ToolsRefused(asked(agent, False), "No tools.", USAGE),
    "late tools refused": lambda agent: ToolsRefused(asked(agent, True), "No tools.", USAGE),
    "approve c1": lambda agent: Approved(StartTool(*call(agent, "c1"))),
    "approve c2": lambda agent: Approved(StartTool(*call(agent, "c2"))),
    "approve c3": lambda agent: Approved(StartTool(*call(agent, "c3"))),
    "approve c1, why": lambda agent: Approved(
        StartTool(*call(agent, "c1")), ev.ApprovalDecided("c1", True, "user, once")
    ),
    "deny c1": lambda agent: denied(agent, "c1"),
    "deny c1, unasked": lambda agent: Denied(StartTool(*call(agent, "c1")), ToolResult("c1", "no", is_error=True)),
    "deny c2": lambda agent: denied(agent, "c2"),
    "result of c1": lambda agent: ToolDone(RunTool(*call(agent, "c1")), ToolResult("c1", "seen")),
    "result of c2": lambda agent: ToolDone(RunTool(*call(agent, "c2")), ToolResult("c2", "seen")),
    "answer of c2": lambda agent: ToolDone(
        RunTool(*call(agent, "c2")),
        ToolResult("c2", "seen"),
        (ev.MailSent("b", "Look again.", "heron"), Mail(1, "b", "heron", "Done.").taken),
    ),
    "error of c2": lambda agent: ToolDone(RunTool(*call(agent, "c2")), ToolResult("c2", "gone", is_error=True)),
    "result of c3": lambda agent: ToolDone(RunTool(*call(agent, "c3")), ToolResult("c3", "seen")),
    "clear": lambda agent: Clear(),
    "mark": lambda agent: SetMark(),
    "mark 7": lambda agent: SetMark("7"),
    "rewind": lambda agent: RewindTo(),
    "rewind m": lambda agent: RewindTo("m"),
    "rewind elsewhere": lambda agent: RewindTo("elsewhere"),
    "rewind to 0": lambda agent: RewindAt(0),
    "rewind at the end": lambda agent: RewindAt(20),
    "forget ids": lambda agent: Forget((EventRange(1, 1),)),
    "filter": lambda agent: Filter(((1, 9),), (), 2),
    "plan": lambda agent: Plan("forget", "all of it"),
    "condense": lambda agent: Condense("the paths"),
    "condensed": lambda agent: condensed(agent),
    "condensed, late": lambda agent: condensed(agent, late=True),
    "condensed, cleared": lambda agent: Condensed(ev.Summarized("It was.", closed=7)),
    "quote": lambda agent: Quote("> said before"),
    "undo": lambda agent: Undo(),
    "undo 1": lambda agent: Undo(1),
    "redo": lambda agent: Redo(),
    "retry": lambda agent: Retry(),
    "retry, recalled": lambda agent: Retry(RECALLED),
    "edit": lambda agent: Edit(),
    "ran": lambda agent: CommandFinished("/recall it", "It was."),
    "noted": lambda agent: NoteClosed(CloseNote(agent.memory.open.first if agent.memory.open else 1)),
    "plan made": lambda agent: ToolDone(
        RunTool(*call(agent, "p")), ToolResult("p", "done"), (ev.FilterPlanned(((1, 9),), (), 2, 5),)
    ),
    "change budget": lambda agent: Change({"budget": 5}),
    "change nothing": lambda agent: Change({"budget": None}),
    "change the mode": lambda agent: Change({"approval": "edits"}),
}


def describe_event(event: ev.Event) -> str:
    match event:
        case ToolCall(id) | ev.ToolStarted(id) | ev.Marked(id):
            detail = f"({id})"
        case ToolResult(id):
            detail = f"({id})"
        case ev.TurnEnded(ending):
            detail = f"({ending.value})"
        case ev.SettingsChanged(values):
            detail = f"({', '.join(values)})"
        case _:
            detail = ""
    mark = "!" if getattr(event, "interrupted", False) or getattr(event, "is_error", False) else ""
    return codec.KIND_OF[type(event)] + detail + mark


def describe_job(job: Job) -> str:
    match job:
        case CallModel():
            return "call"
        case StartTool(_, call):
            return f"start {call.id}"
        case RunTool(_, call):
            return f"run {call.id}"
        case CloseNote():
            return "note"


def agent_in(state: str) -> Agent:
    states = (idle, waiting, tools, last, astray, mixed, quoting, planning, applying, undoing, undone)
    return {each.__name__: each for each in (*states, working, falling, fallen)}[state]()


@pytest.mark.parametrize(("state", "incoming", "events", "then", "jobs"), CELLS, ids=lambda cell: cell or "-")
def test_cell(state: str, incoming: str, events: str, then: str, jobs: str) -> None:
    agent = agent_in(state)
    if incoming == "open, other budget":
        agent = reopened_below(agent, 7)
    try:
        found = " ".join(describe_event(event) for event in agent.happen(INPUTS[incoming](agent)))
    except Rejected as refusal:
        found = f"refused: {refusal.what}"
        assert refusal.remedy
    assert found == events
    assert (
        agent.memory.status
        is {"idle": AgentStatus.IDLE, "waiting": AgentStatus.WAITING, "tools": AgentStatus.RUNNING_TOOLS}[then]
    )
    assert ", ".join(map(describe_job, sorted(work(agent.memory), key=lambda job: job.asked_by))) == jobs
    assert agent.loaded() == agent.memory


def reopened_below(agent: Agent, budget: int) -> Agent:
    """Return the agent loaded (not opened) by a program whose configuration has another budget than recorded."""
    agent.log.append("a", (ev.SettingsChanged({"budget": 99}, {"budget": "config.toml"}),))
    agent.run = RunConfig({**RUN.below, "budget": budget}, limits, encoder)
    agent.memory = agent.loaded()
    return agent


def test_every_input_that_needs_idle_is_refused_in_every_other_state() -> None:
    for state in ("waiting", "tools"):
        needing = [
            "submit",
            "mail",
            "instruct",
            "describe",
            "offer MCP tools",
            "offer skills",
            "clear",
            "mark",
            "rewind",
            "rewind to 0",
            "forget ids",
            "filter",
            "plan",
            "condense",
            "condensed",
            "quote",
            "undo",
            "redo",
        ]
        needing += ["retry", "edit", "change budget"]
        refused = [cell[1] for cell in CELLS if cell[0] == state and cell[2].startswith("refused: The agent is busy")]
        assert refused == needing
    assert {type(INPUTS[incoming](idle())) for incoming in needing} == set(NEEDS_IDLE)


def test_table_has_every_input_in_every_state() -> None:
    for state in ("idle", "waiting", "tools"):
        incoming = {type(INPUTS[cell[1]](idle())) for cell in CELLS if cell[0] == state}
        assert incoming == set(get_args(Input))


def documented() -> tuple[dict[str, tuple[str, str]], str]:
    """Return the patterns in the docstring of `decisions`: by input, while idle and in a turn; and the pattern of
    `end`.
    """
    table, end = (part.splitlines() for part in (decisions.__doc__ or "").split("\n\n")[1:3])
    lines = [re.split(r" {2,}", line.strip()) for line in table[1:]]
    patterns = {each: (idle, opened) for inputs, idle, opened in lines for each in inputs.split(", ")}
    return patterns, re.split(r" {2,}", end[0].strip())[1]


def test_docstring_names_the_events_of_every_cell() -> None:
    """Each executed cell fits the pattern of the docstring, and each kind in a pattern is in a cell."""
    (patterns, end), seen = documented(), set[tuple[str, bool, str]]()
    for state, name, facts, *_ in CELLS:
        agent = agent_in(state)
        incoming = INPUTS[name](agent)
        job, has_turn = getattr(incoming, "job", None), agent.memory.open is not None
        if job and job not in work(agent.memory):
            assert not facts, "late"
            continue
        pattern = patterns[type(incoming).__name__][has_turn]
        if facts.startswith("refused: "):
            assert "refused" in pattern or not has_turn
            facts = "refused"
        kinds = re.sub(r"\([^)]*\)|!", "", facts).split()
        whole = re.sub(r"\bend\b", f"({end})", pattern.removeprefix("-"))
        exact = re.sub(r"\w+", lambda kind: f"(?:{kind[0]},)", whole).replace(" ", "")
        fits = re.fullmatch(exact, "".join(f"{kind}," for kind in kinds))
        assert kinds == ["refused"] or fits, f"{name}: {kinds}, not {pattern}"
        seen.update((pattern, has_turn, "end" if kind == "turn_end" else kind) for kind in kinds)
    for pattern, has_turn in {(both[has_turn], has_turn) for both in patterns.values() for has_turn in (False, True)}:
        assert all((pattern, has_turn, kind) in seen for kind in re.findall(r"\w+", pattern)), pattern
    assert all(kind in {kind for *_, kind in seen} for kind in re.findall(r"\w+", end) if kind != "turn_end")


def test_docstring_names_every_input() -> None:
    assert documented()[0].keys() == {each.__name__ for each in get_args(Input)}


def test_turn_fails_with_the_model_and_the_unknown_tools_that_it_keeps_calling() -> None:
    agent = astray()
    names = ("ls", "cat", "ls", "x" * 90)
    *_, end = agent.happen(reply(*(ToolCall("", name) for name in names))(agent))
    assert isinstance(end, ev.TurnEnded) and end.reason == (
        f"chat/large keeps calling tools that do not exist (ls, cat, {'x' * 40}). /model chooses another."
    )


def test_turn_fails_for_unknown_tools_also_after_known_ones() -> None:
    agent = Agent(RunConfig(RUN.below, limits, encoder, tools=(ToolSpec("touch", "", "{}"),)))
    agent.happen(Submitted("Do it."))
    for n, name in enumerate(("touch", "ls", "ls")):
        agent.reply(ToolCall(f"c{n}", name))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", "no", is_error=name == "ls")))
    *_, end = agent.reply(ToolCall("c3", "ls"))
    assert isinstance(end, ev.TurnEnded) and end.ending is ev.Ending.FAILED


def test_turn_fails_for_unknown_tools_also_when_older_calls_were_dropped() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 100_000}, limits, encoder))
    agent.happen(Submitted("Do it."))
    for n in range(2):
        agent.reply(ToolCall(f"c{n}", "ls"))
        agent.happen(Approved(agent.job(StartTool)))
        agent.happen(ToolDone(agent.job(RunTool), ToolResult(f"c{n}", "no " * 300, is_error=True)))
    assert agent.memory.open and agent.memory.open.iterations == 1, "the first one is not sent any more"
    *_, end = agent.reply(ToolCall("c2", "ls"))
    assert isinstance(end, ev.TurnEnded) and end.ending is ev.Ending.FAILED


def worker(maker: str = "boss", agent: str = "a") -> Agent:
    """Return an agent that works for another one."""
    made = Agent()
    made.log.append("a", (ev.Cleared({WORKS_FOR: f"{maker} {agent}"}),))
    made.memory = made.loaded()
    return made


def test_turn_of_another_agent_is_reported_with_any_ending() -> None:
    def reported(*events: ev.Event) -> list[tuple[str, str, str]]:
        return [(event.to, event.ending, event.text) for event in events if isinstance(event, ev.MailSent)]

    agent = worker()
    agent.happen(Submitted("Do it.", sender="heron"))
    assert agent.memory.open and agent.memory.open.sender == "heron"
    assert not reported(*agent.reply(Text("I look."), ToolCall("c", "look")))
    agent = Agent(log=agent.log)  # which says what a dead program left
    last = [row.event for row in agent.log.history("a")][-1:]
    lost = "[the turn did not end as it should: cut off: ikigai was killed here]\nI look."
    assert reported(*last) == [("boss", "interrupted", lost)]
    agent.happen(MailDelivered((Mail(1, "b", "heron", "Again."),)))
    assert reported(*agent.reply(Text("Done."))) == [("boss", "completed", "Done.")]
    agent.happen(MailDelivered((Mail(2, "b", "heron", "And?"),)))
    assert reported(*agent.happen(fail()(agent))) == [
        ("boss", "failed", "[the turn did not end as it should: It broke.]")
    ]
    agent.happen(Submitted("I am the user."))
    assert not reported(*agent.reply(Text("Hello.")))
    agent.happen(MailDelivered((Mail(3, "b", "heron", "I, too.", by_user=True),)))
    assert not reported(*agent.reply(Text("Hello.")))
    for other in (Agent(), worker(agent="another")):
        other.happen(Submitted("Do it.", sender="heron"))
        assert not reported(*other.reply(Text("Done.")))


def called(agent: Agent, name: str, *also: ev.MailTaken) -> None:
    """Let the model call a tool, and run it."""
    agent.reply(ToolCall("c", name))
    agent.happen(Approved(agent.job(StartTool)))
    agent.happen(ToolDone(agent.job(RunTool), ToolResult("c", "Done."), also))


def test_work_that_a_turn_has_taken_is_answered_to_whoever_gave_it() -> None:
    """The report is sent also if the user began the turn, and if another agent than the parent gave the work."""
    agent = worker()
    agent.happen(Submitted("I am the user."))
    mails = (Mail(1, "boss", "heron", "Do it.", wants_reply=True), Mail(2, "b", "finch", "By the way."))
    called(agent, "wait", *(mail.taken for mail in mails))
    answers = [event for event in agent.reply(Text("Done.")) if isinstance(event, ev.MailSent)]
    assert [(event.to, event.text, event.attended) for event in answers] == [("boss", "Done.", True)]
    agent.happen(MailDelivered((Mail(3, "top", "eagle", "And this.", wants_reply=True),)))
    answers = [event for event in agent.reply(Text("That, too.")) if isinstance(event, ev.MailSent)]
    assert [(event.to, event.attended) for event in answers] == [("boss", False), ("top", False)]


def test_turn_is_attended_if_the_user_asked_for_it_also_through_an_agent_above() -> None:
    def attended(agent: Agent) -> bool:
        assert agent.memory.open
        return agent.memory.open.attended

    def mail(**more: bool) -> MailDelivered:
        return MailDelivered((Mail(next(numbers), "boss", "heron", "?", **more),))

    numbers = itertools.count(1)
    for incoming, expected in (
        (Submitted("From the user."), True),
        (Submitted("From another.", sender="heron"), False),
        (Submitted("Work.", sender="heron", attended=True), True),
        (mail(by_user=True), True),
        (mail(wants_reply=True), False),
        (mail(wants_reply=True, attended=True), True),
        (mail(attended=True), False),
    ):
        agent = worker()
        agent.happen(incoming)
        assert attended(agent) is expected, incoming
        called(agent, "look")
        agent.happen(Steered("A word of the user's."))
        assert attended(agent)


def test_edit_goes_back_before_the_turn_of_an_event() -> None:
    agent = Agent()
    for text in ("one", "two", "three"):
        agent.turn(text)
    _, second, third = agent.memory.full_window.turns
    for id in (second.id, second.end):
        assert text_to_edit(agent.memory, id) == "two"
        assert decide(agent.memory, Edit(id)) == (ev.Rewound(second.id - 1),)
    assert text_to_edit(agent.memory, 0) == text_to_edit(agent.memory, third.id) == "three"
    agent.happen(Edit(second.id))
    assert [turn.messages[0].text for turn in agent.memory.full_window.turns] == ["one"]
    for gone in (second.id, third.end, 99_999):
        with pytest.raises(Rejected, match=f"Event {gone} is in no turn of the context"):
            agent.happen(Edit(gone))


def test_retry_refuses_a_turn_that_another_agent_began() -> None:
    agent = worker()
    agent.happen(Submitted("Do it.", sender="heron"))
    agent.reply(Text("Done."))
    for again in (Retry(), Edit()):
        with pytest.raises(Rejected, match="message of another agent"):
            agent.happen(again)
