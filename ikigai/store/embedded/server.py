"""Start the embedded PostgreSQL: made on first use, shared by processes, stopped with the last of them.

`keeper` explains the lock files, and why no process is refused while the server stops.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.errors import BadDatabase, StoreError, Unavailable
from ikigai.store.embedded import keeper, location
from ikigai.store.embedded.account import OWN_SERVER
from ikigai.store.embedded.binaries import find_binaries
from ikigai.store.embedded.libpq_variables import hide_libpq_variables

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EmbeddedStatus", "Lease", "embedded_status", "find_binaries", "is_running", "start"]

START_SECONDS = 60.0
"""Seconds that a start may take, a crash recovery included, before `start` gives up. Making a cluster may take any
time.
"""

MADE_SLOWLY = "it was just created, and the machine seems to be busy"

GRACE_SECONDS = 2.0
"""Seconds that the server outlives its last program, so that successive short calls of ikigai find it running."""


CONNECT_SECONDS = 5
"""Seconds for an attempt to connect."""


class Lease:
    """The right to use the server, which runs until the last lease is closed or its process has ended."""

    def __init__(self, data_dir: Path, held: int, socket_dir: str, started: bool, initialized: bool) -> None:
        self._data_dir = data_dir
        self._held = held
        self.started = started
        """True if this process started the server."""
        self.initialized = initialized
        """True if the database is new."""
        self.major = location.MAJOR_VERSION
        host = socket_dir.replace("\\", "\\\\").replace("'", "\\'")
        hide_libpq_variables()
        # Without these values an address that is shown would be completed from PG* variables, also by other programs.
        own = f"host='{host}' hostaddr='' port={location.SOCKET_PORT} dbname=ikigai user=ikigai gssencmode=disable"
        own += f" connect_timeout={CONNECT_SECONDS}"
        self.dsn = f"{own} options='' sslmode=disable channel_binding=disable requirepeer='' target_session_attrs=any"

    def renew(self) -> str:
        """Find the server again after a connection broke, and start it if it was killed.

        Return the DSN, which may have changed with the socket's folder. Raise as `start` does; a running server is kept
        then: this process may have other connections to it.
        """
        fresh = start(self._data_dir)
        self._held, fresh._held = fresh._held, self._held
        fresh.close()
        self.dsn = fresh.dsn
        return self.dsn

    def close(self) -> None:
        """Release the server; closing twice does nothing."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)


class EmbeddedStatus(NamedTuple):
    """The status of the embedded database, read without starting it."""

    folder: Path
    exists: bool
    running: bool
    version: str
    """The version of the installed binaries, such as "18.6"."""
    size: int
    """The size of the folder, in bytes."""


class _StartWait:
    """The wait for other processes. It ends some time after the last progress, and when it `is_given_up`."""

    def __init__(self, folder: Path, is_given_up: Callable[[], bool]) -> None:
        self._folder, self._is_given_up = folder, is_given_up
        self.why = "it may be recovering from a crash"
        self.begin_again()

    def begin_again(self) -> None:
        """Restart the time limit: there was progress."""
        self._until = time.monotonic() + START_SECONDS

    def wait(self) -> None:
        """Wait two milliseconds; raise Unavailable if the time is over."""
        if self._is_given_up():
            raise Unavailable("The start of the embedded database was cancelled.")
        if time.monotonic() > self._until:
            raise Unavailable(
                f"The embedded database is not ready after {START_SECONDS:.0f} s; {self.why}.",
                f"Try again; {self._folder / 'server.log'} says more.",
            )
        time.sleep(0.002)

    def lock(self, fd: int, how: int) -> None:
        while not keeper.try_lock(fd, how):
            self.wait()


def start(data_dir: Path, is_given_up: Callable[[], bool] = lambda: False) -> Lease:
    """Make the database if it does not exist, start the server if it is not running, and return the right to use it.

    It takes a fraction of a millisecond when the server runs, about 50 ms to start it, a second or two to make it, on a
    busy machine minutes. When a connection breaks, call `Lease.renew`: the server may have been killed. Raise
    BadDatabase if it cannot work as things are, Unavailable if it may work later or `is_given_up` returns True.
    """
    folder = location.folder_of(data_dir)
    turn = _StartWait(folder, is_given_up)
    held = -1
    try:
        location.make_folder(folder)
        held = _open(folder / "programs.lock")
        turn.lock(held, fcntl.LOCK_SH)
        return Lease(data_dir, held, *_find_or_launch(folder, turn))
    except BaseException as error:
        if held >= 0:
            os.close(held)
        if isinstance(error, OSError):
            raise _folder_error(error, folder) from error
        raise


def embedded_status(data_dir: Path) -> EmbeddedStatus:
    """Return the status of the embedded database of this data folder without starting anything.

    Raise BadDatabase if the binaries are missing or the folder cannot be read.
    """
    from ikigai.store.embedded.account import server_environment
    from ikigai.store.embedded.cluster import has_cluster

    folder = location.folder_of(data_dir)
    postgres = find_binaries() / "postgres"
    try:
        text = subprocess.run([postgres, "--version"], capture_output=True, text=True, env=server_environment()).stdout
        version = text.split()[-1] if text else "unknown"
        return EmbeddedStatus(folder, has_cluster(folder), _is_running(folder), version, _size(folder))
    except OSError as error:
        raise _folder_error(error, folder) from error


def is_running(data_dir: Path) -> bool:
    """Return True if the server of this data folder runs; it reads one file."""
    return _is_running(location.folder_of(data_dir))


def _find_or_launch(folder: Path, turn: _StartWait) -> tuple[str, bool, bool]:
    """Return the socket folder of the server, and if this process started it, and if it made the database."""
    charge = _open(folder / "server.lock")
    started = initialized = False
    try:
        while True:
            if keeper.try_lock(charge, fcntl.LOCK_EX):
                if started:
                    raise _failed_start(charge, folder)
                initialized = _launch(folder, charge, turn)
                started = True
                turn.begin_again()
                os.close(charge)
                charge = _open(folder / "server.lock")
            elif (state := keeper.read_state(charge)) == [keeper.MAKING]:
                turn.why = MADE_SLOWLY
                turn.begin_again()
                turn.wait()
            elif socket_dir := keeper.socket_dir_of(state):
                if state[3] != keeper.read_boot_id():
                    raise Unavailable(f"The database in {folder} is in use on another machine.", "Quit ikigai there.")
                return socket_dir, started, initialized
            else:
                turn.wait()
    finally:
        os.close(charge)


def _launch(folder: Path, charge: int, turn: _StartWait) -> bool:
    """Start the server through a keeper that inherits the lock `charge`; return True if the database is new."""
    from ikigai.store.embedded import cluster
    from ikigai.store.embedded.account import server_account, server_environment
    from ikigai.store.embedded.binaries import server_binaries

    cluster.refuse_other_major(folder)
    account = server_account()
    account.admit(folder)
    inherited = [_open(folder / "data.lock")]
    try:
        if not keeper.try_lock(inherited[0], fcntl.LOCK_EX):
            cluster.interrupt_leftover(folder)
            turn.lock(inherited[0], fcntl.LOCK_EX)
        _clear_leftovers(folder, charge)
        if is_new := not cluster.has_cluster(folder):
            turn.why = MADE_SLOWLY
            keeper.write_state(charge, keeper.MAKING)
        programs, copy = server_binaries(account)
        inherited += copy
        if is_new:
            cluster.create(folder, programs, account, tuple(inherited))
            keeper.write_state(charge)
        (folder / "data").chmod(0o700)
        socket_dir = location.make_socket_dir(folder, account)
        inherited.append(log := _open(folder / "server.log", os.O_APPEND))
        argv = [
            folder,
            charge,
            GRACE_SECONDS,
            socket_dir,
            *account,
            *cluster.server_command(folder, programs, socket_dir),
        ]
        with subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *map(str, argv)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd="/", env=server_environment(),
            pass_fds=(charge, *inherited[:-1]), start_new_session=True,
        ):  # fmt: skip
            return is_new  # the keeper goes on as a process of its own: this one ends at once
    finally:
        for fd in inherited:
            os.close(fd)


def _clear_leftovers(folder: Path, charge: int) -> None:
    """Remove the files of a killed server, now that none of its processes lives.

    Its pid, in the lock files of data and socket, may be another process's by now, and PostgreSQL would not start.
    """
    (folder / "data" / "postmaster.pid").unlink(missing_ok=True)
    for socket_dir in (keeper.socket_dir_of(keeper.read_state(charge)), str(folder / "run")):
        keeper.remove_socket_dir(socket_dir)
    keeper.write_state(charge)


def _failed_start(charge: int, folder: Path) -> StoreError:
    from ikigai.store.embedded.cluster import server_failure

    state, *reason = keeper.read_state(charge) or [b""]
    return server_failure("start", folder, os.fsdecode(b"".join(reason)) if state == keeper.FAILED else "")


def _is_running(folder: Path) -> bool:
    try:
        charge = os.open(folder / "server.lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not keeper.try_lock(charge, fcntl.LOCK_SH) and bool(keeper.socket_dir_of(keeper.read_state(charge)))
    finally:
        os.close(charge)


def _size(folder: Path) -> int:
    size = 0
    for above, _, names in os.walk(folder):
        for name in names:
            try:
                size += Path(above, name).lstat().st_size
            except FileNotFoundError:
                continue  # a running server removes files
    return size


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)


def _folder_error(error: OSError, folder: Path) -> StoreError:
    where = f" ({error.filename})" if error.filename else ""
    sentence = f"The folder of the embedded database, {folder}, cannot be used: {error.strerror}{where}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(sentence, "Free some space there, then start again.")
    from ikigai.store.embedded.cluster import TRANSIENT_ERRORS

    if error.errno in TRANSIENT_ERRORS:
        return Unavailable(sentence, "Close other programs, then start again.")
    return BadDatabase(sentence, f"Make sure that you own the folder and that it is on a local disk, or {OWN_SERVER}")
