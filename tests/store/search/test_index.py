"""Tests of the index of words as a whole: it finds what a look at every text finds, at each step of its life."""

import asyncio
import os
import signal
import sys
from itertools import product
from random import Random
from typing import Any

import psycopg
import pytest

from ikigai.core.events import events as ev
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.core.search.query import IndexKey, MatchMode, parse
from ikigai.core.search.snippets import TermFinder
from ikigai.store.database import Database
from ikigai.store.search import lookup, postings, word_index
from ikigai.store.search import segments as joining
from ikigai.store.search.postings import Postings, pack_words, read_documents, read_numbers, read_words
from ikigai.store.search.segments import segments_to_join
from tests.conftest import MIGRATIONS

SAID = (
    "house houses housed Haus Häuser the of and zebra zebras zebra's café cafe Straße strasse x y 7 4711 "
    "東京 東京都 京都 日本語 🎉 don't C++ a_b ﬁne naïve über und der die"
)
WORDS = SAID.split()
QUERIES = (
    "house",
    '"house"',
    "hous*",
    "*ouse*",
    "the of",
    '"the of"',
    "cafe",
    "strasse",
    "京都",
    "東",
    "zebra 4711",
    "'s",
    "c++",
    "y",
    '"x y"',
    "nowhere",
    "*ebr* und",
    "🎉",
)


def naive(texts: dict[int, str], query: str, limit: int) -> list[int]:
    finder = TermFinder(parse(query))
    return [id for id in sorted(texts, reverse=True) if finder.finds(texts[id])][:limit]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
async def test_index_finds_what_a_look_at_every_text_finds(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """Whatever was indexed, joined and purged in whatever order."""
    rng = Random(seed)
    monkeypatch.setattr(joining, "SEGMENTS_JOINED", 2)
    monkeypatch.setattr(joining, "BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(word_index, "DOCUMENTS_PER_ROW", 5)
    monkeypatch.setattr(postings, "BLOCK_BYTES", 80)
    monkeypatch.setattr(word_index, "STEP_EVENTS", 4)
    agents = [await database.agents.create() for _ in range(3)]
    texts: dict[int, str] = {}
    owner: dict[int, str] = {}
    for _ in range(60):
        act = rng.randrange(10)
        if act < 4:
            agent, log = agents[n := rng.randrange(3)], await database.open_agent(agents[n])
            said = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(rng.randint(1, 6))]
            for row, text in zip((await log.append([ev.UserMessage(each) for each in said])).rows, said, strict=True):
                texts[row.id], owner[row.id] = text, agent.id
            await log.close()
        elif act < 6:
            await database.indexer.index_some()
        elif act < 7:
            monkeypatch.setattr(joining, "MAX_JOINED_AT_ONCE", rng.choice((0, 8, 4_096)))
            monkeypatch.setattr(lookup, "MAX_PART_WORDS", rng.choice((0, 1, 32)))
        elif act < 8:
            await database.indexer.join_some()
        elif act < 9 and texts:
            canary = rng.choice(WORDS)
            purge = database.purge(PurgeTarget(canary), ((rng.choice(list(texts)), max(texts)),))
            plan = await purge.find()
            await purge.carry_out(plan)
            texts |= {hit.id: hit.left.content or "" for hit in plan.hits}
        else:
            query, limit, agent = rng.choice(QUERIES), rng.choice((1, 3, 100)), rng.choice((None, *agents))
            result = await database.search(query, agent=agent.id if agent else None, limit=limit)
            within = {id: text for id, text in texts.items() if agent is None or owner[id] == agent.id}
            assert result.behind == 0 and result.reached is None
            if not result.widened:
                assert [hit.id for hit in result.hits] == naive(within, query, limit), query
    for query, agent, limit in product(QUERIES, (None, *agents), (2, 1_000)):
        result = await database.search(query, agent=agent.id if agent else None, limit=limit)
        within = {id: text for id, text in texts.items() if agent is None or owner[id] == agent.id}
        if not result.widened:
            assert [hit.id for hit in result.hits] == naive(within, query, limit), (query, agent)
    assert vocabulary(dsn) == words_of(entries(dsn))


def test_words_are_read_as_they_were_packed():
    rng, words = Random(4), list[tuple[str, Postings]]()
    for n, word in enumerate(("#user", "a", "a+b", "ab", "b" * 64, "é", "日本", "🎉")):
        span = (1, 5, 300, 70_000)[n % 4]
        numbers = sorted(rng.sample(range(span), min(span, 3_000)))
        words.append((word, Postings(numbers, bytes(rng.choices((0, 1, 2, 15), k=len(numbers))))))
    blocks = list(pack_words(words))
    assert 1 < len(blocks) < len(words) and [first for first, *_ in blocks] == sorted({first for first, *_ in blocks})
    assert [pair for _, *block in blocks for pair in read_words(block)] == words
    assert [pair for _, *block in blocks for pair in read_words(block, {"ab", "é"})] == [words[3], words[5]]
    for key, matching in (
        (("a", "whole"), [1]),
        (("a", "start"), [1, 3]),
        (("b", "part"), [3, 4]),
        (("a+b", "whole"), [2]),
    ):
        wanted = IndexKey(key[0], MatchMode(key[1]))
        found = [number for _, each, numbers, _ in blocks for number in read_numbers(each, numbers, wanted)]
        assert found == [number for place in matching for number in words[place][1].numbers], key


def test_segments_are_joined_in_steps_up_to_the_largest():
    rng, segments, moved, first = Random(5), list[tuple[int, int, int]](), 0, 0
    for id in range(4_000):
        size = rng.randint(1, 12)
        segments.append((id, first, first + size - 1))
        first += size
        for most in (4_096, 1 << 16):
            while ids := segments_to_join(segments, most):
                some = [each for each in segments if each[0] in ids]
                moved += some[-1][2] - some[0][1] + 1
                place = segments.index(some[0])
                segments[place : place + len(some)] = [(some[0][0], some[0][1], some[-1][2])]
    assert len(segments) <= 8 * 4 and moved <= 7 * first
    full = [(n, n << 15, (n + 1 << 15) - 1) for n in range(5)]
    assert segments_to_join(full, 1 << 16) == [3, 4] and segments_to_join([(0, 0, (1 << 16) - 1)], 1 << 16) == []


FILL = """
import asyncio, sys
from pathlib import Path
from ikigai.store.database import Database
from ikigai.store.search import postings, word_index
from ikigai.store.search import segments as joining

async def run(dsn, migrations):
    joining.MAX_JOINED_AT_ONCE, joining.BLOCKS_AT_ONCE, joining.SEGMENTS_JOINED = 64, 1, 3
    postings.BLOCK_BYTES, word_index.STEP_EVENTS, word_index.STEP_CHARACTERS = 400, 20, 4_000
    database = await Database.open(dsn, Path(migrations))
    while True:
        print("step", flush=True)
        if not await database.indexer.index_some() and not await database.indexer.join_some():
            print("done", flush=True)

asyncio.run(run(*sys.argv[1:]))
"""


async def filled(dsn: str, kills: int, rng: Random) -> int:
    """Fill and join the index with a program that is killed again and again; return how often it was."""
    killed = 0
    while killed < kills:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FILL, dsn, str(MIGRATIONS), stdout=asyncio.subprocess.PIPE
        )
        assert program.stdout and await program.stdout.readline() == b"step\n"
        await asyncio.sleep(rng.random() * 0.08)
        os.kill(program.pid, signal.SIGKILL)
        await program.wait()
        killed += 1
    return killed


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.long)])
async def test_nothing_is_lost_or_doubled_by_kills_while_the_index_is_filled_and_joined(
    database: Database, dsn: str, kills: int
):
    rng, texts, expected = Random(6), dict[int, str](), dict[str, list[int]]()
    agents = [await database.agents.create() for _ in range(3)]
    for round in range(kills // 25 + 1):
        for n, agent in enumerate(agents):
            log = await database.open_agent(agent)
            said = [f"common w{rng.randrange(40)} only{round}x{n}x{m} houses" for m in range(300)]
            rows = (await log.append([ev.UserMessage(text) for text in said])).rows
            texts |= {row.id: text for row, text in zip(rows, said, strict=True)}
            await log.close()
        assert await filled(dsn, min(25, kills), rng)
    await database.indexer.catch_up(60)
    assert (messages := entries(dsn)["#user"]) == sorted(texts), (len(messages), len(texts))
    for id, text in texts.items():
        for word in text.split():
            expected.setdefault(word, []).append(id)
    found = entries(dsn)
    assert {word: found.get(word) for word in expected} == {word: sorted(ids) for word, ids in expected.items()}
    assert await database.indexer.behind() == 0
    while await database.indexer.join_some():
        pass
    assert entries(dsn) == found and vocabulary(dsn) == words_of(found)


def words_of(found: dict[str, list[int]]) -> list[str]:
    return sorted(filter(postings.is_word, found))


def vocabulary(dsn: str) -> list[str]:
    """Return the words of all blocks, each as often as it is there. The vocabulary has the same words."""
    with psycopg.connect(dsn) as other:
        blocks = other.execute("select words from search_words").fetchall()
        rows = other.execute("select word from search_vocabulary where stem = word").fetchall()
        known = {word for (word,) in other.execute("select word from search_vocabulary").fetchall()}
    found = sorted(word for (words,) in blocks for word in words.split())
    assert found == sorted(word for (word,) in rows) and known == {*found}
    return found


def entries(dsn: str) -> dict[str, list[int]]:
    """Return the events of each word in the index, each as often as it is there."""
    found: dict[str, list[int]] = {}
    with psycopg.connect(dsn) as other:
        rows: list[Any] = other.execute("select first, documents from search_documents order by first").fetchall()
        message = {first + n: each.message for first, packed in rows for n, each in enumerate(read_documents(packed))}
        blocks = "select segment.first, words, numbers, times from search_postings join search_segments as segment"
        for first, *block in other.execute(f"{blocks} on segment.id = segment".encode()).fetchall():
            for word, (numbers, _) in read_words(block):
                found.setdefault(word, []).extend(message[first + number] for number in numbers)
    return {word: sorted(ids) for word, ids in found.items()}
