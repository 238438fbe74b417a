"""A database that is away: asked until it answers, and the user told once of each cause."""

import asyncio

import pytest

from ikigai.agent import db_retry
from ikigai.agent.db_retry import DatabaseStatus, RetryUntilAvailable
from ikigai.core.errors import Misconfigured, StoreError, Unavailable
from tests.agent.test_loop import Watcher


async def test_each_cause_is_told_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(db_retry, "RETRY_AFTER", (0.0,))
    away, password, database = (
        Unavailable("It is away.", "Wait."),
        Misconfigured("It did not accept the password.", "Correct it."),
        Misconfigured("There is no such database.", "Create it."),
    )
    causes: list[StoreError] = [away, away, password, away, password, database, password, database]

    async def ask() -> str:
        if causes:
            raise causes.pop(0)
        return "answer"

    view = Watcher()
    patiently = RetryUntilAvailable(DatabaseStatus(view), view, None, lambda: None, lambda: None)
    assert await patiently(ask) == "answer"
    told = view.told("notice")
    assert [text.partition(".")[0] for text in told] == [
        "It is away",
        "It did not accept the password",
        "There is no such database",
        "The database is back; everything is saved",
    ]


@pytest.mark.parametrize(
    "error", [Unavailable("It is away.", "Wait."), Misconfigured("Wrong password.", "Correct it.")]
)
async def test_print_mode_promises_only_for_how_long_it_tries(
    monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    monkeypatch.setattr(db_retry, "RETRY_AFTER", (0.0,))

    async def ask() -> str:
        raise error

    view = Watcher()
    with pytest.raises(type(error)):
        await RetryUntilAvailable(DatabaseStatus(view), view, timeout=0.05)(ask)
    assert view.told("notice") == [f"{error} ikigai tries again for 0.05 s."]


async def test_programs_that_were_cut_off_together_wait_for_different_times(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(db_retry, "RETRY_AFTER", (1.0, 4.0))
    waited, chances, sleep = list[float](), iter((0.0, 1.0, 0.5)), asyncio.sleep

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    async def ask() -> str:
        if len(waited) < 3:
            raise Unavailable("It is away.", "Wait.")
        return "answer"

    monkeypatch.setattr(asyncio, "sleep", wait)
    view = Watcher()
    patiently = RetryUntilAvailable(DatabaseStatus(view), view, chance=lambda: next(chances))
    assert await patiently(ask) == "answer"
    assert waited == [0.5, 6.0, 4.0]
