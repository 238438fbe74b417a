"""Automatic recall over a real database: facts that left the window are in the request that asks for them."""

from random import Random

import psycopg
import pytest
from msgspec.structs import replace

from ikigai.app import auto_recall
from ikigai.app.auto_recall import find_turns, recall_for
from ikigai.core.events import Forked, UsageReported
from ikigai.core.forget.selection import EventRange, select_events
from ikigai.core.messages import StopReason, Text
from ikigai.core.search.recall_choice import CLEAR_SHARE, RecallMatch, choose_turns, is_recallable, join_excerpts
from ikigai.core.state.decisions import decide, work
from ikigai.core.state.fold import expect
from ikigai.core.state.inputs import CallModel, Clear, Filter, Replied, RewindAt, Submitted, Undo
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import next_request
from ikigai.core.views.context_report import build_report
from ikigai.repl.completions import complete_undo
from ikigai.store.database import Database
from tests.bench.prose import Prose
from tests.core.agent import RUN
from tests.store.talk import Talk
from tests.support import semantic

TOKENS = 800
SMALL = replace(RUN, below={**RUN.below, "budget": 2_000})
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


async def with_secret(database: Database) -> Talk:
    """A talk whose second turn is out of the window and names the walrus."""
    talk = await Talk.open(database, run=SMALL)
    await talk.turn("Good morning.", "Hello.")
    await talk.turn("The walrus is called Gertrude.", "A good name for a walrus.")
    for n in range(12):
        await talk.turn(f"Filler {n} about nothing, " + "blah " * 100, "Fine. " + "yes " * 100)
    await database.indexer.stems.catch_up(30)
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


async def test_fork_inherits_recalled_excerpts_and_recalls_from_its_ancestors(database: Database):
    talk = await with_secret(database)
    await ask(talk, database, "What was the name of the walrus?")
    await talk.log.close()
    end = talk.memory.window.turns[-1].end
    forked = await database.tree.fork(talk.agent, end, (Forked(talk.agent.name, end),), "child")
    child = await Talk.open(database, forked, run=SMALL)
    assert child.memory.window.turns[-1].recalled and "Gertrude" in repr(child.memory.window)
    assert await recall_for(database, child.memory, "the walrus", TOKENS)
    await child.happen(Undo())
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
    for n in range(12):
        await talk.turn(f"More {n}, " + "blah " * 100, "Fine. " + "yes " * 100)
    await database.indexer.stems.catch_up(30)
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
    assert not is_recallable(memory, start, start + 3) and not is_recallable(memory, 2, None)
    await talk.log.close()


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
    while await database.indexer.stems.index_some():
        pass
    assert not any(code in repr(next_request(talk.memory)) for code in codes)
    found, recalled = 0, sent
    for n in range(FACTS):
        question = f"Which number opens that {THINGS[n % 12]} up in our {PLACES[n // 12]}?"
        plain = expect(talk.memory, decide(talk.memory, Submitted(question)))
        sent += plain.used
        with semantic.modes()[mode]():
            found += codes[n] in await ask(talk, database, question)
        recalled += talk.memory.used
    print(f"{mode}: {found} of {FACTS} facts, {100 * (recalled / sent - 1):.1f} % more input tokens")
    assert found >= 50, found
    assert recalled <= 1.05 * sent, (recalled, sent)
    await talk.log.close()
