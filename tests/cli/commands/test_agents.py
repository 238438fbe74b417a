"""Tests of `ikigai agents`: its output, actions and refusals."""

import argparse
import json

import pytest

from ikigai.app.json_records.json_output import encode
from ikigai.cli import help_pages
from ikigai.cli.commands import agents as roster
from ikigai.core.errors import BadDatabase, ConfigError, Rejected
from ikigai.core.events.events import Forked
from ikigai.core.state.inputs import Submitted
from ikigai.store.database import Database
from tests.store.talk import Talk
from tests.store.test_agent_tree import damage


async def run(database: Database, *words: str) -> str:
    parser = help_pages.make_parser()
    common = argparse.ArgumentParser(add_help=False)
    roster.add_command(parser.add_subparsers(), common)
    answer = await roster.run(database, parser.parse_args(["agents", *words]))
    return answer if isinstance(answer, str) else encode(answer)


async def test_tree_and_what_is_done_to_it(database: Database) -> None:
    assert await run(database) == "There are no agents yet."
    talk = await Talk.open(database, await database.agents.create("root"))
    await talk.turn("one", "an answer that has rather more words than there is room for")
    at = await database.tree.fork_point(talk.agent)
    for name in ("kid", "other"):
        await database.tree.fork(talk.agent, at, (Forked("root", at),), name)
    rows = (await run(database, "list")).splitlines()
    assert [row.split()[0] for row in rows] == ["agent", "root", "kid", "other"]
    assert rows[1].split()[1:5] == ["open", "chat/large", "1", "0"] and rows[1].endswith("…")
    assert rows[2].startswith("    kid ") and rows[2].split()[1:3] == ["idle", "chat/large"], "its parent's model"
    found = json.loads(await run(database, "list", "--json"))["agents"]
    assert [(agent["agent"], agent["depth"], agent["state"]) for agent in found] == [
        ("root", 0, "open"), ("kid", 1, "idle"), ("other", 1, "idle"),
    ]  # fmt: skip
    assert f"parent     root, from event #{at} on" in await run(database, "show", "kid")
    assert json.loads(await run(database, "show", "kid", "--json"))["forked_at"] == at
    renamed = await run(database, "rename", "kid", "kiddo")
    assert renamed == "Renamed kid to kiddo. To undo: ikigai agents rename kiddo kid"
    with pytest.raises(Rejected, match="Not killed: kiddo") as refused:
        await run(database, "kill", "kiddo")
    assert "--yes" in refused.value.remedy
    assert json.loads(await run(database, "kill", "kiddo", "--yes", "--json"))["text"].startswith("Killed kiddo.")
    assert "kiddo" not in await run(database) and "killed" in await run(database, "--all")
    assert "was revived" in await run(database, "revive", "kiddo")
    assert "kiddo" in await run(database)
    archived = await run(database, "archive", "root")
    assert archived == "Archived root, and 2 below it. To list it again: ikigai agents revive root"
    assert await run(database) == "There are no agents yet." and "archived" in await run(database, "--all")
    with pytest.raises(Rejected, match="root is archived already"):
        await run(database, "archive", "root")
    assert await run(database, "revive", "root") == (
        "root is in the lists again, with 2 below it. ikigai -r root goes there."
    )
    await talk.happen(Submitted("busy"))
    with pytest.raises(Rejected, match="root is running"):
        await run(database, "archive", "root")


async def test_what_is_refused(database: Database) -> None:
    root = await database.agents.create("root")
    await database.tree.fork(root, 0, (Forked("root", 0),), "kid")
    for words, what in (
        (("show", "nobody"), "There is no agent nobody"),
        (("kill", "root", "--yes"), "only forks can be killed"),
        (("revive", "kid"), "kid was not killed"),
        (("rename", "kid", "two words"), "is not a name"),
        (("rename", "kid", "root"), "named root already"),
        (("rename", "kid", "x" * 1024), "is not a name"),
    ):
        with pytest.raises((ConfigError, Rejected), match=what) as refused:
            await run(database, *words)
        assert refused.value.remedy
    await damage(database, "update agents set parent = gen_random_uuid() where name = 'kid'")
    for words in (("kill", "kid", "--yes"), ("revive", "kid")):
        with pytest.raises((BadDatabase, Rejected)):
            await run(database, *words)
    assert "its parent is missing" in await run(database)
    assert "its parent is missing" in await run(database, "show", "kid")
