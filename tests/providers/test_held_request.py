"""Requests built while their message is typed and stored: nothing is sent before it is, and others go alone."""

import asyncio
from typing import Any

import pytest

from ikigai.core.messages import StopReason, Text
from ikigai.core.request.reply import StreamFinished
from ikigai.providers import held_request
from ikigai.providers.held_request import BUILDING_STEPS
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import ask, collect
from tests.providers.formats import Format
from tests.support.wire_server import Answer, WireServer, completion


def held() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "held request"]


async def prepared(vendor: Any, text: str) -> None:
    await vendor.preload()
    await vendor.prepare(ask(text))
    assert held()


async def test_prepared_request_is_sent_once_and_only_with_its_stream(
    vendor: Any, form: Format, wire_server: WireServer
) -> None:
    wire_server.script = [Answer(form.stream((Text("Hello"),), StopReason.END))]
    await prepared(vendor, "Is it stored?")
    await asyncio.sleep(0.1)
    assert wire_server.requests == []
    events = await collect(vendor, ask("Is it stored?"))
    assert isinstance(events[-1], StreamFinished)
    [request] = wire_server.requests
    assert b"Is it stored?" in request.body and not held()


async def test_first_request_is_rehearsed_and_not_sent_while_the_sdk_loads(
    vendor: Any, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = list[bool]()

    async def rehearse(sending: Any) -> None:
        with pytest.raises(Exception) as ended:
            held_request._rehearses.set(True)
            await sending
        causes = [ended.value]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        reached.append(any(isinstance(each, held_request._Rehearsed) for each in causes))

    monkeypatch.setattr("ikigai.providers.streaming.rehearse", rehearse)
    await vendor.preload()
    assert reached == [True] and wire_server.requests == [] and wire_server.busiest == 0


async def test_prepared_request_goes_before_its_stream_is_read(
    provider: OpenAIProvider, wire_server: WireServer
) -> None:
    wire_server.script = [completion("Hello")]
    await provider.preload()
    request = await provider.prepare(ask("stored by now"))
    assert request and request.send()
    await asyncio.wait_for(wire_server.got_one.wait(), 60)
    assert isinstance((await collect(provider, ask("stored by now")))[-1], StreamFinished)
    assert len(wire_server.requests) == 1 and not held()


async def test_request_that_was_held_for_long_is_prepared_again(
    provider: OpenAIProvider, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire_server.script = [completion("Hello")]
    await provider.preload()
    request = await provider.prepare(ask("slow to store"))
    monkeypatch.setattr("ikigai.providers.held_request.MAX_HELD_SECONDS", 0.0)
    assert request and not request.send()
    assert isinstance((await collect(provider, ask("slow to store")))[-1], StreamFinished)
    assert len(wire_server.requests) == 1


async def test_request_on_a_new_connection_connects_while_it_is_held(
    provider: OpenAIProvider, wire_server: WireServer
) -> None:
    await provider.preload()
    request = await provider.prepare(ask("held"))
    while not wire_server._open:
        await asyncio.sleep(0.01)
    assert request and wire_server.requests == []


async def test_another_request_is_sent_alone(vendor: Any, form: Format, wire_server: WireServer) -> None:
    wire_server.script = [Answer(form.stream((Text("Hello"),), StopReason.END))]
    await prepared(vendor, "never sent")
    assert isinstance((await collect(vendor, ask("another")))[-1], StreamFinished)
    await vendor.close()
    [request] = wire_server.requests
    assert b"another" in request.body and not held()


async def test_newer_preparation_replaces_the_older(provider: OpenAIProvider, wire_server: WireServer) -> None:
    await prepared(provider, "older")
    await prepared(provider, "newer")
    while len(held()) > 1:
        await asyncio.sleep(0)
    wire_server.script = [completion("Hello")]
    await collect(provider, ask("newer"))
    assert [b"newer" in request.body for request in wire_server.requests] == [True]


async def test_nothing_is_prepared_before_the_sdk_is_loaded(provider: OpenAIProvider, wire_server: WireServer) -> None:
    await provider.prepare(ask("early"))
    assert not held() and wire_server.requests == []


async def test_cancelled_stream_ends_its_prepared_request(provider: OpenAIProvider, wire_server: WireServer) -> None:
    wire_server.script = [Answer(end="hang")]
    await prepared(provider, "never answered")
    reading = asyncio.create_task(collect(provider, ask("never answered")))
    await asyncio.wait_for(wire_server.got_one.wait(), 60)
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled() and not held()
    await asyncio.wait_for(wire_server.hung_up.wait(), 60)


async def expected(vendor: Any, text: str) -> None:
    await vendor.preload()
    vendor.expect(ask(text))
    for _ in range(BUILDING_STEPS):
        await asyncio.sleep(0)
    assert held()


async def test_expected_request_takes_no_connection_before_it_is_wanted(
    vendor: Any, form: Format, wire_server: WireServer
) -> None:
    wire_server.script = [Answer(form.stream((Text("Hello"),), StopReason.END))]
    await expected(vendor, "typed")
    building = vendor._slot.held
    await asyncio.sleep(0.1)
    assert not wire_server._open and wire_server.requests == []
    request = await vendor.prepare(ask("typed"))
    assert request is building
    while not wire_server._open:
        await asyncio.sleep(0.01)
    assert request and wire_server.requests == [] and request.send()
    assert isinstance((await collect(vendor, ask("typed")))[-1], StreamFinished)
    [sent] = wire_server.requests
    assert b"typed" in sent.body and not held()


async def test_expected_request_that_is_not_prepared_goes_with_its_stream(
    provider: OpenAIProvider, wire_server: WireServer
) -> None:
    wire_server.script = [completion("Hello")]
    await expected(provider, "typed")
    assert isinstance((await collect(provider, ask("typed")))[-1], StreamFinished)
    assert len(wire_server.requests) == 1 and not held()


async def test_only_the_text_that_is_sent_leaves(provider: OpenAIProvider, wire_server: WireServer) -> None:
    wire_server.script = [completion("Hello")]
    await expected(provider, "type")
    await expected(provider, "typed")
    building = provider._slot.held
    provider.expect(ask("typed"))
    assert provider._slot.held is building, "the text is as it was"
    request = await provider.prepare(ask("typed!"))
    assert request is not building and request and request.send()
    assert isinstance((await collect(provider, ask("typed!")))[-1], StreamFinished)
    assert [b"typed!" in sent.body for sent in wire_server.requests] == [True] and not held()


async def test_expected_request_does_not_replace_one_that_is_about_to_be_sent(
    provider: OpenAIProvider, wire_server: WireServer
) -> None:
    wire_server.script = [completion("Hello")]
    await prepared(provider, "of one agent")
    provider.expect(ask("typed to another"))
    assert isinstance((await collect(provider, ask("of one agent")))[-1], StreamFinished)
    assert len(wire_server.requests) == 1 and not held()


async def test_request_that_was_expected_for_long_is_built_again(
    provider: OpenAIProvider, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire_server.script = [completion("Hello")]
    await expected(provider, "after lunch")
    building = provider._slot.held
    monkeypatch.setattr("ikigai.providers.held_request.MAX_EXPECTED_SECONDS", 0.0)
    assert await provider.prepare(ask("after lunch")) is not building
    assert isinstance((await collect(provider, ask("after lunch")))[-1], StreamFinished)
    assert len(wire_server.requests) == 1


async def test_closed_provider_drops_what_it_expected(provider: OpenAIProvider, wire_server: WireServer) -> None:
    await expected(provider, "never sent")
    await provider.close()
    assert not held() and wire_server.requests == []
