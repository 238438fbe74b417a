"""The prompts of users: the newest are read, others are found by the index of words, however many there are."""

import pytest

from ikigai.core.events import events as ev
from ikigai.store.database import Database


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the newest six prompts, three at a time."""
    monkeypatch.setattr("ikigai.store.log.history.MESSAGES_PER_STATEMENT", 3)
    monkeypatch.setattr("ikigai.store.search.prompts.READ_STRETCHES", 2)


async def send(database: Database, directory: str, *texts: str) -> None:
    log = await database.open_agent(await database.agents.create(), directory)
    await log.append([ev.UserMessage(text) for text in texts])
    await log.close()


async def index(database: Database) -> None:
    while await database.indexer.index_some():
        pass


async def search(database: Database, typed: str, most: tuple[int, int] = (100, 100)) -> tuple[list[str], int]:
    """Return the texts that are found, and in how many parts."""
    prompts, texts, parts = database.search_prompts(typed, "/here"), list[str](), 0
    while not prompts.complete:
        found = await prompts.more(most)
        assert all(each.here == (each.directory == "/here") and each.at and each.agent for each in found)
        texts += [each.text for each in found]
        parts += 1
    return texts, parts


async def test_old_prompts_are_found_by_the_index_in_as_many_steps(database: Database) -> None:
    await send(database, "/here", "Fix the parser", "what is behind 50% of it")
    await send(database, "/else", *(f"number {n}" for n in range(20)))
    await index(database)
    assert await search(database, "pars") == (["Fix the parser"], 3)
    assert await search(database, "PARSER fix") == (["Fix the parser"], 3)
    assert await search(database, "arse") == (["Fix the parser"], 4), "no word begins with it"
    assert await search(database, "50%") == (["what is behind 50% of it"], 3)
    assert await search(database, "nowhere") == ([], 4)
    assert await search(database, '"') == await search(database, "_%") == ([], 3)
    assert (await search(database, ""))[1] == 3, "without words the newest are offered"
    await send(database, "/else", *(f"further {n}" for n in range(200)))
    await index(database)
    assert await search(database, "pars") == (["Fix the parser"], 3)


async def test_letters_are_looked_for_in_the_newest_prompts(database: Database) -> None:
    await send(database, "/here", "old parser", *(f"number {n}" for n in range(5)))
    await index(database)
    assert "old parser" in (await search(database, "oprsr"))[0]
    await send(database, "/here", *(f"more {n}" for n in range(5)))
    await index(database)
    assert (await search(database, "oprsr"))[0] == []


async def test_prompts_that_the_index_lacks_are_read(database: Database) -> None:
    await send(database, "/here", "Fix the parser", *(f"number {n}" for n in range(20)))
    assert await search(database, "parser") == (["Fix the parser"], 9)
    await index(database)
    await send(database, "/here", *(f"further {n}" for n in range(9)))
    assert await search(database, "parser") == (["Fix the parser"], 4), "what is not indexed, then the index"


async def test_prompts_of_this_directory_are_found_behind_many_of_others(database: Database) -> None:
    await send(database, "/here", "parser of here")
    await send(database, "/else", *(f"parser {n}" for n in range(20)))
    await index(database)
    texts, _ = await search(database, "parser", (2, 2))
    assert texts[-1] == "parser of here" and len(texts) == 2 + 2 + 4 + 1


async def test_messages_of_agents_and_long_texts_are_no_prompts(database: Database) -> None:
    await send(database, "/here", "a parser " * 5_000)
    log = await database.open_agent(await database.agents.create(), "/here")
    await log.append([ev.UserMessage("the parser of an agent", sender="owl")])
    await log.close()
    await send(database, "/else", *(f"number {n}" for n in range(20)))
    await index(database)
    assert await search(database, "parser") == ([], 3)


@pytest.mark.parametrize("sender", ["owl", None], ids=["messages of agents", "one prompt again and again"])
async def test_old_prompts_are_found_behind_many_messages(database: Database, sender: str | None) -> None:
    await send(database, "/else", "old parser", "older parser")
    log = await database.open_agent(await database.agents.create(), "/here")
    await log.append([ev.UserMessage("the parser again", sender=sender) for _ in range(40)])
    await log.close()
    await send(database, "/else", *(f"number {n}" for n in range(20)))
    await index(database)
    texts, _ = await search(database, "parser", (5, 5))
    assert {"old parser", "older parser"} <= {*texts}


async def test_search_goes_on_when_its_time_is_over(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"parser number{n}" for n in range(8)]
    for text in texts:
        await send(database, "/here", text)
        await index(database)
    await send(database, "/else", *(f"further {n}" for n in range(9)))
    await index(database)
    monkeypatch.setattr("ikigai.store.search.lookup.SEARCH_TIMEOUT", -1.0)
    found, parts = await search(database, "parser")
    assert found == texts[::-1] and parts > 3, "some at a time"
    assert (await search(database, "umber1"))[0] == ["parser number1"]


async def test_stopped_search_ends_without_asking_the_index(database: Database) -> None:
    await send(database, "/here", "Fix the parser", *(f"number {n}" for n in range(20)))
    await index(database)
    prompts = database.search_prompts("parser", "/here")
    await prompts.more((9, 9))
    await prompts.more((9, 9))
    prompts.stop()
    assert await prompts.more((9, 9)) == [] and prompts.complete
