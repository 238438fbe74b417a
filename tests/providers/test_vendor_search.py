"""The web search that a vendor runs: what comes over each wire, what is stored, and what is sent back to whom."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ikigai.core.events import AssistantMessage, TurnEnded, UsageReported, UserMessage
from ikigai.core.messages import Message, Role, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.model import ModelLimits
from ikigai.core.request.build import Request
from ikigai.core.request.reply import StreamFailed, StreamFinished
from ikigai.core.request.reply_draft import Draft, draft_parts
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import CallModel, Change, Clear, Failed, Interrupted, Opened, Replied, Submitted, Undo
from ikigai.core.state.memory import next_request
from ikigai.core.vendor_search import MAX_SEARCHES, VENDOR_SEARCH, VENDOR_SEARCH_SPEC
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models import ListedModel, ModelCatalog
from ikigai.providers.pool import Endpoint, ProviderPool
from tests.core.agent import Agent
from tests.core.memory_log import MemoryLog
from tests.providers.anthropic import messages_wire
from tests.providers.conformance import TOOLS
from tests.providers.conftest import KEY, collect, measured, reply
from tests.providers.formats import FORMATS, Format
from tests.providers.google import gemini
from tests.providers.search_wire import CITED, REPLIES, SEARCH_ERROR, claude_events, gemini_chunks
from tests.support.invariants import sound
from tests.support.wire_server import Answer, WireServer

SEARCHING = [name for name in FORMATS if name in REPLIES]
USAGE = UsageReported("x/y")


@pytest.fixture(params=SEARCHING)
def form(request: pytest.FixtureRequest) -> Format:
    """Each format whose vendor searches."""
    return FORMATS[request.param]


def question(form: Format) -> Request:
    return Request(form.name, (Message(Role.USER, (Text("News?"),)),), tools=(VENDOR_SEARCH_SPEC,))


def reply_of(form: Format) -> Any:
    return next(REPLIES[name]() for name in SEARCHING if FORMATS[name] is form)


def run_for(form: Format) -> RunConfig:
    """A run whose models can all search, but for the one of Chat Completions."""
    providers = {each.provider: each.connect("http://127.0.0.1:1", KEY) for each in FORMATS.values()}

    def limits(model: str) -> ModelLimits:
        return ModelLimits(200_000, 8_000, True, not model.startswith("mine/"))

    def encoder(model: str) -> Any:
        provider, _, name = model.partition("/")
        return providers[provider].encoder(name)

    settings = {"model": form.model, "budget": 100_000, "system": "Be brief.", "tools_off": f"+{VENDOR_SEARCH}"}
    return RunConfig(settings, limits, encoder, tools=(*TOOLS, VENDOR_SEARCH_SPEC))


def body(agent: Agent, is_paused: bool = False) -> dict[str, Any]:
    """The next request as it is sent, having checked its size and its form."""
    encoder: Any = agent.memory.run.encoder(agent.memory.model)
    request = next_request(agent.memory)
    raw = encoder.body(request)
    assert len(raw) == measured(encoder, request)
    decoded = json.loads(raw)
    form = next(each for each in FORMATS.values() if each.model == agent.memory.model)
    form.validated(decoded)
    if not is_paused:
        sound(request)
    return decoded


def parts_of(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from parts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from parts_of(inner)


def searched(form: Format) -> Agent:
    """An agent with one ended turn in which the vendor searched."""
    agent = Agent(run_for(form))
    agent.happen(Submitted("News?"))
    job = agent.job(CallModel)
    agent.happen(Replied(job, reply_of(form).blocks, StopReason.END, USAGE))
    return agent


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


@pytest.mark.parametrize("ends", ["failed", "interrupted"])
async def test_reply_that_breaks_off_anywhere_leaves_a_sound_conversation(
    form: Format, ends: str, wire_server: WireServer
):
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    whole = reply_of(form)
    seen = set[str]()
    for cut in range(len(whole.stream) // 20, len(whole.stream), len(whole.stream) // 20):
        wire_server.script = [Answer(whole.stream, cut=cut)]
        found = await collect(provider, question(form))
        if isinstance(found[-1], StreamFinished):
            continue
        assert isinstance(found[-1], StreamFailed)
        blocks = reply(found).blocks()
        agent = Agent(run_for(form))
        agent.happen(Submitted("News?"))
        job = agent.job(CallModel)
        agent.happen(Failed(job, "cut", blocks, USAGE) if ends == "failed" else Interrupted(blocks, USAGE))
        assert isinstance(agent.log.rows[-1].event().event, TurnEnded)
        assert agent.loaded() == agent.memory
        agent.happen(Submitted("Again."))
        text = json.dumps(body(agent), ensure_ascii=False)
        assert "web_search_tool_result" not in text and 'web_search_call"' not in text
        seen.add("call" if any(isinstance(block, ToolCall) for block in blocks) else "none")
        if any(isinstance(block, ToolResult) for block in blocks):
            seen.add("result")
            assert "found:]" in text
        elif any(isinstance(block, ToolCall) for block in blocks):
            assert "The reply ended before the result of this call came." in text
    await provider.close()
    assert {"none", "result"} <= seen


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


@pytest.mark.parametrize(
    ("model", "api", "address", "configured", "has_search"),
    [
        ("anthropic/claude-sonnet-5-5", "", "", None, True),
        ("anthropic/claude-sonnet-5-5", "", "", False, False),
        ("gateway/claude-sonnet-5-5", "anthropic", "http://127.0.0.1:1", None, False),
        ("gateway/claude-sonnet-5-5", "anthropic", "http://127.0.0.1:1", True, True),
        ("openai/gpt-6.1-sol", "", "", None, True),
        ("openai/gpt-6.1-sol", "chat", "", None, False),
        ("openai/gpt-6.1-sol", "", "http://127.0.0.1:1/v1", None, False),
        ("openai/gpt-6.1-sol", "responses", "http://127.0.0.1:1/v1", None, True),
        ("mine/qwen3", "chat", "http://127.0.0.1:1/v1", True, False),
        ("google/gemini-3.8-flash", "", "", None, True),
        ("google/gemini-2.5-flash", "", "", None, False),
    ],
)
def test_pool_knows_which_models_can_search(
    model: str, api: str, address: str, configured: bool | None, has_search: bool, tmp_path: Any
):
    known = ListedModel(model, vendor_search=configured)
    endpoints = {model.partition("/")[0]: Endpoint(address, lambda: KEY, api)}
    catalog = ModelCatalog(known=lambda _: known, api=lambda name: api or name.partition("/")[0])
    pool = ProviderPool(endpoints, LocalModel("", 4096, tmp_path), catalog)
    assert pool.limits(model).vendor_search is has_search


def test_user_message_between_turns_keeps_every_call_with_one_result(form: Format):
    agent = searched(form)
    agent.happen(Submitted("Again?"))
    job = agent.job(CallModel)
    agent.happen(Replied(job, reply_of(form).blocks, StopReason.END, USAGE))
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
