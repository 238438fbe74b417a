"""Measure RECALL: evidence that recall finds in conversations of LongMemEval's format, without a model.

Each file holds one question and the sessions in which its evidence stands; messages with `has_answer` are the evidence.
Every conversation goes into a schema of its own, one agent each, indexed as the program does it. The baseline is a
plain BM25 over messages, with stems and half of the scores of both neighbors, written here a second time.

"any" is the share of questions with at least one evidence message among the first k, "recall" the mean share of the
evidence there. Both sides are counted in two ways: the first k messages, and all messages of the first k turns, which
is what a model is given. The bars compare like with like.

Where the extra `semantic` is installed, every question is asked without its word vectors and with them.
"""

import asyncio
import json
import math
import re
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, product
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from snowballstemmer.english_stemmer import EnglishStemmer

from ikigai.store.database import Database
from ikigai.store.search.stems import function_words
from ikigai.store.search.turn_recall import RecalledTurn
from tests.bench import histories, recall_latency
from tests.bench.figures import Figure, percentile
from tests.bench.histories import MIGRATIONS
from tests.support import semantic

K, SESSIONS = 12, 5
UNITS = "messages", "whole turns"
ASKED_TURNS = 40
SAMPLES = 2_000
"""Samples of the bootstrap for an interval."""
STOP_WORDS = frozenset(function_words()["english"])
COPY = "copy messages (id, event_id, agent_id, seq, kind, content, data, created_at) from stdin"


@dataclass
class Scores:
    """Results of one method by question: its type, any and recall of the evidence, and if its sessions were found."""

    kinds: list[str] = field(default_factory=list)
    any: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)
    session_any: list[float] = field(default_factory=list)
    session_all: list[float] = field(default_factory=list)

    def add(self, kind: str, found: set[int], evidence: set[int], sessions: Sequence[str], wanted: set[str]) -> None:
        first = set(list(dict.fromkeys(sessions))[:SESSIONS])
        self.kinds.append(kind)
        self.any.append(float(bool(found & evidence)))
        self.recall.append(len(found & evidence) / len(evidence))
        self.session_any.append(float(bool(first & wanted)))
        self.session_all.append(float(wanted <= first))


@dataclass
class Conversation:
    """A question, and the messages (session, role, text, is evidence, time) among which its answer is."""

    kind: str
    question: str
    sessions: set[str]
    messages: list[tuple[str, str, str, bool, datetime]]


def read(file: Path) -> Conversation | None:
    """Return the conversation of a file; None for a question that has no evidence."""
    told: Any = json.loads(file.read_text())
    told = told[0] if isinstance(told, list) else told
    messages: list[tuple[str, str, str, bool, datetime]] = []
    parts = zip(told["haystack_session_ids"], told["haystack_dates"], told["haystack_sessions"], strict=True)
    for session, date, said in parts:
        at = datetime.strptime(re.sub(r" \(\w+\)", "", date), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
        messages += [(session, each["role"], each["content"], bool(each.get("has_answer")), at) for each in said]
    if not any(evidence for *_, evidence, _ in messages):
        return None
    return Conversation(told["question_type"], told["question"], set(told["answer_session_ids"]), messages)


def measure(quick: bool, data: Path | None = None) -> list[Figure]:
    if data is None:
        print("What recall finds is measured on conversations in LongMemEval's format: --data FOLDER")
        return recall_latency.measure(quick)
    files = sorted(data.rglob("*.json"))[: 5 if quick else None]
    talks = [talk for file in files if (talk := read(file))]
    if not talks:
        raise ValueError(f"no conversation with evidence is in {data}")
    with histories.empty("recall") as dsn:
        scores, taken = asyncio.run(_ask_all(dsn, talks))
    _report(scores)
    for name, seconds in taken.items():
        print(f"{name}: p50 {percentile(seconds, 50) * 1_000:.1f} ms, p99 {percentile(seconds, 99) * 1_000:.1f} ms")
    print()
    return [*_against_baseline(scores), *recall_latency.measure(quick)]


def _against_baseline(scores: dict[str, Scores]) -> list[Figure]:
    figures: list[Figure] = []
    for name, unit in product(semantic.modes(), UNITS):
        ours, theirs = scores[f"{name}, {unit}"], scores[f"BM25, {unit}"]
        for what, found, base in ((f"any@{K}", ours.any, theirs.any), (f"recall@{K}", ours.recall, theirs.recall)):
            missing = f"missed by {name}, {what}, {unit}"
            figures.append(Figure("RECALL", missing, "%", [missed(found)], "BM25", [missed(base)], 1.0))
    return figures


def missed(found: Sequence[float]) -> float:
    """Return the percentage that was not found, never 0, so that a ratio can be made of it."""
    return max(0.01, 100 * (1 - sum(found) / len(found)))


async def _ask_all(dsn: str, talks: Sequence[Conversation]) -> tuple[dict[str, Scores], dict[str, list[float]]]:
    """Return the scores of each method and unit, and the seconds that each way to recall took."""
    scores: dict[str, Scores] = defaultdict(Scores)
    taken: dict[str, list[float]] = defaultdict(list)
    for number, talk in enumerate(talks):
        schema = f"talk_{number}"
        database = await Database.open(dsn, MIGRATIONS, name=schema)
        try:
            agent = await database.agents.create("talk")
            _store(dsn, schema, agent.id, talk)
            while await database.indexer.index_some():
                pass
            found: dict[str, tuple[RecalledTurn, ...]] = {}
            for name, mode in semantic.modes().items():
                with mode():
                    began = time.perf_counter()
                    found[name] = (await database.recall(talk.question, ASKED_TURNS)).turns
                    taken[name].append(time.perf_counter() - began)
        finally:
            await database.close()
            with psycopg.connect(dsn, autocommit=True) as admin:
                admin.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))
        places = _places(talk)
        for name, turns in found.items():
            said = sorted((each for turn in turns for each in turn.messages), key=lambda each: (-each.score, -each.id))
            _score(scores, name, talk, [places[each.id] for each in said], [places[turn.id] for turn in turns])
        order = baseline(talk)
        _score(scores, "BM25", talk, order, order)
    return scores, taken


def _score(
    scores: dict[str, Scores], name: str, talk: Conversation, order: Sequence[int], turns: Sequence[int]
) -> None:
    """Count what is found by places of messages, best first; `turns` are messages of the turns, best first."""
    evidence = {n for n, message in enumerate(talk.messages) if message[3]}
    sessions = [talk.messages[n][0] for n in turns]
    turn_of = list(accumulate(role == "user" for _, role, *_ in talk.messages))
    first = set(list(dict.fromkeys(turn_of[n] for n in turns))[:K])
    said = {n for n, turn in enumerate(turn_of) if turn in first}
    for unit, found in zip(UNITS, (set(order[:K]), said), strict=True):
        scores[f"{name}, {unit}"].add(talk.kind, found, evidence, sessions, talk.sessions)


def _ids(talk: Conversation) -> list[tuple[int, int | None]]:
    """Return for each message its id, and the id of the turn_end that stands before it."""
    found: list[tuple[int, int | None]] = []
    next_id = 1
    for n, (_, role, *_) in enumerate(talk.messages):
        end = next_id if n and role == "user" else None
        next_id += end is not None
        found.append((next_id, end))
        next_id += 1
    return found


def _places(talk: Conversation) -> dict[int, int]:
    return {id: n for n, (id, _) in enumerate(_ids(talk))}


def _store(dsn: str, schema: str, agent: str, talk: Conversation) -> None:
    """Store the messages as the turns of an agent."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(schema)))
        first, at = 1, talk.messages[0][4]
        with connection.cursor().copy(COPY) as copy:
            for (id, end), (_, role, text, _, at) in zip(_ids(talk), talk.messages, strict=True):
                if end is not None:
                    ended = json.dumps({"ending": "completed", "first": first})
                    copy.write_row((end, uuid4(), UUID(agent), end, "turn_end", None, ended, at))
                    first = id
                copy.write_row((id, uuid4(), UUID(agent), id, role, text.replace("\0", " ") or None, None, at))


_stem = EnglishStemmer().stemWord


def _stems(text: str) -> list[str]:
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).lower())
    return [_stem(word) for word in words if word not in STOP_WORDS]


def baseline(talk: Conversation) -> list[int]:
    """Return the places of the messages in the order of plain BM25 with neighbors, best first."""
    documents = [Counter(_stems(text)) for _, _, text, _, _ in talk.messages]
    lengths = [document.total() for document in documents]
    average = sum(lengths) / len(lengths)
    scores = [0.0] * len(documents)
    for stem, times in Counter(_stems(talk.question)).items():
        having = [n for n, document in enumerate(documents) if stem in document]
        weight = times * math.log(1 + (len(documents) - len(having) + 0.5) / (len(having) + 0.5))
        for n in having:
            count = documents[n][stem]
            scores[n] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[n] / average))
    beside = list(scores)
    for n in range(len(scores) - 1):
        if talk.messages[n][0] == talk.messages[n + 1][0]:
            beside[n] += scores[n + 1] / 2
            beside[n + 1] += scores[n] / 2
    return sorted(range(len(beside)), key=lambda n: (-beside[n], n))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean, by resampling with a fixed seed."""
    random = Random(8)
    means = sorted(sum(random.choices(values, k=len(values))) / len(values) for _ in range(SAMPLES))
    return means[int(0.025 * SAMPLES)], means[int(0.975 * SAMPLES)]


def _shown(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{100 * sum(values) / len(values):5.1f} [{100 * low:3.0f}-{100 * high:3.0f}]"


def _report(methods: dict[str, Scores]) -> None:
    for name, scores in methods.items():
        by_kind: dict[str, list[int]] = defaultdict(list)
        for n, kind in enumerate(scores.kinds):
            by_kind[kind].append(n)
        print(f"{name}, {len(scores.kinds)} questions: mean and 95 % interval, in percent")
        for kind, places in (("all", range(len(scores.kinds))), *sorted(by_kind.items())):
            columns = {
                f"any@{K}": scores.any,
                f"recall@{K}": scores.recall,
                f"session@{SESSIONS}": scores.session_any,
                "all sessions": scores.session_all,
            }
            shown = "  ".join(f"{what} {_shown([values[n] for n in places])}" for what, values in columns.items())
            print(f"  {kind:<26} n={len(places):<4} {shown}")
