"""Tests of the probe of a server: PostgreSQL, PgBouncer in front of it, and engines that lack something."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from ikigai.app.run.open_database import check_server
from ikigai.core.errors import BadDatabase
from ikigai.core.events import events as ev
from ikigai.store.connection import server_probe
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.server_probe import ServerProbe, probe
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS, address
from tests.store.conftest import let_use
from tests.store.proxy import TO_SERVER, Proxy, upstream
from tests.store.test_dump import older_server
from tests.support import kept_connections

__all__ = ["older_server"]

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
ALL_WELL = ServerProbe(keeps_locks=True, notifies=True)
SETTINGS = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
{more}
"""


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder in which this test's user remembers servers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@contextmanager
def pgbouncer(dsn: str, mode: str, more: str = "") -> Iterator[str]:
    """Yield the address of a PgBouncer in front of the server. It runs as the server's user, since it refuses root."""
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    server = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
    with psycopg.connect(dsn) as connection:
        ((data,),) = connection.execute("show data_directory").fetchall()
    owner = Path(data).stat()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        Path(folder, "users").write_text(f'"{server["user"]}" ""\n')
        settings = SETTINGS.format(host=server["host"], port=server["port"], folder=folder, mode=mode, more=more)
        Path(folder, "settings.ini").write_text(settings)
        identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        if identity:
            for each in (folder, *Path(folder).iterdir()):
                os.chown(each, owner.st_uid, owner.st_gid)
        command = [PGBOUNCER, "-q", f"{folder}/settings.ini"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **identity) as process:
            try:
                while not Path(folder, ".s.PGSQL.6432").exists():
                    assert process.poll() is None, process.stderr and process.stderr.read()
                yield address(dsn, host=folder, port="6432")
            finally:
                process.terminate()


class Engine(Proxy):
    """An engine that speaks PostgreSQL's protocol: in the statements to it one word is another of the same length."""

    def __init__(self, dsn: str, word: bytes, other: bytes) -> None:
        assert len(word) == len(other)
        super().__init__(upstream(dsn))
        self._words = word, other

    async def _pump(self, direction: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.replace(*self._words) if direction == TO_SERVER else data)


@asynccontextmanager
async def engine(dsn: str, word: bytes, other: bytes) -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="engine-") as folder:
        served = Engine(dsn, word, other)
        own = Path(folder, Path(served.upstream).name)
        async with await asyncio.start_unix_server(served.serve, str(own)):
            yield address(dsn, host=folder)
            served.reset()


async def found(dsn: str) -> ServerProbe:
    session = DatabaseSession(dsn)
    try:
        return await probe(session)
    finally:
        await session.close()


async def test_postgresql_has_all(dsn: str) -> None:
    assert await found(dsn) == ALL_WELL
    with psycopg.connect(dsn) as connection:
        left = "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        others = f"{left} and backend_type = 'client backend' and application_name <> '{kept_connections.NAME}'"
        assert not connection.execute(others.encode()).rowcount


async def test_oldest_postgresql_has_all(older_server: str) -> None:
    assert await found(older_server) == ALL_WELL


async def test_programs_probe_at_once(dsn: str) -> None:
    assert await asyncio.gather(*(found(dsn) for _ in range(10))) == [ALL_WELL] * 10


async def test_pgbouncer_in_session_mode_has_all(dsn: str) -> None:
    with pgbouncer(dsn, "session") as through:
        assert await found(through) == ALL_WELL
        database = await Database.open(through, MIGRATIONS, check=check_server)
        log = await database.open_agent(await database.agents.create())
        assert (await log.append((ev.UserMessage("?"),))).rows[0].seq == 1
        await database.close()


async def test_pgbouncer_that_resets_no_sessions_has_all(dsn: str) -> None:
    """Programs undo what others left in a session: statements, settings, and the write lock of a killed one."""
    with pgbouncer(dsn, "session", "server_reset_query =\ndefault_pool_size = 2") as through:
        agent = None
        for _ in range(2):
            database = await Database.open(through, MIGRATIONS)
            agent = agent or await database.agents.create()
            log = await database.open_agent(agent)
            for _ in range(6):  # the driver prepares what it executes again and again
                await log.append((ev.UserMessage("?"),))
                await database.agents.find(agent.id)
            async with database._session.use() as cursor:
                cursor.connection.pgconn.finish()  # as one that is killed
            reading = await Database.open(through, MIGRATIONS, write=False)
            assert await reading.last_event_id()
            await reading.close()


async def test_pgbouncer_that_resets_no_sessions_gives_the_lock_of_a_killed_program_back(dsn: str) -> None:
    """Another program has its session, which holds the lock until that program undoes what it finds there."""
    with pgbouncer(dsn, "session", "server_reset_query =\ndefault_pool_size = 4") as through:
        killed = await Database.open(through, MIGRATIONS)
        agent = await killed.agents.create()
        await killed.open_agent(agent)
        backend = killed._session.info.backend
        async with killed._session.use() as cursor:
            cursor.connection.pgconn.finish()
        others = [await Database.open(through, MIGRATIONS, write=False) for _ in range(2)]
        assert backend in [other._session.info.backend for other in others]
        last = await Database.open(through, MIGRATIONS)
        await last.open_agent(agent)
        for database in (*others, last):
            await database.close()


async def test_pgbouncer_in_transaction_mode_is_refused(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection finds it. The probe also finds it where the answers look like answers of one session."""
    monkeypatch.setattr(server_probe, "NOTIFICATION_SECONDS", 0.1)
    with pgbouncer(empty_dsn, "transaction") as through:
        with pytest.raises(BadDatabase, match="pooler in transaction mode"):
            await Database.open(through, MIGRATIONS, check=check_server)

        async def is_not_shared(*_: object) -> bool:
            return False

        monkeypatch.setattr(DatabaseSession, "_is_shared", is_not_shared)
        assert not (await found(through)).keeps_locks
        with pytest.raises(BadDatabase, match="does not keep session locks, so two programs could write") as refused:
            await Database.open(through, MIGRATIONS, check=check_server)
        assert "session mode" in refused.value.remedy
    with psycopg.connect(empty_dsn) as connection:
        assert not connection.execute("select from pg_namespace where nspname = 'ikigai'").rowcount


LOCK_FOR_ALL = "create function pg_try_advisory_1ock(int, int) returns boolean language sql as 'select true'"
SILENCE = "create function pg_notifx(text, text) returns void language sql as ''"


@pytest.mark.parametrize(
    ("made", "word", "other", "lacks"),
    [
        (LOCK_FOR_ALL, b"pg_try_advisory_lock", b"pg_try_advisory_1ock", "does not keep session locks"),
        ("select 1", b"pg_try_advisory_lock", b"pg_try_advisory_none", "does not keep session locks"),
        (SILENCE, b"pg_notify", b"pg_notifx", "delivers no notifications"),
        ("select 1", b"listen ", b"hearken", "delivers no notifications"),
    ],
    ids=["every lock is granted", "no such lock", "notifications are lost", "no notifications"],
)
async def test_engine_that_lacks_something_is_refused(
    dsn: str, made: str, word: bytes, other: bytes, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_probe, "NOTIFICATION_SECONDS", 0.1)
    with psycopg.connect(dsn) as connection:
        connection.execute(made.encode())
    async with engine(dsn, word, other) as through:
        for _ in range(2):  # a refusal is not remembered
            with pytest.raises(BadDatabase, match=lacks):
                await Database.open(through, MIGRATIONS, check=check_server)


async def test_server_is_probed_once(dsn: str, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    probed = list[DatabaseSession]()

    async def counted(session: DatabaseSession) -> ServerProbe:
        probed.append(session)
        return await probe(session)

    monkeypatch.setattr(server_probe, "probe", counted)
    for _ in range(3):
        await (await Database.open(dsn, MIGRATIONS, check=check_server)).close()
    (file,) = state.rglob("probed_servers")
    (line,) = file.read_text().splitlines()
    assert len(probed) == 1 and conninfo.conninfo_to_dict(dsn)["dbname"] in line
    for count, remembered in enumerate((b"\xff\0 damaged", f"{line.rpartition(' ')[0]} 14.1\n".encode()), 2):
        file.write_bytes(remembered)  # or it was of another version
        await (await Database.open(dsn, MIGRATIONS, check=check_server)).close()
        assert len(probed) == count
    file.unlink()
    file.mkdir()  # what cannot be remembered is tried again
    await (await Database.open(dsn, MIGRATIONS, check=check_server)).close()
    assert len(probed) == 4


async def test_server_without_room_for_a_second_connection_is_probed_by_the_next_start(
    dsn: str, role: str, state: Path
) -> None:
    user = str(conninfo.conninfo_to_dict(role)["user"])
    let_use(dsn, role)
    for most, files in ((1, 0), (-1, 1)):
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"alter role {user} connection limit {most}".encode())
        await (await Database.open(role, MIGRATIONS, check=check_server)).close()
        assert len(list(state.rglob("probed_servers"))) == files
