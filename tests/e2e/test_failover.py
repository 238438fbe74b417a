"""A standby that is behind takes over: what the programs had shown is in the log afterwards, once, by one writer."""

import asyncio
import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.e2e.account import Account
from tests.e2e.program import command, environment
from tests.support.cluster import Cluster, running_cluster, wait_until

FAILOVERS = int(os.environ.get("IKIGAI_LONG_FAILOVERS") or 60)
SETTLED = 3.0
"""Seconds from a promotion to the next crash."""


class Talker:
    """A program that is told one message after another; `shown` are the events that it printed."""

    def __init__(self, home: Path, dsn: str, name: str) -> None:
        self.name, self.shown, self.ended, self.turns = name, list[dict[str, Any]](), list[str](), 0
        home.mkdir()
        self._account, self._stopping = Account(home, dsn), threading.Event()
        self._agent = ""
        self._thread = threading.Thread(target=self._talk, name=name)
        self._thread.start()

    def stop(self) -> None:
        """Let the present turn end, and the program with it."""
        self._stopping.set()
        self._thread.join()

    def _talk(self) -> None:
        """Begin another program for the same agent where one has ended."""
        while not self._stopping.is_set():
            again = ("-r", self._agent) if self._agent else ()
            flags = ("-m", "scripted/echo", *again, "-p", "--input-format", "stream-json")
            with subprocess.Popen(
                command(*flags), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=environment(self._account.home, **self._account.environment()), cwd=self._account.home,
            ) as program:  # fmt: skip
                assert program.stdin and program.stdout and program.stderr
                try:
                    self._tell(program)
                    for line in program.stdout:
                        self._read(json.loads(line), program)
                except (BrokenPipeError, ValueError):
                    pass  # it has ended by itself, and says why
                said = program.stderr.read()
            if program.returncode:
                self.ended.append(f"exit {program.returncode}: {said}")

    def _read(self, record: dict[str, Any], program: "subprocess.Popen[str]") -> None:
        assert program.stdin
        if record["type"] == "event":
            self._agent = record["agent"]
            self.shown.append(record)
        elif record["type"] == "result":
            if self._stopping.wait(0.1):
                program.stdin.close()
            else:
                self._tell(program)

    def _tell(self, program: "subprocess.Popen[str]") -> None:
        assert program.stdin
        self.turns += 1
        program.stdin.write(json.dumps({"type": "user", "text": f"{self.name} says {self.turns}"}) + "\n")
        program.stdin.flush()


@contextmanager
def talkers(cluster: Cluster, folder: Path, count: int) -> Iterator[list[Talker]]:
    programs = [Talker(folder / f"home{n}", cluster.dsn, f"p{n}") for n in range(count)]
    try:
        yield programs
    finally:
        for program in programs:
            program.stop()


def fail_over(cluster: Cluster, chance: random.Random, behind: float) -> int:
    """Crash the primary and promote a standby that has received nothing for so many seconds; return how many events it
    lacked.
    """
    chosen = chance.choice(cluster.others)
    if behind:
        cluster.cut_off(chosen)
        time.sleep(behind)
    count = "select count(*) from ikigai.messages"
    with cluster.connect(cluster.primary) as connection:
        ((had,),) = connection.execute(count).fetchall()
    cluster.kill(cluster.primary)
    with cluster.connect(chosen) as connection:
        ((has,),) = connection.execute(count).fetchall()
    cluster.promote(chosen)
    assert isinstance(had, int) and isinstance(has, int)
    return max(0, had - has)  # more may be stored between the count and the crash


def check_shown(cluster: Cluster, programs: list[Talker]) -> None:
    """Compare what was printed with the log: nothing is missing, nothing is there twice, and each has one writer."""
    with psycopg.connect(cluster.address(cluster.primary)) as connection:
        query = "select agent_id::text, id, seq, kind, content from ikigai.messages order by agent_id, seq"
        log = connection.execute(query).fetchall()
        ((forks,),) = connection.execute("select count(*) from ikigai.agents where parent is not null").fetchall()
    stored = {(agent, id, seq): (kind, content) for agent, id, seq, kind, content in log}
    shown = [event for program in programs for event in program.shown]
    places = [(event["agent_id"], event["id"], event["seq"]) for event in shown]
    lost = [
        event for event, at in zip(shown, places, strict=True) if stored.get(at) != (event["kind"], event["content"])
    ]
    assert not lost, f"{len(lost)} of {len(shown)} shown events are lost: {lost[:3]}"
    assert not [at for at, times in Counter(places).items() if times > 1], "shown twice"
    assert not forks, "two programs wrote to one agent"
    words = Counter((kind, content) for _, _, _, kind, content in log if kind in ("user", "assistant"))
    assert not [each for each, times in words.items() if times > 1], "stored twice"
    seqs: dict[str, list[int]] = {}
    for agent, _, seq, *_ in log:
        seqs.setdefault(agent, []).append(seq)
    assert all(each == list(range(1, len(each) + 1)) for each in seqs.values())
    ids = [(agent, id) for agent, id, *_ in log]
    assert ids == sorted(ids), "ids ascend with seq"


def make_schema(dsn: str) -> None:
    async def make() -> None:
        await (await Database.open(dsn, MIGRATIONS)).close()

    asyncio.run(make())


def test_shown_events_survive_a_standby_that_was_behind(tmp_path: Path) -> None:
    chance = random.Random(1)
    with running_cluster(2) as cluster:
        make_schema(cluster.dsn)
        with talkers(cluster, tmp_path, 2) as programs:
            wait_until(lambda: all(program.turns > 3 for program in programs))
            lacked = fail_over(cluster, chance, 1.0)
            turns = [program.turns for program in programs]
            wait_until(lambda: all(now.turns > before + 2 for now, before in zip(programs, turns, strict=True)))
        assert lacked > 0
        user = Account(tmp_path, cluster.dsn)
        dumped = user.run("db", "dump", "all.dump")
        assert dumped.returncode == 0, dumped.stderr
        seen = user.run("doctor", "--json")
        assert f"{cluster.folder}:5432 or {cluster.folder}:5433" in seen.stdout
        assert not [said for program in programs for said in program.ended]
        check_shown(cluster, programs)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_failovers_lose_nothing_that_was_shown(tmp_path: Path) -> None:
    chance, lacked, ended = random.Random(2), list[int](), list[str]()
    with running_cluster(3) as cluster:
        make_schema(cluster.dsn)
        with talkers(cluster, tmp_path, 8) as programs:
            wait_until(lambda: all(program.turns > 2 for program in programs))
            for number in range(FAILOVERS):
                lacked.append(fail_over(cluster, chance, chance.choice((0.0, 0.5, 1.5, 3.0))))
                promoted = time.monotonic()
                cluster.rebuild()
                time.sleep(max(0.0, promoted + SETTLED - time.monotonic()))
                print(number + 1, "failovers; lacked", lacked[-1], "events; turns", [each.turns for each in programs])
        ended = [said for program in programs for said in program.ended]
        print(f"{len(lacked)} failovers, {sum(lacked)} events lacked, {cluster.rebuilt}, ended: {ended}")
        check_shown(cluster, programs)
    assert sum(map(bool, lacked)) > FAILOVERS // 3
