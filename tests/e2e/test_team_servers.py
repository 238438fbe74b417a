"""The team's servers, by the scripts that their containers run: a standby takes over, and a backup is restored."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from tempfile import TemporaryDirectory

import psycopg
import pytest
import yaml

from ikigai.store.embedded.account import server_account, server_environment
from tests import ROOT
from tests.e2e.account import Account, lines_of
from tests.support.own_servers import HOST, identity, new_port, programs

SCRIPTS = ROOT / "docs" / "operations" / "team"
SERVICES = yaml.safe_load((SCRIPTS / "compose.yaml").read_text())["services"]
PATIENCE = 120
"""Seconds after which a test that would wait for ever ends."""
DAY, RETRY, RECONNECT = "86400", "60", "5"
"""Seconds that backup.sh sleeps: from copy to copy, after a copy that failed, and between connections."""
PASSWORD = "the-password-of-postgres"

# What a server may have in the copy and a drill must not have. The servers get other values by their command lines.
SETTINGS = """
fsync = off  # what a killed process has written stays without the disk
listen_addresses = '192.0.2.1'
port = 6000
unix_socket_directories = '/nowhere'
archive_mode = on
archive_command = 'pwd >>"{folder}/archived"'
"""
# The shell of the scripts finds it first. A day lasts until there is the file `tomorrow`.
SLEEP = """#!/bin/sh
echo "$1" >>"{folder}/slept"
[ "$1" = 86400 ] || exec {sleep} 0.05
until [ -e "{folder}/tomorrow" ]; do {sleep} 0.05; done
rm "{folder}/tomorrow"
"""
# While there is the file `breaking`, a disk loses some of what it was given.
COPY = """#!/bin/sh
{pg_basebackup} "$@" || exit
[ -e "{folder}/breaking" ] || exit 0
for copy in "{folder}"/backup/base/*.new; do
  printf lost | dd of="$copy/global/1262" bs=1 seek=5000 conv=notrunc 2>/dev/null
done
"""


class Team:
    """A primary whose programs run as the account that may run PostgreSQL, in a folder which that account owns."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self.folder, self.processes = folder, processes
        self.primary: subprocess.Popen[str]
        self.said_at = 0.0
        self.ports = {"primary": new_port(), "standby": new_port()}
        account, self.identity, self.binaries = server_account(), identity(), programs()
        self.scripts = shutil.copytree(SCRIPTS, folder / "team")  # the account cannot enter a folder of root's
        (folder / "bin").mkdir()
        for name, text in (("sleep", SLEEP), ("pg_basebackup", COPY)):
            file = folder / "bin" / name
            file.write_text(
                text.format(folder=folder, sleep=shutil.which("sleep"), pg_basebackup=self.binaries / "pg_basebackup")
            )
            file.chmod(0o755)
        for name, text in (("password", PASSWORD), ("replication", "a-password-of-the-copies\n")):
            (folder / name).write_text(text)
        for path in (folder, *folder.iterdir()):
            account.own(path)
        self.replication = {"PASSWORD_FILE": str(folder / "replication")}

    def address(self, name: str) -> str:
        port = self.ports[name]
        return f"host={self.folder} port={port} user=postgres dbname=ikigai password={PASSWORD}"

    def start(self, *command: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a command of the team's account; it is ended with the test. What it prints is in the file `output`."""
        with (self.folder / "output").open("a") as output:
            process = subprocess.Popen(
                command, env=self._environment(**variables), cwd=self.folder, text=True, start_new_session=True,
                stdout=output, stderr=output, **self.identity,
            )  # fmt: skip
        self.processes.callback(process.wait)
        self.processes.callback(lambda: process.poll() is None and process.send_signal(SIGTERM))
        return process

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self._environment(**variables), cwd=self.folder, text=True, capture_output=True,
            timeout=PATIENCE, **self.identity,
        )  # fmt: skip

    def does(self, *command: str, **variables: str) -> None:
        """Run a command of the team's account, which must succeed."""
        done = self.run(*command, **variables)
        assert done.returncode == 0, done.stderr

    def _environment(self, **variables: str) -> dict[str, str]:
        environment = server_environment()
        path = f"{self.folder / 'bin'}:{self.binaries}:{environment['PATH']}"
        return environment | {"PATH": path, "TMPDIR": str(self.folder)} | variables

    def serve(self, name: str, *command: str, **variables: str) -> "subprocess.Popen[str]":
        """Start a server and wait until it answers."""
        settings = (f"listen_addresses={HOST}", f"unix_socket_directories={self.folder}")
        options = [part for setting in settings for part in ("-c", setting)]
        port = str(self.ports[name])
        process = self.start(*command, *options, "-p", port, **variables)

        def answers() -> bool:
            assert process.poll() is None, (self.folder / "output").read_text()
            return self.run("pg_isready", "-h", str(self.folder), "-p", port).returncode == 0

        wait_until(answers)
        return process

    def serve_primary(self) -> None:
        program, *options = SERVICES["primary"]["command"]
        unset = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", option) for option in options]
        self.primary = self.serve("primary", program, "-D", "primary", *unset)

    def serve_standby(self, folder: Path) -> "subprocess.Popen[str]":
        variables = {"PGDATA": str(folder), "PRIMARY_HOST": HOST, "PRIMARY_PORT": str(self.ports["primary"])}
        _, _, *options = SERVICES["standby"]["entrypoint"]
        return self.serve("standby", "sh", str(self.scripts / "standby.sh"), *options, **variables, **self.replication)

    def stop(self, process: "subprocess.Popen[str]", signal: Signals = SIGTERM) -> int:
        process.send_signal(signal)
        return process.wait(PATIENCE)

    def back_up(self, **variables: str) -> "subprocess.Popen[str]":
        """Start the backup of the server that takes writes."""
        ports = f"{self.ports['primary']},{self.ports['standby']}"
        source = f"host={HOST},{HOST} port={ports} user=replication target_session_attrs=read-write"
        return self.start(
            "sh", str(self.scripts / "backup.sh"), "backup", BACKUP_FROM=source, **self.replication, **variables
        )

    def drill(self, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", str(self.scripts / "restore-drill.sh"), "backup", **variables)

    def copies(self) -> set[str]:
        """Return the names of the copies that are complete."""
        base = self.folder / "backup" / "base"
        return {copy.name for copy in base.iterdir() if copy.suffix != ".new"} if base.exists() else set()

    def next_copy(self) -> None:
        """Let a day pass, and wait for the copy that is made then."""
        time.sleep(1)  # copies are named by the second
        self.does("rm", "slept")
        self.does("touch", "tomorrow")
        self.wait_for_copy()

    def wait_for_copy(self) -> None:
        """Wait until the backup sleeps for a day."""
        wait_until(lambda: DAY in self.slept())

    def slept(self) -> list[str]:
        """Return the times for which the backup slept."""
        file = self.folder / "slept"
        return file.read_text().split() if file.exists() else []

    def segments(self) -> set[str]:
        """Return the names of the files of the backup's log that are full."""
        return {file.name for file in (self.folder / "backup" / "wal").iterdir() if len(file.name) == 24}

    def ask(self, name: str, query: str) -> object:
        with psycopg.connect(self.address(name)) as connection:
            return connection.execute(query.encode()).fetchall()[0][0]

    def wait_for_log(self, name: str, count: int) -> None:
        """Wait until as many receivers have all of a server's log."""
        everywhere = """
            select count(*) = %s from pg_stat_replication
            where flush_lsn >= pg_current_wal_flush_lsn() and application_name in ('pg_receivewal', 'standby')
        """
        wait_until(lambda: bool(self.ask(name, everywhere % count)))

    def processes_in(self, part: str) -> list[str]:
        """Return the command lines of processes that name the folder, or run in it, and have this part."""
        found: list[str] = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_text().replace("\0", " ")
                if part in line and (str(self.folder) in line or str((process / "cwd").readlink()) == str(self.folder)):
                    found.append(line)
            except OSError:  # it has ended
                pass
        return found


@pytest.fixture
def team() -> Iterator[Team]:
    with running_team() as team:
        yield team


@contextmanager
def running_team() -> Iterator[Team]:
    """Yield a running primary with the database and the role of replication."""
    with TemporaryDirectory(prefix="team-") as folder, ExitStack() as processes:
        team = Team(Path(folder), processes)
        scram = ("-A", "scram-sha-256", "--pwfile=password", "--wal-segsize=1")
        team.does(
            "initdb", "-D", "primary", "-U", "postgres", *scram, "--no-sync", "--locale=C.UTF-8", "-E", "UTF8"
        )  # fmt: skip
        with (team.folder / "primary" / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(folder=folder))
        (team.folder / "primary" / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        team.serve_primary()
        team.does("psql", "-qXc", "create database ikigai", **administrator(team))
        team.does("sh", str(team.scripts / "primary-init.sh"), **initialization(team))
        team.does("pg_ctl", "-D", "primary", "reload")
        yield team


def administrator(team: Team) -> dict[str, str]:
    """Return the variables by which psql reaches the primary."""
    return {
        "PGHOST": str(team.folder),
        "PGPORT": str(team.ports["primary"]),
        "PGUSER": "postgres",
        "PGPASSWORD": PASSWORD,
    }


def initialization(team: Team) -> dict[str, str]:
    """Return the variables that the image gives to the scripts which it runs when it has made the primary."""
    image = {"PGDATA": str(team.folder / "primary"), "POSTGRES_USER": "postgres", "POSTGRES_DB": "ikigai"}
    return administrator(team) | image | team.replication


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_backup_is_restored_and_the_standby_takes_over(team: Team, tmp_path: Path) -> None:
    standby = team.folder / "servers" / "standby"
    team.serve_standby(standby)
    user = Account(tmp_path, team.address("primary"))
    user.say("before the copy")
    team.back_up()
    team.wait_for_copy()
    (copy,) = team.copies()

    # What is said behind the copy is in the log alone.
    user.say("behind the copy")
    team.ask("primary", "select pg_switch_wal()")
    user.say("in a file of the log that is not full")
    with psycopg.connect(team.address("primary")) as admin:
        admin.execute("create schema empty; create table empty.messages (); create table empty.agents ()")
    counts = "select (select count(*) from ikigai.agents) || ' agents, ' || count(*) || ' events' from ikigai.messages"
    newest = "select to_char(max(created_at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') from ikigai.messages"
    counted, dated = (team.ask("primary", query) for query in (counts, newest))
    team.wait_for_log("primary", 2)
    assert team.ask(
        "primary", "select string_agg(slot_name, ' ' order by slot_name) from pg_replication_slots where active"
    ) == ("backup standby")
    team.primary.send_signal(SIGKILL)

    drill = team.drill()
    assert drill.returncode == 0, drill.stderr
    assert drill.stdout == f"Restored {copy} and the log behind it: {counted}, the newest of {dated}Z.\n"
    drill = team.drill(SCHEMA="empty")
    assert drill.returncode == 1 and "holds no events" in drill.stderr
    assert not list(team.folder.glob("drill.*"))

    team.does("pg_ctl", "-D", str(standby), "-w", "promote")
    both = f"host={team.folder},{team.folder} port={team.ports['primary']},{team.ports['standby']}"
    moved = Account(tmp_path, f"{team.address('standby')} {both} target_session_attrs=read-write")
    found: list[str] = []

    def is_searched() -> bool:
        """Search the log of the standby; return True once all of it is in the index, which has a second each time."""
        (hits,) = lines_of(moved.run("history", "search", "copy", "--json").stdout)
        found[:] = [hit["snippet"] for hit in hits["hits"]]
        return hits["behind"] == 0

    wait_until(is_searched)
    assert {"before the copy", "behind the copy"} <= {*found}
    moved.say("goes on")

    # The backup follows the server that takes writes now.
    counted = team.ask("standby", counts)
    team.wait_for_log("standby", 1)
    drill = team.drill()
    assert f"{copy} and the log behind it: {counted}, the newest of " in drill.stdout, drill.stderr
    archived = (team.folder / "archived").read_text().split()
    assert {*archived} <= {str(team.folder / "primary"), str(standby)}, "a drill archives nothing"


@pytest.mark.long
def test_backup_keeps_no_copy_that_is_damaged(team: Team) -> None:
    team.back_up()
    team.wait_for_copy()
    good = team.copies()
    team.does("touch", "breaking", "tomorrow")
    wait_until(lambda: team.slept().count(RETRY) > 1)
    assert team.copies() == good
    said = (team.folder / "output").read_text()
    assert "checksum mismatch" in said and "the copy failed; the next try is in a minute" in said
    team.does("rm", "breaking")
    wait_until(lambda: team.copies() > good)
    assert not list((team.folder / "backup" / "base").glob("*.new"))


@pytest.mark.long
def test_copies_stay_for_as_many_days_as_said_with_the_log_behind_them(team: Team) -> None:
    base, wal = (team.folder / "backup" / part for part in ("base", "wal"))
    backup = team.back_up()
    team.wait_for_copy()
    (first,) = team.copies()
    begun = re.findall(r"START WAL LOCATION:.*file (\w+)", (base / first / "backup_label").read_text())[0]
    before = f"{begun[:8]}{'0' * 16}"
    aged = {days: f"200001{days:02}T000000Z" for days in (10, 16, 30)}

    def age() -> None:
        for days, name in aged.items():
            team.does("cp", "-al", str(base / first), str(base / name))
            team.does("touch", "-d", f"{days} days ago", str(base / name))
        team.does("touch", str(wal / before))

    age()
    for _ in range(3):
        team.ask("primary", "select pg_switch_wal() from pg_logical_emit_message(true, '', 'more')")
    team.wait_for_log("primary", 1)
    team.next_copy()
    second = max(team.copies())
    assert team.copies() == {first, second, aged[10]}
    assert {name for name in team.segments() if name < begun} == set(), "no copy needs it"
    kept = {*sorted(team.segments())[:3]}
    assert min(kept) == begun, "the oldest copy needs it"
    assert team.stop(backup) == 0

    age()
    team.does("rm", "slept")
    backup = team.back_up(KEEP_DAYS="20")
    team.wait_for_copy()
    third = max(team.copies())
    assert team.copies() == {first, second, third, aged[10], aged[16]} and kept <= team.segments()
    assert team.stop(backup) == 0

    team.does("rm", "slept")
    time.sleep(1)
    team.back_up(KEEP_DAYS="5")
    team.wait_for_copy()
    assert team.copies() == {first, second, third, max(team.copies())} and kept <= team.segments()


@pytest.mark.long
def test_backup_waits_for_the_server_and_ends_with_its_processes(team: Team) -> None:
    assert team.stop(team.primary, SIGINT) == 0
    interrupted = team.folder / "backup" / "base" / "20000101T000000Z.new"
    team.does("mkdir", "-p", str(interrupted))
    backup = team.back_up()
    wait_until(lambda: RECONNECT in team.slept() and team.slept().count(RETRY) > 1)
    team.serve_primary()
    team.wait_for_copy()
    assert not interrupted.exists()
    assert (team.folder / "backup" / "wal").stat().st_mode & 0o077 == 0

    sender = "select coalesce(max(active_pid), 0) from pg_replication_slots where slot_name = 'backup'"
    wait_until(lambda: bool(team.ask("primary", sender)))
    ended = team.ask("primary", sender)
    assert team.ask("primary", f"select pg_terminate_backend({ended})")
    wait_until(lambda: team.ask("primary", sender) not in (0, ended))
    assert team.stop(backup) == 0
    wait_until(lambda: team.ask("primary", sender) == 0)
    wait_until(lambda: not any(map(team.processes_in, ("backup", "pg_receivewal", "sleep"))))


def test_standby_is_copied_once_and_goes_on(team: Team) -> None:
    folder = team.folder / "standby"
    interrupted = team.folder / "standby.new"
    team.does("mkdir", str(folder), str(interrupted))  # an image makes the first; an interrupted copy left the second
    team.does("touch", str(interrupted / "of an interrupted copy"))
    standby = team.serve_standby(folder)
    team.does("touch", str(folder / "kept"))
    environment = Path(f"/proc/{standby.pid}/environ").read_bytes()
    assert b"PGDATA=" in environment and b"PGPASSWORD" not in environment
    team.wait_for_log("primary", 1)
    assert team.ask("standby", "select pg_is_in_recovery()") is True
    assert team.stop(standby, SIGINT) == 0
    standby = team.serve_standby(folder)
    assert (folder / "kept").exists() and not interrupted.exists()
    assert team.stop(standby, SIGINT) == 0
    # The slot is there already.
    team.does("rm", "-r", str(folder))
    team.serve_standby(folder)
    team.wait_for_log("primary", 1)
    assert team.ask("primary", "select active from pg_replication_slots where slot_name = 'standby'") is True


@pytest.fixture(scope="module")
def copied_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """Yield a team whose backup has a copy with events in it and in the log behind it."""
    with running_team() as team:
        user = Account(tmp_path_factory.mktemp("user"), team.address("primary"))
        user.say("before the copy")
        backup = team.back_up()
        team.wait_for_copy()
        user.say("behind the copy")
        team.said_at = time.time()
        team.wait_for_log("primary", 1)
        assert team.stop(backup) == 0
        team.does("mv", "backup", "backup.kept")
        yield team


@pytest.fixture
def copy(copied_team: Team) -> Path:
    """Return the copy in a backup of the test's own. It shares files with other tests until they are replaced."""
    copied_team.does("rm", "-rf", "backup")
    copied_team.does("cp", "-al", "backup.kept", "backup")
    return copied_team.folder / "backup" / "base" / min(copied_team.copies())


def replace(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)
    server_account().own(file)


def test_drill_restores_the_newest_copy_whatever_surrounds_it(copied_team: Team, copy: Path) -> None:
    """A standby was copied, another program moved the copies, and the variables name the server that is running."""
    older = copy.with_name("20000101T000000Z")
    copied_team.does("cp", "-al", str(copy), str(older))
    copied_team.does("mkdir", str(copy.with_name("99990101T000000Z.new")))
    copied_team.does("touch", str(copy / "standby.signal"))
    copied_team.does("chmod", "755", str(copy))
    live = administrator(copied_team) | {"PGHOSTADDR": HOST, "PGSERVICE": "live"}
    drill = copied_team.drill(**live)
    assert drill.returncode == 0 and f"Restored {copy.name} and" in drill.stdout, drill.stderr
    del live["PGSERVICE"]
    with psycopg.connect(copied_team.address("primary"), autocommit=True) as admin:
        admin.execute("alter schema ikigai rename to elsewhere")
        drill = copied_team.drill(**live)
        admin.execute("alter schema elsewhere rename to ikigai")
    assert drill.returncode == 0, drill.stderr
    assert not copied_team.processes_in("drill.")


def test_drill_of_a_copy_that_is_damaged_fails(copied_team: Team, copy: Path) -> None:
    table = (copy / "global" / "1262").read_bytes()
    replace(copy / "global" / "1262", table[:5000] + b"lost" + table[5004:])
    drill = copied_team.drill()
    assert drill.returncode == 1 and f"{copy.name} is damaged" in drill.stderr
    assert not list(copied_team.folder.glob("drill.*"))


@pytest.mark.parametrize("seconds", [0, 4])
def test_drill_of_a_copy_that_the_server_cannot_restore_fails(copied_team: Team, copy: Path, seconds: int) -> None:
    """It ends at once, or after it has answered."""
    settings = f"recovery_target_name = 'nowhere'\n{delayed(copied_team, seconds)}"
    replace(copy / "postgresql.auto.conf", settings.encode())
    drill = copied_team.drill()
    assert drill.returncode == 1 and "before configured recovery target was reached" in drill.stderr
    assert not list(copied_team.folder.glob("drill.*"))


def delayed(team: Team, seconds: int) -> str:
    """Return the setting by which what stands behind the copy is restored so many seconds from now."""
    return f"recovery_min_apply_delay = '{int(time.time() - team.said_at) + seconds if seconds else 0}s'\n"


def test_drill_counts_when_all_of_the_log_is_restored(copied_team: Team, copy: Path) -> None:
    """The server answers before."""
    counted = copied_team.ask("primary", "select count(*) || ' events' from ikigai.messages")
    replace(copy / "postgresql.auto.conf", delayed(copied_team, 4).encode())
    drill = copied_team.drill()
    assert drill.returncode == 0 and f" {counted}, the newest" in drill.stdout, drill.stderr


def test_drill_that_is_ended_leaves_nothing(copied_team: Team, copy: Path) -> None:
    replace(copy / "postgresql.auto.conf", b"recovery_min_apply_delay = '1h'\n")
    drill = copied_team.start("sh", str(copied_team.scripts / "restore-drill.sh"), "backup")
    wait_until(
        lambda: any(copied_team.folder.glob("drill.*/data/postmaster.pid")) and bool(copied_team.processes_in("drill."))
    )
    assert copied_team.stop(drill) == 1
    assert not list(copied_team.folder.glob("drill.*"))
    wait_until(lambda: not copied_team.processes_in("drill."))


def test_backup_without_a_folder_or_a_password_begins_nothing(copied_team: Team) -> None:
    script = str(copied_team.scripts / "backup.sh")
    done = copied_team.run("sh", script, BACKUP_FROM=f"host={HOST}")
    assert done.returncode != 0 and "/base" not in done.stderr
    done = copied_team.run("sh", script, "new", BACKUP_FROM=f"host={HOST}", PASSWORD_FILE="nowhere")
    assert done.returncode != 0 and not (copied_team.folder / "new").exists()


def test_role_of_the_copies_is_made_once_with_its_password(copied_team: Team) -> None:
    hba = (copied_team.folder / "primary" / "pg_hba.conf").read_text()
    again = copied_team.run("sh", str(copied_team.scripts / "primary-init.sh"), **initialization(copied_team))
    assert again.returncode != 0 and "already exists" in again.stderr
    assert (copied_team.folder / "primary" / "pg_hba.conf").read_text() == hba
    address = f"host={HOST} port={copied_team.ports['primary']} user=replication dbname=ikigai replication=true"
    password = (copied_team.folder / "replication").read_text().strip()
    for typed, refused in ((password, False), ("another", True)):
        said = copied_team.run("psql", "-Xc", "IDENTIFY_SYSTEM", f"{address} password={typed}")
        assert (said.returncode != 0) is refused, said.stderr
    nothing = initialization(copied_team) | {"PASSWORD_FILE": "nowhere", "POSTGRES_DB": "postgres"}
    refused = copied_team.run("sh", str(copied_team.scripts / "primary-init.sh"), **nothing)
    assert refused.returncode != 0 and "already exists" not in refused.stderr, "a role without a password is none"


def test_drill_of_a_backup_without_a_copy_fails(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    drill = subprocess.run(["sh", SCRIPTS / "restore-drill.sh", tmp_path], capture_output=True, text=True)
    assert drill.returncode == 1 and "holds no copy" in drill.stderr
