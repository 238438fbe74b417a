"""One table of failures for all vendors: whatever a server does wrong means the same over every adapter."""

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.memory import Run, request
from ikigai.core.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.reply import NOT_AN_OBJECT, Broke, Failure, Finished
from ikigai.providers.models import Models
from tests.invariants import sound
from tests.providers.conformance import TOOLS, Step, Talk
from tests.providers.conftest import KEY, ask, collect, reply
from tests.providers.formats import FORMATS, USAGE, Format
from tests.wire_server import Answer, WireServer

GOLDEN = Path(__file__).parents[1] / "golden" / "context_exceeded.json"
SAID = (Text("Hello."),)
JUNK = b"event: content_block_delta\ndata: {nonsense\n\n"


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]


@pytest.fixture
async def vendor(form: Format, wire_server: WireServer) -> AsyncIterator[Any]:
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY)
    yield provider
    await provider.close()


def answers(form: Format) -> list[tuple[str, Answer, Failure]]:
    """What a server may answer instead of a reply, and what that means."""
    whole = form.stream(SAID, StopReason.END)
    html = {"Content-Type": "text/html; charset=utf-8"}
    statuses = {
        400: Failure.REFUSED,
        401: Failure.AUTH,
        402: Failure.QUOTA,
        403: Failure.AUTH,
        404: Failure.NOT_FOUND,
        408: Failure.OVERLOADED,
        409: Failure.OVERLOADED,
        413: Failure.CONTEXT,
        422: Failure.REFUSED,
        429: Failure.RATE,
        500: Failure.OVERLOADED,
        502: Failure.OVERLOADED,
        503: Failure.OVERLOADED,
        504: Failure.OVERLOADED,
        529: Failure.OVERLOADED,
    }
    return [
        *((f"{status}", form.refusal(status, "No.", ""), kind) for status, kind in statuses.items()),
        *((f"{status} as a page", Answer(b"<html>", status, dict(html)), kind) for status, kind in statuses.items()),
        *((f"{status} without a word", Answer(b"", status, {}), kind) for status, kind in statuses.items()),
        ("quota", form.quota, Failure.QUOTA),
        ("a redirect", Answer(b"", 307, {"Location": "http://127.0.0.1:1/"}), Failure.NOT_FOUND),
        ("a page", Answer(b"<!DOCTYPE html><h1>Welcome", headers=dict(html)), Failure.NOT_FOUND),
        ("a page of a megabyte", Answer(b"x" * 1_000_000, headers=dict(html)), Failure.NOT_FOUND),
        ("an error dressed as success", form.refusal(200, "loading", "api_error"), Failure.OVERLOADED),
        ("nothing at all", Answer(b""), Failure.CUT),
        ("comments alone", Answer(b": keep-alive\n\n" * 3), Failure.CUT),
        ("an overload at once", Answer(form.reported("Overloaded")), Failure.OVERLOADED),
        ("an overload in the middle", Answer(form.late("Half") + form.reported("Overloaded")), Failure.OVERLOADED),
        ("too long, said in the stream", Answer(form.reported("prompt is too long")), Failure.CONTEXT),
        ("no JSON", Answer(JUNK + whole), Failure.CUT),
        ("cut in the middle", Answer(whole, cut=len(whole) // 3), Failure.CUT),
        ("reset in the middle", Answer(whole, cut=len(whole) // 3, end="reset"), Failure.CUT),
    ]


async def test_every_answer_that_is_no_reply(form: Format, vendor: Any, wire_server: WireServer):
    meant = {}
    for name, answer, _ in answers(form):
        wire_server.script.append(answer)
        before = len(wire_server.requests)
        ended = (await collect(vendor, ask()))[-1]
        assert isinstance(ended, Broke), name
        assert ended.text.endswith(".") and "\n" not in ended.text and KEY not in ended.text, name
        assert ended.remedy.endswith("."), name
        assert len(wire_server.requests) == before + 1, name
        meant[name] = ended.kind
    assert meant == {name: kind for name, _, kind in answers(form)}


async def test_a_request_that_is_too_long_in_every_servers_words(form: Format, vendor: Any, wire_server: WireServer):
    for case in json.loads(GOLDEN.read_text()):
        wire_server.script.append(form.refusal(case["status"], case["message"], ""))
        [broke] = await collect(vendor, ask())
        assert isinstance(broke, Broke)
        assert (broke.kind is Failure.CONTEXT) is case["exceeded"], case["message"]


def odd_streams(form: Format) -> dict[str, bytes]:
    """Streams that say SAID and end, and hold something besides that nobody may stumble over."""
    whole = form.stream(SAID, StopReason.END)
    found = {
        "plain": whole,
        "two ends": whole + whole,
        "words behind the end": whole + form.late("More."),
        "a call behind the end": whole + form.stream((ToolCall("c", "ls"),), StopReason.TOOLS),
        "events of unknown kinds": b'data: {"type": "new_thing", "n": [1]}\n\ndata: {}\n\n' + whole,
        "the other ends of lines": whole.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
        "junk behind the end": whole + JUNK,
        "an error behind the end": whole + form.reported("Overloaded"),
    }
    if form.api != "google":  # whose SDK takes every line that is no data for a part of an error
        found |= {
            "comments and pings": b': hi\n\nevent: ping\ndata: {"type": "ping"}\n\n' + whole,
            "events without data": b"id: 7\nretry: 10\n\n\n" + whole + b"event: bye\n\n",
        }
    return found


async def test_a_whole_reply_among_what_nobody_knows(form: Format, vendor: Any, wire_server: WireServer):
    for name, body in odd_streams(form).items():
        wire_server.script.append(Answer(body))
        found = await collect(vendor, ask())
        assert reply(found).blocks() == SAID, name
        assert isinstance(found[-1], Finished), name
        assert (found[-1].stop, found[-1].usage) == (StopReason.END, USAGE), name


async def test_ten_megabytes_in_one_line(form: Format, vendor: Any, wire_server: WireServer):
    long = "é" * 5_000_000
    whole = form.stream(SAID, StopReason.END)
    wire_server.script.append(Answer(form.late(long) + whole))
    found = await collect(vendor, ask())
    if form.api in ("anthropic", "responses"):  # there the first word opens an output of its own
        assert long in reply(found).text.replace("\n", "")
    else:
        assert reply(found).text == long + "Hello."
    assert isinstance(found[-1], Finished)


# ── calls that are none ──


def talk_with(form: Format, vendor: Any) -> Talk:
    run = Run(
        {"model": form.model, "budget": 100_000}, Models().limits, lambda model: vendor.encoder(form.name), tools=TOOLS
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
    _, facts = await talk.step(Step(calls, "Look.", stop=StopReason.TOOLS, results=(("seen", False),)), vendor)
    [error] = [fact for fact in facts if isinstance(fact, ToolResult)]
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
    sound(request(talk.memory))


# ── silence, and no connection ──


@pytest.mark.parametrize("body", ["nothing", "half", "page"])
async def test_a_server_that_stalls(form: Format, wire_server: WireServer, body: str):
    whole = form.stream(SAID, StopReason.END)
    headers = {"Content-Type": "text/html" if body == "page" else "text/event-stream"}
    cut = 0 if body == "nothing" else len(whole) // 3
    wire_server.script.append(Answer(whole, cut=cut, headers=headers, end="hang"))
    provider: Any = form.connect(f"http://127.0.0.1:{wire_server.port}", KEY, first=0.3, idle=0.2)
    await provider.warm()
    ended = (await collect(provider, ask()))[-1]
    assert isinstance(ended, Broke)
    assert (ended.kind, "sent nothing for 0." in ended.text) == (Failure.CUT, True)
    await asyncio.wait_for(wire_server.hung_up.wait(), 5)
    await provider.close()


async def test_nothing_listens(form: Format, vendor: Any, wire_server: WireServer):
    await wire_server.stop()
    await _fails(vendor, Failure.UNREACHABLE, "nothing listens there")
    await wire_server.start()


async def test_a_name_that_nobody_knows(form: Format):
    await _fails(form.connect("http://nowhere.invalid", KEY), Failure.UNREACHABLE, "the name is not known")


async def test_a_connection_that_breaks_before_the_answer(form: Format):
    for said in (b"", b"HTTP/1.1 200 OK\r\nContent-Ty", b"nonsense\r\n\r\n"):

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = said) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await _fails(form.connect(f"http://127.0.0.1:{port}", KEY), Failure.UNREACHABLE, "cannot be reached")
        server.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Of a server that nobody trusts: it has signed its certificate itself."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1"
    command = f"openssl req -x509 {curve} -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_certificate_that_nobody_trusts(form: Format, certificate: ssl.SSLContext):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate)
    port = server.sockets[0].getsockname()[1]
    await _fails(form.connect(f"https://127.0.0.1:{port}", KEY), Failure.UNAVAILABLE, "self")
    server.close()


async def _fails(provider: Any, kind: Failure, words: str) -> None:
    [broke] = await collect(provider, ask())
    assert isinstance(broke, Broke)
    assert (broke.kind, words in broke.text) == (kind, True), broke
    await provider.close()
