"""Run a primary with standbys of the embedded binaries: asynchronous replication, crashes, promotions."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from ikigai.store.embedded.account import server_account, server_environment
from tests.support.own_servers import identity, programs

PATIENCE = 120
SETTINGS = {
    "wal_log_hints": "on",  # pg_rewind needs it
    "wal_keep_size": "512MB",
    "max_wal_senders": "10",
    "fsync": "off",  # a killed process loses nothing of what the kernel has
    "listen_addresses": "",
    "wal_retrieve_retry_interval": "100ms",
    "shared_buffers": "32MB",
}


class Cluster:
    """Servers by number; `primary` is the one that takes writes. They listen on sockets in `folder`."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.primary, self.others = folder, 0, list(range(1, count))
        self.rebuilt = {"pg_rewind": 0, "pg_basebackup": 0}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._identity = identity()
        self._environment = {
            **server_environment(),
            "PATH": f"{programs()}:{os.environ['PATH']}",
            "TMPDIR": str(folder),
        }

    def begin(self) -> None:
        """Make the primary and its standbys."""
        options = ("-A", "trust", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8", "--wal-segsize=1")
        self._run("initdb", "-D", "0", "-U", "postgres", *options)
        with (self.folder / "0" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
        self.start(0)
        with self.connect(0, "postgres") as connection:
            connection.execute("create database ikigai")
        for server in self.others:
            self._copy(server)
            self.start(server)
        self.wait_for_standbys()

    @property
    def dsn(self) -> str:
        """The address of all servers, for programs that write."""
        servers = [self.primary, *self.others]
        hosts, ports = ",".join(str(self.folder) for _ in servers), ",".join(str(5432 + n) for n in sorted(servers))
        return f"host={hosts} port={ports} user=postgres dbname=ikigai target_session_attrs=read-write"

    def address(self, server: int, database: str = "ikigai") -> str:
        return f"host={self.folder} port={5432 + server} user=postgres dbname={database}"

    def connect(self, server: int, database: str = "ikigai") -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.address(server, database), autocommit=True)

    def start(self, server: int) -> None:
        """Start a server and wait until it answers."""
        with (self.folder / f"{server}.log").open("ab") as log:
            self._processes[server] = subprocess.Popen(
                ("postgres", "-D", str(server), "-k", str(self.folder), "-p", str(5432 + server)),
                env=self._environment, cwd=self.folder, start_new_session=True, stdout=log, stderr=log,
                **self._identity,
            )  # fmt: skip
        wait_until(lambda: self._answers(server))

    def kill(self, server: int) -> None:
        """Kill all processes of a server at once."""
        process = self._processes.pop(server)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def cut_off(self, server: int) -> None:
        """Let a standby receive nothing any more."""
        with self.connect(server) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
            wait_until(lambda: connection.execute("select from pg_stat_wal_receiver").fetchall() == [])

    def promote(self, server: int) -> None:
        """Make a standby the primary, whose process was killed before."""
        self._run("pg_ctl", "-D", str(server), "-w", "promote")
        self.others = [*(each for each in self.others if each != server), self.primary]
        self.primary = server

    def rebuild(self) -> None:
        """Let all other servers follow the primary, whatever they have of another timeline."""
        for server in self.others:
            if server in self._processes:
                self._run("pg_ctl", "-D", str(server), "-w", "-m", "fast", "stop")
                self._processes.pop(server).wait()
            source = self.address(self.primary, "postgres")
            rewound = self._try("pg_rewind", "-D", str(server), f"--source-server={source}", "-R", "--no-sync")
            self.rebuilt["pg_rewind" if rewound else "pg_basebackup"] += 1
            if not rewound:
                self._copy(server)
            # What the source or a cut-off said of its primary is over.
            with (self.folder / str(server) / "postgresql.auto.conf").open("a") as file:
                file.write(f"primary_conninfo = '{source}'\n")
            self.start(server)
        self.wait_for_standbys()

    def wait_for_standbys(self) -> None:
        """Wait until every standby receives the log."""
        with self.connect(self.primary) as connection:
            query = "select count(*) from pg_stat_replication where state = 'streaming'"
            wait_until(lambda: connection.execute(query).fetchall() == [(len(self.others),)])

    def end(self) -> None:
        for server in list(self._processes):
            self.kill(server)

    def _copy(self, server: int) -> None:
        self._run("rm", "-rf", str(server))
        source = self.address(self.primary, "postgres")
        self._run("pg_basebackup", "-d", source, "-D", str(server), "-R", "--checkpoint=fast", "--no-sync")

    def _answers(self, server: int) -> bool:
        process = self._processes[server]
        assert process.poll() is None, (self.folder / f"{server}.log").read_text()[-2000:]
        return self._try("pg_isready", "-q", "-h", str(self.folder), "-p", str(5432 + server))

    def _try(self, *command: str) -> bool:
        done = subprocess.run(
            command, env=self._environment, cwd=self.folder, capture_output=True, timeout=PATIENCE, **self._identity
        )  # fmt: skip
        return done.returncode == 0

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, env=self._environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
            **self._identity,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@contextmanager
def running_cluster(count: int) -> Iterator[Cluster]:
    """Yield a cluster of `count` servers."""
    # A socket's path is short, and the account cannot enter a folder of root's.
    with TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as folder:
        server_account().own(Path(folder))
        cluster = Cluster(Path(folder), count)
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.end()


def wait_until(reached: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)
