"""A log with searches of the vendor in it: forked, condensed, undone, and sent to the same and to another model."""

import json
import re
from typing import Any

import msgspec
import pytest

from ikigai.agent.context.forget import ForgetContext
from ikigai.agent.context.summary_writer import SummaryWriter
from ikigai.agent.request.usage_meter import no_price
from ikigai.core.context.condense_plan import appended_request, choose_scope, format_turns
from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.inputs import CallModel, Change, Condensed, Replied, Submitted, Undo
from ikigai.core.state.memory import Memory
from tests.core.agent import Agent
from tests.providers.anthropic import messages_wire
from tests.providers.conftest import KEY
from tests.providers.formats import FORMATS, Format
from tests.providers.search_agent import SEARCHING, USAGE, body, parts_of, reply_of, run_for, search, searched
from tests.providers.search_wire import SearchReply, claude_events
from tests.support.wire_server import Answer, WireServer

OTHER = FORMATS["chat"].model
QUERY = "news of Köln"
BY_HAND = CondenseOptions("manual", at_percent=100, to_percent=1)


@pytest.fixture(params=SEARCHING)
def form(request: pytest.FixtureRequest) -> Format:
    """Each format whose vendor searches."""
    return FORMATS[request.param]


def forked(parent: Agent, at: int, form: Format) -> Agent:
    """A child that shares the parent's events up to this one."""
    parent.log.create("child", parent.name, at)
    parent.log.append("child", (ev.Forked(parent.name, at),))
    return Agent(run_for(form), parent.log, "child")


def goes_back(agent: Agent, reply: SearchReply) -> bool:
    """True if the next request has the searches of this reply as they came, whatever their ids became."""
    text = re.sub(r'"(srvtoolu_01|ws_[12]|g1)_\d+"', r'"\1"', json.dumps(body(agent)))
    found = list(parts_of(json.loads(text)))
    return all(part in found for part in reply.returned)


def asked(memory: Memory) -> list[str]:
    return [turn.messages[0].text for turn in memory.window.turns]


def test_child_has_the_searches_of_its_parent_and_both_search_on(form: Format):
    parent = searched(form)
    child = forked(parent, parent.log.rows[-1].id, form)
    assert child.memory.full_window == parent.memory.full_window
    for agent in (child, parent):
        search(agent, form)
        rows = [row.event for row in agent.log.history(agent.name)]
        ids = [event.id for event in rows if isinstance(event, ToolCall)]
        assert len(ids) == len(set(ids)) and [e.call_id for e in rows if isinstance(e, ToolResult)] == ids
        assert agent.loaded() == agent.memory
        agent.happen(Submitted("More?"))
        assert goes_back(agent, reply_of(form))
    child.happen(Replied(child.job(CallModel), (Text("No."),), StopReason.END, USAGE))
    child.happen(Change({"model": OTHER}))
    child.happen(Submitted("And you?"))
    text = json.dumps(body(child), ensure_ascii=False)
    assert text.count(f"[vendor_search: {QUERY}; found:]") == 2 and "encrypted" not in text
    assert child.loaded() == child.memory and goes_back(parent, reply_of(form))


@pytest.mark.parametrize("upto", [3, 4, 5])
def test_fork_within_a_turn_that_searches_leaves_that_turn_out(upto: int):
    """A reply of Claude that pauses leaves its turn open, behind its call or later; the child begins before it."""
    form = FORMATS["messages"]
    parent = searched(form)
    before = parent.log.rows[-1].id
    blocks = msgspec.json.decode(msgspec.json.encode(reply_of(form).blocks).replace(b"srvtoolu_01", b"srvtoolu_07"))
    blocks = msgspec.convert(blocks, tuple[ReplyBlock, ...])
    assert isinstance(blocks[2], ToolCall)
    parent.happen(Submitted("Again?"))
    parent.happen(Replied(parent.job(CallModel), blocks[:upto], StopReason.PAUSED, USAGE))
    child = forked(parent, before, form)
    assert asked(child.memory) == ["News?"] and child.memory.open is None
    search(child, form)
    child.happen(Submitted("More?"))
    assert goes_back(child, reply_of(form)) and child.loaded() == child.memory
    assert "srvtoolu_07" not in json.dumps(body(child))
    parent.happen(Replied(parent.job(CallModel), blocks[upto:], StopReason.END, USAGE))
    assert parent.loaded() == parent.memory and asked(parent.memory) == ["News?", "Again?"]
    parent.happen(Submitted("More?"))
    kinds = [
        (part["type"], part.get("id") or part.get("tool_use_id")) for part in body(parent)["messages"][3]["content"]
    ]
    assert kinds[2:4] == [("server_tool_use", "srvtoolu_07"), ("web_search_tool_result", "srvtoolu_07")]


def test_child_of_a_log_that_ends_within_a_search_recovers_apart(form: Format):
    """A child may share all events of a parent that died within its turn: it closes the turn for itself."""
    parent = searched(form)
    search(parent, form, StopReason.PAUSED)
    child = forked(parent, parent.log.rows[-1].id, form)
    assert isinstance(parent.log.history("child")[-1].event, ev.TurnEnded) and child.memory.open is None
    assert parent.loaded().open is not None
    child.happen(Submitted("More?"))
    assert goes_back(child, reply_of(form)) and child.loaded() == child.memory


def condensed(agent: Agent) -> Memory:
    """Condense all turns but the newest two; return the memory before it."""
    before = agent.memory
    scope = choose_scope(before, before, BY_HAND, by_hand=True)
    assert scope and len(scope.turns) == len(before.window.turns) - 2
    told = "\n".join(format_turns(scope.turns))
    assert QUERY in told and "It is new." in told, "the model that summarizes reads the search"
    request = appended_request(before, scope, "Summarize.", "", 500)
    assert request, "the model's own words, from its cache"
    encoder = before.run.encoder(before.model)
    sent = json.loads(encoder.body(request))  # type: ignore[attr-defined]
    next(each for each in FORMATS.values() if each.model == before.model).validated(sent)
    (summary,) = agent.happen(Condensed(ev.Summarized("They searched.", scope.upto, turns=scope.count), scope.begins))
    assert isinstance(summary, ev.Summarized)
    return before


def test_condensed_searches_are_sent_to_no_model_and_come_back_with_undo(form: Format):
    agent = searched(form)
    for n in range(3):
        agent.turn(f"{n}?", f"{n}.")
    before = condensed(agent)
    assert agent.loaded() == agent.memory
    for model in (form.model, OTHER):
        agent.happen(Change({"model": model}))
        agent.happen(Submitted("More?"))
        text = json.dumps(body(agent), ensure_ascii=False)
        assert "They searched." in text and QUERY not in text and "It is new." not in text
        assert agent.loaded() == agent.memory
        agent.reply(Text("No."))
    agent.happen(Change({"model": form.model}))
    agent.happen(Undo())
    assert agent.loaded() == agent.memory
    turns = list(before.full_window.turns)
    assert list(agent.memory.full_window.turns)[: len(turns)] == turns
    agent.happen(Submitted("More?"))
    assert goes_back(agent, reply_of(form))


def test_searches_behind_a_summary_go_back_as_they_came(form: Format):
    agent = searched(form)
    agent.turn("1?", "1.")
    search(agent, form)
    search(agent, form)
    condensed(agent)
    assert agent.loaded() == agent.memory
    agent.happen(Submitted("More?"))
    assert goes_back(agent, reply_of(form))
    text = json.dumps(body(agent), ensure_ascii=False)
    assert text.index("They searched.") < text.index(QUERY)


async def test_reply_that_pauses_for_its_searches_is_no_summary(wire_server: WireServer):
    form = FORMATS["messages"]
    agent = searched(form)
    for n in range(3):
        agent.turn(f"{n}?", f"{n}.")
    scope = choose_scope(agent.memory, agent.memory, BY_HAND, by_hand=True)
    provider = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    wire_server.script = [Answer(messages_wire.sse(*claude_events(stop="pause_turn")))]
    unused: Any = None
    context = ForgetContext(unused, lambda _: provider, no_price, unused, lambda _: None)
    assert scope
    with pytest.raises(Rejected, match="searched the web instead of summarising: it was discarded"):
        await SummaryWriter(context, agent.memory, scope, "", BY_HAND).write()
    await provider.close()
