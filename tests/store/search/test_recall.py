"""Recall ranks turns: stems, length, neighbors, scopes, purges, and an index that is merged as it grows."""

import asyncio
import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.store.database import Database
from ikigai.store.search import segments as joining
from ikigai.store.search import turn_recall
from ikigai.store.search.answering_turns import ends_with_question
from ikigai.store.search.neighbors import likely_best
from ikigai.store.search.postings import Postings, coded_length, length_code
from ikigai.store.search.ranking import Ranking, Segment
from ikigai.store.search.stems import (
    MAX_QUERY_WORDS,
    QueryWord,
    count_words,
    detect_language,
    query_words,
    split_words,
)
from ikigai.store.search.turn_recall import RecallScope, common_languages
from ikigai.store.sql import search
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk
from tests.support import semantic


async def recalled(database: Database, question: str, **options) -> list[str]:
    """Return the first words of the user's message in each turn that is recalled."""
    found = await database.recall(question, **options)
    return [" ".join(turn.messages[0].excerpt.split()[:2]) for turn in found.turns]


async def test_recall_ranks_whole_turns_by_stems(database: Database):
    talk = await Talk.open(database)
    await talk.turn("early migration: we decided to migrate the warehouse database in May", "Noted. " + "x " * 4_000)
    await talk.turn("late warehouse is big", "Yes.")
    for n in range(20):
        await talk.turn(f"chatter {n}: what did we say about the thing", f"thing {n}")
    found = await database.recall("What did we decide about migrating warehouses?", limit=4, most_characters=2_000)
    first = found.turns[0]
    assert "migrate the warehouse" in first.messages[0].excerpt and found.behind == 0
    assert first.id == first.first == first.messages[0].id and first.last and first.last > first.messages[1].id
    assert [each.kind for each in first.messages] == ["user", "assistant"]
    assert sum(len(said.excerpt) for turn in found.turns for said in turn.messages) <= 2_200
    assert [turn.score for turn in found.turns] == sorted((turn.score for turn in found.turns), reverse=True)
    await talk.log.close()


async def test_recall_of_nothing_and_of_odd_questions(database: Database):
    talk = await Talk.open(database)
    await talk.turn("the harbor", "fine")
    for question in ("", "?!", "a", "the of and", "🦭", "zzyzx qqfoo", "\x00'\"\\", "x" * 100_000):
        assert (await database.recall(question)).turns == (), question[:20]
    await talk.log.close()


async def test_index_without_documents_recalls_nothing(database: Database, dsn: str):
    """It is begun, but has nothing to rank: the first events have no words, or all that had some was purged."""
    talk = await Talk.open(database)
    await talk.turn("what was it", "the")
    assert await recalled(database, "walrus") == []
    await talk.turn("one walrus", "")
    await talk.log.close()
    (turn,) = (await database.recall("walrus")).turns
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("update search_figures set documents = 0, stems = 0")
        assert await recalled(database, "walrus") == []
        other.execute("delete from search_progress; delete from search_figures")
        assert turn and await recalled(database, "walrus") == ["one walrus"], "it is filled anew"


async def test_recall_in_mixed_scripts(database: Database):
    talk = await Talk.open(database)
    await talk.turn("東京は日本の首都です", "はい")
    await talk.turn("Mikor voltam a fogorvosnál és hogy hívták az orvost?", "Kedden, és ő volt az.")
    await talk.turn("🦭🦭 sighting", "at the pier")
    assert (await recalled(database, "日本の首都 capital?"))[0].startswith("東京は")
    assert (await recalled(database, "a fogorvosok"))[0].startswith("Mikor")
    assert (await recalled(database, "🦭🦭"))[0].startswith("🦭🦭")
    assert (await recalled(database, "x " * 50_000 + "日本"))[:1] == []
    await talk.log.close()


def stems_in(text: str) -> set[str]:
    return {stem for _, stem, _ in count_words(text)[1]}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("İstanbul'da bir ev", "istanbul"),
        ("هذا كِتَابٌ جديد", "كتاب"),
        ("אמרנו שָׁלוֹם לכולם", "שלום"),
        ("Ọlọ́run wa", "olorun"),
        ("the cafe\u0301 on the pier", "cafés"),
    ],
)
def test_marks_that_are_characters_cut_no_word(said: str, asked: str):
    indexed = stems_in(said)
    assert any(stem in indexed for word in query_words(asked, ()) for stem in word.stems), (indexed, asked)


async def test_answer_is_found_by_its_question(database: Database):
    """The reply has none of the words, and a turn that mentions one of them is no better."""
    talk = await Talk.open(database)
    await talk.turn("question about the marathon shoes", "Get the blue ones.")
    await talk.turn("other shoes", "No.")
    found = await database.recall("marathon shoes", limit=1)
    assert [said.excerpt for said in found.turns[0].messages][1] == "Get the blue ones."
    await talk.log.close()


async def test_recall_keeps_to_its_scope(database: Database):
    mine, other = await Talk.open(database), await Talk.open(database)
    await mine.turn("one walrus", "ok")
    await other.turn("two walrus", "ok")
    await mine.turn("three walrus", "ok")
    await mine.log.close()
    await other.log.close()
    both = await recalled(database, "walrus")
    assert sorted(both) == ["one walrus", "three walrus", "two walrus"]
    scope = RecallScope({mine.agent.id: None})
    assert sorted(await recalled(database, "walrus", scope=scope)) == ["one walrus", "three walrus"]
    third = (await database.recall("three", scope=scope)).turns[0].first
    assert await recalled(database, "walrus", scope=RecallScope({mine.agent.id: None}, third)) == ["one walrus"]
    assert await recalled(database, "walrus", scope=RecallScope({mine.agent.id: third - 1})) == ["one walrus"]


async def test_turns_without_a_word_of_the_question_are_not_found_for_what_stands_beside_them(database: Database):
    talk = await Talk.open(database)
    await talk.turn("Good morning.", "Good morning. Who are you?")
    await talk.turn("The walrus sleeps.", "So the walrus sleeps.")
    await talk.turn("And what about the weather?", "It is fine.")
    assert await recalled(database, "What does the walrus do?") == ["The walrus"]
    assert len((await database.recall("the walrus", limit=1)).turns) == 1
    await talk.log.close()


@pytest.mark.parametrize(
    ("reply", "is_found"),
    [
        ("Which instrument do you play?", True),
        ("Which **instrument** is it? 🎻 …", True),
        ("你会乐器吗 — an instrument？", True),
        ("long " * 30_000 + "What instrument?", True),
        ("What a fine instrument? I see.", False),
        ("I like your instrument.", False),
    ],
)
async def test_answer_without_a_word_of_the_question_is_found_behind_what_it_answers(
    database: Database, reply: str, is_found: bool
):
    talk = await Talk.open(database)
    await talk.turn("Good morning.", reply)
    await talk.turn("Blue and heavy.", "I see.")
    await talk.turn("Nothing else.", "Fine.")
    with semantic.without():
        found = await recalled(database, "instrument")
    assert found == ["Good morning.", "Blue and"][: 1 + is_found]
    await talk.log.close()


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Who are you?", True),
        ("Ποιος είσαι;", True),
        ("Ποιος είσαι\u037e", True),
        ("你是谁？」", True),
        ("ما اسمك؟", True),
        ("Is it `a_b`? ___", True),
        ("Who? Me.", False),
        ("Use this:\n```c\nreturn 0;\n```", False),
        ("?", True),
        ("", False),
        ("?" * 20_000 + "a", False),
        ("? _" * 7_000 + "a", False),
    ],
)
def test_question_at_the_end_of_a_reply_is_seen_at_once(text: str, asks: bool):
    began = time.process_time()
    assert ends_with_question(text) is asks
    assert time.process_time() - began < 0.5, "a pattern took seconds for many question marks"


async def test_neighbor_counts_across_turns_of_another_agent(database: Database):
    mine, other = await Talk.open(database), await Talk.open(database)
    for talk, *said in (mine, "a walrus", "Or a seal?"), (other, "between", "fine"), (mine, "the second", "fine"):
        await talk.turn(*said)
        assert await database.indexer.catch_up(60) == 0
    with semantic.without():
        found = await database.recall("seal")
    assert [turn.messages[0].excerpt for turn in found.turns] == ["a walrus", "the second"]
    assert found.turns[1].messages[0].score > 0 == found.turns[1].messages[1].score, "it stands behind the seal"
    await mine.log.close()
    await other.log.close()


def test_languages_of_a_few_mistaken_texts_are_left_out():
    assert common_languages({"english": 99_000, "german": 900, "dutch": 99, "danish": 1}) == ["english", "german"]
    assert common_languages({"german": 1}) == ["german"] and common_languages({}) == []


async def test_purged_events_are_not_recalled(database: Database, dsn: str):
    talk = await Talk.open(database)
    await talk.turn("the sesamekey opens the door", "good")
    await talk.turn("the door is red", "good")
    (turn,) = (await database.recall("sesamekey")).turns
    await talk.log.close()
    purge = database.purge(PurgeTarget("sesamekey"), ((0, 1 << 62),))
    plan = await purge.find()
    assert [hit.id for hit in plan.hits] == [turn.id]
    await purge.carry_out(plan)
    with psycopg.connect(dsn, autocommit=True) as other:
        assert not other.execute("select from search_postings where words like '%sesam%'").fetchall()
        assert not other.execute("select from search_vocabulary where word like '%sesam%'").fetchall()
        assert other.execute("select documents, stems from search_figures").fetchone() == (4, 5), (
            "[purged] is a word, too"
        )
        lengths = b"".join(part for (part,) in other.execute("select lengths from search_segments").fetchall())
        assert sum(map(bool, lengths)) == 4, "what was purged has none"
    assert not (await database.recall("sesamekey")).turns
    assert (await recalled(database, "doors"))[0] == "the door"


async def test_joined_index_ranks_as_one_of_small_segments(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    random, words = Random(4), [f"w{n}" for n in range(60)]
    talk = await Talk.open(database)
    texts = [" ".join(random.choices(words, weights=range(1, 61), k=random.randint(1, 30))) for _ in range(60)]
    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)
    monkeypatch.setattr(joining.join, "__defaults__", (16,))
    monkeypatch.setattr(joining, "BLOCKS_AT_ONCE", 1)
    for text in texts:
        await talk.turn(text, "houses" if "w7" in text else "house")
        await database.indexer.catch_up(60)
    questions = [*(" ".join(random.choices(words, k=4)) for _ in range(4)), "house w7"]

    async def recalled_now() -> list[object]:
        with semantic.without():  # one turn more moves the weights of words, and so turns of the same meaning
            return [await database.recall(question, limit=20) for question in questions]

    before, steps = await recalled_now(), 0
    while await database.indexer.join_some():
        steps += 1
        assert await recalled_now() == before, steps
    with psycopg.connect(dsn, autocommit=True) as other:
        ((segments,),) = other.execute("select count(*) from search_segments").fetchall()
        assert steps > 5 and segments < 12, (steps, segments)
    await talk.turn("one more", "house")
    joined = await recalled_now()
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("update search_figures set analysis = 0")
        oldest = other.execute("select min(id) from search_segments").fetchall()
        await talk.turn("another", "house")
        await database.indexer.catch_up(60)
        assert other.execute("select min(id) from search_segments").fetchall() > oldest, "it is made anew"
    assert await recalled_now() != joined
    await talk.log.close()


def naive(documents: list[Counter[str]], counts: dict[str, int]) -> list[float]:
    from math import log

    lengths = [coded_length(length_code(each.total())) for each in documents]
    average = sum(each.total() for each in documents) / len(documents)
    scores = [0.0] * len(documents)
    for stem, times in counts.items():
        n = sum(stem in each for each in documents)
        for place, each in enumerate(documents):
            if each[stem]:
                count = min(each[stem], 15)
                norm = 1.2 * (0.25 + 0.75 * lengths[place] / average)
                scores[place] += times * log(1 + (len(documents) - n + 0.5) / (n + 0.5)) * count * 2.2 / (count + norm)
    return scores


def segments_of(documents: Sequence[Counter[str]], size: int) -> list[Segment]:
    """Return the documents in segments of this size."""
    found: list[Segment] = []
    for first in range(0, len(documents), size):
        some = documents[first : first + size]
        stems = {stem for each in some for stem in each}
        having = {stem: [n for n, each in enumerate(some) if each[stem]] for stem in stems}
        postings = {
            stem: Postings(numbers, bytes(min(15, some[n][stem]) for n in numbers)) for stem, numbers in having.items()
        }
        found.append(Segment(first, bytes(length_code(each.total()) for each in some), postings))
    return found


def counting_only(segments: list[Segment], *runs: tuple[int, int]) -> list[Segment]:
    """Return the segments as those in which only the documents of these runs count."""
    counting = {number for first, last in runs for number in range(first, last + 1)}
    return [
        each._replace(lengths=bytes(code if each.first + n in counting else 0 for n, code in enumerate(each.lengths)))
        for each in segments
    ]


def test_ranking_equals_naive_bm25(monkeypatch: pytest.MonkeyPatch):
    random, words = Random(5), [f"w{n}" for n in range(40)]
    documents = [
        Counter(random.choices(words, weights=range(1, 41), k=random.choice((3, 20, 200)))) for _ in range(5_000)
    ]
    segments = segments_of(documents, 1_024)
    average = sum(each.total() for each in documents) / len(documents)
    for most in (120_000, 100):  # all summed; only the rarest summed, the others looked up
        monkeypatch.setattr("ikigai.store.search.ranking.MAX_SUMMED_POSTINGS", most)
        for _ in range(5):
            counts = dict.fromkeys(random.sample(words, 4), 1)
            wanted = naive(documents, counts)
            ranking = Ranking(segments, counts, len(documents), average)
            found = ranking.candidates()
            scores = ranking.scores(found)
            assert all(abs(scores[n] - wanted[n]) < 1e-9 for n in found)
            best = sorted(range(5_000), key=lambda n: -wanted[n])[:10]
            if most > 1_000:
                assert {round(wanted[n], 6) for n in best} <= {round(wanted[n], 6) for n in found}
            within = Ranking(counting_only(segments, (7, 9), (4_090, 4_100)), counts, 5_000, average)
            assert set(within.candidates()) <= {7, 8, 9, *range(4_090, 4_101)}


def count_question_stems(words: list[QueryWord]) -> Counter[str]:
    """Return the stems of words of a question, each with how often the question has a word of it."""
    found = Counter[str]()
    for word in words:
        found.update(dict.fromkeys(word.stems, word.times))
    return found


def test_words_of_one_stem_weigh_what_a_message_with_them_scores():
    words = query_words("The heron and the herons of the river: herons?", ())
    counts = count_question_stems(words)
    assert counts == {"heron": 3, "river": 1}
    documents = [Counter(said.split()) for said in ("heron herons river", "sea sky", "heron herons sea")]
    ranking = Ranking(segments_of(documents, 2), {word.word: word.times for word in words}, 3, 3.0)
    assert ranking.scores([0])[0] == pytest.approx(sum(ranking.word_weights(words)))


def test_documents_beside_others_that_match_are_likely_to_be_the_best():
    documents = [Counter(stems) for stems in ["abxxx", "c", "axxxx", "c", "axxxx", "axxxx", "c", "axxxx"]]
    ranking = Ranking(segments_of(documents, 8), {"a": 1, "b": 1}, 8, 5.0)
    own, numbers = likely_best(ranking, 3)
    assert list(own) == [0, 2, 4, 5, 7] and own[0] > own[2] == own[4] and numbers == [0, 4, 5]
    assert likely_best(ranking, 5) == (own, list(own))


async def test_recall_is_the_same_where_few_documents_are_read(database: Database, monkeypatch: pytest.MonkeyPatch):
    talk = await Talk.open(database)
    for n in range(6):
        await talk.turn(f"Tell me of harbor {n}", "The harbor has a crane." if n == 4 else "Ships wait there.")
    whole = await database.recall("Which harbor has a crane?", 1)
    was_enabled: list[bool] = []
    made = turn_recall._with_excerpts
    monkeypatch.setattr(turn_recall, "_with_excerpts", lambda *args: was_enabled.append(gc.isenabled()) or made(*args))
    monkeypatch.setattr(turn_recall, "MIN_READ_DOCUMENTS", 1)
    monkeypatch.setattr(turn_recall, "READ_PER_TURN", 1)
    few = await database.recall("Which harbor has a crane?", 1)
    assert [turn.messages for turn in few.turns] == [turn.messages for turn in whole.turns]
    assert "crane" in few.turns[0].messages[1].excerpt and few.turns[0].messages[0].score > 0
    assert was_enabled == [False] and gc.isenabled()
    await talk.log.close()


async def test_recall_while_another_program_joins_segments(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", 0)
    monkeypatch.setattr(joining, "SEGMENTS_JOINED", 2)
    talk, within = await Talk.open(database), turn_recall._within
    for n in range(4):
        await talk.turn(f"Tell me of harbor {n}", "Ships wait there.")
        await database.indexer.catch_up(60)
    other, joined = await Database.open(dsn, MIGRATIONS), list[bool]()

    async def join_and_read(*args: Any) -> Any:
        while await other.indexer.join_some():
            joined.append(True)
        return await within(*args)

    monkeypatch.setattr(turn_recall, "_within", join_and_read)
    found = await database.recall("Which harbor?", scope=RecallScope({talk.agent.id: None}))
    assert len(found.turns) == 4 and joined
    await other.close()
    await talk.log.close()


def test_question_of_common_words_finds_what_has_most_of_them(monkeypatch: pytest.MonkeyPatch):
    random, words = Random(6), [f"w{n}" for n in range(30)]
    documents = [Counter(random.choices(words, k=random.choice((5, 20, 60)))) for _ in range(6_000)]
    documents[4_711] = Counter(["rare", "w0"])
    segments = segments_of(documents, 4_096)
    monkeypatch.setattr("ikigai.store.search.ranking.MAX_SUMMED_POSTINGS", 800)
    monkeypatch.setattr("ikigai.store.search.ranking.MAX_HAVING_ALL", 300)
    monkeypatch.setattr("ikigai.store.search.ranking.MAX_CANDIDATES", 100)
    average = sum(each.total() for each in documents) / len(documents)
    for asked in (
        ["w0"],
        ["w1", "w2"],
        ["w3", "w4", "w5"],
        ["w6", "w7", "w8", "w9", "w10"],
        ["rare", "w0", "w1", "w2"],
    ):
        counts = dict.fromkeys(asked, 1)
        wanted = naive(documents, counts)
        for runs in ([(0, 5_999)], [(50, 79), (4_000, 4_200), (4_700, 4_720)]):
            ranking = Ranking(counting_only(segments, *runs), counts, len(documents), average)
            found = ranking.candidates()
            near = {near for n in found for near in (n - 1, n, n + 1) if 0 <= near < 6_000}
            scores = ranking.scores(near)
            assert all(abs(scores[n] - wanted[n]) < 1e-9 for n in scores) and set(found) <= set(scores)
            counting = [n for n in range(6_000) if any(first <= n <= last for first, last in runs)]
            best = sum(sorted((wanted[n] for n in counting), reverse=True)[:10])
            assert sum(sorted((scores[n] for n in found), reverse=True)[:10]) >= 0.95 * best, asked
            assert 4_711 in found or "rare" not in asked


def test_lengths_are_coded_within_six_percent():
    for length in (*range(2_000), 16_000, 65_535):
        assert length * 0.94 <= coded_length(length_code(length)) <= length
    assert length_code(10**9) <= 255


def test_languages_are_told_and_stemmed():
    samples = {
        "english": "where did we put the keys of the houses",
        "german": "wir haben die Häuser nicht gesehen und waren nur im Garten",
        "french": "nous avons vu les maisons de la ville et elles sont grandes",
        "hungarian": "nem tudom hogy hol vannak az autók és a házak",
        "russian": "мы не видели дома и были только в саду",
    }
    for language, text in samples.items():
        assert detect_language(split_words(text)) == language
        told, words = count_words(text)
        assert told == language and words
    assert set(query_words("house", ["english"])[0].stems) & stems_in("the houses of the town are")
    asked = count_question_stems(query_words("Haus Garten", ["german"]))
    assert set(asked) & stems_in("die Gärten und Hauses sind")
    assert stems_in("snake_case東京都") == {"snake", "case", "東京", "京都"}


def test_one_function_word_tells_no_language():
    assert detect_language(["kayak", "der"]) == "english" and detect_language(["kayak", "der"], "french") == "french"
    assert detect_language(["und", "der"], "french") == "german"


def test_longest_words_of_a_long_question_are_looked_up():
    short, long = [f"s{n}" for n in range(100)], [f"longword{n}x" for n in range(MAX_QUERY_WORDS)]
    words = query_words(" ".join([*short, *long, "heron " * 9]), ())
    assert {word.word for word in words} == {*long}


async def test_recall_of_a_reply_without_text(database: Database):
    talk = await Talk.open(database)
    await talk.store((ev.UserMessage("open walrus"), ev.AssistantMessage((Text(""),))))
    (turn,) = (await database.recall("walrus")).turns
    assert turn.last is None and turn.first == turn.id
    await talk.log.close()


async def test_user_counts_a_little_more_and_a_neighbor_half(database: Database):
    talk = await Talk.open(database)
    await talk.turn("the gray heron", "the gray heron")
    with semantic.without():
        (turn,) = (await database.recall("gray heron")).turns
    user, reply = turn.messages
    assert turn.id == user.id and user.score == turn.score
    assert turn.word_score == pytest.approx(1.15 * 1.5 * turn.own_score, abs=1e-3)
    assert reply.score == pytest.approx(1.5 * turn.own_score, abs=1e-3)
    await talk.log.close()


async def test_best_message_has_most_of_the_excerpt_and_each_other_one_a_share(database: Database):
    talk = await Talk.open(database)
    await talk.turn("heron " + "reed " * 2_000, "the gray gray heron " + "pond " * 2_000)
    (turn,) = (await database.recall("gray heron", most_characters=1_000)).turns
    user, reply = turn.messages
    assert turn.id == reply.id
    assert 250 < len(user.excerpt) < 330 and 650 < len(reply.excerpt) < 730
    await talk.log.close()


async def test_excerpts_show_what_matches_wherever_it_stands(database: Database):
    """It is far behind in a long message, in the output of a tool, and in the last reply of a long turn."""
    talk = await Talk.open(database)
    await talk.turn(
        "a long report: " + "reed pond " * 4_000 + "the heron is called Gertrude " + "mud " * 9_000, "Read."
    )
    call = ToolCall("c", "read_file", '{"path": "seals.txt"}')
    begun = (ev.UserMessage("look"), ev.AssistantMessage((Text("I read it."),)), call)
    await talk.store((*begun, ToolResult("c", "The walrus is called Egon.")))
    await talk.store([ev.AssistantMessage((Text(f"step {n}"),)) for n in range(40)])
    await talk.store((ev.AssistantMessage((Text("The otter is called Olga."),)),))
    facts = ("heron", "Gertrude", "user"), ("walrus", "Egon", "tool_result"), ("otter", "Olga", "assistant")
    for animal, name, kind in facts:
        turn = (await database.recall(f"the {animal}", limit=1)).turns[0]
        (best,) = (said for said in turn.messages if said.id == turn.id)
        assert (best.kind, name in best.excerpt) == (kind, True), animal
        assert [said.id for said in turn.messages] == sorted(said.id for said in turn.messages)
        assert len(turn.messages) <= 20
    await talk.log.close()


FILL = """
import asyncio, sys
from pathlib import Path
from ikigai.store.database import Database

async def fill(dsn, migrations):
    database = await Database.open(dsn, Path(migrations))
    while await database.indexer.index_some():
        print("step", flush=True)

asyncio.run(fill(*sys.argv[1:]))
"""


async def test_index_that_a_killed_program_left_half_filled_is_filled(database: Database, dsn: str):
    talk = await Talk.open(database)
    rows = [(talk.agent.id, n + 1, f"note {n} about the topic{n % 7} of harbor{n % 131}") for n in range(2_500)]
    with psycopg.connect(dsn) as connection:
        columns = "event_id, agent_id, seq, kind, content"
        statement = f"insert into messages ({columns}) values (gen_random_uuid(), %s, %s, 'user', %s)"
        connection.cursor().executemany(statement.encode(), rows)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FILL, dsn, str(MIGRATIONS), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout and await program.stdout.readline() == b"step\n"
    program.kill()
    await program.wait()
    assert await database.indexer.behind() > 0
    while await database.indexer.index_some():
        pass
    questions = "topic3 harbor17", "note 2400", "harbor130 topic6 note"
    after = [(await database.recall(question)).turns for question in questions]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select documents from search_figures").fetchall() == [(len(rows),)]
        for statement in search.CLEAR_INDEX:
            connection.execute(statement)
    while await database.indexer.index_some():
        pass
    assert all(after) and [(await database.recall(question)).turns for question in questions] == after
    await talk.log.close()
