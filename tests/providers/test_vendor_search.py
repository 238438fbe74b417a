"""The web search that a vendor runs: what comes over each wire, what is stored, and what is sent back to whom."""

import json
import re
from itertools import chain
from typing import Any

import pytest

from ikigai.core.events.events import AssistantMessage, TurnEnded, UserMessage
from ikigai.core.events.messages import (
    Message,
    ReplyBlock,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from ikigai.core.request.build import CONTINUE_TEXT
from ikigai.core.request.reply import StreamFailed, StreamFinished, UsageUpdate
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.request.reply_draft import Draft, draft_parts
from ikigai.core.state.inputs import CallModel, Change, Clear, Failed, Interrupted, Opened, Replied, Submitted, Undo
from ikigai.core.state.memory import next_request, replace
from ikigai.core.tools.vendor_search import MAX_SEARCHES, VENDOR_SEARCH
from ikigai.core.vendors import CLOUDS, vendor_of_model
from ikigai.providers.http.event_stream import EventDecoder
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models.models import ListedModel, ModelCatalog
from ikigai.providers.pool import Endpoint, ProviderPool
from tests.core.agent import Agent
from tests.core.memory_log import MemoryLog
from tests.providers.anthropic import messages_wire
from tests.providers.conftest import KEY, collect, measured, reply
from tests.providers.formats import FORMATS, Format
from tests.providers.google import gemini
from tests.providers.search_agent import (
    SEARCHING,
    USAGE,
    body,
    parts_of,
    question,
    reply_of,
    run_for,
    search,
    searched,
)
from tests.providers.search_wire import CITED, FOUND, SEARCH_ERROR, check_claude, claude_events, gemini_chunks
from tests.support.wire_server import Answer, Received, WireServer


@pytest.fixture(params=SEARCHING)
def form(request: pytest.FixtureRequest) -> Format:
    """Each format whose vendor searches."""
    return FORMATS[request.param]


async def test_search_comes_as_call_result_and_cited_text(form: Format, wire_server: WireServer):
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    expected = reply_of(form)
    wire_server.script = [Answer(expected.stream)]
    found = await collect(provider, question(form))
    await provider.close()
    assert reply(found).blocks() == expected.blocks
    end = found[-1]
    assert isinstance(end, StreamFinished) and end.stop is StopReason.END
    assert end.usage == Usage(10, 20, searches=1)


def test_tool_is_named_in_the_vendors_way_and_bounded(form: Format):
    sent = body(searched(form))
    tools = sent["tools"]
    assert [tool for tool in parts_of(tools) if VENDOR_SEARCH in tool.values()] == []
    match form.provider:
        case "anthropic":
            assert tools[-1]["type"] == "web_search_20250305" and tools[-1]["max_uses"] == MAX_SEARCHES
            assert "cache_control" in tools[-1] and "cache_control" not in tools[0]
        case "openai":
            assert tools[-1] == {"type": "web_search"} and sent["max_tool_calls"] == MAX_SEARCHES
            assert "web_search_call.action.sources" in sent["include"]
        case _:
            assert tools[-1] == {"googleSearch": {}}
            assert sent["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_search_is_in_the_log_and_ends_the_turn_without_running_anything(form: Format):
    agent = searched(form)
    events = [row.event().event for row in agent.log.rows]
    calls = [event for event in events if isinstance(event, ToolCall)]
    results = [event for event in events if isinstance(event, ToolResult)]
    assert calls and [call.id for call in calls] == [result.call_id for result in results]
    assert isinstance(events[-1], TurnEnded)
    said = [event for event in events if isinstance(event, AssistantMessage)]
    assert said[-1].sources[0].url.startswith("https://example.org/k")
    assert agent.loaded() == agent.memory


def test_own_search_goes_back_as_it_came_and_stays_the_same(form: Format):
    agent = searched(form)
    agent.happen(Submitted("More?"))
    sent = body(agent)
    found = list(parts_of(sent))
    for part in reply_of(form).returned:
        assert part in found
    again = body(agent)
    assert again == sent


@pytest.mark.parametrize("other", FORMATS)
def test_search_goes_to_another_model_as_text(form: Format, other: str):
    agent = searched(form)
    to = FORMATS[other].model if FORMATS[other] is not form else f"{form.provider}/other"
    agent.happen(Change({"model": to}))
    agent.happen(Submitted("More?"))
    encoder: Any = agent.memory.run.encoder(agent.memory.model)
    sent = json.loads(encoder.body(next_request(agent.memory)))
    text = json.dumps(sent, ensure_ascii=False)
    for kind in ("server_tool_use", "web_search_tool_result", 'web_search_call"', "toolResponse", "citations"):
        assert kind not in text
    assert "news of Köln; found:]" in text and "It is new. Good." in text
    agent.reply(Text("No."))
    agent.happen(Clear())
    agent.happen(Undo())
    assert agent.loaded() == agent.memory
    assert "news of Köln" in json.dumps(
        [turn.messages for turn in agent.memory.window.turns], default=repr, ensure_ascii=False
    )


def blocks_of(form: Format, provider: Any, stream: bytes) -> tuple[ReplyBlock, ...]:
    """The blocks of a reply of which so many bytes came."""
    reader, decoder, came = provider.reader(question(form), provider.target(form.name)), EventDecoder(), ReplyBuilder()
    for chunk in chain(decoder.feed(stream), decoder.finish()):
        for event in reader.events(chunk):
            assert not isinstance(event, StreamFailed), event
            if not isinstance(event, UsageUpdate):
                came.add(event)
    if isinstance(reader.end(), StreamFinished):
        assert came.blocks() == reply_of(form).blocks, "whole, but not all of it"
    return came.blocks()


@pytest.mark.parametrize("stride", [61, pytest.param(1, marks=pytest.mark.long)])
async def test_reply_that_breaks_off_anywhere_leaves_a_sound_conversation(form: Format, stride: int):
    """At the end of every event, and at bytes within: one in 61, or each."""
    provider: Any = form.connect("http://127.0.0.1:1", KEY)
    whole = reply_of(form)
    ends = {found.end() for found in re.finditer(rb"(\r?\n){2}", whole.stream)}
    cuts = sorted(ends | {*range(0, len(whole.stream), stride)})
    outcomes = dict.fromkeys(blocks_of(form, provider, whole.stream[:cut]) for cut in cuts)
    await provider.close()
    outcomes.pop(whole.blocks)
    assert len(outcomes) >= 4
    seen = set[str]()
    for blocks in outcomes:
        assert is_beginning(blocks, whole.blocks)
        seen |= leaves_sound_conversation(form, blocks)
    assert {"none", "result"} <= seen


def is_beginning(blocks: tuple[ReplyBlock, ...], of: tuple[ReplyBlock, ...]) -> bool:
    """True if these are the first blocks of the whole reply; the last may be the beginning of a text or thinking."""
    if not blocks:
        return True
    *done, last = blocks
    full = of[len(done)]
    is_part = isinstance(last, Text | Thinking) and type(last) is type(full) and full.text.startswith(last.text)
    return tuple(done) == of[: len(done)] and (is_part or last == full)


def leaves_sound_conversation(form: Format, blocks: tuple[ReplyBlock, ...]) -> set[str]:
    """Check what follows a reply that broke off with these blocks; return what of a search it has."""
    called, answered = (any(isinstance(block, kind) for block in blocks) for kind in (ToolCall, ToolResult))
    for ended in (False, True):
        agent = Agent(run_for(form))
        agent.happen(Submitted("News?"))
        job = agent.job(CallModel)
        agent.happen(Interrupted(blocks, USAGE) if ended else Failed(job, "cut", blocks, USAGE))
        assert isinstance(agent.log.rows[-1].event().event, TurnEnded)
        assert agent.loaded() == agent.memory
        agent.happen(Submitted("Again."))
        text = json.dumps(body(agent), ensure_ascii=False)
        assert "web_search_tool_result" not in text and 'web_search_call"' not in text
        if answered:
            assert "found:]" in text
        elif called:
            assert "The reply ended before the result of this call came." in text
    return {name for name, has in (("call", called), ("result", answered), ("none", not called)) if has}


@pytest.mark.parametrize("found", [FOUND, SEARCH_ERROR])
def test_streams_of_searches_have_the_types_of_the_sdk(found: object):
    check_claude(claude_events(found))


async def test_search_that_failed_is_an_error_and_goes_back_as_one(wire_server: WireServer):
    form = FORMATS["messages"]
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    wire_server.script = [Answer(messages_wire.sse(*claude_events(SEARCH_ERROR)))]
    blocks = reply(await collect(provider, question(form))).blocks()
    await provider.close()
    (result,) = [block for block in blocks if isinstance(block, ToolResult)]
    assert result.is_error and result.content == "The search failed: max_uses_exceeded."
    agent = Agent(run_for(form))
    agent.happen(Submitted("News?"))
    job = agent.job(CallModel)
    agent.happen(Replied(job, blocks, StopReason.END, USAGE))
    agent.happen(Submitted("More?"))
    assert SEARCH_ERROR in list(parts_of(body(agent)))


async def test_paused_reply_goes_on_with_the_next_request(wire_server: WireServer):
    form = FORMATS["messages"]
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    events = claude_events(stop="pause_turn")
    call = events[: next(n for n, event in enumerate(events) if event.get("index") == 3)]
    wire_server.script = [Answer(messages_wire.sse(*call, *events[-2:]))]
    first = await collect(provider, question(form))
    end = first[-1]
    assert isinstance(end, StreamFinished) and end.stop is StopReason.PAUSED
    agent = Agent(run_for(form))
    agent.happen(Submitted("News?"))
    job = agent.job(CallModel)
    agent.happen(Replied(job, reply(first).blocks(), end.stop, USAGE))
    again = agent.job(CallModel)
    assert again != job
    sent = body(agent, is_paused=True)
    assert sent["messages"][-1]["content"][-1]["type"] == "server_tool_use", "the call waits for its result"
    rest = [events[0], *events[len(call) : -2], messages_wire.finish("end_turn"), messages_wire.END]
    wire_server.script = [Answer(messages_wire.sse(*rest))]
    second = await collect(provider, next_request(agent.memory))
    await provider.close()
    agent.happen(Replied(again, reply(second).blocks(), StopReason.END, USAGE))
    assert isinstance(agent.log.rows[-1].event().event, TurnEnded) and agent.loaded() == agent.memory
    agent.happen(Submitted("More?"))
    kinds = [part["type"] for part in body(agent)["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "server_tool_use", "web_search_tool_result", "text", "text"]


PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."


def strict_claude(received: Received) -> Answer:
    """A newer Claude: a request ends with a message of the user, or with a reply that paused in a search of its own."""
    last = received.json["messages"][-1]
    own = ("server_tool_use", "web_search_tool_result")
    if last["role"] == "assistant" and not any(part["type"] in own for part in last["content"]):
        return messages_wire.failure(400, PREFILL)
    return messages_wire.answer("Fine.")


def paused(form: Format, upto: int = 4) -> Agent:
    """An agent whose model paused behind a call or its result, and which other models stand in for."""
    models = [f"{form.provider}/claude-other", *(each.model for each in FORMATS.values())]
    agent = Agent(replace(run_for(form), fallback=tuple((model, "") for model in models)))
    agent.happen(Submitted("News?"))
    agent.happen(Replied(agent.job(CallModel), reply_of(form).blocks[:upto], StopReason.PAUSED, USAGE))
    return agent


@pytest.mark.parametrize("upto", [3, 4])
async def test_another_claude_goes_on_with_a_paused_reply(wire_server: WireServer, upto: int):
    form = FORMATS["messages"]
    agent = paused(form, upto)
    wire_server.answer = strict_claude
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    found = await collect(provider, next_request(agent.memory))
    assert reply(found).text == "Fine.", "the model itself goes on with its own"
    agent.happen(Failed(agent.job(CallModel), "Overloaded.", (), USAGE, "Overloaded."))
    assert agent.memory.model == "anthropic/claude-other" and agent.loaded() == agent.memory
    request = next_request(agent.memory)
    found = await collect(provider, request)
    await provider.close()
    assert reply(found).text == "Fine."
    assert len(wire_server.requests[-1].body) == measured(provider.encoder(request.model), request)
    agent.happen(Replied(agent.job(CallModel), reply(found).blocks(), StopReason.END, USAGE))
    agent.happen(Submitted("More?"))
    assert "[continue]" not in json.dumps(body(agent)), "the word was part of one request alone"
    assert agent.loaded() == agent.memory


@pytest.mark.parametrize("other", [name for name in FORMATS if name != "messages"])
def test_model_of_another_vendor_goes_on_with_a_paused_reply(other: str):
    agent = paused(FORMATS["messages"])
    while agent.memory.model != FORMATS[other].model:
        agent.happen(Failed(agent.job(CallModel), "Overloaded.", (), USAGE, "Overloaded."))
    body(agent)
    assert next_request(agent.memory).messages[-1] == Message(Role.USER, (Text(CONTINUE_TEXT),))


async def test_paused_reply_whose_search_is_refused_goes_on(wire_server: WireServer):
    agent = paused(FORMATS["messages"])
    message = "messages.1.content.2: Invalid `encrypted_content` in `web_search_tool_result` block"
    wire_server.script = [messages_wire.failure(400, message)]
    wire_server.answer = strict_claude
    provider: Any = FORMATS["messages"].connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    found = await collect(provider, next_request(agent.memory))
    await provider.close()
    assert reply(found).text == "Fine." and len(wire_server.requests) == 2


def test_paused_reply_without_any_search_ends_the_turn():
    agent = Agent(run_for(FORMATS["messages"]))
    agent.happen(Submitted("News?"))
    job = agent.job(CallModel)
    agent.happen(Replied(job, (Text("Hm."),), StopReason.PAUSED, USAGE))
    assert isinstance(agent.log.rows[-1].event().event, TurnEnded)


async def test_gemini_that_shows_no_calls_still_has_its_queries_in_the_log(wire_server: WireServer):
    form = FORMATS["contents"]
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    wire_server.script = [Answer(gemini.sse(*gemini_chunks(shows_calls=False)))]
    found = await collect(provider, question(form))
    await provider.close()
    (call,) = [block for block in reply(found).blocks() if isinstance(block, ToolCall)]
    assert json.loads(call.arguments) == {"queries": ["news of Köln"]} and call.hosted == form.model
    end = found[-1]
    assert isinstance(end, StreamFinished) and end.usage.searches == 1 and end.stop is StopReason.END


async def test_server_that_refuses_its_own_search_gets_it_as_text(wire_server: WireServer):
    form = FORMATS["messages"]
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    agent = searched(form)
    agent.happen(Submitted("More?"))
    message = "messages.1.content.2: Invalid `encrypted_content` in `web_search_tool_result` block"
    wire_server.script = [messages_wire.failure(400, message), messages_wire.answer("Fine.")]
    found = await collect(provider, next_request(agent.memory))
    await provider.close()
    assert reply(found).text == "Fine."
    first, second = (json.dumps(request.json, ensure_ascii=False) for request in wire_server.requests)
    assert CITED["encrypted_index"] in first and CITED["encrypted_index"] not in second
    assert "news of Köln; found:]" in second


def test_search_is_offered_only_where_the_vendor_has_one_and_it_is_on():
    def offered(form: str, **settings: str) -> list[str]:
        agent = Agent(run_for(FORMATS[form]))
        if settings:
            agent.happen(Change(dict(settings)))
        return [tool.name for tool in next_request(agent.memory).tools]

    assert VENDOR_SEARCH in offered("messages")
    assert VENDOR_SEARCH not in offered("chat")
    assert VENDOR_SEARCH not in offered("messages", tools_off="")
    assert VENDOR_SEARCH not in offered("messages", tools_off=f"{VENDOR_SEARCH},+{VENDOR_SEARCH}"), "off wins"
    assert offered("messages", tools_off="*") == []


NO_CHAT, GATEWAY, OLDER = "Chat Completions have none", "its server may not pass it on; to try it", "before Gemini 3"


@pytest.mark.parametrize(
    ("model", "api", "address", "configured", "why_not"),
    [
        ("anthropic/claude-sonnet-5-5", "", "", None, ""),
        ("anthropic/claude-sonnet-5-5", "", "", False, 'vendor_search is "no" under [models."anthropic/'),
        ("gateway/claude-sonnet-5-5", "anthropic", "http://127.0.0.1:1", None, GATEWAY),
        ("gateway/claude-sonnet-5-5", "anthropic", "http://127.0.0.1:1", True, ""),
        ("openai/gpt-6.1-sol", "", "", None, ""),
        ("openai/gpt-6.1-sol", "chat", "", None, NO_CHAT),
        ("openai/gpt-6.1-sol", "", "http://127.0.0.1:1/v1", None, NO_CHAT),
        ("openai/gpt-6.1-sol", "responses", "http://127.0.0.1:1/v1", None, ""),
        ("mine/gpt-6.1-sol", "responses", "http://127.0.0.1:1/v1", None, GATEWAY),
        ("mine/gpt-6.1-sol", "responses", "http://127.0.0.1:1/v1", True, ""),
        ("mine/qwen3", "chat", "http://127.0.0.1:1/v1", True, NO_CHAT),
        ("google/gemini-3.8-flash", "", "", None, ""),
        ("google/gemini-2.5-flash", "", "", None, OLDER),
        ("google/gemini-2.5-flash", "", "", True, OLDER),
        ("vertex/claude-sonnet-5-5", "vertex", "", None, ""),
        ("vertex/gemini-3.8-flash", "vertex", "", None, "Google Vertex AI does not document it beside other tools"),
        ("vertex/gemini-3.8-flash", "vertex", "", True, ""),
        ("vertex/gemini-2.5-flash", "vertex", "", True, OLDER),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", "", None, "Amazon Bedrock runs none"),
        ("bedrock/openai.gpt-oss-120b-1:0", "bedrock", "", True, "Amazon Bedrock runs none"),
        ("azure/gpt-5", "azure", "", None, 'it needs api = "responses" under [providers.azure]'),
        ("azure/gpt-5", "responses", "", None, ""),
        ("azure/gpt-5", "responses", "", False, 'vendor_search is "no"'),
        ("scripted/x", "", "", None, "it has no vendor"),
    ],
)
def test_pool_knows_which_models_can_search_and_why_not(
    model: str, api: str, address: str, configured: bool | None, why_not: str, tmp_path: Any
):
    provider, _, name = model.partition("/")
    platform = provider if provider in CLOUDS else ""
    known = ListedModel(model, vendor_search=configured)
    endpoints = {provider: Endpoint(address, lambda: KEY, api, platform=platform)} if provider != "scripted" else {}
    catalog = ModelCatalog(known=lambda _: known, api=lambda _: vendor_of_model(platform or api or provider, name))
    limits = ProviderPool(endpoints, LocalModel("", 4096, tmp_path), catalog).limits(model)
    assert limits.vendor_search is (not why_not)
    assert limits.no_vendor_search.startswith(why_not)


def test_user_message_between_turns_keeps_every_call_with_one_result(form: Format):
    agent = searched(form)
    search(agent, form)
    rows = [row.event().event for row in agent.log.rows]
    ids = [event.id for event in rows if isinstance(event, ToolCall)]
    assert len(ids) == len(set(ids)), "the same ids came twice"
    assert [event.call_id for event in rows if isinstance(event, ToolResult)] == ids
    assert sum(isinstance(event, UserMessage) for event in rows) == 2
    agent.happen(Submitted("More?"))
    body(agent)


def test_program_that_is_killed_within_a_search_leaves_it_in_the_log(form: Format):
    whole = reply_of(form).blocks
    for upto in range(1, len(whole) + 1):
        log = MemoryLog()
        agent = Agent(run_for(form), log)
        agent.happen(Submitted("News?"))
        asked = agent.job(CallModel).asked_by
        text = "".join(block.text for block in whole[:upto] if isinstance(block, Text))
        thinking = "".join(block.text for block in whole[:upto] if isinstance(block, Thinking))
        agent.happen(Opened(Draft(asked, text, thinking, draft_parts(whole[:upto]))))
        rows = [row.event().event for row in agent.log.rows]
        assert isinstance(rows[-1], TurnEnded)
        calls = [block for block in whole[:upto] if isinstance(block, ToolCall)]
        assert [event for event in rows if isinstance(event, ToolCall)] == calls
        assert agent.loaded() == agent.memory
        agent.happen(Submitted("Again."))
        body(agent)
