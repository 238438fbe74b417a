"""The team's servers, by the scripts that their containers run: a standby takes over, and a backup is restored."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM
from tempfile import TemporaryDirectory

import psycopg
import pytest

from ikigai.store.embedded.account import server_account, server_environment
from ikigai.store.embedded.server import find_binaries
from tests import ROOT
from tests.e2e.account import Account, lines_of

SCRIPTS = ROOT / "docs" / "operations" / "team"
PATIENCE = 60


class Team:
    """A primary whose programs run as the account that may run PostgreSQL, in a folder which that account owns."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self.folder, self.processes = folder, processes
        self.primary: subprocess.Popen[str]
        account = server_account()
        self.identity = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.uid >= 0 else {}
        self.binaries = find_binaries()
        assert self.binaries

    def address(self, name: str) -> str:
        return f"host={self.folder} port={self.port(name)} user=postgres dbname=ikigai"

    def port(self, name: str) -> int:
        """Return the number by which a server's socket in the folder is named; nothing listens on a network."""
        return {"primary": 5432, "standby": 5433}[name]

    def start(self, *command: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a command of the team's account; it is ended with the test."""
        process = subprocess.Popen(
            command, env=self._environment(**variables), cwd=self.folder, text=True, start_new_session=True,
            stdout=subprocess.DEVNULL, **self.identity,
        )  # fmt: skip
        self.processes.callback(process.wait)
        self.processes.callback(lambda: process.poll() is None and process.send_signal(SIGTERM))
        return process

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self._environment(**variables), cwd=self.folder, text=True, capture_output=True,
            timeout=PATIENCE, **self.identity,
        )  # fmt: skip

    def _environment(self, **variables: str) -> dict[str, str]:
        environment = server_environment()
        return environment | {"PATH": f"{self.binaries}:{environment['PATH']}", "TMPDIR": str(self.folder)} | variables

    def serve(self, name: str, *command: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a server and wait until it answers."""
        options = ("-c", "listen_addresses=", "-k", str(self.folder), "-p", str(self.port(name)))
        process = self.start(*command, *options, **variables)
        wait_until(lambda: self.run("pg_isready", "-h", str(self.folder), "-p", str(self.port(name))).returncode == 0)
        return process

    def ask(self, name: str, query: str) -> object:
        with psycopg.connect(self.address(name)) as connection:
            return connection.execute(query.encode()).fetchall()[0][0]


@pytest.fixture
def team() -> Iterator[Team]:
    """Yield a running primary with the database and the role of replication."""
    # A socket's path is short, and the account cannot enter a folder of root's.
    with TemporaryDirectory(prefix="team-") as folder, ExitStack() as processes:
        server_account().own(Path(folder))
        team = Team(Path(folder), processes)
        made = team.run(
            "initdb", "-D", "primary", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8"
        )
        assert made.returncode == 0, made.stderr
        # The copies have this setting, too. What a killed process has written stays without the disk.
        with (team.folder / "primary" / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\n")
        team.primary = team.serve("primary", "postgres", "-D", "primary", "-c", "max_wal_senders=10")
        for statement in ("create database ikigai", "create role replication with replication login"):
            done = team.run("psql", "-qX", "-h", folder, "-p", "5432", "-U", "postgres", "-c", statement)
            assert done.returncode == 0, done.stderr
        yield team


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_backup_is_restored_and_the_standby_takes_over(team: Team, tmp_path: Path) -> None:
    folder = str(team.folder)
    standby = team.folder / "standby"
    team.serve("standby", "sh", str(SCRIPTS / "standby.sh"), PGDATA=str(standby), PRIMARY_HOST=folder)
    user = Account(tmp_path, team.address("primary"))
    said = user.run("-m", "scripted/echo", "-p", "before the copy")
    assert said.returncode == 0, said.stderr
    source = f"host={folder} port=5432 user=replication"
    copies = team.folder / "backup" / "base"
    expired = copies / "20000101T000000Z"
    assert team.run("mkdir", "-p", str(expired)).returncode == 0
    assert team.run("touch", "-d", "30 days ago", str(expired)).returncode == 0
    team.start("sh", str(SCRIPTS / "backup.sh"), "backup", BACKUP_FROM=source)
    wait_until(lambda: not expired.exists() and any(not copy.name.endswith(".new") for copy in copies.iterdir()))

    # What is said behind the copy is in the log alone.
    said = user.run("-m", "scripted/echo", "-p", "behind the copy")
    assert said.returncode == 0, said.stderr
    with psycopg.connect(team.address("primary")) as admin:
        admin.execute("create schema empty; create table empty.messages (); create table empty.agents ()")
    events = team.ask("primary", "select count(*) from ikigai.messages")
    everywhere = """
        select count(*) = 2 from pg_stat_replication
        where flush_lsn >= pg_current_wal_flush_lsn() and application_name in ('pg_receivewal', 'standby')
    """
    wait_until(lambda: bool(team.ask("primary", everywhere)))
    team.primary.send_signal(SIGKILL)

    drill = team.run("sh", str(SCRIPTS / "restore-drill.sh"), "backup")
    assert drill.returncode == 0, drill.stderr
    assert f" {events} events, the newest of " in drill.stdout
    drill = team.run("sh", str(SCRIPTS / "restore-drill.sh"), "backup", SCHEMA="empty")
    assert drill.returncode == 1 and "holds no events" in drill.stderr
    assert not list(team.folder.glob("drill.*"))

    assert team.run("pg_ctl", "-D", "standby", "-w", "promote").returncode == 0
    both = f"host={folder},{folder} port=5432,5433 user=postgres dbname=ikigai target_session_attrs=read-write"
    moved = Account(tmp_path, both)
    found: list[str] = []

    def is_searched() -> bool:
        """Search the log of the standby; return True once all of it is in the index, which has a second each time."""
        (hits,) = lines_of(moved.run("history", "search", "copy", "--json").stdout)
        found[:] = [hit["snippet"] for hit in hits["hits"]]
        return hits["behind"] == 0

    wait_until(is_searched)
    assert {"before the copy", "behind the copy"} <= {*found}
    said = moved.run("-m", "scripted/echo", "-p", "-c", "goes on")
    assert said.returncode == 0, said.stderr


def test_drill_of_a_backup_without_a_copy_fails(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    drill = subprocess.run(["sh", SCRIPTS / "restore-drill.sh", tmp_path], capture_output=True, text=True)
    assert drill.returncode == 1 and "holds no copy" in drill.stderr
