"""Tests of drafts in files: they outlive a kill, go when they are sent, and are private to a living program."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ikigai.core.errors import Unavailable
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.repl.drafts import input_drafts as typed
from ikigai.repl.drafts.draft_files import DraftFiles
from ikigai.repl.drafts.input_drafts import CLOCK_SKEW, without_sent

KEEPS = """
import asyncio, sys
from pathlib import Path
from ikigai.repl.drafts.draft_files import DraftFiles

async def main():
    unsent = DraftFiles(Path(sys.argv[1]), {})
    await unsent.save("agent", sys.argv[2])
    print("kept", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("unsent-*"))


def another(folder: Path, text: str) -> subprocess.Popen[str]:
    """Start a program that has a draft."""
    child = subprocess.Popen([sys.executable, "-c", KEEPS, str(folder), text], stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "kept\n"
    return child


def itself_as_view(screen: SimpleNamespace) -> SimpleNamespace:
    screen.view = screen
    return screen


async def no_more() -> str:
    """Stand for agents that end without returning anything."""
    return ""


async def test_draft_of_a_killed_program_is_taken_over_once(folder: Path):
    child = another(folder, "half a säntence\n日本")
    try:
        ours = DraftFiles(folder, {})
        assert await ours.take("agent") == await ours.take("other") == ("", 0)  # it is alive
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (await ours.take("agent"))[0] == "half a säntence\n日本"
        assert await ours.take("agent") == await DraftFiles(folder, {}).take("agent") == ("", 0)
        await ours.save("agent", "shorter")
        assert [file.read_text() for file in files(folder)] == ["shorter"]
        await ours.save("agent", "")
        assert files(folder) == []
    finally:
        child.kill()
        child.wait()


async def test_several_drafts_of_dead_programs_become_one(folder: Path):
    children = [another(folder, text) for text in ("one", "two")]
    for child in children:
        child.kill()
        child.wait()
    ours = DraftFiles(folder, {})
    assert sorted((await ours.take("agent"))[0].split()) == ["one", "two"]
    assert len(files(folder)) == 1
    ours.close()
    assert len(files(folder)) == 1


async def test_text_of_a_draft_is_in_another_file_before_its_own_goes(folder: Path, monkeypatch: pytest.MonkeyPatch):
    children = [another(folder, text) for text in ("one", "two", "three")]
    for child in children:
        child.kill()
        child.wait()
    seen, unlink = list[set[str]](), Path.unlink

    def look_and_unlink(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        seen.append({word for file in files(folder) for word in file.read_text().split()})

    monkeypatch.setattr(Path, "unlink", look_and_unlink)
    ours = DraftFiles(folder, {})
    await ours.save("agent", "mine")
    taken, _ = await ours.take("agent")
    assert set(taken.split()) == {"one", "two", "three"}
    assert seen == [{"one", "two", "three", "mine"}] * 3


async def test_files_are_private_and_hold_no_secret_of_the_environment(folder: Path):
    unsent = DraftFiles(folder, {"OPENAI_API_KEY": "sk-0123456789", "HOME": "/home/somebody"})
    await unsent.save("agent", "in /home/somebody")
    (file,) = files(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await unsent.save("agent", "my key is sk-0123456789, you see")
    assert files(folder) == []
    unsent.close()


async def test_files_hold_no_key_that_is_typed_after_login(folder: Path):
    unsent = DraftFiles(folder, {})
    await unsent.save("agent", "/login sk-0123456789")
    assert files(folder) == []
    await unsent.save("agent", "first\n /login openai sk-0123456789\nuse /login for it")
    (file,) = files(folder)
    assert file.read_text() == "first\nuse /login for it"
    await unsent.save("agent", '"a"\n"/login openai sk-0123456789"\n"b"')  # the stash
    assert file.read_text() == '"a"\n"b"'
    unsent.close()


async def test_drafts_go_on_unsaved_when_no_file_can_be_made(tmp_path: Path):
    (tmp_path / "state").write_text("a file")
    unsent = DraftFiles(tmp_path / "state", {})
    await unsent.save("agent", "text")
    assert await unsent.take("agent") == ("", 0)


async def test_draft_file_is_not_followed_when_it_is_a_link(folder: Path, tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("precious")
    folder.mkdir()
    (folder / f"unsent-agent-{os.getpid()}.txt").symlink_to(target)
    (folder / "unsent-agent-1.txt").symlink_to(target)
    unsent = DraftFiles(folder, {})
    await unsent.save("agent", "text")
    assert await unsent.take("agent") == ("", 0)
    assert target.read_text() == "precious"


@pytest.mark.parametrize(
    ("draft", "sent", "left"),
    [
        ("go on", ["go on"], ""),
        ("one\ntwo\nthree", ["one", "two"], "three"),
        ("one\ntwo", ["two"], "one\ntwo"),
        ("one more", ["one"], "one more"),
        ("a\0b", ["a\ufffdb"], ""),
        ("", ["go on"], ""),
    ],
)
def test_draft_leaves_out_sent_messages(draft: str, sent: list[str], left: str):
    log = [StoredEvent(n, "agent", n, 100.0 + n, UserMessage(text)) for n, text in enumerate(sent, 1)]
    assert without_sent(draft, 100.0, log) == left
    assert without_sent(draft, 100.0 + 2 * CLOCK_SKEW, log) == draft, "typed once more"


async def test_leaving_while_the_log_is_asked_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    child = another(folder, "half")
    child.kill()
    child.wait()
    screen = SimpleNamespace(unsent="", notice=lambda text: None)
    screen.restore_input = lambda text: setattr(screen, "unsent", text)
    kept, asked = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict), asyncio.Event()  # type: ignore[arg-type]

    async def slow(before: int | None, limit: int) -> list[StoredEvent]:
        asked.set()
        await asyncio.sleep(60)
        return []

    recovering = asyncio.create_task(kept.recover("agent", None, slow))
    await asked.wait()
    recovering.cancel()
    await asyncio.wait({recovering})
    await kept.close(no_more())
    assert [file.read_text() for file in files(folder)] == ["half"]


async def test_recover_returns_whole_draft_when_log_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    child = another(folder, "half")
    child.kill()
    child.wait()
    given = list[str]()
    screen = SimpleNamespace(unsent="", restore_input=given.append, notice=given.append)
    kept = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict)  # type: ignore[arg-type]

    async def away(before: int | None, limit: int) -> list[StoredEvent]:
        raise Unavailable("The database cannot be reached.")

    await kept.recover("agent", None, away)
    await asyncio.sleep(0)
    screen.unsent = given[0]
    await kept.close(no_more())
    assert given[0] == "half" and [file.read_text() for file in files(folder)] == ["half"]


async def test_drafts_save_typed_text_in_a_moment_and_queued_text_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    monkeypatch.setattr(typed, "SAVE_INTERVAL", 60.0)
    screen = SimpleNamespace(unsent="")
    kept = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict)  # type: ignore[arg-type]

    async def nothing(before: int | None, limit: int) -> list[StoredEvent]:
        return []

    async def written(text: str) -> None:
        async with asyncio.timeout(60):
            while [file.read_text() for file in files(folder)] != [text]:
                await asyncio.sleep(0.01)

    await kept.recover("agent", None, nothing)
    screen.unsent = "first"
    kept.changed()
    await asyncio.sleep(0.1)
    assert files(folder) == []
    kept.changed(True)
    await written("first")
    screen.unsent = "first\nsecond"
    kept.changed(True)
    await written("first\nsecond")

    async def back() -> str:
        assert [file.read_text() for file in files(folder)] == ["first\nsecond"]
        screen.unsent = "first\nsecond\nand back"
        return "told"

    assert await kept.close(back()) == "told"
    assert [file.read_text() for file in files(folder)] == ["first\nsecond\nand back"]


async def test_message_that_the_log_does_not_have_in_a_moment_is_saved(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    monkeypatch.setattr(typed, "SAVE_INTERVAL", 60.0)
    screen, unstored = SimpleNamespace(unsent=""), ["sent"]
    kept = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict, lambda: unstored)  # type: ignore[arg-type]

    async def nothing(before: int | None, limit: int) -> list[StoredEvent]:
        return []

    await kept.recover("agent", None, nothing)
    kept.sent()
    async with asyncio.timeout(60):
        while [file.read_text() for file in files(folder)] != ["sent"]:
            await asyncio.sleep(0.01)
    unstored.clear()
    await kept.close(no_more())
    assert files(folder) == []


async def test_draft_that_is_due_when_a_message_is_sent_is_saved_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    monkeypatch.setattr(typed, "SAVE_INTERVAL", 0.01)
    monkeypatch.setattr(typed, "STORE_SECONDS", 60.0)
    screen = SimpleNamespace(unsent="before")
    kept = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict)  # type: ignore[arg-type]

    async def nothing(before: int | None, limit: int) -> list[StoredEvent]:
        return []

    await kept.recover("agent", None, nothing)
    kept.sent()
    await asyncio.sleep(0.1)
    assert files(folder) == []
    monkeypatch.setattr(typed, "STORE_SECONDS", 0.01)
    kept.sent()
    async with asyncio.timeout(60):
        while [file.read_text() for file in files(folder)] != ["before"]:
            await asyncio.sleep(0.01)
    await kept.close(no_more())


async def test_last_draft_comes_after_the_one_that_is_being_written(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    screen = SimpleNamespace(unsent="older")
    kept = typed.InputDrafts(itself_as_view(screen), lambda: "agent", dict)  # type: ignore[arg-type]
    begun, goes_on, create = threading.Event(), threading.Event(), DraftFiles._create_file

    def create_slowly(self: DraftFiles, agent: str) -> tuple[int, Path]:
        if begun.is_set():
            return create(self, agent)
        begun.set()
        goes_on.wait(60)
        return create(self, agent)

    monkeypatch.setattr(DraftFiles, "_create_file", create_slowly)

    async def nothing(before: int | None, limit: int) -> list[StoredEvent]:
        return []

    screen.unsent = ""
    await kept.recover("agent", None, nothing)
    screen.unsent = "older"
    kept.changed(True)
    async with asyncio.timeout(60):
        while not begun.is_set():
            await asyncio.sleep(0.01)
    screen.unsent = "older and newer"
    asyncio.get_running_loop().call_later(0.3, goes_on.set)
    await kept.close(no_more())
    goes_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()  # whatever still writes
    assert [file.read_text() for file in files(folder)] == ["older and newer"]


async def test_draft_leaves_out_text_queued_for_another_agent(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(typed.paths, "state_dir", lambda: folder)
    screen, here = SimpleNamespace(unsent="for the other"), ["one"]
    kept = typed.InputDrafts(itself_as_view(screen), lambda: here[0], dict)  # type: ignore[arg-type]

    async def nothing(before: int | None, limit: int) -> list[StoredEvent]:
        return []

    async def there(count: int) -> None:
        async with asyncio.timeout(60):
            while len(files(folder)) != count:
                await asyncio.sleep(0.01)

    await kept.recover("one", None, nothing)
    kept.changed(True)
    await there(1)
    here[0], screen.unsent = "other", ""  # it is opened, and has been sent what was meant for it
    kept.changed(True)
    await there(0)
    await kept.close(no_more())


def test_beginning_of_a_message_that_was_completed_and_sent_since_is_no_draft():
    sent = [StoredEvent(1, "agent", 1, 100.3, UserMessage("hello world"))]
    assert without_sent("hello wor", 100.0, sent) == ""
    assert without_sent("hello wor", 100.4, sent) == "hello wor"  # typed since
    assert without_sent("other", 100.0, sent) == "other"


@pytest.mark.parametrize("draft", ["hello", "hello world", "hello world\nand more"])
def test_draft_stays_when_another_agent_sent_a_message_that_begins_so(draft: str):
    mail = [StoredEvent(7, "agent", 7, 100.5, UserMessage("hello world", sender="child"))]
    assert without_sent(draft, 100.0, mail) == draft
