"""Tests of the search in all prompts: this directory's whole past, enough of others; stopping costs no connection."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ikigai.core.events import events as ev
from ikigai.core.search.prompt_history import SentPrompt
from ikigai.repl.input.prompt_search import PromptSearch
from ikigai.store.database import Database


@pytest.fixture
async def filled(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ikigai.store.log.history.MESSAGES_PER_STATEMENT", 5)
    monkeypatch.setattr("ikigai.repl.input.prompt_search.ENOUGH_PROMPTS", 3)
    for directory, count in ((str(tmp_path), 2), ("/else", 20)):
        log = await database.open_agent(await database.agents.create(), directory)
        await log.append([ev.UserMessage(f"text {n} of {directory}") for n in range(count)])
        await log.close()
    return database


async def test_search_reads_all_of_this_directory_and_enough_of_others(filled: Database) -> None:
    found: list[SentPrompt] = []
    await PromptSearch(filled, "text", found.extend).run()
    assert [each.text.split()[1] for each in found] == ["19", "18", "17", "1", "0"]
    assert [each.here for each in found] == [False] * 3 + [True] * 2


async def test_stopped_search_reports_nothing_more_and_keeps_its_connection(filled: Database) -> None:
    def seen(more: Sequence[SentPrompt]) -> None:
        told.append(len(more))
        looking.stop()

    told: list[int] = []
    looking = PromptSearch(filled, "", seen)
    backend = filled._session.info.backend  # pyright: ignore[reportPrivateUsage]
    await asyncio.gather(looking.run(), filled.prompts(3))
    assert told == [3]
    assert filled._session.info.backend == backend and await filled.prompts(1)  # pyright: ignore[reportPrivateUsage]
