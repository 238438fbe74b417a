"""What the composition root does when the world fails it."""

from pathlib import Path

import pytest

from ikigai import app
from ikigai.app import World
from ikigai.config import Config
from ikigai.config.table import Local
from ikigai.core.errors import Unavailable
from ikigai.core.events import UserMessage
from ikigai.store.database import Database
from ikigai.store.log import AgentLog


async def test_an_agent_that_could_not_be_loaded_can_be_taken_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = app.make_pool(Config())
    tools = app.make_tools()
    world = World(Config(), database, None, pool, app.make_run(Config(), pool, tools), tools)
    agent = await world.create()

    async def away(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(AgentLog, "load", away)
        with pytest.raises(Unavailable):
            await world.take(agent)
    memory, _ = await world.take(agent)
    assert memory.agent == agent.id


def test_weights_that_are_not_there_are_no_model_to_offer(database: Database) -> None:
    config = Config(model="scripted/echo", local=Local("/nowhere.gguf"))
    pool, tools = app.make_pool(config), app.make_tools()
    world = World(config, database, None, pool, app.make_run(config, pool, tools), tools)
    assert world.known_models() == ("scripted/echo",)


def test_what_cannot_be_kept_in_a_file_either_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.paths, "state_dir", lambda: tmp_path)
    assert "1 event could not be saved; it is kept in" in app.spool("a", (UserMessage("one"),))
    assert '"content":"one"' in next(tmp_path.iterdir()).read_text()
    (tmp_path / "file").touch()
    monkeypatch.setattr(app.paths, "state_dir", lambda: tmp_path / "file" / "state")
    told = app.spool("a", (UserMessage("one"), UserMessage("two")))
    assert told.startswith("2 events could not be saved, nor kept in") and told.endswith("Not a directory.")
