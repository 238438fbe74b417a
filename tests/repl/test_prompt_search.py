"""Looking through everything ever sent: this directory's whole past, of others enough; stopping costs no connection."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ikigai.core import events as ev
from ikigai.core.search.prompt_history import Earlier
from ikigai.repl.prompt_search import Looking
from ikigai.store.database import Database


@pytest.fixture
async def filled(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ikigai.store.history.STRETCH", 5)
    monkeypatch.setattr("ikigai.repl.prompt_search.ENOUGH", 3)
    for directory, count in ((str(tmp_path), 2), ("/else", 20)):
        log = await database.open_agent(await database.agents.create(), directory)
        await log.append([ev.UserMessage(f"text {n} of {directory}") for n in range(count)])
        await log.close()
    return database


async def test_the_directory_is_looked_through_to_the_end_and_others_until_there_is_enough(filled: Database) -> None:
    found: list[Earlier] = []
    await Looking(filled, "text", found.extend).run()
    assert [each.text.split()[1] for each in found] == ["19", "18", "17", "1", "0"]
    assert [each.here for each in found] == [False] * 3 + [True] * 2


async def test_what_was_stopped_tells_nothing_more_and_the_connection_lives(filled: Database) -> None:
    def seen(more: Sequence[Earlier]) -> None:
        told.append(len(more))
        looking.stop()

    told: list[int] = []
    looking = Looking(filled, "", seen)
    backend = filled._session.greeting.backend  # pyright: ignore[reportPrivateUsage]
    await asyncio.gather(looking.run(), filled.prompts(3))
    assert told == [3]
    assert filled._session.greeting.backend == backend and await filled.prompts(1)  # pyright: ignore[reportPrivateUsage]
