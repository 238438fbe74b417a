"""The purge: the text is gone from every row, draft, sample and file of the database; ids, pairs and replay stay."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from ikigai.core.errors import AgentLocked, Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, Role, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.relocation.redact import PURGED_TEXT, PurgeTarget
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import evolve
from ikigai.core.state.memory import next_request
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.store.database import Database
from ikigai.store.embedded.server import find_binaries
from ikigai.store.purge import purge
from ikigai.store.search import word_index
from ikigai.store.transfer import dump
from tests.conftest import MIGRATIONS
from tests.store.conftest import let_use
from tests.store.talk import Talk
from tests.store.test_dump import contents
from tests.support.invariants import check

SECRET = "sk-canary-of-a-purge-0123456789"
EVERYTHING = ((0, 2**63 - 1),)


@pytest.fixture(autouse=True)
def patient_purge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a purge wait for old snapshots however long the machine takes to end them."""
    monkeypatch.setattr(purge, "MAX_REWRITES", 60)


def rows(dsn: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as other:
        found = other.execute(query.encode(), parameters)
        return found.fetchall() if found.description else []


def log(dsn: str) -> list[tuple[Any, ...]]:
    """All that a purge must not change, and what it may."""
    return rows(
        dsn,
        "select id, event_id, agent_id, seq, kind, created_at, content, data from messages order by id",
    )


def place(row: Sequence[Any]) -> Sequence[Any]:
    """Return the part of a row that no purge changes."""
    return row[:6]


async def purged(database: Database, what: str | purge.Ids) -> purge.PurgePlan:
    task, found = await _carried_out(database, what)
    for done in await task.rewrite():
        assert not done.why and not done.kept, done
    return found


async def purged_rows(database: Database, what: str | purge.Ids, agent: str | None = None) -> purge.PurgePlan:
    """Purge without rewriting the tables, which takes most of the time."""
    return (await _carried_out(database, what, agent))[1]


async def _carried_out(
    database: Database, what: str | purge.Ids, agent: str | None = None
) -> tuple[purge.Purge, purge.PurgePlan]:
    wanted, ids = (PurgeTarget(what), EVERYTHING) if isinstance(what, str) else (None, what)
    task = database.purge(wanted, ids, agent)
    found = await task.find()
    await task.carry_out(found)
    return task, found


async def tools(talk: Talk) -> list[int]:
    """A turn in which the secret is in every place it can be in; the ids of its events."""
    events = (
        ev.UserMessage(f"my key is {SECRET}", (Image("image/png", "aGk=", 1, 1, f"{SECRET}.png"),)),
        ev.AssistantMessage((Thinking(f"{SECRET}?", "c2ln", "anthropic"), Text("I try it.")), StopReason.TOOLS, "a/b"),
        ToolCall("call", "bash", f'{{"line": "curl -H {SECRET}"}}'),
        ev.ToolStarted("call"),
        ToolResult("call", f"401 for {SECRET}", is_error=True),
        ev.AssistantMessage((Text(f"{SECRET} does not work."),), model="a/b"),
    )
    ids = [row.id for event in events for row in await stored(talk, event)]
    assert talk.memory.open
    end = ev.TurnEnded(ev.Ending.COMPLETED, "", talk.memory.open.first, 700, tokens=5, counted="provider a/b")
    return ids + [row.id for row in await stored(talk, end)]


async def stored(talk: Talk, *events: ev.Event) -> tuple[ev.StoredEvent, ...]:
    appended = await talk.log.append(events)
    for row in appended.rows:
        talk.memory = evolve(talk.memory, row)
    return appended.rows


async def test_text_is_gone_and_everything_else_is_there(dsn: str, database: Database) -> None:
    talk = await Talk.open(database, await database.agents.create("amber-otter"))
    await talk.turn("before", "it")
    ids = await tools(talk)
    await talk.turn("after", "it")
    await stored(talk, ev.CommandRan("/status", f"shows {SECRET}"))
    await stored(talk, ev.SettingsChanged({"system": f"Say {SECRET}.", "level": "high"}, {"system": "agent"}))
    await talk.log.close()
    before = log(dsn)
    found = await purged(database, SECRET)
    after = log(dsn)
    assert list(map(place, after)) == list(map(place, before)) and SECRET not in repr(after)
    assert {hit.id for hit in found.hits} == {row[0] for row in before if SECRET in repr(row)} and len(found.hits) == 7
    assert all(SECRET not in hit.words and "***" in hit.words for hit in found.hits)
    changed = {row[0]: row[6:] for row, old in zip(after, before, strict=True) if row != old}
    assert changed == {
        ids[0]: (PURGED_TEXT, None),
        ids[1]: (PURGED_TEXT, {"stop": "tools", "model": "a/b"}),
        ids[2]: ("{}", {"id": "call", "name": "bash"}),
        ids[4]: (PURGED_TEXT, {"call_id": "call", "is_error": True}),
        ids[5]: (PURGED_TEXT, {"model": "a/b"}),
        ids[6]: (None, {"ending": "completed", "first": ids[0], "size": 700}),
        before[-2][0]: (PURGED_TEXT, {"output": PURGED_TEXT}),
        before[-1][0]: (None, {"values": {"system": PURGED_TEXT, "level": "high"}, "origins": {"system": "agent"}}),
    }

    memory = check(dsn)["amber-otter"]
    turns = [[message.text for message in turn.messages if message.role is Role.USER] for turn in memory.window.turns]
    assert turns == [["before"], [PURGED_TEXT], ["after"]]
    assert SECRET not in repr(memory)
    with pytest.raises(psycopg.errors.RestrictViolation):
        rows(dsn, "update messages set content = 'other'")
    assert (await database.purge(PurgeTarget(SECRET), EVERYTHING).find()).hits == ()


async def test_replay_agrees_with_the_purged_rows(dsn: str, database: Database) -> None:
    """Counts of tokens that were of other words are not believed, bytes are measured anew."""
    run = RunConfig(
        {"model": "a/b", "level": "", "budget": 100_000, "system": ""},
        lambda _: ModelLimits(128_000, 8_192),
        lambda _: ChatEncoder(),
        counter="provider",
    )
    talk = await Talk.open(database, run=run)
    await talk.turn("before", "it")
    await tools(talk)
    await talk.turn("after", "it")
    assert talk.memory.window.turns[1].size == 5 * 4
    await talk.log.close()
    await purged_rows(database, SECRET)
    again = await Talk.open(database, talk.agent, run)
    measure, turns = run.encoder("a/b").message, again.memory.window.turns
    assert [turn.size for turn in turns] == [sum(map(measure, turn.messages)) for turn in turns]
    assert turns[1].size > 20
    await again.turn("and on", "it goes")
    assert again.memory == await again.reloaded()
    assert len(next_request(again.memory).messages) == len(next_request(talk.memory).messages) + 2
    check(dsn)


def files(dsn: str) -> list[Path]:
    """Every file in which this database's tables, indexes and catalogues are, as they are on disk."""
    rows(dsn, "checkpoint")
    ((data, oid),) = rows(
        dsn, "select current_setting('data_directory'), oid from pg_database where datname = current_database()"
    )
    return [file for folder in (f"base/{oid}", "global", "base/pgsql_tmp") for file in Path(data, folder).glob("*")]


def holding(dsn: str, text: str) -> list[str]:
    return [str(file) for file in files(dsn) if file.is_file() and text.encode() in file.read_bytes()]


async def test_it_is_in_no_file_of_the_database(dsn: str, database: Database, tmp_path: Path) -> None:
    talk = await Talk.open(database)
    for _ in range(30):  # often enough to be one of the most common values
        await stored(talk, ev.CommandRan(SECRET))
    await tools(talk)
    await stored(talk, ev.UserMessage("left open"))
    await talk.log.save_draft(Draft(1, f"{SECRET} is", f"{SECRET}?"))
    await talk.log.close()
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("analyze messages")
        assert SECRET in repr(other.execute("select most_common_vals::text from pg_stats").fetchall())
    assert len(holding(dsn, SECRET)) >= 3
    found = await purged(database, SECRET)
    assert len(found.hits) == 35 and found.drafts == (talk.agent.id,)
    assert rows(dsn, "select text, thinking from drafts") == [(PURGED_TEXT, "")]
    assert holding(dsn, SECRET) == []

    await dump.dump(dsn, find_binaries(), file := tmp_path / "d")
    restore = [find_binaries() / "pg_restore", "-f", "-", file]
    rows_of = (await asyncio.to_thread(subprocess.run, restore, capture_output=True, check=True)).stdout
    assert SECRET.encode() not in rows_of and PURGED_TEXT.encode() in rows_of


async def test_its_words_are_in_no_file_of_the_index(dsn: str, database: Database) -> None:
    """The tables of the index hold words as they are folded, also in rows that were replaced."""
    talk = await Talk.open(database)
    for number in range(3):
        await stored(talk, ev.UserMessage(f"Qzxwoodpecker {number}"))
    await talk.log.close()
    while await database.indexer.index_some():
        pass
    tables = {"search_postings", "search_vocabulary", "search_words"}
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("checkpoint")
        for table in tables:
            ((held,),) = other.execute(
                f"select count(*) from {table} as t where t::text like '%qzxwoodpecker%'"
            ).fetchall()
            assert held, f"{table} has it before"
    assert holding(dsn, "qzxwoodpecker")
    await purged(database, "Qzxwoodpecker")
    assert holding(dsn, "qzxwoodpecker") == []


async def test_ids_and_ranges(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn("one", "1")
    await talk.turn("two", "2")
    (picture,) = await stored(talk, ev.UserMessage("", (Image("image/png", "aGk=", 1, 1),)))
    await talk.log.close()
    said = {content: id for id, *_, content, _ in log(dsn) if content}
    found = await purged_rows(database, [(said["1"], said["1"]), (said["two"], picture.id), (said["2"], said["2"])])
    assert [hit.words for hit in found.hits] == ["1", "two", "2", "[image]"]
    assert [row[6] for row in log(dsn) if row[4] in ("user", "assistant")] == [
        "one",
        PURGED_TEXT,
        PURGED_TEXT,
        PURGED_TEXT,
        PURGED_TEXT,
    ]
    assert [row[4] for row in log(dsn) if row[0] in found.empty] == ["usage", "turn_end"]
    assert all(row[7] != {"images": []} for row in log(dsn))


async def test_ids_that_are_not_there(dsn: str, database: Database) -> None:
    one, other = await Talk.open(database), await Talk.open(database)
    await one.turn("mine", "yours")
    await other.turn("theirs", "his")
    before = log(dsn)
    theirs = next(row[0] for row in before if row[6] == "theirs")
    for ids, agent in (([(10**6, 10**6)], None), ([(10**6, 10**7)], None), ([(theirs, theirs)], one.agent.id)):
        with pytest.raises(Rejected, match=r"There (is|are) no event"):
            await database.purge(None, ids, agent).find()
    await one.log.close()
    found = await purged_rows(database, [(1, 10**6)], one.agent.id)
    assert {hit.agent for hit in found.hits} == {one.agent.id}
    after = log(dsn)
    assert [row[6] for row in after if row[4] == "user"] == [PURGED_TEXT, "theirs"]
    assert [row for row in after if str(row[2]) == other.agent.id] == [
        row for row in before if str(row[2]) == other.agent.id
    ]


async def test_only_the_agent_that_is_named(dsn: str, database: Database) -> None:
    one, other = await Talk.open(database), await Talk.open(database)
    for talk in (one, other):
        await talk.turn(SECRET, "!")
        await stored(talk, ev.UserMessage("open"))
        await talk.log.save_draft(Draft(1, SECRET, ""))
        await talk.log.close()
    found = await purged_rows(database, SECRET, one.agent.id)
    assert found.drafts == (one.agent.id,) and len(found.hits) == 1
    assert rows(dsn, "select text from drafts order by agent_id = %s", UUID(one.agent.id)) == [
        (SECRET,),
        (PURGED_TEXT,),
    ]
    assert [row[6] for row in log(dsn) if row[4] == "user"] == [PURGED_TEXT, "open", SECRET, "open"]


async def test_draft_goes_with_what_it_answers(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    (asked,) = await stored(talk, ev.UserMessage("what is my key?"))
    await talk.log.save_draft(Draft(asked.id, "it is", ""))
    await talk.log.close()
    assert (await purged_rows(database, [(asked.id, asked.id)])).drafts == (talk.agent.id,)
    again = await Talk.open(database, talk.agent)
    assert [message.text for message in next_request(again.memory).messages] == [PURGED_TEXT, PURGED_TEXT]
    check(dsn)


async def test_nobody_may_have_it_in_memory(dsn: str, database: Database) -> None:
    talk = await Talk.open(database, await database.agents.create("parent"))
    await talk.turn("harmless", "!")
    early = talk.memory.window.turns[-1].end
    await talk.turn(SECRET, "!")
    late = talk.memory.window.turns[-1].end
    await talk.log.close()
    forks = {"before": early, "behind": late, "nothing": 0}
    create = database.agents.create
    agents = {name: await create(name, parent=talk.agent.id, forked_at=at) for name, at in forks.items()}
    agents["grandchild"] = await create("grandchild", parent=agents["behind"].id, forked_at=late)
    agents |= {"parent": talk.agent, "stranger": await create("stranger")}
    other = await Database.open(dsn, MIGRATIONS)
    before = log(dsn)
    task = database.purge(PurgeTarget(SECRET), EVERYTHING)
    found = await task.find()
    for name in ("parent", "behind", "grandchild"):
        held = await other.open_agent(agents[name])
        for attempt in (task.check_write_locks, task.carry_out):
            with pytest.raises(AgentLocked, match=f"Agent {name} is open in another ikigai") as busy:
                await attempt(found)
            assert "Nothing was changed" in busy.value.remedy
        await held.close()
    assert log(dsn) == before
    for name in ("before", "nothing", "stranger"):
        await other.open_agent(agents[name])
    await task.check_write_locks(found)
    await task.carry_out(found)
    assert SECRET not in repr(log(dsn))
    for name in ("parent", "behind", "grandchild"):  # the write locks were put down
        await other.open_agent(agents[name])
    await other.close()


async def test_what_somebody_can_still_see_is_said(
    dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await Talk.open(database)
    await talk.turn(SECRET, "!")
    await talk.log.close()
    monkeypatch.setattr(purge, "MAX_REWRITES", 1)
    task = database.purge(PurgeTarget(SECRET), EVERYTHING)
    found = await task.find()
    with psycopg.connect(dsn) as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1")
        await task.carry_out(found)
        done = {each.table: each for each in await task.rewrite()}
        assert done["messages"].kept >= 1 and not done["messages"].why
        assert holding(dsn, SECRET)
    done = {each.table: each for each in await task.rewrite()}
    assert not done["messages"].kept and holding(dsn, SECRET) == []


async def test_it_waits_for_those_who_are_about_to_end(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    await talk.turn(SECRET, "!")
    await talk.log.close()
    task = database.purge(PurgeTarget(SECRET), EVERYTHING)
    found = await task.find()
    other = await psycopg.AsyncConnection.connect(dsn)
    await other.execute("set transaction isolation level repeatable read")
    await other.execute("select 1")
    await task.carry_out(found)
    rewriting = asyncio.create_task(task.rewrite())
    await asyncio.sleep(0.5)
    await other.close()
    assert all(not done.kept and not done.why for done in await rewriting)
    assert holding(dsn, SECRET) == []


async def test_who_does_not_own_the_tables_is_told(dsn: str, role: str, database: Database) -> None:
    let_use(dsn, role)
    theirs = await Database.open(role, MIGRATIONS)
    talk = await Talk.open(theirs)
    await talk.turn(SECRET, "!")
    await talk.log.close()
    task = theirs.purge(PurgeTarget(SECRET), EVERYTHING)
    found = await task.find()
    await task.carry_out(found)
    assert SECRET not in repr(log(dsn))
    done = {each.table: each.why for each in await task.rewrite()}
    assert done["messages"] == done["pg_statistic"] == "the database user is not its owner"
    await theirs.close()


@pytest.mark.parametrize("is_joined", [False, True])
async def test_what_is_purged_is_not_found_any_more(dsn: str, database: Database, is_joined: bool) -> None:
    """Neither its words nor parts of them, also where its segment was joined; all else is found at once."""
    talk = await Talk.open(database)
    long = "filler Straße " * 3_000
    for n in range(9):
        await talk.turn(f"my key is {SECRET}s" if n == 4 else f"house {n}", "keep it")
        if is_joined:
            await database.indexer.catch_up(60)
    (row,) = await stored(talk, ev.UserMessage(f"{long} needle => {long}"))
    await talk.log.close()
    await database.indexer.catch_up(60)
    while is_joined and await database.indexer.join_some():
        pass
    hits = [hit.id for hit in (await database.search(SECRET)).hits]
    assert len(hits) == 1 and holding(dsn, SECRET)
    await purged(database, SECRET)
    assert not (await database.search(SECRET)).hits and holding(dsn, SECRET) == []
    assert not rows(dsn, "select 1 from search_postings where words ~ 'canary'")
    assert not rows(dsn, "select 1 from search_vocabulary where word ~ 'canary' or stem ~ 'canary'")
    assert not rows(dsn, "select 1 from search_words where words ~ 'canary'")
    assert rows(dsn, "select 1 from search_vocabulary where word = 'house'")
    assert rows(dsn, r"select 1 from search_words where words ~ '\nhouse\n'")
    reading = await Database.open(dsn, MIGRATIONS, write=False)
    queries = {"keep": 9, '"kee"': 0, "strasse": 1, '"filler strasse"': 1, "*eedl*": 1, "=>": 1, "purged": 1, "key": 0}
    queries |= {"*anar*": 0, "*ous*": 8}
    for query, count in queries.items():
        found = await reading.search(query)
        assert (len(found.hits), found.behind, found.reached) == (count, 0, None), query
    assert not (await reading.search("needle", before=row.id)).hits
    await reading.close()


async def test_long_event_that_is_purged_while_it_is_indexed_is_begun_anew(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "STRETCH_CHARACTERS", 40_000)
    talk = await Talk.open(database)
    await stored(talk, ev.UserMessage(f"{SECRET} {'filler ' * 20_000} farend"))
    await talk.log.close()
    assert await database.indexer.index_some() and await database.indexer.behind() == 1
    await purged(database, SECRET)
    await database.indexer.catch_up(60)
    assert not (await database.search(SECRET)).hits
    (hit,) = (await database.search("purged")).hits
    assert hit.snippet.text.startswith("[purged]")


ODD = (
    '{"images": 5}',
    '{"images": [5, {"name": ["%s"]}, null]}',
    '{"images": {"name": "x"}, "later": 1e400}',
    '{"blocks": "none", "id": 5, "deep": {"deeper": ["%s"]}}',
    '{"blocks": [{"text": 5, "signature": ["%s"]}, 7, null]}',
)


async def test_odd_rows_are_purged_like_others(dsn: str, database: Database) -> None:
    for data in ODD:
        agent = await database.agents.create()
        for seq, kind in enumerate(("user", "assistant", "tool_call", "filter", "usage", "of a later program"), 1):
            rows(
                dsn,
                "insert into messages (event_id, agent_id, seq, kind, content, data)"
                " values (gen_random_uuid(), %s, %s, %s, %s, %s) returning id",
                UUID(agent.id), seq, kind, SECRET, data.replace("%s", SECRET),
            )  # fmt: skip
    kinds = ["user", "assistant", "tool_call", "filter", "of a later program"]
    assert [hit.left.kind for hit in (await purged_rows(database, SECRET)).hits] == kinds * len(ODD)
    assert not [row for row in log(dsn) if SECRET in repr(row) and row[4] != "usage"]


async def test_many_events(dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found page by page, changed batch by batch, as one."""
    monkeypatch.setattr(purge, "PURGE_PAGE_ROWS", 7)
    monkeypatch.setattr(purge, "CHANGED_PER_STATEMENT", 11)
    talk = await Talk.open(database)
    await talk.log.append(tuple(ev.CommandRan(SECRET if n % 3 else "other") for n in range(100)))
    await talk.log.close()
    looked: list[int] = []
    task = database.purge(PurgeTarget(SECRET), EVERYTHING)
    found = await task.find(looked=looked.append)
    assert len(found.hits) == 66 and looked[-1] == len(log(dsn)) and found.last == log(dsn)[-1][0]
    await task.carry_out(found)
    assert [row[6] for row in log(dsn) if row[4] == "command"] == [
        PURGED_TEXT if n % 3 else "other" for n in range(100)
    ]
    assert (await task.find(found.last)).hits == ()
    await (await Talk.open(database, talk.agent)).turn(SECRET, "!")
    assert len((await task.find(found.last)).hits) == 1


async def test_purged_log_is_dumped_and_restored(dsn: str, empty_dsn: str, database: Database, tmp_path: Path) -> None:
    talk = await Talk.open(database)
    await tools(talk)
    await talk.log.close()
    await purged(database, SECRET)
    await dump.dump(dsn, find_binaries(), tmp_path / "d")
    await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert contents(empty_dsn) == contents(dsn)
    check(empty_dsn)


async def test_purge_rewrites_drafts_when_only_dead_rows_hold_the_text(dsn: str, database: Database) -> None:
    talk = await Talk.open(database)
    (asked,) = await stored(talk, ev.UserMessage("?"))
    await talk.log.save_draft(Draft(asked.id, f"the output was {SECRET}", ""))
    await stored(talk, ev.AssistantMessage((Text("hidden"),), model="a/b"))
    await talk.log.close()
    rows(dsn, "checkpoint")
    assert rows(dsn, "select text from drafts") == [] and holding(dsn, SECRET) != []
    found = await purged(database, SECRET)
    assert found.hits == () and found.drafts == () and holding(dsn, SECRET) == []
