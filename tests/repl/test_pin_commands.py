"""Tests of /pin and /unpin over real files: pins, refusals in their words, and changes since."""

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ikigai.core.errors import Rejected
from ikigai.core.events.events import SettingsChanged
from ikigai.core.request.pins import list_pins
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Change
from ikigai.core.state.memory import next_request
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.repl.commands import pin_commands as pinning
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits
from tests.core.memory_log import seal

WIDE = RunConfig({"model": "none/at-all", "budget": 100_000}, lambda _: limits("chat/large"), encoder)
asked: list[Question] = []


def answering(key: str) -> Callable[[Question], Awaitable[QuestionAnswer]]:
    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer(key)

    return ask


@pytest.fixture
def agent() -> Agent:
    asked.clear()
    return Agent(RunConfig({"model": "chat/large", "budget": 100_000}, lambda _: WIDE.limits(""), encoder))


async def pin(agent: Agent, folder: Path, argument: str = "", key: str = "n") -> str:
    told, change = await pinning.pin(argument, agent.memory, folder, answering(key))
    if change:
        agent.happen(change)
    return told


async def refusal(agent: Agent, folder: Path, argument: str) -> str:
    with pytest.raises(Rejected) as refused:
        await pin(agent, folder, argument)
    return str(refused.value)


async def test_pinned_listed_refreshed_and_taken_away(agent: Agent, tmp_path: Path) -> None:
    notes, other = tmp_path / "my notes.md", tmp_path / "sub" / "plan.md"
    other.parent.mkdir()
    notes.write_bytes(b"\xef\xbb\xbfTabs.\r\n")
    other.write_text("One.")
    assert await pin(agent, tmp_path) == "No pinned files. /pin PATH adds a copy of a file to the system prompt."
    assert await pin(agent, tmp_path, "my notes.md") == "" == await pin(agent, tmp_path, "'sub/../sub/plan.md'")
    assert [(each.path, each.text) for each in list_pins(agent.memory.own)] == [
        (str(notes), "Tabs.\r\n"),
        (str(other), "One."),
    ]
    assert (
        await refusal(agent, tmp_path, "my notes.md")
        == "my notes.md is already pinned and has not changed. Remove it: /unpin my notes.md"
    )
    assert await pin(agent, tmp_path, "--refresh") == "No pinned file has changed."

    notes.write_text("Spaces.")
    other.unlink()
    first, second, *_ = (await pin(agent, tmp_path)).splitlines()
    assert first.startswith("my notes.md ") and " UTC" in first and first.endswith("changed since")
    assert second.startswith("sub/plan.md ") and second.endswith("  There is no file sub/plan.md any more")
    assert "Tabs." in next_request(agent.memory).system, "frozen"
    told = await pin(agent, tmp_path, "--refresh")
    assert told.startswith("There is no file sub/plan.md. The version of 20")
    assert "Spaces." in next_request(agent.memory).system and "One." in next_request(agent.memory).system

    assert pinning.list_pinned(agent.memory, tmp_path).keys() == {"my notes.md", "sub/plan.md"}
    with pytest.raises(Rejected, match=r"my note is not pinned. Pinned files: my notes.md"):
        pinning.unpin("my note", agent.memory, tmp_path)
    agent.happen(pinning.unpin("sub/plan.md", agent.memory, Path(f"{tmp_path}/")))
    agent.happen(pinning.unpin(str(notes), agent.memory, Path("/")))
    assert list_pins(agent.memory.own) == () and next_request(agent.memory).system == ""
    assert await refusal(agent, tmp_path, "--refresh") == "No file is pinned. /pin PATH pins a file."


async def test_one_of_several_is_refreshed(agent: Agent, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
        await pin(agent, tmp_path, name)
        (tmp_path / name).write_text("new")
    assert await pin(agent, tmp_path, "--refresh b") == ""
    assert [each.text for each in list_pins(agent.memory.own)] == ["old", "new"]
    assert "c is not pinned. Pinned files: a, b" in await refusal(agent, tmp_path, "--refresh c")


async def test_pin_refuses_other_than_text_files(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "latin").write_bytes("Ödland".encode("latin-1"))
    (tmp_path / "large").write_bytes(b"x" * 300_000)
    (tmp_path / "bad\x1b[31m\u202ename").mkdir()
    said = {
        "nothing": "There is no file nothing.",
        "link": "link is a link to /etc/passwd. Pin the file itself.",
        "folder": "folder is a folder.",
        "pipe": "pipe is not a regular file.",
        "socket": "socket is not a regular file.",
        "/dev/zero": "/dev/zero is not a regular file.",
        "/proc/self/mem": "/proc/self/mem cannot be read: ",
        "empty": "empty is empty.",
        "binary": "binary is not UTF-8 text. Only text can be pinned.",
        "latin": "latin is not UTF-8 text.",
        "large": "large is too large: 300,000 bytes, and 262,144 can be pinned.",
        "folder/\0": "'folder/<U+0000>' is not a path.",
        "~nobody-at-all/x": "'~nobody-at-all/x' is not a path.",
        "x" * 300: "cannot be read: File name too long.",
        "link/below": "link/below cannot be read: Not a directory.",
    }
    for argument, words in said.items():
        assert words in await refusal(agent, tmp_path, argument), argument
    shown = await refusal(agent, tmp_path, "bad\x1b[31m\u202ename")
    assert "is a folder" in shown and "\x1b" not in shown and "\u202e" not in shown
    assert not agent.memory.own


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_pin_refuses_unreadable_files(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    assert "closed cannot be read: Permission denied." in await refusal(agent, tmp_path, "closed")


async def test_pin_that_leaves_no_room_is_refused_with_figures(tmp_path: Path) -> None:
    agent = Agent(RunConfig({"model": "chat/large", "budget": 3_000}, lambda _: WIDE.limits(""), encoder))
    (tmp_path / "long").write_text("x" * 9_000)
    (tmp_path / "fits").write_text("x" * 1_000)
    said = await refusal(agent, tmp_path, "long")
    assert said.startswith("long does not fit: it takes 2.3k tokens, with system prompt, tools and other pins")
    assert "The limit of a request is 3k, with room for turns. Pin less," in said
    await pin(agent, tmp_path, "fits")
    (tmp_path / "fits").write_text("y" * 9_000)
    assert "What has changed does not fit: it takes 2.3k" in await refusal(agent, tmp_path, "--refresh")


async def test_files_that_look_like_keys_are_asked_about(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")
    assert await pin(agent, tmp_path, ".env", "n") == "Nothing was pinned." and not agent.memory.own
    assert ".env looks like a file with keys or passwords." in "".join(asked[0].lines)
    await pin(agent, tmp_path, ".env", "y")
    assert len(asked) == 2 and len(list_pins(agent.memory.own)) == 1


def test_pin_change_is_reported_as_its_command() -> None:
    from ikigai.core.commands.parsers import command_line

    assert (
        command_line(Change({"pin:/a b": "now\nx"})) == "/pin /a b"
        and command_line(Change({"pin:/a": None})) == "/unpin /a"
    )


async def test_refresh_asks_about_a_file_with_keys_as_a_pin_does(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    for name in (".env", "id_rsa", ".ssh/config", "a.md"):
        (tmp_path / name).write_text("old")
        await pin(agent, tmp_path, name, key="y")
        (tmp_path / name).write_text("new")
    asked.clear()
    told = await pin(agent, tmp_path, "--refresh", key="n")
    assert [question.lines[0].split()[0] for question in asked] == [".env", ".ssh/config", "id_rsa"]
    assert told.count("stays pinned.") == 3
    assert [each.text for each in list_pins(agent.memory.own)] == ["old", "old", "new", "old"]
    assert await pin(agent, tmp_path, "--refresh id_rsa", key="y") == ""
    assert [each.text for each in list_pins(agent.memory.own)] == ["old", "old", "new", "new"]


@pytest.mark.parametrize("path", ["/home/anna/.ssh/id_rsa", "{}/b.md", "{}/.env"])
async def test_pin_of_another_program_is_named_and_not_read(agent: Agent, tmp_path: Path, path: str) -> None:
    planted = path.format(tmp_path)
    for name in ("a.md", "b.md", ".env"):
        (tmp_path / name).write_text("here")
    agent = Agent(replace(agent.run, seal=seal))
    await pin(agent, tmp_path, "a.md")
    key = f"pin:{planted}"
    agent.log.seal = None
    agent.log.append("a", (SettingsChanged({key: "2020-01-01 10:00 UTC\nplanted"}, {key: "agent"}),))
    agent = Agent(agent.run, agent.log)
    assert "planted" not in next_request(agent.memory).system
    shown = planted.removeprefix(f"{tmp_path}/")
    assert f"{shown}  not in force: not pinned here." in await pin(agent, tmp_path)
    assert await pin(agent, tmp_path, "--refresh") == "No pinned file has changed." and asked == []
    with pytest.raises(Rejected, match="is not pinned"):
        await pin(agent, tmp_path, f"--refresh {planted}")
    agent.happen(pinning.unpin(planted, agent.memory, tmp_path))
    assert shown not in await pin(agent, tmp_path) and not agent.memory.unconfirmed
