"""The limits of what an answer may take, in every format, against a server that sends more than that."""

import gzip
import json
import re
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.request.reply import FailureKind, StreamFailed, StreamFinished
from ikigai.providers.http.answer_limits import MAX_ANSWER_BYTES, MAX_LINE_BYTES, UnusableAnswer, decompress
from ikigai.providers.http.event_stream import EventDecoder
from tests.providers.conftest import collect, reply
from tests.providers.formats import FORMATS, Format
from tests.support.wire_server import Answer, WireServer, call_delta, chunk, sse

GZIP = {"Content-Encoding": "gzip"}
BOMB_BYTES = 128 << 20
MOST_MEMORY = 64 << 20


@cache
def bomb() -> bytes:
    """128 MiB of one character, in a few hundred KiB."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    piece = b"x" * (1 << 20)
    return b"".join([*(packer.compress(piece) for _ in range(BOMB_BYTES >> 20)), packer.flush()])


@pytest.mark.ordinary("chat-*", "*event-stream*")
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (500, "application/json", r"could not answer \(500\)"),
        (400, "text/plain", r"refused the request \(400\)"),
        (200, "text/html", "is not a model"),
        (200, "application/json", "is not a model|sent an answer of more than 16 MiB"),
        (200, "text/event-stream", "sent a line of more than 32 MiB"),
    ],
)
async def test_compressed_bomb_costs_little(
    form: Format, vendor: Any, wire_server: WireServer, status: int, kind: str, words: str
):
    await vendor.preload()
    wire_server.script = [Answer(bomb(), status, {"Content-Type": kind, **GZIP})]
    tracemalloc.start()
    try:
        [failed] = await collect(vendor)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(failed, StreamFailed) and re.search(words, failed.text)
    assert peak < MOST_MEMORY


@pytest.mark.parametrize("status", [200, 500])
async def test_list_of_models_that_is_a_bomb(vendor: Any, wire_server: WireServer, status: int):
    await vendor.preload()
    wire_server.script = [Answer(bomb(), status, {"Content-Type": "application/json", **GZIP})]
    tracemalloc.start()
    try:
        with pytest.raises(IkigaiError):
            await vendor.models()
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [MAX_ANSWER_BYTES, MAX_ANSWER_BYTES + 1])
async def test_whole_answer_has_a_cap(wire_server: WireServer, size: int):
    """Up to the cap an answer of JSON is read, a reply as well as a list of models; beyond that it is refused."""
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "data": [{"id": "m"}], "more": ""}
    body = json.dumps(whole).encode()
    body = body[:-2] + b"x" * (size - len(body)) + body[-2:]
    wire_server.script = [Answer(body, headers={"Content-Type": "application/json"})] * 2
    chat: Any = FORMATS["chat"].connect(f"http://127.0.0.1:{wire_server.port}", "")
    try:
        end = (await collect(chat))[-1]
        if size > MAX_ANSWER_BYTES:
            assert isinstance(end, StreamFailed) and end.text == "mine sent an answer of more than 16 MiB."
            with pytest.raises(IkigaiError, match="sent an answer of more than 16 MiB"):
                await chat.models()
        else:
            assert isinstance(end, StreamFinished)
            assert [model.id for model in await chat.models()] == ["m"]
    finally:
        await chat.close()


async def test_compressed_stream_is_read(form: Format, vendor: Any, wire_server: WireServer):
    body = form.stream((Text("Hello."),), StopReason.END)
    packed = {"gzip": gzip.compress(body), "deflate": zlib.compress(body), "identity": body}
    for encoding, content in packed.items():
        kind = {"Content-Type": "text/event-stream", "Content-Encoding": encoding}
        wire_server.script.append(Answer(content, headers=kind))
        found = await collect(vendor)
        assert reply(found).text == "Hello.", encoding
    assert wire_server.requests[-1].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip, gzip", b"x"), ("gzip", b"no gzip")])
async def test_compression_that_cannot_be_read(vendor: Any, wire_server: WireServer, encoding: str, body: bytes):
    wire_server.script = [Answer(body, headers={"Content-Type": "text/event-stream", "Content-Encoding": encoding})]
    [failed] = await collect(vendor)
    assert isinstance(failed, StreamFailed)
    assert failed.kind is FailureKind.REFUSED and "compressed" in failed.text


async def test_headers_of_a_megabyte_are_refused(vendor: Any, wire_server: WireServer):
    wire_server.script = [Answer(b"", headers={"X-Long": "x" * 1_000_000})]
    [failed] = await collect(vendor)
    assert isinstance(failed, StreamFailed)


async def test_arguments_without_end_are_given_up(wire_server: WireServer):
    piece = chunk({"tool_calls": [call_delta(0, id="c", name="w", arguments="x" * 1_000_000)]})
    wire_server.script = [Answer(sse(*[piece] * 20, chunk(finish="tool_calls")))]
    chat: Any = FORMATS["chat"].connect(f"http://127.0.0.1:{wire_server.port}", "")
    try:
        failed = (await collect(chat))[-1]
    finally:
        await chat.close()
    assert isinstance(failed, StreamFailed)
    assert failed.text == "mine sent a reply of more than 16 million characters."


async def pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


@given(st.binary(max_size=3_000), st.integers(1, 5_000), st.sampled_from(["gzip", "deflate", ""]))
async def test_decompressed_bytes_are_those_that_were_sent(body: bytes, size: int, encoding: str):
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "": bytes}[encoding](body)
    assert b"".join([piece async for piece in decompress(pieces(packed, size), encoding)]) == body


def test_long_line_in_small_pieces_takes_linear_time():
    """Measured against itself, with a factor that quadratic time would exceed by far."""

    def seconds(size: int) -> float:
        decoder, begun = EventDecoder(), time.process_time()
        for _ in range(size // 512):
            list(decoder.feed(b"x" * 512))
        return time.process_time() - begun

    seconds(1 << 20)
    assert seconds(16 << 20) < 16 * 8 * max(seconds(1 << 20), 0.001)


def test_line_above_the_cap_is_refused():
    decoder = EventDecoder()
    with pytest.raises(UnusableAnswer, match="32 MiB"):
        for _ in range(MAX_LINE_BYTES // 65_536 + 1):
            list(decoder.feed(b"data: " + b"x" * 65_530))


EVENTS = [
    b'data: {"a": 1}',
    b"data:[1,\ndata: 2]",
    b": hi",
    b"event: ping\ndata: no json",
    b'event: named\ndata: {"b":2}',
]
DECODED: list[list[object]] = [[{"a": 1}], [[1, 2]], [], [], [{"type": "named", "b": 2}]]


@given(st.lists(st.integers(0, len(EVENTS) - 1)), st.integers(1, 40), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_those_that_were_sent_however_they_are_cut(sent: list[int], size: int, end: bytes):
    body = b"".join(EVENTS[n].replace(b"\n", end) + end + end for n in sent)
    decoder = EventDecoder()
    found = [event for at in range(0, len(body), size) for event in decoder.feed(body[at : at + size])]
    assert [*found, *decoder.finish()] == [event for n in sent for event in DECODED[n]]


BARE_ERROR = b'{\n  "error": {\n    "code": 503,\n    "message": "Overloaded"\n  }\n}\n'


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("comment", [b": ping\n", b":\n", b": {\n", b": }\n"])
def test_comments_are_no_part_of_an_error_outside_events(comment: bytes, size: int):
    """Google sends an error as lines of plain JSON; gateways put comments between lines."""
    body = comment + b"".join(line + comment for line in BARE_ERROR.splitlines(keepends=True))
    decoder = EventDecoder()
    found = [event for at in range(0, len(body), size) for event in decoder.feed(body[at : at + size])]
    assert [*found, *decoder.finish()] == [{"error": {"code": 503, "message": "Overloaded"}}]


async def test_stream_that_stays_open_behind_its_last_event_is_left(wire_server: WireServer):
    body = FORMATS["chat"].stream((Text("Hi"),), StopReason.END)
    wire_server.script = [Answer(body, end="hang")]
    chat: Any = FORMATS["chat"].connect(f"http://127.0.0.1:{wire_server.port}", "")
    try:
        assert isinstance((await collect(chat))[-1], StreamFinished)
        await wire_server.hung_up.wait()
    finally:
        await chat.close()
