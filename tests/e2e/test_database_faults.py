"""Tests of a database that fails in every way for an hour, under a REPL that goes on and print runs beside it.

IKIGAI_LONG_FAULTS sets the number of seconds (3,600), CHAOS_SEED repeats a run.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from ikigai.store.embedded import location
from ikigai.store.embedded import server as embedded
from tests.e2e.account import Account
from tests.store.proxy import TO_CLIENT, TO_SERVER, Proxy, proxied_beside, upstream
from tests.support.evidence import Evidence

SECONDS = float(os.environ.get("IKIGAI_LONG_FAULTS") or 3_600)
TURNS = 40
"""Turns of one REPL, after which the log is checked and another one is started."""
TURN_WITHIN = 240.0
"""Seconds until a turn has ended, however often the database was away meanwhile."""
OURS = "datname = 'ikigai' and application_name like 'ikigai/%' and state is not null"


class Server:
    """A server of the test's own, which can be killed: other tests do not share its crashes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lease = embedded.start(folder)
        self.dsn = self._lease.dsn

    def kill(self, wait: float) -> str:
        """Kill the postmaster, and start it again after a while; return its new DSN."""
        pid = (location.folder_of(self._folder) / "data" / "postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)
        time.sleep(wait)
        return self.answers()

    def answers(self) -> str:
        """Wait until it runs and accepts connections; return its DSN."""
        until = time.monotonic() + 60
        while True:
            self.dsn = self._lease.renew()
            try:
                psycopg.connect(self.dsn).close()
                return self.dsn
            except psycopg.OperationalError:  # whoever looks after it has not seen its end yet, or it recovers
                assert time.monotonic() < until, "the server does not come back"
                time.sleep(0.1)

    def backends(self) -> list[int]:
        """Return the server processes of programs."""
        with psycopg.connect(self.dsn) as connection:
            found = connection.execute(f"select pid from pg_stat_activity where {OURS}".encode()).fetchall()
        return [pid for (pid,) in found]

    def close(self) -> None:
        self._lease.close()


class Faults:
    """Makes one fault after the other in a thread, until told to pause; `made` counts them by name."""

    def __init__(
        self, server: Server, proxy: Proxy, loop: asyncio.AbstractEventLoop, evidence: Evidence, dice: random.Random
    ) -> None:
        self._server, self._proxy, self._loop, self._evidence, self._dice = server, proxy, loop, evidence, dice
        self._over = threading.Event()
        self._turn = threading.Lock()
        self.made = Counter[str]()
        self.failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Wait for the end of the current fault, and make none while the block runs."""
        with self._turn:
            self._proxy.spare()
            self._server.answers()
            yield

    def close(self) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        often: tuple[Callable[[], None], ...] = (self.cut, self.reset, self.hold, self.terminate, self.stop, self.lock)
        kinds = (*often, self.cut, self.crash, self.kill)
        while not self._over.wait(self._dice.uniform(0.3, 4)):
            with self._turn:
                fault = self._dice.choice(kinds)
                try:
                    fault()
                except (psycopg.OperationalError, ProcessLookupError):  # it came upon another one
                    continue
                except BaseException as error:
                    self.failed.append(error)
                    return
                self.made[fault.__name__] += 1

    def cut(self) -> None:
        """End a connection at any byte: behind a request, before its answer, within either."""
        self._proxy.cut_after(self._dice.choice((TO_SERVER, TO_CLIENT)), self._dice.randrange(600))

    def reset(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.reset)

    def hold(self) -> None:
        """Let nothing pass for a while, sometimes for longer than a program waits for an answer."""
        self._proxy.held = True
        time.sleep(self._dice.choice((0.5, 2, 5, 5, 25)))
        self._proxy.held = False

    def terminate(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {OURS}".encode())

    def stop(self) -> None:
        backends = self._server.backends()
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(self._dice.uniform(0.5, 4))
        for pid in backends:
            os.kill(pid, signal.SIGCONT)

    def lock(self) -> None:
        with psycopg.connect(self._server.dsn) as connection:
            connection.execute("set lock_timeout = '5s'; lock table messages")
            time.sleep(self._dice.uniform(0.5, 7))

    def crash(self) -> None:
        """Kill a server process: the server ends all of them, and recovers."""
        if backends := self._server.backends():
            os.kill(self._dice.choice(backends), signal.SIGKILL)

    def kill(self) -> None:
        self._evidence.account.dsn = dsn = self._server.kill(self._dice.uniform(0, 3))
        self._proxy.upstream = upstream(dsn)


@pytest.mark.long
@pytest.mark.timeout(3 * SECONDS + 1_800)
def test_program_survives_an_hour_of_database_faults(tmp_path: Path):
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    (home := tmp_path / "home").mkdir()
    server = Server(tmp_path / "server")
    evidence = Evidence(Account(home, server.dsn))
    began, session, tally = time.monotonic(), 0, Counter[str]()
    assert evidence.account.run("db", "migrate").returncode == 0
    with proxied_beside(server.dsn) as (proxy, through, loop):
        faults = Faults(server, proxy, loop, evidence, random.Random(seed))
        try:
            while not session or time.monotonic() - began < SECONDS:
                until = began + SECONDS
                tally += _session(evidence, faults, through, session, until)
                session += 1
                assert not faults.failed, faults.failed
        finally:
            faults.close()
    evidence.verify_restart()
    server.close()
    stored = len(evidence.account.rows())
    print(f"{sum(faults.made.values())} faults {dict(faults.made)}; {dict(tally)}; {stored} events stored")
    assert faults.made and tally["turns"]


def _session(evidence: Evidence, faults: Faults, through: str, session: int, until: float) -> Counter[str]:
    """Run one REPL with many turns; its questions, and the ones of print runs, are in the log once."""
    env = {"IKIGAI_DATABASE_URL": through, "IKIGAI_TOOLS_ENABLED": "true"}
    replies, asked = [], list[str]()
    for n in range(TURNS):
        call = {"do": "call", "name": "shell", "arguments": {"command": f"echo {session}-{n} >> ran"}}
        replies.append(["Some words.\n\nMore words.", {"do": "pause", "seconds": 0.2}, call])
        replies.append(f"End {session}-{n} of it, in words.")
    file = evidence.account.home / f"script-{session}.json"
    file.write_text(json.dumps(replies))
    model = ("-m", f"scripted/{file}", "--yolo")
    printed = dict[str, int]()  # what print runs asked, and their exit codes
    start = contextlib.ExitStack()
    start.enter_context(faults.paused())  # a start without a database is another test's
    with start, evidence.account.terminal(*model, "--new", env=env, rows=40) as program:
        for n in range(TURNS):
            asked.append(f"question {session}-{n}")
            program.ready().type(f"{asked[-1]}\r")
            program.wait_for(f"End {session}-{n} of it, in words.", TURN_WITHIN)
            start.close()
            if n % 4 == 3:
                question = f"question {session}-p{n}"
                printed[question] = _printed(evidence, question, env)
            if time.monotonic() > until:
                break
        with faults.paused():
            program.wait(lambda: "unreachable" not in program.text().splitlines()[-1], "the database", TURN_WITHIN)
            program.settled()
            evidence.saw(program)
            evidence.verify()
            program.leave()
    with faults.paused():
        evidence.verify()
        there = Counter(evidence.account.said("user"))
        assert all(there[text] == 1 for text in asked), "every message is there once"
        assert all(there[text] == 1 for text, code in printed.items() if not code)
    return Counter(turns=len(asked), printed=len(printed), put_off=sum(map(bool, printed.values())))


def _printed(evidence: Evidence, question: str, env: dict[str, str]) -> int:
    """Return the exit code of a print run through the faults, which may report that the database is away."""
    file = evidence.account.home / "print.json"
    file.write_text(json.dumps([f"An answer to {question}."]))
    asked = ("-m", f"scripted/{file}", "--new", "-p", question, "--output-format", "stream-json")
    done = evidence.account.run(*asked, **env)
    evidence.read(done.stdout)
    assert done.returncode in (0, 75), (done.returncode, done.stderr)
    return done.returncode
