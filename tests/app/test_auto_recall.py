"""Automatic recall over a real database: facts that left the window are in the request that asks for them."""

from pathlib import Path
from random import Random
from typing import Literal

import psycopg
import pytest
from msgspec.structs import replace

from ikigai.app.history import auto_recall
from ikigai.app.history.auto_recall import find_turns, recall_for
from ikigai.config import Config
from ikigai.config.records import ContextSettings
from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.events.events import (
    AssistantMessage,
    Ending,
    Forked,
    StoredEvent,
    Summarized,
    TurnsRecalled,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import StopReason, Text, ToolCall, ToolResult
from ikigai.core.relocation.redact import PURGED_TEXT
from ikigai.core.search.recall_choice import (
    CLEAR_SHARE,
    RECALL_SHARE,
    RecallMatch,
    choose_turns,
    is_recallable,
    join_excerpts,
)
from ikigai.core.state.decisions.decisions import decide, work
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import end_turn, evolve
from ikigai.core.state.inputs import CallModel, Clear, Condensed, Filter, Replied, RewindAt, Submitted, Undo
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import next_request
from ikigai.core.state.prompt_prefix import prompt_prefix
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.core.views.context_report import build_report
from ikigai.repl.commands.completions import complete_undo
from ikigai.store.database import Database
from tests.app.house import House
from tests.bench.prose import Prose
from tests.core.agent import RUN
from tests.store.talk import Talk
from tests.support import semantic

TOKENS = 800
SMALL = replace(RUN, below={**RUN.below, "budget": 2_000})
FIRST_KEPT = replace(SMALL, rules=WindowRules(keep_first_turn=True))
FACTS, TURNS = 60, 300
THINGS = ["boiler", "ladder", "garage", "piano", "kayak", "tent", "bicycle", "printer", "oven", "sofa", "lamp", "clock"]
PLACES = ["attic", "cellar", "shed", "balcony", "hallway"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the database of a busy machine."""
    monkeypatch.setattr(auto_recall, "RECALL_SECONDS", 60.0)


async def ask(talk: Talk, database: Database, question: str) -> str:
    """Play a turn as the loop does; return its request as text."""
    recalled = await recall_for(database, talk.memory, question, TOKENS)
    await talk.happen(Submitted(question, recalled=recalled))
    request = next_request(talk.memory)
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    await talk.happen(Replied(job, (Text("Noted."),), StopReason.END, UsageReported(talk.memory.model)))
    return repr(request.messages)


async def with_secret(database: Database, run: RunConfig = SMALL, is_indexed: bool = True) -> Talk:
    """A talk whose second turn is out of the window and names the walrus."""
    talk = await Talk.open(database, run=run)
    await talk.turn("Good morning.", "Hello.")
    await talk.turn("The walrus is called Gertrude.", "A good name for a walrus.")
    for n in range(12):
        await talk.turn(f"Filler {n} about nothing, " + "blah " * 100, "Fine. " + "yes " * 100)
    if is_indexed:
        await database.indexer.catch_up(30)
    assert "Gertrude" not in repr(next_request(talk.memory))
    return talk


async def test_what_left_the_window_is_recalled_stored_replayed_and_undone(database: Database):
    talk = await with_secret(database)
    assert "Gertrude" in await ask(talk, database, "What was the name of the walrus?")
    assert talk.memory == await talk.reloaded()
    recalled = talk.memory.full_window.turns[-1].recalled
    assert recalled and "Gertrude" in repr(talk.memory.window)
    await talk.happen(Undo())
    assert "Gertrude" not in repr(talk.memory.window) and talk.memory == await talk.reloaded()
    await talk.happen(Undo(talk.memory.changes[-1].id))
    assert "Gertrude" in repr(talk.memory.window) and talk.memory == await talk.reloaded()
    await talk.log.close()


async def test_what_is_recalled_counts_in_context_and_goes_with_its_forgotten_message(database: Database):
    talk = await with_secret(database)
    await ask(talk, database, "What was the name of the walrus?")
    parts = {part.name: part.tokens for part in build_report(talk.memory).parts}
    assert parts["recalled"] > 20 and sum(parts.values()) == talk.memory.used
    turn = talk.memory.window.turns[-1]
    assert str(turn.recalled) in complete_undo(talk.memory)
    selection = await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(turn.id, turn.id),)))
    assert selection.ids == (turn.id, turn.recalled)
    alone = await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(turn.recalled, turn.recalled),)))
    assert alone.ids == (turn.recalled,)
    await talk.happen(Filter(selection.ranges, selection.ids, selection.messages))
    assert "Gertrude" not in repr(talk.memory.window) and talk.memory == await talk.reloaded()
    await talk.log.close()


async def with_fork(database: Database) -> tuple[Talk, Talk]:
    """Return an agent whose last turn has recalled the secret, closed, and a fork of it."""
    talk = await with_secret(database)
    await ask(talk, database, "What was the name of the walrus?")
    await talk.log.close()
    end = talk.memory.window.turns[-1].end
    forked = await database.tree.fork(talk.agent, end, (Forked(talk.agent.name, end),), "child")
    return talk, await Talk.open(database, forked, run=SMALL)


async def test_fork_inherits_recalled_excerpts_and_recalls_from_its_ancestors(database: Database):
    talk, child = await with_fork(database)
    assert child.memory.window.turns[-1].recalled and "Gertrude" in repr(child.memory.window)
    await child.happen(Undo())
    assert await recall_for(database, child.memory, "the walrus", TOKENS)
    assert "Gertrude" not in repr(child.memory.window) and child.memory == await child.reloaded()
    parent = await database.reader(talk.agent).load(load_memory(SMALL, talk.agent.id))
    assert parent.window.turns[-1].recalled, "the child's undo is its own"
    await child.log.close()


async def test_purge_of_an_event_by_its_id_purges_recalled_excerpts_of_it(database: Database, dsn: str):
    talk = await with_secret(database)
    await ask(talk, database, "What was the name of the walrus?")
    await talk.log.close()
    with psycopg.connect(dsn) as connection:
        ((id,),) = connection.execute("select id from messages where content like 'The walrus is%'").fetchall()
        purge = database.purge(None, ((id, id),))
        plan = await purge.find()
        assert [hit.left.kind for hit in plan.hits] == ["user", "recall"]
        await purge.carry_out(plan)
        assert not connection.execute("select from messages where content like '%Gertrude%'").fetchall()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What was the name of the walrus?", 1),
        ("Is the walrus called Gertrude", 1),
        ("Which zeppelin brought the walrus from the northern harbor to the museum?", 0),
        ("w", 0),
        ("海象叫什么名字", 0),
        ("🦭 walrus 名前 Gertrude", 1),
    ],
)
async def test_only_clear_matches_are_suggested(database: Database, text: str, names: int):
    talk = await with_secret(database)
    turns = await find_turns(database, talk.memory, text, TOKENS, CLEAR_SHARE, catch_up=0.0)
    assert len(turns) == names and all("walrus" in turn.name for turn in turns)
    await talk.log.close()


@pytest.mark.parametrize("question", ["?", "a", "the of and", "🦭", "x" * 100_000, "zeppelin", "nothing fine"])
async def test_nothing_is_recalled_for_what_matches_nothing_clearly(database: Database, question: str):
    talk = await with_secret(database)
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    await talk.log.close()


async def newest_recall(talk: Talk, database: Database) -> tuple[StoredEvent, tuple[int, ...]]:
    """Return the newest event of recalled excerpts, and the ids of the events that they are of."""
    rows = await database.reader(talk.agent).history(None, 20)
    *_, (stored, event) = ((row, row.event) for row in rows if isinstance(row.event, TurnsRecalled))
    return stored, event.ids


@pytest.mark.parametrize("is_whole", [True, False])
async def test_excerpts_of_a_forgotten_turn_leave_with_it_and_come_back(database: Database, is_whole: bool):
    talk = await with_secret(database)
    assert "Gertrude" in await ask(talk, database, "What was the name of the walrus?")
    stored, ids = await newest_recall(talk, database)
    assert stored.id == talk.memory.window.turns[-1].recalled and talk.memory.has_event_in_context(stored)
    named = EventRange(ids[0], ids[-1] if is_whole else ids[0])
    selection = await talk.log.load(select_events(talk.run, talk.agent.id, (named,)))
    assert bool(selection.ranges) == is_whole != bool(selection.ids)
    prefix = prompt_prefix(talk.memory, next_request(talk.memory))
    await talk.happen(Filter(selection.ranges, selection.ids, selection.messages))
    assert prompt_prefix(talk.memory, next_request(talk.memory)).history != prefix.history, "the cause of a cache miss"
    for _ in range(2):
        assert "Gertrude" not in repr(next_request(talk.memory)) and "name of the walrus" in repr(talk.memory.window)
        assert not talk.memory.window.turns[-1].recalled and not talk.memory.has_event_in_context(stored)
        assert talk.memory == await talk.reloaded()
        await talk.happen(Undo())
        assert "Gertrude" in repr(next_request(talk.memory)) and talk.memory == await talk.reloaded()
        await talk.happen(Undo(talk.memory.changes[-1].id))
    await talk.log.close()


async def test_fork_forgets_excerpts_of_its_own_alone(database: Database):
    talk, child = await with_fork(database)
    _, (quoted, *_) = await newest_recall(child, database)
    selection = await child.log.load(select_events(child.run, child.agent.id, (EventRange(quoted, quoted),)))
    await child.happen(Filter((), selection.ids, selection.messages))
    assert "Gertrude" not in repr(next_request(child.memory)) and child.memory == await child.reloaded()
    parent = await database.reader(talk.agent).load(load_memory(SMALL, talk.agent.id))
    assert "Gertrude" in repr(next_request(parent)), "the child's filter is its own"
    await child.log.close()


@pytest.mark.parametrize("how", ["forget", "clear", "rewind"])
async def test_forgotten_cleared_and_rewound_turns_are_not_recalled(database: Database, how: str):
    talk = await with_secret(database)
    question = "What was the name of the walrus?"
    assert await recall_for(database, talk.memory, question, TOKENS)
    turns = (await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(newest_turns=99),)))).turns
    if how == "forget":
        await talk.happen(Filter(((turns[1].turn.first, turns[1].turn.end),), (), 2))
    elif how == "clear":
        await talk.happen(Clear())
    else:
        await talk.happen(RewindAt(turns[0].turn.end))
    await slide(talk, database)
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    await talk.log.close()


async def test_turns_of_other_agents_are_not_recalled(database: Database):
    other = await with_secret(database)
    await other.log.close()
    talk = await Talk.open(database, run=SMALL)
    for n in range(12):
        await talk.turn(f"Filler {n} about nothing, " + "blah " * 100, "Fine. " + "yes " * 100)
    assert await recall_for(database, talk.memory, "What was the name of the walrus?", TOKENS) is None
    await talk.log.close()


async def test_excerpts_keep_to_their_tokens_and_to_clear_matches(database: Database):
    talk = await with_secret(database)
    memory, start = talk.memory, talk.memory.cutoff
    assert start
    old = [RecallMatch(2, 5, score, "e" * 100, (n,)) for n, score in ((2, 10.0), (3, 9.0), (4, 5.9), (5, 2.0))]
    assert choose_turns(memory, old, 10.0, 0.5) == tuple(old[:2])
    assert choose_turns(memory, old, 10.0, 0.95) == tuple(old[:1])
    assert not choose_turns(memory, old, 20.0, 0.95)
    whole, small = join_excerpts(old[:2], 800), join_excerpts(old[:2], 55)
    assert whole and whole.ids == (2, 3)
    assert small and len(small.text.encode()) <= 55 * 4 and small.ids == (2,)
    assert join_excerpts(old, 10) is None
    sent, unfinished = RecallMatch(start, start + 3, 1.0, "", ()), RecallMatch(2, None, 1.0, "", ())
    assert is_recallable(memory, old[0]) and not is_recallable(memory, sent) and not is_recallable(memory, unfinished)
    many = [RecallMatch(2, 5, 9.0, f"e{n}", (n,)) for n in range(2, 8)]
    assert choose_turns(memory, many, 9.0, 0.5) == tuple(many[:3])
    purged = RecallMatch(2, 5, 9.0, f"it is {PURGED_TEXT}", (2,))
    assert choose_turns(memory, [purged, *many], 9.0, 0.5) == tuple(many[:3])
    await talk.log.close()


async def test_excerpts_that_are_in_the_window_are_not_sent_again(database: Database):
    talk, question = await with_secret(database), "What was the name of the walrus?"
    assert "Gertrude" in await ask(talk, database, question)
    assert repr(next_request(talk.memory)).count("is called Gertrude") == 1
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    await talk.happen(Undo())
    assert await recall_for(database, talk.memory, question, TOKENS), "an undo took them out of the window"
    await talk.log.close()


async def test_excerpts_in_the_kept_first_turn_are_not_sent_again(database: Database):
    talk, question = await with_secret(database, FIRST_KEPT), "What was the name of the walrus?"
    begun, ended = talk.memory.window.first, talk.memory.window.turns[-1]
    assert begun
    summary = Summarized("They talked.", ended.end, ((begun.id, ended.end),), turns=14)
    await talk.happen(Condensed(summary, talk.memory.start_up_to(ended.end)))
    recalled = TurnsRecalled("[excerpts]\n\nThe walrus is called Gertrude.", (1,))
    match = RecallMatch(begun.id, begun.end, 9.0, "The walrus is called Gertrude.", (1,))
    await talk.happen(Submitted(question, recalled=recalled))
    (job,) = (job for job in work(talk.memory) if isinstance(job, CallModel))
    await talk.happen(Replied(job, (Text("Gertrude."),), StopReason.END, UsageReported(talk.memory.model)))
    assert not choose_turns(talk.memory, [match], 9.0, 0.5)
    await slide(talk, database)
    kept = talk.memory.window.first
    assert kept and kept.recalled and kept.id not in [turn.id for turn in talk.memory.window.turns]
    assert not choose_turns(talk.memory, [match], 9.0, 0.5)
    await talk.log.close()


async def slide(talk: Talk, database: Database) -> None:
    """Push all turns out of the window."""
    for n in range(12):
        await talk.turn(f"More {n}, " + "blah " * 100, "Fine. " + "yes " * 100)
    await database.indexer.catch_up(30)


async def test_turn_beside_one_that_matches_is_not_recalled_for_a_word_of_it(database: Database):
    talk = await Talk.open(database, run=SMALL)
    await talk.turn("Good morning.", "The walrus Gertrude lives in the harbor.")
    await talk.turn("The harbor is wide.", "It is.")
    await slide(talk, database)
    question = "the walrus Gertrude of the harbor"
    (turn,) = await find_turns(database, talk.memory, question, TOKENS, RECALL_SHARE, catch_up=0.0)
    assert "Gertrude" in turn.excerpts
    await talk.log.close()


async def test_long_turn_is_recalled_with_what_there_is_room_for(database: Database):
    talk = await Talk.open(database, run=SMALL)
    long = f"{'mud' * 20} " * 40
    await talk.turn(f"{long}The walrus is called Gertrude. {long}", long)
    await slide(talk, database)
    recalled = await recall_for(database, talk.memory, "What was the name of the walrus?", TOKENS)
    assert recalled and "Gertrude" in recalled.text
    assert TOKENS < len(recalled.text.encode()) <= TOKENS * BYTES_PER_TOKEN
    await talk.log.close()


async def test_first_turn_that_is_kept_in_the_window_is_not_recalled(database: Database):
    keeping = replace(SMALL, rules=replace(SMALL.rules, keep_first_turn=True))
    talk = await with_secret(database, keeping)
    first = talk.memory.window.first
    assert first and talk.memory.cutoff and first.end < talk.memory.cutoff
    assert await recall_for(database, talk.memory, "What was the name of the walrus?", TOKENS)
    matches = await find_turns(database, talk.memory, "Good morning hello", TOKENS, RECALL_SHARE, catch_up=0.0)
    assert first.id not in {each.first for each in matches}
    unkept = replace(talk.memory, window=replace(talk.memory.window, first=None))
    matches = await find_turns(database, unkept, "Good morning hello", TOKENS, RECALL_SHARE, catch_up=0.0)
    assert first.id in {each.first for each in matches}
    await talk.log.close()


async def test_index_is_brought_up_to_date_before_excerpts_are_sent(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(auto_recall, "CATCH_UP_SECONDS", 60.0)
    talk, question = await with_secret(database, is_indexed=False), "What was the name of the walrus?"
    assert not await find_turns(database, talk.memory, question, TOKENS, CLEAR_SHARE, catch_up=0.0)
    assert await recall_for(database, talk.memory, question, TOKENS)
    await talk.log.close()


async def test_turn_whose_own_excerpts_were_undone_is_recalled(database: Database):
    talk, question = await with_secret(database), "What was the name of the walrus?"
    await ask(talk, database, question)
    await talk.happen(Undo())
    await slide(talk, database)
    recalled = await recall_for(database, talk.memory, question, TOKENS)
    assert recalled and question in recalled.text
    await talk.log.close()


async def test_output_of_tools_recalls_what_was_said_about_it(database: Database):
    talk = await with_secret(database)
    call = ToolCall("c", "read_file", '{"path": "otters.txt"}')
    await talk.store((UserMessage("Look into that file."), AssistantMessage((Text(""),)), call))
    await talk.store((ToolResult("c", "The otter is called Olga."), AssistantMessage((Text("Done."),))))
    await talk.store((end_turn(talk.memory, (), Ending.COMPLETED),))
    await slide(talk, database)
    (turn,) = await find_turns(database, talk.memory, "the otter called Olga", TOKENS, CLEAR_SHARE, catch_up=0.0)
    assert turn.name == "Look into that file." and "Done." in turn.excerpts and "Olga" not in turn.excerpts
    selection = await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(turn.best, turn.best),)))
    await talk.happen(Filter((), selection.ids, selection.messages))
    assert not await find_turns(database, talk.memory, "the otter called Olga", TOKENS, CLEAR_SHARE, catch_up=0.0)
    await talk.log.close()


async def test_turn_with_a_forgotten_message_is_not_recalled(database: Database):
    talk, question = await with_secret(database), "What was the name of the walrus?"
    recalled = await recall_for(database, talk.memory, question, TOKENS)
    assert recalled
    id = recalled.ids[-1]
    selection = await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(id, id),)))
    assert selection.ids == (id,) and not selection.ranges
    await talk.happen(Filter((), selection.ids, selection.messages))
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    await talk.log.close()


async def test_turn_begins_without_what_a_slow_or_broken_database_would_recall(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    talk, question = await with_secret(database), "What was the name of the walrus?"
    monkeypatch.setattr(auto_recall, "RECALL_SECONDS", 0.0)
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    monkeypatch.setattr(auto_recall, "RECALL_SECONDS", 60.0)
    assert await recall_for(database, talk.memory, question, TOKENS)
    with psycopg.connect(dsn) as connection:
        connection.execute("alter table search_figures rename to search_figures_of_another_version")
    assert await recall_for(database, talk.memory, question, TOKENS) is None
    await talk.log.close()


@pytest.mark.parametrize(("mode", "is_sent"), [("off", False), ("suggest", False), ("on", True)])
async def test_loop_sends_excerpts_along_only_where_that_is_chosen(
    database: Database, tmp_path: Path, mode: Literal["off", "suggest", "on"], is_sent: bool
):
    talk = await with_secret(database)
    await talk.log.close()
    context = ContextSettings(auto_recall=mode, sliding_context_tokens=2_000)
    house = House(database, tmp_path, Config(model="scripted/echo", context=context))
    member = await house.open(talk.agent.name)
    member.agent_loop.put_input(Submitted(question := "What was the name of the walrus?"))
    await house.rested()
    history = [row.event for row in await house.history(talk.agent.name)]
    asked = next(n for n, event in enumerate(history) if isinstance(event, UserMessage) and event.text == question)
    sent = [event for event in history if isinstance(event, TurnsRecalled)]
    assert bool(sent) == is_sent == isinstance(history[asked + 1], TurnsRecalled)
    assert all("Gertrude" in event.text for event in sent)
    await house.manager.close()
    await house.world.tool_runtime.close()
    await house.world.pool.close()


@pytest.mark.timeout(1200)
@pytest.mark.ordinary("recall")
@pytest.mark.parametrize("mode", semantic.modes())
async def test_needles_that_left_the_window_are_in_the_request_that_asks_for_them(database: Database, mode: str):
    """A question shares at most two content words with its fact, and so do the other facts."""
    rng = Random(7)
    prose = Prose(rng)
    codes = [f"{rng.choice('BDGKLMNPRT')}{prose.name()}{n}" for n in range(FACTS)]
    facts = {rng.randrange(TURNS // 2): n for n in range(FACTS)}
    while len(facts) < FACTS:
        facts[rng.randrange(TURNS // 2)] = next(n for n in range(FACTS) if n not in facts.values())
    talk = await Talk.open(database, run=replace(RUN, below={**RUN.below, "budget": 20_000}))
    sent = 0
    for turn in range(TURNS):
        said = prose.text(60)
        if turn in facts:
            n = facts[turn]
            said += f" The code for the {THINGS[n % 12]} in the {PLACES[n // 12]} is {codes[n]}."
        await talk.turn(said, prose.text(60))
        sent += talk.memory.used
    while await database.indexer.index_some():
        pass
    assert not any(code in repr(next_request(talk.memory)) for code in codes)
    found, recalled = 0, sent
    for n in range(FACTS):
        question = f"Which number opens that {THINGS[n % 12]} up in our {PLACES[n // 12]}?"
        plain = talk.memory
        for event in decide(plain, Submitted(question)):
            plain = evolve(plain, StoredEvent(2**63 - 1, plain.agent, 0, 0.0, event))
        sent += plain.used
        with semantic.modes()[mode]():
            found += codes[n] in await ask(talk, database, question)
        recalled += talk.memory.used
    print(f"{mode}: {found} of {FACTS} facts, {100 * (recalled / sent - 1):.1f} % more input tokens")
    assert found >= 50, found
    assert recalled <= 1.05 * sent, (recalled, sent)
    await talk.log.close()
