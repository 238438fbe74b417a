"""Fixtures of the store for the tests of what is built on it, and a program without a screen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ikigai.config import Config
from ikigai.store.database import Database
from tests.app.house import House
from tests.store.conftest import role

__all__ = ["house", "role"]


@pytest.fixture
async def house(database: Database, tmp_path: Path) -> AsyncIterator[House]:
    made = House(database, tmp_path, Config(model="scripted/echo"))
    yield made
    await made.manager.close()
    await made.world.tool_runtime.close()
    await made.world.pool.close()
