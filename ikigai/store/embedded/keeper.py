"""Keeper: a small process that runs the embedded server as long as some program uses it.

It runs as a script (`python -I -S keeper.py …`) and imports nothing of ikigai and little else, so that it starts in ten
milliseconds. The files in the server's folder control access:

    programs.lock   shared: a program that uses the server. Exclusive: no program is there, and none may come.
    server.lock     exclusive: who is in charge, first the program that starts the server, then its keeper, which
                    inherits the lock. Its content is the state: nothing, or "making" while there is no cluster yet, or
                    "ready", socket folder, pid and boot id, one a line, or "failed" and why. What is not "failed"
                    counts only while the lock is held.
    data.lock       exclusive, and inherited by every process that touches the data, so that it is free exactly
                    when none of them lives, whatever pids say.
    server.log      the output of the server and its keeper; when it is full it becomes server.log.1.

A program takes programs.lock first and looks at server.lock then, so the keeper may stop the server only while it
holds programs.lock alone, and takes "ready" back before it does. A program that comes in that moment waits some
hundredths of a second for programs.lock, finds nobody in charge, and starts a new server. It is never refused.
"""

from __future__ import annotations

# Importing pathlib would double the keeper's start.
# ruff: noqa: PTH105, PTH106, PTH108, PTH118, PTH123, PTH208
import _thread
import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READY, MAKING, FAILED = b"ready", b"making", b"failed"
LOG_BYTES = 512 * 1024
STATE_BYTES = 1024

# The module signal takes longer to import than all of the above, so it is only when the server is on its way.
SIGINT, SIGQUIT, SIGKILL, SIGTERM = 2, 3, 9, 15
PR_SET_PDEATHSIG = 1


def try_lock(fd: int, how: int) -> bool:
    """Take the flock of `fd` if that needs no waiting; return True if it was taken."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_state(lock: int, *state: bytes) -> None:
    """Replace the content of server.lock, which never shrinks: on a full disk there is still room for a reason."""
    os.pwrite(lock, b"".join(line + b"\n" for line in state)[:STATE_BYTES].ljust(STATE_BYTES), 0)


def read_state(lock: int) -> list[bytes]:
    """Return the lines of server.lock; none while they are being written."""
    text = os.pread(lock, STATE_BYTES, 0).rstrip(b" ")
    return text.splitlines() if text.endswith(b"\n") else []


def socket_dir_of(state: list[bytes]) -> str:
    """Return the socket folder of a server that is ready; "" for any other state."""
    return os.fsdecode(state[1]) if len(state) == 4 and state[0] == READY else ""


def read_boot_id() -> bytes:
    """Return the id of this run of this kernel (locks and sockets reach no further); b"" if it cannot be known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip()
    except OSError:
        return b""


def remove_socket_dir(socket_dir: str) -> None:
    """Remove the socket folder of a server that has ended, with the files that a killed one left."""
    try:
        for name in os.listdir(socket_dir):
            if name.startswith(".s.PGSQL."):
                os.unlink(os.path.join(socket_dir, name))
        os.rmdir(socket_dir)
    except OSError:
        pass


def launch(command: list[str], uid: int, gid: int) -> tuple[int, int]:
    """Start the server as this account (-1: the present one); return its pid and the pipe of its output.

    Every process of the server holds the other end of the pipe, so it ends with the last of them.
    """
    bind_to_parent = _parent_binding()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        if uid >= 0:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        bind_to_parent()
        os.execv(command[0], command)
    except BaseException as error:
        os.write(2, f"FATAL:  {command[0]} cannot be run: {error}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _parent_binding() -> Callable[[], None]:
    """Return the function that the server's process calls, last before its program, to be told to stop if this process
    dies.

    It is told by SIGTERM, PostgreSQL's smart shutdown. After a kill -9 of the keeper connected programs go on, and the
    server stops with the last of them. Prepared beforehand: the server's account may not reach libc.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, SIGTERM)
        if os.getppid() != parent:
            os._exit(127)

    return bind


def is_ready(pid_file: str, pid: int) -> bool:
    """Return True if the server that runs as `pid` takes connections: line 8 of its pid file says so."""
    try:
        with open(pid_file, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return False
    return len(lines) > 7 and lines[0] == b"%d" % pid and lines[7].startswith(READY)


class Keeper:
    """One server in one folder, from its launch until no process of it is left."""

    def __init__(self, folder: str, lock: int, grace_s: float, socket_dir: str, server: tuple[int, int]) -> None:
        self.folder = folder
        self.lock = lock
        self.grace_s = grace_s
        self.socket_dir = socket_dir
        self.pid, self.output = server
        self.recent = b""
        self.ended = _thread.allocate_lock()

    def run(self) -> None:
        """Announce the server when it is ready, and return when it has ended."""
        import signal

        self.ended.acquire()
        _thread.start_new_thread(self._await_end, ())
        signal.signal(SIGTERM, lambda *_: _thread.start_new_thread(self.stop, ()))
        if is_up := self._wait_until_ready():
            write_state(self.lock, READY, os.fsencode(self.socket_dir), b"%d" % self.pid, read_boot_id())
            _thread.start_new_thread(self._stop_when_unused, ())
            while self._log_output():
                pass
        self.ended.acquire()
        write_state(self.lock, *(() if is_up else (FAILED, self._reason())))
        remove_socket_dir(self.socket_dir)

    def stop(self) -> None:
        """Ask the server to end, more and more firmly: no way loses committed data."""
        write_state(self.lock)
        for how, wait_s in ((SIGINT, 30), (SIGQUIT, 10), (SIGKILL, 0)):
            if self.ended.locked():
                os.kill(self.pid, how)
            time.sleep(wait_s)

    def _await_end(self) -> None:
        # At once, not when the output ends: a busy session outlives a killed postmaster and keeps the output open.
        os.waitpid(self.pid, 0)
        write_state(self.lock)
        self.ended.release()

    def _wait_until_ready(self) -> bool:
        # pg_ctl looks ten times a second, but a server starts in 20 ms.
        while not is_ready(f"{self.folder}/data/postmaster.pid", self.pid):
            if select.select([self.output], [], [], 0.002)[0] and not self._log_output():
                return False
        return True

    def _stop_when_unused(self) -> None:
        programs = os.open(f"{self.folder}/programs.lock", os.O_RDWR)
        while True:
            fcntl.flock(programs, fcntl.LOCK_EX)
            fcntl.flock(programs, fcntl.LOCK_UN)
            if self._stays_unused(programs):
                return self.stop()

    def _stays_unused(self, programs: int) -> bool:
        """Return True if no program came within the grace period; then `programs` is locked, and none can come."""
        end = time.monotonic() + self.grace_s
        while try_lock(programs, fcntl.LOCK_EX):
            if time.monotonic() >= end:
                return True
            fcntl.flock(programs, fcntl.LOCK_UN)
            time.sleep(0.05)
        return False

    def _log_output(self) -> bool:
        """Move the server's output into the log; return False if no server is left."""
        text = os.read(self.output, 65536)
        self.recent = (self.recent + text)[-8192:]
        try:
            os.write(2, text)
            if os.fstat(2).st_size > LOG_BYTES:
                self._start_new_log(f"{self.folder}/server.log")
        except OSError:
            pass  # a full disk must not end the keeper
        return bool(text)

    def _start_new_log(self, log: str) -> None:
        os.replace(log, f"{log}.1")
        fresh = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.dup2(fresh, 2)
        os.close(fresh)

    def _reason(self) -> bytes:
        """Return the server's last reason: a line of its log, or plain words from before it has one."""
        lines = [line.strip() for line in self.recent.splitlines() if line.strip() and b"LOG:" not in line]
        reasons = [line.split(level)[-1] for line in lines for level in (b"FATAL:", b"PANIC:") if level in line]
        reason = (reasons or lines or [b""])[-1].strip()
        return reason.removeprefix(b"but ")[: STATE_BYTES // 2]


def main(arguments: list[str]) -> None:
    """Run the keeper. Arguments: folder, descriptor of the locked server.lock, grace in seconds, socket folder, uid,
    gid, command …
    """
    folder, lock, grace_s, socket_dir, uid, gid, *command = arguments
    os.set_inheritable(int(lock), False)
    if os.fork():
        os._exit(0)  # a keeper without a parent leaves no zombie in the program that started it
    os.chdir("/")
    os.umask(0o077)
    server = launch(command, int(uid), int(gid))
    Keeper(folder, int(lock), float(grace_s), socket_dir, server).run()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
