"""Tests of MCP servers: the real process with the SDK against scripted servers, good and bad ones."""

import asyncio
import base64
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from ikigai.core.tools.mcp_tools import CALL_TOOL, McpOffer
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.images import read_picture
from ikigai.tools.mcp.host_messages import (
    CallResult,
    CallTool,
    GetPrompt,
    ReadResource,
    Report,
    ResultPicture,
    ServerLaunch,
    ServerState,
)
from ikigai.tools.mcp.servers import HOST_MODULE, McpServer, McpServers
from ikigai.tools.mcp.tools import McpCallArguments, find_tool, read_result
from tests import ROOT
from tests.tools.mcp.conftest import host_environment

SCRIPT = ROOT / "tests" / "tools" / "mcp" / "scripted_server.py"


def server(name: str, mode: str, file: Path | None = None, **limits: float) -> McpServer:
    command = (sys.executable, str(SCRIPT), mode, *((str(file),) if file else ()))
    environment = {"PATH": os.environ["PATH"]}
    return McpServer(ServerLaunch(name, command, environment, str(ROOT), **limits))


@asynccontextmanager
async def running(folder: Path, *servers: McpServer) -> AsyncIterator[tuple[McpServers, list[str]]]:
    notices = list[str]()
    made = McpServers(
        {each.launch.name: each for each in servers}, host_environment(), folder / "known.json", notices.append
    )
    made.start()
    try:
        yield made, notices
    finally:
        await made.close()


async def until(found: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not found():
            await asyncio.sleep(0.02)


async def call(servers: McpServers, name: str, tool: str, arguments: str = "{}", **more: object) -> CallResult:
    order = CallTool(servers.next_id(), name, tool, arguments)
    return await servers.carry_out(order, **more)  # type: ignore[arg-type]


async def test_servers_of_all_kinds_side_by_side(tmp_path: Path) -> None:
    """Bad servers fail alone, each with its reason, while the good one works."""
    kinds = ("good", "flood", "escapes", "many", "strange", "huge", "invalid")
    servers = [server(kind, kind) for kind in (*kinds, "dead", "killed")]
    silent = server("silent", "silent", startup_seconds=1)
    missing = McpServer(ServerLaunch("missing", ("/nowhere/server",), {}, str(ROOT)))
    async with running(tmp_path, *servers, silent, missing) as (made, notices):
        found = {kind: await made.wait_settled(kind) for kind in (*kinds, "dead", "killed", "silent", "missing")}
        states = {name: (status.state, status.detail) for name, status in found.items()}
        assert states["dead"] == ("failed", "it exited with status 3: license expired")
        assert states["killed"] == ("failed", "it was ended by SIGKILL")
        assert states["silent"] == ("failed", "it did not answer within 1 s")
        assert states["missing"] == ("failed", "/nowhere/server cannot be run: no such file or directory")
        assert {kind: states[kind] for kind in kinds} == dict.fromkeys(kinds, ("ready", ""))

        assert len(made.statuses["many"].definitions) == 1_000
        names = [each.name for each in made.statuses["strange"].definitions]
        assert len(names) == 4 and {"strange__a_b", "strange__fine"} <= set(names)
        assert all(len(name) <= 64 for name in names)
        assert any("'long' of strange is not offered: its schema is longer" in notice for notice in notices)
        invalid = made.statuses["invalid"]
        assert [each.name for each in invalid.definitions] == ["invalid__fine"]
        assert [each.uri for each in invalid.resources] == ["note://one"]
        assert [problem.split(" of invalid is not offered: ")[0] for problem in invalid.problems] == [
            "The tool 'no-object'",
            "The tool 'number 2'",
            "The tool 'number 3'",
            "The resource 'note://two'",
            "The resource 'number 3'",
        ]
        assert invalid.problems[0].endswith("inputSchema.type: Input should be 'object'.")
        assert "2 more definitions of invalid are not offered: /mcp invalid lists them." in notices

        (painted,) = made.statuses["escapes"].definitions
        assert painted.description == "red<U+202E>der<U+E0041>\ufffd", "it hides nothing from who approves the tool"
        assert (await call(made, "escapes", "paint")).text.endswith("\ufffd"), "half a character ends no call"

        assert (await call(made, "good", "add", '{"n": 41}')).text == "42"
        huge = await call(made, "huge", "add", '{"n": 1}')
        assert huge.failed and "longer than 32 MiB" in huge.text
        refused = await call(made, "good", "nothing")
        assert refused.text == "nothing {}"
        assert notices.count("The MCP server dead failed: it exited with status 3: license expired.") == 1
        gone = await call(made, "dead", "add")
        assert gone.failed and "cannot be used" in gone.text
        resource = await made.carry_out(ReadResource(made.next_id(), "good", "note://one"))
        assert resource.text == "The note says seven."
        prompt = await made.carry_out(GetPrompt(made.next_id(), "good", "explain", {"topic": "tides"}))
        assert prompt.text == "Explain tides plainly."


TEXT = {"type": "text", "text": "kept"}
CALLS: dict[str, tuple[Any, str]] = {
    "a list as structured content": ({"content": [TEXT], "structuredContent": [1]}, "kept"),
    "a list alone": ({"content": [], "structuredContent": ["a", {"b": 1}]}, '[\n "a",\n {\n  "b": 1\n }\n]'),
    "a text as structured content": ({"structuredContent": "all"}, '"all"'),
    "another than its schema": ({"content": [TEXT], "structuredContent": {"b": 1}}, "kept"),
    "no content, but what its schema says": ({"content": [], "structuredContent": {"a": 1}}, '{\n "a": 1\n}'),
    "an unknown type": (
        {"content": [{"type": "video", "data": "x"}, TEXT]},
        "[content of the type 'video' left out]\nkept",
    ),
    "an unknown type with a text": ({"content": [{"type": "markdown", "text": "# All"}, TEXT]}, "# All\nkept"),
    "a picture without data": ({"content": [{"type": "image"}, TEXT]}, "[content of the type 'image' left out]\nkept"),
    "a text for the parts": ({"content": "all"}, "all"),
    "a part for the parts": ({"content": TEXT}, "kept"),
    "a text for a part": ({"content": ["all", TEXT, None]}, "all\nkept\n[content left out: "),
    "no error": ({"content": [TEXT], "isError": None}, "kept"),
    "nothing": ({"content": None}, ""),
}


async def test_result_keeps_what_follows_the_protocol_and_names_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "results"
    file.write_text("{}")
    async with running(tmp_path, server("odd", "odd", file)) as (made, _):
        assert (await made.wait_settled("odd")).state == "ready"
        for kind, (result, text) in CALLS.items():
            file.write_text(json.dumps({"tools/call": result}))
            found = await call(made, "odd", "act")
            assert found.text.startswith(text) and not found.failed, (kind, found)
            assert bool(found.text) is bool(text)
        file.write_text(
            json.dumps(
                {
                    "resources/read": {"contents": [{"text": "no uri"}, {"uri": "a:b", "blob": 3}]},
                    "prompts/get": {
                        "messages": [
                            {"role": "user", "content": {"type": "video"}},
                            {"role": "system", "content": {"type": "text", "text": "Be kind."}},
                            {"role": "user", "content": "Plain."},
                        ]
                    },
                }
            )
        )
        resource = await made.carry_out(ReadResource(made.next_id(), "odd", "note://one"))
        assert resource.text.startswith("no uri\n\n[content left out: ") and not resource.failed
        prompt = await made.carry_out(GetPrompt(made.next_id(), "odd", "explain", {"topic": "tides"}))
        assert prompt.text == "[content of the type 'video' left out]\n\nBe kind.\n\nPlain."


async def test_call_is_cancelled_at_the_server_and_ends_at_its_limit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    short = server("short", "good", call_seconds=1)
    async with running(tmp_path, server("good", "good", log), short) as (made, _):
        await made.wait_settled("good")
        waiting = asyncio.create_task(call(made, "good", "wait"))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(log.exists)
        ended = await call(made, "short", "wait")
        assert ended.failed and "did not answer within 1 s" in ended.text
        for name in ("good", "short"):
            assert (await call(made, name, "add", '{"n": 1}')).text == "2", "the server goes on"


async def test_server_that_fails_is_started_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    from ikigai.tools.mcp import server_connection  # loads the SDK

    pauses = server_connection.PAUSES_SECONDS
    assert list(pauses) == sorted(set(pauses))
    monkeypatch.setattr(server_connection, "PAUSES_SECONDS", tuple(each / 1_000 for each in pauses[:3]))
    reports = list[Report]()
    missing = ServerLaunch("missing", ("/nowhere/server",), {}, str(ROOT))
    connection = server_connection.ServerConnection(missing, reports.append)

    def told() -> list[float]:
        return [each.pause for each in reports if isinstance(each, ServerState) and each.state == "failed"]

    try:
        await until(lambda: len(told()) > 3)
    finally:
        await connection.close()
    assert told()[:4] == [0.001, 0.002, 0.005, 0.005]


async def test_question_of_a_server_reaches_the_user_at_its_call(tmp_path: Path) -> None:
    asked = list[Question]()

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("2")

    async with running(tmp_path, server("good", "good"), server("other", "good")) as (made, _):
        await made.wait_settled("good")
        assert (await call(made, "good", "ask", ask=ask)).text == '{"color": "blue"}'
        assert asked[0].title == "The MCP server good asks" and "Which?" in asked[0].lines
        assert [choice.label for choice in asked[0].choices][:2] == ["red", "blue"]
        elsewhere = asyncio.create_task(call(made, "other", "wait", ask=ask))
        await made.wait_settled("other")
        assert (await call(made, "good", "ask")).text == "null", "where nobody can be asked it is cancelled"
        assert len(asked) == 1, "a call of another server asks nothing"
        elsewhere.cancel()


async def test_changed_list_is_told_and_used_from_the_next_turn(tmp_path: Path) -> None:
    async with running(tmp_path, server("good", "good")) as (made, notices):
        await made.wait_settled("good")
        before = made.offer(McpOffer(), 10_000)
        await call(made, "good", "change")
        await until(lambda: made.find("good__later"))
        assert notices == ["The MCP server good changed its tools. They are used from the next turn on."]
        after = made.offer(before, 10_000)
        assert {each.tool for each in after.definitions} - {each.tool for each in before.definitions} == {"later"}


async def test_definitions_of_an_earlier_run_are_offered_before_the_server_is_ready(tmp_path: Path) -> None:
    async with running(tmp_path, server("good", "good")) as (made, _):
        await made.wait_settled("good")
        known = made.offer(McpOffer(), 10_000)
    late = McpServers({"good": server("good", "good")}, {}, tmp_path / "known.json")
    assert late.statuses["good"].state == "starting" and late.offer(McpOffer(), 10_000) == known
    other = McpServers({"good": server("good", "silent")}, {}, tmp_path / "known.json")
    assert other.offer(McpOffer(), 10_000) == McpOffer(), "another command is another server"
    assert other.offer(known, 10_000) == known, "until it is ready the conversation keeps what it has used"


async def test_tool_that_changes_between_decision_and_call_is_not_called(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Reads.")
    async with running(tmp_path, server("changing", "changing", text)) as (made, _):
        await made.wait_settled("changing")
        arguments = McpCallArguments("changing__act", {})
        for name, given in (("changing__act", {}), (CALL_TOOL, arguments)):
            found = [find_tool(made, name, None) for _ in range(2)]
            shown, other = (each for each in found if each)
            await shown.preview(given)
            await other.preview(given)
            assert (await shown.run(given, print)).text == "act {}"
            text.write_text(f"Deletes, {name}.")
            await until(lambda: any(name in each.description for each in made.all_definitions()))  # noqa: B023
            refused = await other.run(given, print)
            assert refused.failed and "was not called: its server has changed it" in refused.text
    text.write_text("Something else.")
    async with running(tmp_path, server("changing", "changing", text)) as (made, _):
        known = find_tool(made, "changing__act", None)
        assert known and made.statuses["changing"].state == "starting"
        await known.preview({})
        refused = await known.run({}, print)
        assert refused.failed and "has changed it" in refused.text, "it was decided by what an earlier run knew"


@pytest.mark.own_interpreter
async def test_no_process_is_left_however_it_ends(tmp_path: Path) -> None:
    """The daemon of a server ends with its server, with the process of all servers, and with ikigai."""
    pids = tmp_path / "pids"

    def alive() -> list[int]:
        return [pid for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid) and not _is_zombie(pid)]

    async with running(tmp_path, server("children", "children", pids)) as (made, _):
        await made.wait_settled("children")
        assert len(alive()) == 2
        made.restart("children")
        old = pids.read_text()
        await until(lambda: pids.read_text() not in ("", old))
        await until(lambda: not any(psutil.pid_exists(pid) and not _is_zombie(pid) for pid in map(int, old.split())))

        await until(lambda: made.statuses["children"].state == "ready")
        below = psutil.Process().children(recursive=True)
        (host,) = [each for each in below if each.cmdline()[1:] == ["-m", HOST_MODULE]]
        before = pids.read_text()
        host.send_signal(signal.SIGKILL)
        await until(lambda: made.statuses["children"].state == "failed")
        await until(lambda: pids.read_text() not in ("", before))
        await until(lambda: not any(psutil.pid_exists(pid) and not _is_zombie(pid) for pid in map(int, before.split())))
        await until(lambda: made.statuses["children"].state == "ready")
        assert len(alive()) == 2, "it has been started again"
    assert not alive()


async def test_pictures_of_a_result_are_shown_or_named() -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(file, "PNG")
    good = ResultPicture(base64.b64encode(file.getvalue()).decode(), "image/png")
    result = CallResult("1", "Look.", (good, ResultPicture("d29yZHM=", "image/png"), ResultPicture("no base64")))
    shown = await read_result(result, read_picture)
    assert len(shown.images) == 1 and not shown.failed
    assert shown.text.startswith("Look.\n[picture left out: ") and shown.text.count("[picture left out: ") == 2
    assert (await read_result(CallResult("1", pictures=(good,)), read_picture)).text == ""


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
