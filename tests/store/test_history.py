"""History for people has the whole lineage, page by page, and the prompts."""

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Document, DocumentKind, Image, StopReason, Text, ToolCall, ToolResult
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.inputs import CallModel, Clear, Replied, RewindTo, SetMark, Steered, Submitted
from ikigai.store.agents.agents import Agent
from ikigai.store.database import Database
from ikigai.store.sql import reading as reading_queries
from tests.store.talk import Talk

pytestmark = pytest.mark.fresh


async def texts(database: Database, agent: Agent, before: int | None = None, limit: int = 100) -> list[str]:
    rows = await database.reader(agent).history(before, limit)
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    return [row.event.text for row in rows if isinstance(row.event, ev.UserMessage)]


async def test_clears_and_rewinds_hide_nothing(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one")
    await talk.happen(SetMark("m"))
    await talk.turn("two")
    await talk.happen(RewindTo("m"))
    await talk.turn("three")
    await talk.happen(Clear())
    await talk.turn("four")
    assert await texts(database, talk.agent) == ["one", "two", "three", "four"]
    kinds = [type(row.event) for row in await database.reader(talk.agent).history(None, 100)]
    assert {ev.Cleared, ev.Marked, ev.Rewound, ev.UsageReported, ev.TurnEnded} <= set(kinds)


async def test_page_by_page(database: Database) -> None:
    talk = await Talk.open(database)
    for n in range(12):
        await talk.turn(f"{n}")
    reader = database.reader(talk.agent)
    whole = await reader.history(None, 1000)
    found, before = [], None
    while page := await reader.history(before, 7):
        assert len(page) == 7 or page[0] == whole[0]
        found[:0] = page
        before = page[0].id
    assert tuple(found) == whole
    assert await reader.history(whole[0].id, 5) == () == await reader.history(None, 0)


async def test_over_forks(database: Database) -> None:
    """Each descendant sees its ancestors up to the fork it descends from, and nothing of what they did later."""
    root = await database.agents.create("root")
    log = await database.open_agent(root)
    a1, a2, a3 = [(await log.append((ev.UserMessage(text),))).rows[0] for text in ("a1", "a2", "a3")]
    child = await database.agents.create("child", parent=root.id, forked_at=a2.id)
    child_log = await database.open_agent(child)
    b1 = (await child_log.append((ev.Forked(root.id, a2.id), ev.UserMessage("b1")))).rows[1]
    await log.append((ev.UserMessage("a4"),))
    b2 = (await child_log.append((ev.UserMessage("b2"),))).rows[0]
    grandchild = await database.agents.create("grandchild", parent=child.id, forked_at=b1.id)
    # Forked from what its parent only inherited, and from nothing at all.
    early = await database.agents.create("early", parent=child.id, forked_at=a1.id)
    nothing = await database.agents.create("nothing", parent=child.id, forked_at=0)
    for agent, text in ((grandchild, "c1"), (early, "d1"), (nothing, "e1")):
        await (await database.open_agent(agent)).append((ev.UserMessage(text),))

    assert await texts(database, root) == ["a1", "a2", "a3", "a4"]
    assert await texts(database, child) == ["a1", "a2", "b1", "b2"]
    assert await texts(database, grandchild) == ["a1", "a2", "b1", "c1"]
    assert await texts(database, early) == ["a1", "d1"]
    assert await texts(database, nothing) == ["e1"]
    assert await texts(database, grandchild, limit=2) == ["b1", "c1"]
    assert await texts(database, grandchild, before=b1.id, limit=2) == ["a2"]  # the fork event is the other
    assert await texts(database, child, before=b2.id) == ["a1", "a2", "b1"]
    assert [row.agent for row in await database.reader(grandchild).history(None, 3)] == [
        child.id,
        child.id,
        grandchild.id,
    ]
    assert a3.id > a2.id


async def test_circle_of_parents_ends(database: Database, dsn: str) -> None:
    one = await database.agents.create("one")
    two = await database.agents.create("two", parent=one.id, forked_at=5)
    await (await database.open_agent(two)).append((ev.UserMessage("?"),))
    with psycopg.connect(dsn) as other:
        other.execute("update agents set parent = %s, forked_at = 7 where id = %s", (two.id, one.id))
    assert await texts(database, two) == ["?"]
    assert (await Talk.open(database, one)).memory.open is None


async def test_prompts(database: Database) -> None:
    first, second = [await database.open_agent(await database.agents.create()) for _ in range(2)]
    for log, text in (
        (first, "one"),
        (second, "two"),
        (first, "three"),
        (second, "one"),
        (first, "/four"),
        (first, ""),
    ):
        await log.append((ev.UserMessage(text), ev.AssistantMessage((Text("no prompt"),))))
    await first.append((ev.UserMessage("a book " * 100_000),))
    assert await database.prompts(10) == ["/four", "one", "three", "two"]
    assert await database.prompts(2) == ["/four", "one"]
    assert await database.prompts(0) == []


async def test_images_come_without_their_data(database: Database):
    agent = await database.agents.create("album", "/")
    cat, dog = Image("image/png", "aGk=" * 1000, 30, 20, "cat.png"), Image("image/webp", "aG8=", 5, 4)
    said = [ev.UserMessage("both", (cat, dog)), ev.UserMessage("none"), ev.UserMessage("", (dog,))]
    log = await database.open_agent(agent, "/")
    await log.append(said)
    await log.close()
    rows = await database.reader(agent).history(None, 10)
    bare = [Image(image.media_type, "", image.width, image.height, image.name) for image in (cat, dog)]
    assert [row.event for row in rows] == [
        ev.UserMessage("both", tuple(bare)),
        ev.UserMessage("none"),
        ev.UserMessage("", (bare[1],)),
    ]


async def test_what_was_typed_is_found_stretch_by_stretch(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ikigai.store.log.history.MESSAGES_PER_STATEMENT", 3)
    for number, directory in enumerate(("/here", "/else", "/here")):
        agent = await database.agents.create(name=f"agent-{number}")
        log = await database.open_agent(agent, directory)
        said = [ev.UserMessage(f"fix 50% of parser {number}{each}", ()) for each in "ab"]
        await log.append([*said, ev.UserMessage("Grüße", ())])
        await log.close()

    async def found(typed: str, most: tuple[int, int] = (100, 100)) -> list[str]:
        prompts, texts = database.search_prompts(typed, "/here"), list[str]()
        while not prompts.complete:
            more = await prompts.more(most)
            assert all(each.here == (each.directory == "/here") and each.at and each.agent for each in more)
            texts += [each.text for each in more]
        return texts

    assert await found("parser 2") == ["fix 50% of parser 2b", "fix 50% of parser 2a"]
    assert await found("50% FIX b") == [f"fix 50% of parser {number}b" for number in (2, 1, 0)]
    assert await found("grü") == ["Grüße"] * 3
    assert await found("fx50") == [f"fix 50% of parser {number}{each}" for number in (2, 1, 0) for each in "ba"]
    assert await found("_") == await found("'; drop table messages; --") == []
    assert len(await found("")) == 9
    assert await found("parser", (1, 0)) == ["fix 50% of parser 2b", "fix 50% of parser 0b"]
    with psycopg.connect(dsn) as connection:
        connection.execute("set enable_seqscan = off")
        which = {"before": 1 << 40, "most": 10, "words": ["%x%"], "loosely": "%x%", "head": 200, "here": "/"}
        which |= {"most_here": 1, "most_elsewhere": 1}
        plan = connection.execute(b"explain " + reading_queries.SEARCH_PROMPTS.encode(), which).fetchall()
    assert any("Index Scan Backward using messages_user" in row for (row,) in plan)


async def test_message_inside_a_turn_is_the_same_after_a_restart(database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("before")
    await talk.happen(Submitted("go"))
    await talk.store((ev.AssistantMessage((Text("let me see"),)), ToolCall("a", "ls", "{}")))
    await talk.store((ev.ToolStarted("a"),))
    await talk.store((ToolResult("a", "nothing"),))
    await talk.happen(Steered("and mind the gap"))
    assert await talk.reloaded() == talk.memory
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    await talk.happen(Replied(job, (Text("so it is"),), StopReason.END, ev.UsageReported(talk.memory.model)))
    await talk.turn("behind")
    assert await talk.reloaded() == talk.memory
    assert len(talk.memory.window.turns) == 3
    await talk.log.close()


async def test_uses_of_skills_are_counted_by_models_and_by_users(database: Database) -> None:
    log = await database.open_agent(await database.agents.create())
    assert await database.skill_uses() == {}
    typed = ev.UserMessage("/pdf x", documents=(Document("pdf", "Do it.", DocumentKind.SKILL), Document("a.py", "")))
    calls = (
        ToolCall("1", "skill", '{"name": "pdf"}'),
        ToolCall("2", "skill", '{ "name" :"fête"}'),
        ToolCall("3", "skill", "{}", malformed='{"name": "pdf'),
        ToolCall("4", "shell", '{"name": "pdf"}'),
        ToolCall("5", "skill", "not JSON"),
    )
    rows = (await log.append((typed, ev.UserMessage("pdf"), *calls))).rows
    uses = await database.skill_uses()
    assert {name: count for name, (count, _) in uses.items()} == {"pdf": 2, "fête": 1}
    assert uses["pdf"][1] == pytest.approx(rows[0].at, abs=60)
