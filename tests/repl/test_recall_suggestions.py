"""Suggestions of earlier turns, over a real database; the input and the line below it are a record."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from ikigai.config import Config
from ikigai.config.records import ContextSettings
from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.search.recall_choice import HEADER
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state.inputs import Filter, Undo
from ikigai.repl.input.input_router import own_words
from ikigai.repl.input.recall_suggestions import PAUSE_SECONDS, RecallSuggestions
from ikigai.store.database import Database
from tests.app.house import House
from tests.app.test_auto_recall import SMALL, with_secret
from tests.store.talk import Talk

QUESTION = "What was the name of the walrus?"


class Prompt:
    """An input with suggestions for the agent of a talk."""

    def __init__(self, database: Database, folder: Path, talk: Talk, context: ContextSettings) -> None:
        self.services = House(database, folder, Config(model="scripted/echo", context=context)).world
        self.talk, self.typed, self.shown, self.bare = talk, "", list[str](), False
        self.screen = self.status = self.view = self.input = self
        self._tasks: list[asyncio.Task[None]] = []
        self.suggestions = RecallSuggestions(cast("Any", self))

    @property
    def memory(self) -> Any:
        return self.talk.memory

    @property
    def has_input(self) -> bool:
        return bool(self.typed)

    @property
    def text(self) -> str:
        return self.typed

    def track(self, task: asyncio.Task[None]) -> None:
        self._tasks.append(task)

    def suggest_recalled(self, names: Sequence[str]) -> None:
        self.shown = list(names)

    def append(self, text: str) -> None:
        self.typed += f"\n\n{text}"

    async def type(self, text: str) -> list[str]:
        """Make `text` the input, wait for the pause and the search, and return the names that are shown then."""
        self.typed = text
        self.suggestions.changed()
        await asyncio.sleep(PAUSE_SECONDS)  # its timer stands behind the suggestions' timer
        await asyncio.gather(*self._tasks)
        return self.shown


def prompt_over(
    database: Database, folder: Path, talk: Talk, auto_recall: Literal["off", "suggest", "on"] = "suggest"
) -> Prompt:
    return Prompt(database, folder, talk, ContextSettings(auto_recall=auto_recall))


async def test_turns_are_suggested_only_where_that_is_chosen(database: Database, tmp_path: Path):
    talk = await with_secret(database)
    assert not await prompt_over(database, tmp_path, talk, "off").type(QUESTION)
    assert not await prompt_over(database, tmp_path, talk, "on").type(QUESTION)
    prompt = prompt_over(database, tmp_path, talk)
    (name,) = await prompt.type(QUESTION)
    assert "walrus" in name
    for text in ("!the walrus Gertrude", "/undo the walrus Gertrude", "wa", f"{QUESTION} {'x ' * 1_000}"):
        assert not await prompt.type(text), text[:30]
        assert await prompt.type(QUESTION)
    prompt.bare = True
    assert not await prompt.type(QUESTION)
    await talk.log.close()


async def test_suggestion_waits_for_a_pause_of_a_quarter_of_a_second(database: Database, tmp_path: Path):
    talk = await with_secret(database)
    prompt, loop = prompt_over(database, tmp_path, talk), asyncio.get_running_loop()
    for prompt.typed in ("What was", QUESTION):  # the second one ends the pause that the first one began
        before = loop.time()
        prompt.suggestions.changed()
        pause = prompt.suggestions._pause
        assert pause and before + 0.25 <= pause.when() <= loop.time() + 0.25
    assert await prompt.type(QUESTION) and len(prompt._tasks) == 1
    await talk.log.close()


async def test_key_adds_the_excerpts_once(database: Database, tmp_path: Path):
    talk = await with_secret(database)
    prompt = prompt_over(database, tmp_path, talk)
    assert await prompt.type(QUESTION) and prompt.suggestions.add() and not prompt.shown
    assert prompt.typed.startswith(f"{QUESTION}\n\n{HEADER}\n\n[#") and "Gertrude" in prompt.typed
    assert not prompt.suggestions.add()
    again = prompt_over(database, tmp_path, talk)
    assert not await again.type(prompt.typed) and not again._tasks, "the draft came back in another run"
    await talk.turn(prompt.typed, "Gertrude.")
    assert not await prompt.type(QUESTION), "the excerpts are in the window"
    await talk.log.close()


async def test_no_suggestion_outlives_what_it_was_made_for(database: Database, tmp_path: Path):
    talk = await with_secret(database)
    prompt = prompt_over(database, tmp_path, talk)
    assert await prompt.type(QUESTION)
    prompt.typed = ""
    prompt.suggestions.changed()
    assert not prompt.shown, "the text was deleted"
    assert await prompt.type(QUESTION)
    selection = await talk.log.load(select_events(SMALL, talk.agent.id, (EventRange(newest_turns=99),)))
    turn = selection.turns[1].turn
    await talk.happen(Filter(((turn.first, turn.end),), (), 2))
    assert not prompt.suggestions.add() and prompt.typed == QUESTION, "it was forgotten meanwhile"
    await talk.happen(Undo())
    assert await prompt.type(QUESTION)
    other = await Talk.open(database, run=SMALL)
    await other.turn("hello")
    prompt.talk = other
    assert not await prompt.type(QUESTION), "another agent is on screen, and nothing has left its window"
    prompt.talk = talk
    assert await prompt.type(QUESTION)
    prompt.talk = third = await with_secret(database)
    assert not prompt.suggestions.add() and prompt.typed == QUESTION, "these turns are of another agent"
    for each in (talk, other, third):
        await each.log.close()


async def test_keys_that_were_stored_are_not_added(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    talk = await with_secret(database)
    prompt = prompt_over(database, tmp_path, talk)
    redactor = Redactor({"SECRET": "called Gertrude"}, formats=False)
    monkeypatch.setattr(prompt.services.redaction, "redactor", lambda: redactor)
    assert await prompt.type(QUESTION) and prompt.suggestions.add()
    assert "The walrus is [redacted: SECRET]." in prompt.typed and "Gertrude" not in prompt.typed
    await talk.log.close()


def test_mentions_in_excerpts_are_not_the_users():
    assert own_words(f"see @a.txt\n\n{HEADER}\n\n3 assistant: @~/b.txt") == "see @a.txt\n\n"
    assert own_words("see @a.txt") == "see @a.txt"
