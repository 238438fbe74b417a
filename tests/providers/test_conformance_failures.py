"""One table of failures for all vendors: whatever a server does wrong means the same over every adapter."""

import json
import re
from typing import Any

import pytest

from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.request.reply import NOT_AN_OBJECT, FailureKind, StreamFailed, StreamFinished
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.memory import next_request
from ikigai.providers.models.models import ModelCatalog
from tests import GOLDEN
from tests.providers.conformance import TOOLS, Step, Talk
from tests.providers.conftest import KEY, ask, collect, reply
from tests.providers.formats import USAGE, Format
from tests.support.invariants import sound
from tests.support.wire_server import Answer, WireServer

EXCEEDED = GOLDEN / "context_exceeded.json"
SAID = (Text("Hello."),)
JUNK = b"event: content_block_delta\ndata: {nonsense\n\n"


def answers(form: Format) -> list[tuple[str, Answer, FailureKind]]:
    """Return the answers of a server instead of a reply, and the failure that each means."""
    whole = form.stream(SAID, StopReason.END)
    html = {"Content-Type": "text/html; charset=utf-8"}
    statuses = {
        400: FailureKind.REFUSED,
        401: FailureKind.AUTH,
        402: FailureKind.QUOTA,
        403: FailureKind.AUTH,
        404: FailureKind.NOT_FOUND,
        408: FailureKind.OVERLOADED,
        409: FailureKind.OVERLOADED,
        413: FailureKind.CONTEXT,
        422: FailureKind.REFUSED,
        429: FailureKind.RATE,
        500: FailureKind.OVERLOADED,
        502: FailureKind.OVERLOADED,
        503: FailureKind.OVERLOADED,
        504: FailureKind.OVERLOADED,
        529: FailureKind.OVERLOADED,
    }
    return [
        *((f"{status}", form.refusal(status, "No.", ""), kind) for status, kind in statuses.items()),
        *((f"{status} as a page", Answer(b"<html>", status, dict(html)), kind) for status, kind in statuses.items()),
        *((f"{status} without a word", Answer(b"", status, {}), kind) for status, kind in statuses.items()),
        ("quota", form.quota, FailureKind.QUOTA),
        ("a redirect", Answer(b"", 307, {"Location": "http://127.0.0.1:1/"}), FailureKind.NOT_FOUND),
        ("a page", Answer(b"<!DOCTYPE html><h1>Welcome", headers=dict(html)), FailureKind.NOT_FOUND),
        ("an empty page", Answer(b"", headers=dict(html)), FailureKind.NOT_FOUND),
        ("a page of a megabyte", Answer(b"x" * 1_000_000, headers=dict(html)), FailureKind.NOT_FOUND),
        ("an error dressed as success", form.refusal(200, "loading", "api_error"), FailureKind.OVERLOADED),
        ("nothing at all", Answer(b""), FailureKind.CUT),
        ("comments alone", Answer(b": keep-alive\n\n" * 3), FailureKind.CUT),
        ("an overload at once", Answer(form.reported("Overloaded")), FailureKind.OVERLOADED),
        ("an overload in the middle", Answer(form.late("Half") + form.reported("Overloaded")), FailureKind.OVERLOADED),
        ("too long, said in the stream", Answer(form.reported("prompt is too long")), FailureKind.CONTEXT),
        ("no JSON", Answer(JUNK + whole), FailureKind.CUT),
        ("cut in the middle", Answer(whole, cut=len(whole) // 3), FailureKind.CUT),
        ("reset in the middle", Answer(whole, cut=len(whole) // 3, end="reset"), FailureKind.CUT),
    ]


async def test_every_answer_that_is_no_reply(form: Format, vendor: Any, wire_server: WireServer):
    meant = {}
    for name, answer, _ in answers(form):
        wire_server.script.append(answer)
        before = len(wire_server.requests)
        ended = (await collect(vendor, ask()))[-1]
        assert isinstance(ended, StreamFailed), name
        assert ended.text.endswith(".") and "\n" not in ended.text and KEY not in ended.text, name
        assert ended.remedy.endswith("."), name
        assert ended.kind is not FailureKind.NOT_FOUND or vendor.address in ended.text, name
        assert len(wire_server.requests) == before + 1, name
        meant[name] = ended.kind
    assert meant == {name: kind for name, _, kind in answers(form)}


async def test_request_that_is_too_long_in_every_servers_words(form: Format, vendor: Any, wire_server: WireServer):
    for case in json.loads(EXCEEDED.read_text()):
        wire_server.script.append(form.refusal(case["status"], case["message"], ""))
        [broke] = await collect(vendor, ask())
        assert isinstance(broke, StreamFailed)
        assert (broke.kind is FailureKind.CONTEXT) is case["exceeded"], case["message"]


NAMELESS = ("chat", "google")
"""Formats whose events have no names."""


def odd_streams(form: Format) -> dict[str, bytes]:
    """Streams that say SAID and end, and hold something besides that nobody may stumble over."""
    whole = form.stream(SAID, StopReason.END)
    found: dict[str, bytes] = {
        "plain": whole,
        "two ends": whole + whole,
        "words behind the end": whole + form.late("More."),
        "a call behind the end": whole + form.stream((ToolCall("c", "ls"),), StopReason.TOOLS),
        "events of unknown kinds": b'data: {"type": "new_thing", "n": [1]}\n\ndata: {}\n\n' + whole,
        "the other ends of lines": whole.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
        "junk behind the end": whole + JUNK,
        "an error behind the end": whole + form.reported("Overloaded"),
    }
    lines = whole.replace(b"\r\n", b"\n")
    return found | {
        "comments and pings": b': hi\n\nevent: ping\ndata: {"type": "ping"}\n\nevent: ping\ndata:\n\n' + whole,
        "events without data": b"id: 7\nretry: 10\n\n\n" + whole + b"event: bye\n\n",
        "a byte order mark": b"\xef\xbb\xbf" + whole,
        "no blank behind the colon": lines.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
        "no names of events": re.sub(rb"(?m)^event:.*\n", b"", lines),
        "names of events": lines.replace(b"data: ", b"event: chunk\ndata: ") if form.api in NAMELESS else whole,
        "returns alone": lines.replace(b"\n", b"\r"),
        "no empty line at the end": lines.rstrip(b"\n"),
    }


async def test_whole_reply_among_what_nobody_knows(form: Format, vendor: Any, wire_server: WireServer):
    for name, body in odd_streams(form).items():
        wire_server.script.append(Answer(body))
        found = await collect(vendor, ask())
        assert reply(found).blocks() == SAID, name
        assert isinstance(found[-1], StreamFinished), name
        assert (found[-1].stop, found[-1].usage) == (StopReason.END, USAGE), name


async def test_whole_reply_stays_whole_when_the_connection_breaks_behind_it(
    form: Format, vendor: Any, wire_server: WireServer
):
    wire_server.script.append(Answer(form.stream(SAID, StopReason.END) + b"data: {", end="reset"))
    found = await collect(vendor, ask())
    assert reply(found).blocks() == SAID
    assert isinstance(found[-1], StreamFinished) and found[-1].stop is StopReason.END


async def test_endless_words_of_a_server_are_shortened(form: Format, vendor: Any, wire_server: WireServer):
    wire_server.script.append(form.refusal(400, "x" * 100_000, ""))
    [broke] = await collect(vendor, ask())
    assert isinstance(broke, StreamFailed)
    assert len(broke.text) == 400


@pytest.mark.ordinary("chat", "messages")
async def test_ten_megabytes_in_one_line(form: Format, vendor: Any, wire_server: WireServer):
    long = "é" * 5_000_000
    whole = form.stream(SAID, StopReason.END)
    wire_server.script.append(Answer(form.late(long) + whole))
    found = await collect(vendor, ask())
    if form.api in ("anthropic", "responses"):  # there the first word opens an output of its own
        assert long in reply(found).text.replace("\n", "")
    else:
        assert reply(found).text == long + "Hello."
    assert isinstance(found[-1], StreamFinished)


# ── calls that are none ──


def talk_with(form: Format, vendor: Any) -> Talk:
    run = RunConfig(
        {"model": form.model, "budget": 100_000},
        ModelCatalog().limits,
        lambda model: vendor.encoder(form.name),
        tools=TOOLS,
    )
    return Talk(run)


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", "null", "5", "nonsense", '"a"', '{"n": NaN}'])
async def test_arguments_that_are_no_object_run_nothing_and_never_come_back(
    form: Format, vendor: Any, wire_server: WireServer, arguments: str
):
    if form.api == "google" and arguments == "null":
        pytest.skip("there it means that there are none")
    talk = talk_with(form, vendor)
    calls = (ToolCall("call_1", "ls", arguments), ToolCall("call_2", "cat", '{"n": 3}'))
    wire_server.script += [Answer(form.stream(calls, StopReason.TOOLS)), Answer(form.stream(SAID, StopReason.END))]
    _, events = await talk.step(Step(calls, "Look.", stop=StopReason.TOOLS, results=(("seen", False),)), vendor)
    [error] = [event for event in events if isinstance(event, ToolResult)]
    assert error.content.startswith(NOT_AN_OBJECT) and error.is_error
    await talk.step(Step(SAID), vendor)
    told = form.read(wire_server.requests[-1].json)
    assert told == [
        ("user", "Look."),
        ("call", "call_1", "ls", {}),
        ("call", "call_2", "cat", {"n": 3}),
        ("result", "call_1", error.content, True),
        ("result", "call_2", "seen", False),
    ]


async def test_ids_that_come_twice_or_not_at_all(form: Format, vendor: Any, wire_server: WireServer):
    talk = talk_with(form, vendor)
    calls = tuple(ToolCall(id, name) for id in ("a", "a", "") for name in ("ls", "cat"))
    step = Step(calls, "Look.", stop=StopReason.TOOLS, results=tuple((f"{n}", False) for n in range(6)))
    for again in (step, step._replace(user="")):
        wire_server.script.append(Answer(form.stream(calls, StopReason.TOOLS)))
        await talk.step(again, vendor)
    wire_server.script.append(Answer(form.stream(SAID, StopReason.END)))
    await talk.step(Step(SAID), vendor)
    told = form.read(wire_server.requests[-1].json)
    asked = [(entry[1], entry[2]) for entry in told if entry[0] == "call"]
    assert [name for _, name in asked] == ["ls", "cat"] * 6
    assert len({id for id, _ in asked}) == 12
    results = [(entry[1], entry[2]) for entry in told if entry[0] == "result"]
    assert results == [(id, f"{n % 6}") for n, (id, _) in enumerate(asked)]
    sound(next_request(talk.memory))
