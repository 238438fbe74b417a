"""Run PostgreSQL under Patroni: three servers on this machine, each with a Patroni and an etcd of its own.

    Node 0:  PostgreSQL ◄── Patroni ──► etcd ─┐
    Node 1:  PostgreSQL ◄── Patroni ──► etcd ─┼ one etcd cluster
    Node 2:  PostgreSQL ◄── Patroni ──► etcd ─┘

A Patroni talks to no other etcd than its own, so a stopped etcd cuts its node off from the others.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL, SIGSTOP, Signals
from tempfile import TemporaryDirectory
from typing import Any, LiteralString
from urllib.request import urlopen

import psycopg

from ikigai.store.embedded.account import server_account, server_environment
from tests.support.cluster import wait_until
from tests.support.own_servers import HOST, identity, new_port, programs

PATRONI = os.environ.get("IKIGAI_PATRONI") or "patroni"
"""The command that starts Patroni, where it is not on the PATH."""
NODES = 3
PATIENCE = 300
"""Seconds to wait for servers that are made, copied or rewound while the machine is busy."""
CLUSTER_SETTINGS: dict[str, Any] = {
    "ttl": 20,  # Patroni's least: so many seconds after the last sign of the primary another server takes over
    "loop_wait": 1,
    "retry_timeout": 3,
    "maximum_lag_on_failover": 64 << 20,
    "primary_start_timeout": 0,  # a crashed server does not start again where a standby can take over
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {
            "wal_log_hints": "on",
            "wal_keep_size": "512MB",
            "wal_retrieve_retry_interval": "200ms",
            "shared_buffers": "32MB",
            "fsync": "off",  # a killed process loses nothing of what the kernel has
        },
    },
}
TIMELINE = "select case when pg_is_in_recovery() then '' else left(pg_walfile_name(pg_current_wal_lsn()), 8) end"
"""The timeline of a server that takes writes, "" of a standby."""
FOLLOWING = """
select count(*) from pg_stat_replication
where state = 'streaming' and pg_current_wal_lsn() - flush_lsn < 1000000
"""


def missing_program() -> str:
    """Return why Patroni cannot be run here, "" if it can."""
    for program, package in (("etcd", "Debian's package etcd-server"), (PATRONI, "the Python package patroni[etcd3]")):
        if shutil.which(program) is None:
            return f"needs {program}: {package}"
    return ""


class Node:
    """One server, the Patroni that runs it, and the etcd that this Patroni asks. Their files are in `folder`."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name, self._folder, self._identity = f"node{number}", folder, identity()
        self.port, self._api, self._client, self.peer = (new_port() for _ in range(4))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start_etcd(self, members: str) -> None:
        client, peer = f"http://{HOST}:{self._client}", f"http://{HOST}:{self.peer}"
        self._start(
            "etcd", "etcd", "--name", self.name, "--data-dir", f"{self.name}-etcd", "--initial-cluster", members,
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--heartbeat-interval", "250", "--election-timeout", "2500",
        )  # fmt: skip

    def start_patroni(self, settings: dict[str, Any]) -> None:
        """Start Patroni, which starts the server. `settings` count for the first Patroni of the cluster."""
        file = self._folder / f"{self.name}.yml"
        file.write_text(json.dumps(self._configuration(settings)))  # JSON is also YAML
        self._start("patroni", PATRONI, str(file))

    def has_etcd(self) -> bool:
        """Return True if etcd answers, and knows which version its cluster is of; Patroni ends without that."""
        try:
            with urlopen(f"http://{HOST}:{self._client}/version", timeout=2) as answer:
                return json.load(answer)["etcdcluster"] != "not_decided"
        except OSError:
            return False

    def is_running(self, part: str) -> bool:
        return bool(self._processes(part))

    def send(self, signal: Signals, *parts: str) -> list[int]:
        """Send a signal to the processes of "etcd", "patroni" or "postgres"; return their ids."""
        found = [pid for part in parts for pid in self._processes(part)]
        send_all(signal, found)
        if signal is SIGSTOP:  # also of a child that the server made meanwhile
            found += [pid for part in parts for pid in self._processes(part) if pid not in found]
            send_all(signal, found)
        return found

    def end(self) -> None:
        self.send(SIGKILL, "patroni", "postgres", "etcd")
        for process in self._running.values():
            process.wait()

    def address(self, database: str = "ikigai") -> str:
        return f"host={HOST} port={self.port} user=postgres dbname={database}"

    def rows(self, query: LiteralString, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Return the rows of a query; none if the server does not answer."""
        try:
            address = f"{self.address(database)} connect_timeout=2"
            with psycopg.connect(address, autocommit=True) as connection:
                return connection.execute(query).fetchall()
        except psycopg.Error:
            return []

    def timeline(self) -> str:
        """Return the timeline of the server if it takes writes, else ""."""
        return next((timeline for (timeline,) in self.rows(TIMELINE)), "")

    def log(self, part: str = "patroni") -> str:
        return (self._folder / f"{self.name}-{part}.log").read_text(errors="replace")

    def _processes(self, part: str) -> list[int]:
        """Return the process of this part; of PostgreSQL the server, then its children."""
        if part != "postgres":
            process = self._running.get(part)
            return [process.pid] if process and process.poll() is None else []
        with suppress(OSError, ValueError, IndexError):
            pid = int((self._folder / self.name / "postmaster.pid").read_text().split()[0])
            if self.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():  # else another process has its id now
                return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        return []

    def _start(self, part: str, *command: str) -> None:
        with (self._folder / f"{self.name}-{part}.log").open("ab") as log:
            self._running[part] = subprocess.Popen(
                command, env={**server_environment(), "HOME": str(self._folder)}, cwd=self._folder,
                start_new_session=True, stdout=log, stderr=log, **self._identity,
            )  # fmt: skip

    def _configuration(self, settings: dict[str, Any]) -> dict[str, Any]:
        api, server = f"{HOST}:{self._api}", f"{HOST}:{self.port}"
        return {
            "scope": "ikigai",
            "name": self.name,
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"hosts": [f"{HOST}:{self._client}"], "use_proxies": True},  # it does not look for the others
            "bootstrap": {
                "dcs": settings,
                "initdb": [
                    {"encoding": "UTF8"},
                    {"locale": "C.UTF-8"},
                    {"auth": "trust"},
                    {"wal-segsize": "1"},
                    "no-sync",
                ],
            },
            "postgresql": {
                "listen": server,
                "connect_address": server,
                "data_dir": str(self._folder / self.name),
                "bin_dir": str(programs()),
                "pgpass": str(self._folder / f"{self.name}.pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                "parameters": {"unix_socket_directories": str(self._folder)},
                "pg_hba": ["local all all trust", f"host all,replication all {HOST}/32 trust"],
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "remove_data_directory_on_rewind_failure": True,
            },
        }


class PatroniCluster:
    """Nodes of which Patroni chooses the primary. `more` are settings of the cluster beside CLUSTER_SETTINGS."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.nodes, self._settings = [Node(folder, number) for number in range(NODES)], {**CLUSTER_SETTINGS, **more}

    def begin(self) -> None:
        """Start everything, and wait until all standbys follow."""
        members = ",".join(f"{each.name}=http://{HOST}:{each.peer}" for each in self.nodes)
        for node in self.nodes:
            node.start_etcd(members)
        self._wait(lambda: all(each.has_etcd() for each in self.nodes))
        for node in self.nodes:
            self.start_patroni(node)
        self.wait_for_standbys(NODES - 1)
        with psycopg.connect(self.primary.address("postgres"), autocommit=True) as connection:
            connection.execute("create database ikigai")

    def start_patroni(self, node: Node) -> None:
        node.start_patroni(self._settings)

    @property
    def dsn(self) -> str:
        """The address of all servers, for programs that write."""
        hosts, ports = ",".join(HOST for _ in self.nodes), ",".join(str(each.port) for each in self.nodes)
        return f"host={hosts} port={ports} user=postgres dbname=ikigai target_session_attrs=read-write"

    @property
    def primary(self) -> Node:
        """The node whose server takes writes; of two the one of the newer timeline."""
        self._wait(lambda: any(each.timeline() for each in self.nodes))
        return max(self.nodes, key=Node.timeline)

    def wait_for_standbys(self, count: int) -> None:
        """Wait until so many standbys follow the primary closely."""
        self._wait(lambda: any(each.rows(FOLLOWING) >= [(count,)] for each in self.nodes if each.timeline()))

    def rewinds(self) -> int:
        """Return how often a server that came back was rewound to the new timeline."""
        return sum(each.log().count("pg_rewind exit code=0") for each in self.nodes)

    def end(self) -> None:
        for node in self.nodes:
            node.end()

    def _wait(self, reached: Callable[[], bool]) -> None:
        try:
            wait_until(reached, PATIENCE)
        except AssertionError:
            print(
                "\n".join(
                    f"{each.name} {part}: {each.log(part)[-3000:]}"
                    for each in self.nodes
                    for part in ("patroni", "etcd")
                )
            )
            raise


def send_all(signal: Signals, processes: list[int]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal)


@contextmanager
def running_patroni(**more: object) -> Iterator[PatroniCluster]:
    """Yield a cluster; `more` are settings of it."""
    with TemporaryDirectory(prefix="patroni-", ignore_cleanup_errors=True) as folder:
        server_account().own(Path(folder))
        cluster = PatroniCluster(Path(folder), **more)
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.end()
