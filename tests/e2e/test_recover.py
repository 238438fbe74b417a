"""Tests of events that could not be saved: at the next start, and with `ikigai history recover`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.relocation.unsaved import serialize
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.inputs import CallModel, Replied, Submitted
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.e2e.account import ECHO, Account, refused
from tests.store.talk import Talk


async def begun(dsn: str) -> tuple[str, bytes]:
    """Make an agent in a turn, and a file with the reply that it lacks."""
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database, await database.agents.create("heron"))
    await talk.turn("first", "one")
    await talk.happen(Submitted("second"))
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    events = decide(talk.memory, Replied(job, (Text("lost words"),), StopReason.END, ev.UsageReported("scripted/echo")))
    found = talk.log.unsaved(events)
    await talk.log.close()
    await database.close()
    return found.agent, serialize(found)


@pytest.fixture
def unsaved(account: Account) -> Iterator[Path]:
    agent, text = asyncio.run(begun(account.dsn))
    folder = account.home / ".local" / "state" / "ikigai"
    folder.mkdir(parents=True)
    file = folder / f"unsaved-{agent}-20260101-000000.000000000-1.jsonl"
    file.write_bytes(text)
    yield file


def test_unsaved_events_are_stored_by_the_next_start(account: Account, unsaved: Path):
    with account.terminal(*ECHO, "-r", "heron", columns=120) as program:
        program.ready()
        program.wait_for("● lost words")
        program.wait_for("⚠ 3 events that could not be saved are in the log now.")
        assert not unsaved.exists()
        program.say("third")
        program.wait_for("● third")
        program.leave()
    assert account.said("user") == ["first", "second", "third"] and account.endings() == ["completed"] * 3
    again = account.run(*ECHO, "-r", "heron", "-c", "-p", "fourth")
    assert (again.stdout, again.stderr) == ("fourth\n", "")


def test_recover_makes_a_fork_when_the_log_went_on(account: Account, unsaved: Path):
    aside = account.home / "aside"
    unsaved.rename(aside)
    assert account.run(*ECHO, "-r", "heron", "-c", "-p", "third").returncode == 0
    aside.rename(unsaved)
    with account.terminal(*ECHO, "-r", "heron", columns=200) as program:
        program.ready()
        command = f"ikigai history recover {unsaved}"
        program.wait_for(
            f"3 events could not be saved, and the log went on without them. To restore them in a fork: {command}"
        )
        made = account.shell(f"cp {unsaved} copy; {command} --name lost; echo $?")  # while it is open
        assert made.stdout == (
            "lost is new: a fork of heron with 3 events that could not be saved. Go on with it: ikigai -r lost\n0\n"
        ), made
        program.leave()
    assert not unsaved.exists()
    with account.terminal(*ECHO, "-r", "lost") as program:
        program.ready()
        program.wait_for("● lost words")
        program.leave()
    assert account.said("assistant") == ["one", "third", "lost words"]
    account.endings()
    refused(account.run("history", "recover", "copy"), 1, "lost has these events already.")


def test_recover_refuses_unusable_files(account: Account, unsaved: Path, empty_dsn: str):
    refused(account.run("history", "recover", str(unsaved.with_name("none"))), 2, "cannot be read: No such file")
    for text, why in (
        (unsaved.read_bytes()[:-20], "line 4 is cut off or damaged"),
        (b"{}\n", "contains no unsaved events of ikigai"),
    ):
        (account.home / "bad").write_bytes(text)
        refused(account.run("history", "recover", "bad"), 1, why, "Nothing was recovered.")
    refused(account.run("history", "recover", str(unsaved), "--name", "no name"), 1, "is not a name for an agent")
    refused(
        account.run("history", "recover", str(unsaved), IKIGAI_DATABASE_URL=empty_dsn),
        2,
        "of agent heron, which is not in this database",
    )
    assert unsaved.exists()
    with account.terminal(*ECHO, "--new") as program:
        program.ready()
        done = account.run("history", "recover", str(unsaved))
        assert done.stdout == "3 events that could not be saved are in heron now. Go on with it: ikigai -r heron\n", (
            done
        )
        program.leave()
    assert not unsaved.exists() and account.endings() == ["completed"] * 2
