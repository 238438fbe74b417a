"""Lose the primary again and again under programs that write, and compare what they showed with the log.

`ReplicatedServers` is what the campaign needs of the servers. Standbys are promoted by the test or by Patroni.
"""

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
from typing import Any, NamedTuple, Protocol

import psycopg

from ikigai.store.database import Database
from tests.conftest import MIGRATIONS
from tests.e2e.account import Account
from tests.e2e.program import command, environment
from tests.support.cluster import wait_until

FAILOVERS = int(os.environ.get("IKIGAI_LONG_FAILOVERS") or 60)
SETTLED = 3.0
"""Seconds from a promotion to the next loss."""
BEHIND = (0.0, 0.5, 1.5, 3.0)
"""Seconds for which the standbys have received nothing when the primary is lost; each loss chooses one."""
COUNT = "select count(*) from ikigai.messages"


class Failover(NamedTuple):
    """How the primary was lost, how many events the promoted server lacked, and when it was promoted."""

    loss: str
    lacked: int
    promoted: float


class ReplicatedServers(Protocol):
    """Servers of which one takes writes, and others follow it asynchronously."""

    @property
    def dsn(self) -> str:
        """The address of all servers, for programs that write."""
        ...

    @property
    def primary_dsn(self) -> str:
        """The address of the server that takes writes."""
        ...

    def fail_over(self, chance: random.Random) -> Failover:
        """Lose the primary, and return when another server has taken over."""
        ...

    def repair(self) -> None:
        """Let all other servers follow the new primary."""
        ...


class Talker:
    """A program that is told one message after another; `shown` are the events that it printed. `more` are variables of
    its environment.
    """

    def __init__(self, home: Path, dsn: str, name: str, **more: str) -> None:
        self.name, self.shown, self.ended, self.turns = name, list[dict[str, Any]](), list[str](), 0
        home.mkdir()
        self._home, self._stopping = home, threading.Event()
        self._environment = environment(home, **Account(home, dsn).environment(**more))
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
                env=self._environment, cwd=self._home,
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
def talkers(dsn: str, folder: Path, count: int, **more: str) -> Iterator[list[Talker]]:
    programs = [Talker(folder / f"home{n}", dsn, f"p{n}", **more) for n in range(count)]
    try:
        yield programs
    finally:
        for program in programs:
            program.stop()


def wait_for_turns(programs: list[Talker], count: int) -> None:
    """Wait until each program has been told so many more messages."""
    before = [program.turns for program in programs]
    wait_until(lambda: all(now.turns >= then + count for now, then in zip(programs, before, strict=True)))


def run_campaign(
    servers: ReplicatedServers, folder: Path, chance: random.Random, count: int = FAILOVERS, **more: str
) -> list[Failover]:
    """Lose the primary so many times under eight programs, and check what they showed. `more` are variables of their
    environment.
    """
    done = list[Failover]()
    make_schema(servers.dsn)
    with talkers(servers.dsn, folder, 8, **more) as programs:
        wait_for_turns(programs, 2)
        for number in range(count):
            done.append(servers.fail_over(chance))
            servers.repair()
            time.sleep(max(0.0, done[-1].promoted + SETTLED - time.monotonic()))
            turns = [each.turns for each in programs]
            when, lacked = time.strftime("%X"), done[-1].lacked
            print(f"{when} {number + 1} failovers; {done[-1].loss}; lacked {lacked} events; turns {turns}", flush=True)
        wait_for_turns(programs, 3)
    ended = [f"{program.name} {said}" for program in programs for said in program.ended]
    print(f"{len(done)} failovers: {dict(Counter(each.loss for each in done))}")
    lacking = [each.lacked for each in done if each.lacked]
    print(f"{sum(lacking)} events lacked in {len(lacking)} of them; ended: {ended}")
    check_shown(servers.primary_dsn, programs)
    return done


def check_shown(dsn: str, programs: list[Talker]) -> None:
    """Compare what was printed with the log: nothing is missing, nothing is there twice, and each has one writer."""
    with psycopg.connect(dsn) as connection:
        query = "select agent_id::text, id, seq, kind, content from ikigai.messages order by agent_id, seq"
        log = connection.execute(query).fetchall()
        ((forks,),) = connection.execute("select count(*) from ikigai.agents where parent is not null").fetchall()
    stored = {(agent, id, seq): (kind, content) for agent, id, seq, kind, content in log}
    shown = [event for program in programs for event in program.shown]
    places = [(event["agent_id"], event["id"], event["seq"]) for event in shown]
    lost = [
        event for event, at in zip(shown, places, strict=True) if stored.get(at) != (event["kind"], event["content"])
    ]
    twice = [at for at, times in Counter(places).items() if times > 1]
    words = Counter((kind, content) for _, _, _, kind, content in log if kind in ("user", "assistant"))
    repeated = [each for each, times in words.items() if times > 1]
    counts = f"lost {len(lost)}, shown twice {len(twice)}, stored twice {len(repeated)}, {forks} forks"
    print(f"{len(shown)} events shown: {counts}")
    assert not lost, f"{len(lost)} of {len(shown)} shown events are lost: {lost[:3]}"
    assert not twice, "shown twice"
    assert not forks, "two programs wrote to one agent"
    assert not repeated, "stored twice"
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
