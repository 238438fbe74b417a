"""A body is written whole, whatever it is made of; a large one is put together beside the event loop."""

import asyncio
import json

import pytest

from ikigai.core.events.messages import Image, Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.providers.encoding import LARGE_BODY_BYTES, write_body, write_countable
from tests.providers.conftest import KEY
from tests.providers.formats import FORMATS, Format


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("system", ["", "Be brief."])
async def test_body_is_written_whole(form: Format, count: int, system: str):
    encoder = form.connect("http://127.0.0.1:1", KEY).encoder(form.name)  # type: ignore[attr-defined]
    messages = tuple(Message(role, (Text("x"),)) for role in (Role.USER, Role.ASSISTANT)[:count])
    request = Request(form.name, messages, system)
    body = json.loads(await write_body(encoder, request))
    assert len(body[encoder.array]) == len(encoder.preface(request)) + count
    assert list(body)[: len(encoder.head(request)) + 1][-1] == encoder.array, "the list is the last but for the tail"


@pytest.mark.parametrize("size", [LARGE_BODY_BYTES // 2, LARGE_BODY_BYTES])
async def test_large_body_lets_the_event_loop_run(size: int):
    form = FORMATS["messages"]
    encoder = form.connect("http://127.0.0.1:1", KEY).encoder(form.name)  # type: ignore[attr-defined]
    messages = (Message(Role.USER, (Image("image/png", "A" * size, 64, 64),)),)
    for said in ("the first time", "once its picture is written"):
        messages = (*messages, Message(Role.ASSISTANT, (Text("A"),)), Message(Role.USER, (Text(said),)))
        request = Request(form.name, messages)
        ran: list[bool] = []
        asyncio.get_running_loop().call_soon(ran.append, True)
        body = await write_body(encoder, request)
        assert ran == [True] * (size == LARGE_BODY_BYTES), f"keys are heard meanwhile, {said}"
        assert body == encoder.body(request)


@pytest.mark.parametrize("size", [LARGE_BODY_BYTES // 2, LARGE_BODY_BYTES])
async def test_counting_a_large_body_lets_the_event_loop_run(size: int):
    form = FORMATS["messages"]
    encoder = form.connect("http://127.0.0.1:1", KEY).encoder(form.name)  # type: ignore[attr-defined]
    request = Request(form.name, (Message(Role.USER, (Image("image/png", "A" * size, 64, 64),)),))
    encoder.body(request)
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    assert await write_countable(encoder.countable, request) == encoder.countable(request)
    assert ran == [True] * (size == LARGE_BODY_BYTES), "keys are heard meanwhile"
