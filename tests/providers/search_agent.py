"""An agent whose model's vendor searches, its replies, and the requests that follow."""

import json
from collections.abc import Iterator
from typing import Any

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Message, Role, StopReason, Text
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import CallModel, Replied, Submitted
from ikigai.core.state.memory import next_request
from ikigai.core.tools.vendor_search import VENDOR_SEARCH, VENDOR_SEARCH_SPEC
from tests.core.agent import Agent
from tests.providers.conformance import TOOLS
from tests.providers.conftest import KEY, measured
from tests.providers.formats import FORMATS, Format
from tests.providers.search_wire import REPLIES, SearchReply
from tests.support.invariants import sound

SEARCHING = [name for name in FORMATS if name in REPLIES]
USAGE = UsageReported("x/y")


def question(form: Format) -> Request:
    return Request(form.name, (Message(Role.USER, (Text("News?"),)),), tools=(VENDOR_SEARCH_SPEC,))


def reply_of(form: Format) -> SearchReply:
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
    search(agent, form)
    return agent


def search(agent: Agent, form: Format, stop: StopReason = StopReason.END) -> None:
    """A message, and a reply in which the vendor searched; that it PAUSED leaves the turn open."""
    agent.happen(Submitted("News?"))
    agent.happen(Replied(agent.job(CallModel), reply_of(form).blocks, stop, USAGE))
