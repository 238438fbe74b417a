"""The composition root cleans up when the database, the tools or the configuration fail."""

import asyncio
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from ikigai.app.commands import info_commands as answers
from ikigai.app.run import factories as making
from ikigai.app.run.first_agent import AgentChoice
from ikigai.app.run.services import Services
from ikigai.config import Config, load
from ikigai.config import login_keys as keys
from ikigai.config.records import ContextSettings, LocalSettings, ModelSettings, ProviderSettings
from ikigai.core.commands import parsers as meanings
from ikigai.core.errors import IkigaiError, Unavailable
from ikigai.core.events.events import SettingsChanged, StoredEvent
from ikigai.core.events.messages import Usage
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.fold import evolve
from ikigai.core.state.grants import sealed
from ikigai.providers.models.models import ListedModel
from ikigai.store.database import Database
from ikigai.store.log.log import AgentLog
from ikigai.store.search import word_vectors
from ikigai.system import paths
from tests.conftest import MIGRATIONS


async def test_agent_that_could_not_be_loaded_can_be_taken_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = making.make_pool(Config())
    tools = making.make_tool_runtime(Config())
    world = Services(Config(), database, None, pool, making.make_run(Config(), pool, tools), tools)
    agent = await world.create()

    async def away(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(AgentLog, "load", away)
        with pytest.raises(Unavailable):
            await world.acquire(agent)
    memory, _, told = await world.acquire(agent)
    assert not told
    assert memory.agent == agent.id


@pytest.mark.parametrize("start_with", ["last", "directory"])
async def test_first_starts_at_once_make_one_agent(dsn: str, start_with: Literal["last", "directory"]) -> None:
    config = Config(start_with=start_with)
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    run = making.make_run(config, pool, tools)
    databases = await asyncio.gather(*(Database.open(dsn, MIGRATIONS, deadline=60) for _ in range(32)))
    worlds = [Services(config, database, None, pool, run, tools) for database in databases]
    chosen = await asyncio.gather(*(world.choose(AgentChoice()) for world in worlds))
    assert len({agent.id for agent in chosen}) == len(await databases[0].agents.all()) == 1
    assert (await worlds[0].choose(AgentChoice(new=True))).id != chosen[0].id
    await asyncio.gather(*(database.close() for database in databases))


async def test_limit_that_was_learned_is_in_the_figures_of_context(database: Database) -> None:
    config = Config(model="scripted/echo")
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    world = Services(config, database, None, pool, making.make_run(config, pool, tools), tools)
    agent = await world.create()

    async def figures() -> dict[str, object]:
        place = answers.CommandContext(world, agent, await world.load_memory(agent), "idle")
        answer = await answers.answer_command(meanings.ProgramCommand("context"), config, place)
        return msgspec.to_builtins(answer.figures)

    known = await figures()
    pool.learn("scripted/echo", 1_000_000_000)
    assert await figures() == known and known["learned"] is False, "nobody gives more than is known"
    pool.learn("scripted/echo", 3_000)
    learned = await figures()
    assert (learned["context"], learned["learned"]) == (3_000, True)
    assert learned["room"] == learned["ceiling"] < 3_000 < known["room"]  # type: ignore[operator]


def test_weights_that_are_not_there_are_no_model_to_offer(database: Database) -> None:
    config = Config(model="scripted/echo", local=LocalSettings("/nowhere.gguf"))
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    world = Services(config, database, None, pool, making.make_run(config, pool, tools), tools)
    assert world.known_models() == ("scripted/echo",)


def test_models_of_all_keys_at_hand_are_offered(database: Database) -> None:
    config = Config(
        keys={"openai": "login"},
        providers={"mine": ProviderSettings("http://h/v1")},
        models={"mine/one": ModelSettings(levels=("low",))},
    )
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    pool.known.learn("mine", (ListedModel("two"),))
    offered = Services(config, database, None, pool, making.make_run(config, pool, tools), tools).known_models()
    assert {"mine/one", "mine/two", "openai/gpt-5-mini"} <= set(offered)
    assert not [model for model in offered if model.startswith(("anthropic/", "google/"))]


def test_configured_model_settings_take_precedence() -> None:
    config = Config(
        providers={"mine": ProviderSettings("http://h/v1", context=9_000)},
        models={
            "mine/x": ModelSettings(
                context=5_000, max_output=900, levels=("off",), images="no", input_price=2.0, output_price=8.0
            )
        },
    )
    known = making.make_models(config)
    assert known.limits("mine/x") == ModelLimits(5_000, 900) and known.limits("mine/y").context == 9_000
    assert (known.levels("mine/x"), known.traits("mine/x").images) == (("off",), False)
    assert "high" in known.levels("mine/y") and known.traits("mine/y").images
    price = making.make_price(config)
    assert price("mine/x", Usage(input=1_000, output=500), 1.8e9) == (0.006, "configuration")
    assert price("mine/y", Usage(input=1_000), 1.8e9) == (None, "")


def test_vendor_under_another_name_has_the_vendors_prices() -> None:
    price = making.make_price(Config(providers={"work": ProviderSettings(api="anthropic")}))
    cost, source = price("work/claude-sonnet-4-5", Usage(input=1_000_000), 1.79e9)
    assert cost == price("anthropic/claude-sonnet-4-5", Usage(input=1_000_000), 1.79e9)[0]
    assert cost and source.startswith("genai-prices")


def test_key_is_looked_up_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "config_dir", lambda: tmp_path)
    pool = making.make_pool(Config())
    with pytest.raises(IkigaiError, match="There is no key for OpenAI"):
        pool.require("openai")
    keys.store(paths.keys_file(), "openai", "sk-1")  # in another terminal
    pool.require("openai")


async def test_profile_says_when_its_agents_are_condensed_and_print_mode_never_does(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'model = "scripted/echo"\n[context]\ncondense = "manual"\n'
        '[profiles.tight]\ncondense = "auto"\ncondense_at_percent = 50\nsummarise_on_clear = true\n'
    )
    config = load(file, {}, {})
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    world = Services(config, database, None, pool, making.make_run(config, pool, tools), tools)
    plain = await world.load_memory(await world.create())
    chosen = SettingsChanged({"profile": "tight"}, {"profile": "agent"})
    tight = evolve(plain, StoredEvent(1, plain.agent, 1, 0.0, sealed(chosen, plain.agent, 1, world.run.seal)))
    usual = making.make_options(world.context_settings(plain))
    assert (usual.mode, usual.at_percent) == ("manual", 75)
    found = making.make_options(world.context_settings(tight))
    assert (found.mode, found.at_percent, found.on_clear) == ("auto", 50, True)
    assert (found.manual_only.mode, found.manual_only.on_clear) == ("off", False)


@pytest.mark.parametrize(("auto_recall", "loads"), [("off", 0), ("suggest", 0), ("on", 1)])
async def test_word_vectors_are_loaded_behind_the_prompt_where_excerpts_are_sent_along(
    database: Database, monkeypatch: pytest.MonkeyPatch, auto_recall: Literal["off", "suggest", "on"], loads: int
) -> None:
    config = Config(model="scripted/echo", context=ContextSettings(auto_recall=auto_recall))
    pool, tools = making.make_pool(config), making.make_tool_runtime(config)
    services = Services(config, database, None, pool, making.make_run(config, pool, tools), tools)
    loaded: list[None] = []
    monkeypatch.setattr(word_vectors, "load_installed", lambda: loaded.append(None))
    await services.preload_recall(await services.load_memory(await services.create()))
    assert len(loaded) == loads
