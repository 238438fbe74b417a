"""The embedded server as programs see it: real processes of a real user, and of root where the tests run as root."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from ikigai.core.errors import BadDatabase
from ikigai.store.embedded import account as embedded_account
from ikigai.store.embedded import binaries as embedded_binaries
from ikigai.store.embedded import keeper as embedded_keeper
from ikigai.store.embedded import location as embedded_place
from ikigai.store.embedded import server as embedded

REPOSITORY = Path(embedded.__file__).parents[3]
PATIENCE_S = 60.0
ROOT = os.geteuid() == 0

# A test of what is the same for everybody runs once, as the one it is about or the cheaper one.
AS_ORDINARY = pytest.mark.parametrize("user", ["ordinary"], indirect=True)
AS_ROOT = pytest.mark.parametrize("user", ["root"], indirect=True)
AS_MYSELF = AS_ROOT if ROOT else AS_ORDINARY
ROOT_FOR_LONG = pytest.mark.parametrize(
    "user", ["ordinary", pytest.param("root", marks=pytest.mark.long)], indirect=True
)
"""Of processes alone, which are the same for root: the account of its server is made in other tests."""

# Starts the server, tells what it got, and holds the lease until its input ends.
PROGRAM = """
import json, sys
sys.dont_write_bytecode = True
asked = json.loads(sys.argv[1])
sys.path[:0] = asked["path"]
from pathlib import Path
from ikigai.core.errors import IkigaiError
from ikigai.store.embedded import server as embedded
embedded.GRACE_SECONDS = asked["grace_s"]
exec(asked["before"])
try:
    lease = embedded.start(Path(asked["data_dir"]))
except IkigaiError as error:
    print(json.dumps({"error": type(error).__name__, "what": error.what, "remedy": error.remedy}))
    sys.exit(error.exit_code)
told = {name: getattr(lease, name) for name in ("dsn", "major", "started", "initialized")}
print(json.dumps(told), flush=True)
exec(asked["then"])
sys.stdin.read()
lease.close()
lease.close()
"""


class User(NamedTuple):
    """Who runs the program: an interpreter and import path that this user can reach."""

    name: str
    python: str
    path: list[str]
    identity: dict[str, Any]

    def own(self, folder: Path) -> Path:
        if self.identity:
            os.chown(folder, self.identity["user"], self.identity["group"])
        return folder

    def folder(self, data_dir: Path) -> Path:
        """Where this user's server has its files; the tests themselves may run as root."""
        return data_dir / "postgres-18" if self.name == "ordinary" else embedded_place.folder_of(data_dir)


class Program:
    """One program that uses the embedded server."""

    def __init__(
        self, user: User, data_dir: Path, *, grace_s: float = 0.1, before: str = "", then: str = "", **env: str
    ) -> None:
        asked = {"path": user.path, "data_dir": str(data_dir), "grace_s": grace_s, "before": before, "then": then}
        self.process = subprocess.Popen(
            [user.python, "-c", PROGRAM, json.dumps(asked)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env=os.environ | env, **user.identity,
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline() or "{}")

    def close(self) -> None:
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.close()


class Place:
    """A data folder of one user with the programs that were started on it, all of which end with the test."""

    def __init__(self, user: User, top: Path, name: str = "data") -> None:
        self.user = user
        self.data_dir = top / name
        self.folder = user.folder(self.data_dir)
        self.programs: list[Program] = []

    def spawn(self, **options: Any) -> Program:
        self.programs.append(Program(self.user, self.data_dir, **options))
        return self.programs[-1]

    def start(self, **options: Any) -> tuple[Program, dict[str, Any]]:
        program = self.spawn(**options)
        told = program.told()
        assert "dsn" in told, told
        return program, told

    def refused(self, **options: Any) -> dict[str, Any]:
        program = self.spawn(**options)
        told = program.told()
        program.close()
        assert "error" in told, told
        assert "Traceback" not in told["what"] + told["remedy"]
        return told

    @contextmanager
    def settings(self, line: str) -> Iterator[None]:
        """This line in the place of the settings that PostgreSQL was started with, for as long as the block runs."""
        file = self.folder / "data" / "postgresql.auto.conf"
        before = file.read_text()
        file.write_text(f"{line}\n")
        try:
            yield
        finally:
            file.write_text(before)

    def pid(self) -> int:
        """The postmaster of the running server."""
        with (self.folder / "server.lock").open() as lock:
            return int(embedded_keeper.read_state(lock.fileno())[2])

    def ready(self) -> bool:
        """Return True if a keeper is alive and has announced its server."""
        with (self.folder / "server.lock").open() as lock:
            held = not embedded_keeper.try_lock(lock.fileno(), fcntl.LOCK_SH)
            return held and bool(embedded_keeper.socket_dir_of(embedded_keeper.read_state(lock.fileno())))

    def keeper_pid(self) -> int:
        return int(Path(f"/proc/{self.pid()}/stat").read_text().rsplit(")")[1].split()[1])

    def gone(self) -> bool:
        """Return True if no process of a server is left, even after a kill of its keeper."""
        return all(_free(self.folder / name) for name in ("server.lock", "data.lock"))

    def cleanup(self) -> None:
        for program in self.programs:
            program.kill()
        wait_until(self.gone, "the server has stopped")


def wait_until(incoming: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not incoming():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def query(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def _free(lock: Path) -> bool:
    if not lock.exists():
        return True
    with lock.open() as file:
        return embedded_keeper.try_lock(file.fileno(), fcntl.LOCK_EX)


def _ordinary(shared: Path) -> User:
    """The present user, or for root `nobody`, with copies of what `nobody` cannot reach."""
    package = embedded_binaries.find_binaries().parents[1]
    if not ROOT:
        return User("ordinary", sys.executable, [str(REPOSITORY), str(package.parent)], {})
    entry = pwd.getpwnam("nobody")
    identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    copied = "__init__.py", "core/errors.py", "system/paths.py"
    for module in (*copied, *(f"store/embedded/{path.name}" for path in _modules())):
        (shared / "ikigai" / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "ikigai" / module, shared / "ikigai" / module)

    def can(*command: str) -> bool:
        try:
            return subprocess.run(command, cwd="/", capture_output=True, **identity).returncode == 0
        except OSError:
            return False

    if not can(str(package / "pginstall/bin/postgres"), "--version"):
        embedded_binaries._copy_programs(package, shared)
        (shared / package.name / "__init__.py").touch()
        package = shared / package.name
    for python in (sys.executable, "/usr/bin/python3"):
        if can(python, "-c", "import ctypes, sys; sys.exit(sys.version_info < (3, 11))"):
            return User("ordinary", python, [str(shared), str(package.parent)], identity)
    pytest.skip("no Python that an ordinary user can run")


def _modules() -> list[Path]:
    return sorted((REPOSITORY / "ikigai/store/embedded").glob("*.py"))


@pytest.fixture(scope="module", params=["root", "ordinary"])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    with tempfile.TemporaryDirectory(prefix="ikigai-test-", dir="/tmp") as shared:
        Path(shared).chmod(0o755)
        if request.param == "ordinary":
            yield _ordinary(Path(shared))
        elif ROOT:
            package = embedded_binaries.find_binaries().parents[1]
            yield User("root", sys.executable, [str(REPOSITORY), str(package.parent)], {})
        else:
            pytest.skip("not root")


@contextmanager
def empty_folder(user: User) -> Iterator[Path]:
    """A private folder of the user with a short path; what root's server made of it goes with it."""
    with tempfile.TemporaryDirectory(prefix="ikigai-test-", dir="/tmp") as name:
        yield user.own(Path(name))
    shutil.rmtree(embedded_account.SYSTEM_DIR / "data" / name[1:], ignore_errors=True)


@pytest.fixture
def top(user: User) -> Iterator[Path]:
    with empty_folder(user) as folder:
        yield folder


@pytest.fixture
def bare(user: User, top: Path) -> Iterator[Place]:
    """A data folder in which nothing has been yet."""
    place = Place(user, top)
    yield place
    place.cleanup()


@pytest.fixture(scope="module")
def made(user: User) -> Iterator[Place]:
    """A data folder with a database that was made in a strange environment."""
    with empty_folder(user) as folder:
        place = Place(user, folder)
        strange = {"LANG": "xx_XX.garbage", "LC_ALL": "nonsense", "TZ": "Nowhere/Land", "PGPORT": "1", "PGDATA": "/dev"}
        _, told = place.start(**strange)
        assert (told["started"], told["initialized"], told["major"]) == (True, True, 18)
        place.cleanup()
        yield place


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    """A data folder with a database, and no server running."""
    place = Place(made.user, made.data_dir.parent)
    yield place
    place.cleanup()


# -- making and sharing ------------------------------------------------------------------------------------------


@AS_ORDINARY
def test_database_is_utf8_whatever_the_locale(place: Place) -> None:
    _, told = place.start()
    query(told["dsn"], "CREATE EXTENSION pg_trgm")
    lower = "SELECT lower('ÁÉŐ'), similarity('記憶の窓', '記憶の') > 0.3, 'é' ~ '[[:alpha:]]'"
    assert query(told["dsn"], lower) == [("áéő", True, True)]
    columns = "pg_encoding_to_char(encoding), datlocprovider, datlocale, datctype"
    assert query(told["dsn"], f"SELECT {columns} FROM pg_database WHERE datname = current_database()") == [
        ("UTF8", "b", "C.UTF-8", "C.UTF-8")
    ]


def test_second_program_shares_the_server(place: Place) -> None:
    _, first = place.start()
    _, second = place.start()
    assert (first["started"], first["initialized"]) == (True, False)
    assert (second["started"], second["initialized"]) == (False, False)
    assert first["dsn"] == second["dsn"]


@AS_MYSELF
def test_150_programs_have_two_connections_each_though_an_older_cluster_says_less(place: Place) -> None:
    settings = place.folder / "data" / "postgresql.conf"
    before = settings.read_text()
    try:
        settings.write_text(f"{before}\nmax_connections = 50\n")
        _, told = place.start()
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(psycopg.connect(told["dsn"], autocommit=True))
            assert query(told["dsn"], "SELECT count(*) FROM pg_stat_activity WHERE usename = 'ikigai'") == [(301,)]
    finally:
        settings.write_text(before)


def test_who_comes_second_does_not_lock_out_whom_the_first_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "postgres"
    folder.mkdir()
    folder.chmod(0o710)
    was = iter([False])  # a moment ago there was none
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", lambda path: next(was, True))
        embedded_place.make_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o710


@ROOT_FOR_LONG
def test_parallel_first_starts_make_one_database(bare: Place) -> None:
    programs = [bare.spawn() for _ in range(8)]
    told = [program.told() for program in programs]
    assert [one for one in told if "error" in one] == []
    assert sum(one["initialized"] for one in told) == sum(one["started"] for one in told) == 1
    assert len({str(query(one["dsn"], "SELECT system_identifier FROM pg_control_system()")) for one in told}) == 1
    assert {path.name for path in bare.folder.glob("data*")} == {"data", "data.lock"}


# It takes five seconds to make a cluster, and a start may take four.
SLOWLY = """
import time
from ikigai.store.embedded.account import Account
run = Account.run
def slowly(account, command, *arguments):
    time.sleep(5 if "--no-sync" in command else 0)
    return run(account, command, *arguments)
Account.run = slowly
embedded.START_SECONDS = 4.0
"""


@AS_MYSELF
def test_cluster_that_is_made_slowly_is_waited_for(bare: Place) -> None:
    programs = [bare.spawn(before=SLOWLY) for _ in range(2)]
    told = [program.told() for program in programs]
    assert [one for one in told if "error" in one] == []
    assert sorted(one["initialized"] for one in told) == [False, True]


@AS_ORDINARY
def test_first_start_that_was_killed_leaves_nothing_in_the_way(bare: Place) -> None:
    while True:
        killed = bare.spawn()
        wait_until(lambda: list(bare.folder.glob("data*/PG_VERSION")), "initdb is at work")
        killed.kill()
        if not (bare.folder / "data").exists():
            break
        wait_until(bare.gone, "the server has stopped")  # it was done before it could be killed: once more
        shutil.rmtree(bare.folder / "data")
    _, told = bare.start()
    assert told["initialized"]
    assert query(told["dsn"], "SELECT current_database()") == [("ikigai",)]
    assert not list(bare.folder.glob("data.new-*"))


def test_server_is_private_durable_and_on_no_network(place: Place) -> None:
    _, told = place.start()
    names = ("listen_addresses", "unix_socket_permissions", "fsync", "full_page_writes", "synchronous_commit")
    values = [query(told["dsn"], f"SHOW {name}")[0][0] for name in names]
    assert values == ["", "0700", "on", "on", "on"]
    for path in [place.folder, *place.folder.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        allowed = 0o710 if path == place.folder and place.user.name == "root" else 0o700
        assert mode & ~allowed == 0, f"{path} has mode {mode:o}"


def test_nobody_else_can_connect(place: Place) -> None:
    if not ROOT:
        pytest.skip("only root can become somebody else")
    _, told = place.start()
    stranger = 65533 if place.user.identity else pwd.getpwnam("nobody").pw_uid
    socket_path = told["dsn"].split("'")[1] + "/.s.PGSQL.5432"
    assert _connect_as(stranger, socket_path) == errno.EACCES
    assert _connect_as(0, socket_path) == 0


def _connect_as(uid: int, socket_path: str) -> int:
    """The error number that a process of `uid` gets when it connects; 0 for none."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os._exit(socket.socket(socket.AF_UNIX).connect_ex(socket_path))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@AS_ORDINARY
def test_variables_meant_for_another_server_do_not_matter(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = place.start()
    for name, value in {"PGPORT": "1", "PGHOSTADDR": "127.0.0.1", "PGDATABASE": "x", "PGGSSENCMODE": "require"}.items():
        monkeypatch.setenv(name, value)
    assert query(told["dsn"], "SELECT current_user, current_database()") == [("ikigai", "ikigai")]


# -- the end of the server -----------------------------------------------------------------------------------------


def test_it_stops_with_the_last_program(place: Place) -> None:
    first, told = place.start(grace_s=0)
    second, _ = place.start(grace_s=0)
    first.close()
    time.sleep(0.3)
    assert query(told["dsn"], "SELECT 1") == [(1,)]
    second.close()
    wait_until(place.gone, "the server has stopped")
    assert "database system is shut down" in (place.folder / "server.log").read_text()
    assert not (place.folder / "data" / "postmaster.pid").exists()


@ROOT_FOR_LONG
def test_it_stops_after_a_kill_of_all_programs(place: Place) -> None:
    programs = [place.start()[0] for _ in range(2)]
    for program in programs:
        program.kill()
    wait_until(place.gone, "the server has stopped")


@AS_ORDINARY
def test_child_of_a_program_does_not_hold_the_lease(place: Place) -> None:
    child = "subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL)"
    program, _ = place.start(then=f"import subprocess; child = {child}; print(child.pid, flush=True)")
    sleeper = program.told()
    try:
        program.kill()
        wait_until(place.gone, "the server has stopped")
        os.kill(sleeper, 0)
    finally:
        os.kill(sleeper, signal.SIGKILL)


@AS_ORDINARY
def test_short_calls_in_a_row_find_the_same_server(place: Place) -> None:
    pids = set()
    for _ in range(3):
        program, _ = place.start(grace_s=60)
        pids.add(place.pid())
        program.close()
    assert len(pids) == 1
    os.kill(place.keeper_pid(), signal.SIGTERM)


@ROOT_FOR_LONG
def test_no_program_is_refused_while_the_server_stops(place: Place) -> None:
    """Each program finds the server that its forerunner left in some state of stopping, and can use what it gets."""
    rounds = (
        "import socket, time\n"
        "for n in range(8):\n"
        "    lease.close()\n"
        "    time.sleep(n * {pause_s})\n"
        "    lease = embedded.start(Path(asked['data_dir']))\n"
        "    socket.socket(socket.AF_UNIX).connect(lease.dsn.split(\"'\")[1] + '/.s.PGSQL.5432')\n"
        "print(n, flush=True)\n"
    )
    programs = [place.spawn(grace_s=0, then=rounds.format(pause_s=pause_s)) for pause_s in (0.013, 0.017)]
    for program in programs:
        assert "dsn" in program.told()
    assert [program.told() for program in programs] == [7, 7]
    assert (place.folder / "server.log").read_text().count("ready to accept connections") > 1


# -- crashes ---------------------------------------------------------------------------------------------------


@ROOT_FOR_LONG
def test_killed_postmaster_is_replaced_and_nothing_is_lost(place: Place) -> None:
    _, told = place.start()
    query(told["dsn"], "CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(place.pid(), signal.SIGKILL)
    wait_until(lambda: not place.ready(), "the keeper has seen it")
    _, told = place.start()
    assert query(told["dsn"], "SELECT answer FROM kept") == [(42,)]


@ROOT_FOR_LONG
def test_killed_keeper_cuts_nobody_off(place: Place) -> None:
    program, told = place.start()
    with psycopg.connect(told["dsn"], autocommit=True) as connection:
        os.kill(place.keeper_pid(), signal.SIGKILL)
        time.sleep(0.2)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    wait_until(lambda: not place.ready(), "the keeper is gone")
    _, told = place.start()
    assert query(told["dsn"], "SELECT 1") == [(1,)]
    program.close()


@ROOT_FOR_LONG
def test_server_without_keeper_is_replaced_though_it_is_in_use(place: Place) -> None:
    _, told = place.start()
    with psycopg.connect(told["dsn"], autocommit=True):
        os.kill(place.keeper_pid(), signal.SIGKILL)
        wait_until(lambda: not place.ready(), "the keeper is gone")
        _, told = place.start()
        assert told["started"]
        assert query(told["dsn"], "SELECT 1") == [(1,)]


@ROOT_FOR_LONG
def test_it_stops_when_keeper_and_programs_are_all_killed(place: Place) -> None:
    program, _ = place.start(grace_s=60)
    os.kill(place.keeper_pid(), signal.SIGKILL)
    program.kill()
    wait_until(place.gone, "the server has stopped")


@AS_ORDINARY
def test_session_that_outlives_its_server_is_waited_for(place: Place) -> None:
    """Two servers on the same data would destroy it."""
    program, told = place.start()
    with psycopg.connect(told["dsn"], autocommit=True) as connection:
        # Reading a pipe, it does not see that its postmaster is gone.
        reading = "COPY (SELECT) TO PROGRAM 'sleep 6'"
        began = time.monotonic()
        busy = subprocess.Popen(
            [embedded.find_binaries() / "psql", told["dsn"], "-qc", reading], stderr=subprocess.DEVNULL
        )
        active = "SELECT FROM pg_stat_activity WHERE query LIKE 'COPY %' AND state = 'active'"
        wait_until(lambda: connection.execute(active).fetchall(), "the session is busy")
        keeper, postmaster = place.keeper_pid(), place.pid()
        os.kill(keeper, signal.SIGKILL)
        os.kill(postmaster, signal.SIGKILL)
        _, told = place.start()
        assert time.monotonic() - began > 6 and busy.wait(PATIENCE_S) == 0  # its statement had ended
        assert query(told["dsn"], "SELECT 1") == [(1,)]
    program.close()


@ROOT_FOR_LONG
def test_lock_files_with_the_pid_of_another_process_do_not_matter(place: Place) -> None:
    program, _ = place.start(grace_s=0)
    pid_file = place.folder / "data" / "postmaster.pid"
    _, more = pid_file.read_text().split("\n", 1)
    program.close()
    wait_until(place.gone, "the server has stopped")
    owner = (place.folder / "data").stat()
    identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if ROOT else {}
    bystander = subprocess.Popen(["sleep", "60"], **identity)
    try:
        socket_dir = place.folder / "run"
        socket_dir.mkdir(mode=0o700)
        pid_file.write_text(f"{bystander.pid}\n{more}")
        (socket_dir / ".s.PGSQL.5432.lock").write_text(f"{bystander.pid}\n{more}")
        for path in (pid_file, socket_dir, *socket_dir.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
        _, told = place.start()
        assert query(told["dsn"], "SELECT 1") == [(1,)]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


# -- where and with what -------------------------------------------------------------------------------------------


def test_another_major_version_is_refused_with_the_commands(bare: Place) -> None:
    old = bare.folder.with_name("postgres-17")
    (old / "data").mkdir(parents=True)
    (old / "data" / "PG_VERSION").write_text("17\n")
    bare.user.own(old.parent)
    told = bare.refused()
    assert told["error"] == "BadDatabase"
    assert "PostgreSQL 17" in told["what"] and str(old) in told["what"]
    assert "ikigai db dump" in told["remedy"] and "ikigai db restore" in told["remedy"]
    assert not (bare.folder / "data").exists()


@pytest.mark.parametrize("name", ["long" * 30, "a, 'b' \"c\" \\"])
def test_path_that_no_socket_can_have(place: Place, top: Path, name: str) -> None:
    odd = Place(place.user, top, name)
    odd.folder.parent.mkdir(parents=True)
    place.user.own(odd.folder.parent)
    place.folder.rename(odd.folder)
    try:
        program, told = odd.start(XDG_RUNTIME_DIR="")
        socket_dir = Path(told["dsn"].split("'")[1])
        assert query(told["dsn"], "SELECT 1") == [(1,)]
        assert not socket_dir.is_relative_to(odd.folder)
        assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        os.kill(odd.keeper_pid(), signal.SIGKILL)
        program.kill()
        wait_until(odd.gone, "the server has stopped")
        program, told = odd.start(XDG_RUNTIME_DIR=str(top))
        assert not socket_dir.exists()
        socket_dir = Path(told["dsn"].split("'")[1])
        assert (socket_dir.parent == top) == (place.user.name == "ordinary")
        program.close()
        wait_until(odd.gone, "the server has stopped")
        assert not socket_dir.exists()
    finally:
        odd.cleanup()
        odd.folder.rename(place.folder)


@AS_MYSELF
def test_status_starts_and_makes_nothing(top: Path) -> None:
    found = embedded.embedded_status(top / "data")
    assert (found.exists, found.running, found.size) == (False, False, 0)
    assert found.version.startswith("18.")
    assert not found.folder.exists() and not (top / "data").exists()


@AS_MYSELF
def test_status_of_a_running_server(place: Place) -> None:
    program, _ = place.start(grace_s=0)
    found = embedded.embedded_status(place.data_dir)
    assert (found.folder, found.exists, found.running) == (place.folder, True, True)
    assert found.size > 20_000_000
    program.close()
    wait_until(place.gone, "the server has stopped")
    assert not embedded.embedded_status(place.data_dir).running


@AS_ORDINARY
def test_log_is_bounded(place: Place) -> None:
    log = place.folder / "server.log"
    log.write_bytes(b"." * embedded_keeper.LOG_BYTES)
    place.start()
    assert log.stat().st_size < 10_000
    assert log.with_name("server.log.1").stat().st_size >= embedded_keeper.LOG_BYTES
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@AS_ORDINARY
def test_folder_of_somebody_else_is_refused_in_words(user: User, top: Path) -> None:
    top.chmod(0o500)
    told = Place(user, top).refused()
    assert told["error"] == "BadDatabase"
    assert "Permission denied" in told["what"] and "IKIGAI_DATABASE_URL" in told["remedy"]


UNNAMED_UID = 54_321
"""A user id without an entry in /etc/passwd, as containers get it."""


@AS_ORDINARY
def test_user_id_without_a_name_is_refused_in_words_and_can_use_a_database_that_is_there(
    user: User, top: Path, place: Place
) -> None:
    if not ROOT:
        pytest.skip("not root")
    with pytest.raises(KeyError):
        pwd.getpwuid(UNNAMED_UID)
    unnamed = user._replace(identity={**user.identity, "user": UNNAMED_UID, "group": UNNAMED_UID})
    told = Place(unnamed, unnamed.own(top)).refused()
    assert told["error"] == "BadDatabase"
    assert told["what"].endswith("the user id 54321, which has no entry in /etc/passwd.")
    assert "useradd --uid 54321 NAME" in told["remedy"] and "IKIGAI_DATABASE_URL" in told["remedy"]
    shutil.copytree(place.folder, top / "data" / place.folder.name, dirs_exist_ok=True)
    for path in (top, *top.rglob("*")):
        unnamed.own(path)
    there = Place(unnamed, top)
    try:
        _, told = there.start()
        assert told["initialized"] is False
    finally:
        there.cleanup()


@AS_ORDINARY
def test_settings_that_postgres_refuses_are_told_in_its_words(place: Place) -> None:
    with place.settings("max_connections = lots"):
        told = place.refused()
    assert told["error"] == "BadDatabase"
    assert "configuration file" in told["what"]
    assert "server.log" in told["remedy"]


@AS_ORDINARY
def test_machine_without_the_memory_is_told_as_what_may_pass(place: Place) -> None:
    with place.settings("shared_buffers = '4GB'"):
        told = place.refused(before="import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))")
    assert told["error"] == "Unavailable" and "Cannot allocate memory" in told["what"], told
    assert told["remedy"] == "Close other programs, then start again."


@AS_ORDINARY
def test_file_that_is_gone_is_named(place: Place) -> None:
    control = place.folder / "data" / "global" / "pg_control"
    moved = control.rename(control.with_name("pg_control.moved"))
    try:
        told = place.refused()
        assert told["error"] == "BadDatabase"
        assert "pg_control" in told["what"] and "No such file or directory" in told["what"], told["what"]
    finally:
        moved.rename(control)


def test_account_of_a_person_is_not_given_roots_database(monkeypatch: pytest.MonkeyPatch) -> None:
    if not ROOT:
        pytest.skip("not root")
    monkeypatch.setattr(embedded_account, "ACCOUNT_NAME", pwd.getpwuid(0).pw_name)
    with pytest.raises(BadDatabase, match=r"can log in.*usermod --shell"):
        embedded_account.server_account()


@AS_ROOT
def test_root_copies_binaries_that_the_account_cannot_reach(user: User, place: Place, top: Path) -> None:
    package = embedded_binaries.find_binaries().parents[1]
    hidden = top / "hidden"
    hidden.mkdir(mode=0o700)
    embedded_binaries._copy_programs(package, hidden)
    (hidden / package.name / "__init__.py").touch()
    hidden.chmod(0o700)

    def renewed() -> Path:
        """Change the package; return the copy that belongs to it. Other tests also have copies."""
        os.utime(hidden / package.name / "pginstall" / "bin" / "postgres")
        fingerprint = embedded_binaries._fingerprint(hidden / package.name / "pginstall")
        return embedded_account.SYSTEM_DIR / "binaries" / f"18-{fingerprint}"

    place.user, first = user._replace(path=[str(hidden), *user.path]), renewed()
    second = first
    try:
        program, told = place.start(grace_s=0)
        assert Path(f"/proc/{place.pid()}/exe").readlink().is_relative_to(first)
        assert query(told["dsn"], "SELECT 1") == [(1,)]
        program.close()
        wait_until(place.gone, "the server has stopped")
        second = renewed()
        program, _ = place.start(grace_s=0)
        assert Path(f"/proc/{place.pid()}/exe").readlink().is_relative_to(second) and not first.exists()
        assert stat.S_IMODE(hidden.stat().st_mode) == stat.S_IMODE(top.stat().st_mode) == 0o700
        program.close()
        wait_until(place.gone, "the server has stopped")
    finally:
        place.cleanup()
        for copy in (first, second):
            shutil.rmtree(copy, ignore_errors=True)
