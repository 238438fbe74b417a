"""Supervisor: a small process that starts a command and ends all its processes with it.

`supervised_process.py` runs its `main` (`python -I -S -c … supervisor.py CONTROL NOTE TERM_GRACE WRAPPED PROGRAM
ARGUMENT …`), in a session of its own. CONTROL is the number of a socket. It receives:

    s             end everything: SIGTERM, GRACE seconds, SIGKILL
    k             end everything now: SIGKILL
    its end       the process that started it is dead: as s

It sends lines:

    failed ERRNO          the program could not be started
    ended STATUS          the command has ended, with this wait status; its descendants may still run
    left PID NAME         a process that outlived the command, and is being ended
    stuck PID NAME        a process that could not be ended
    over                  only stuck processes are left; the supervisor ends

NOTE is a pipe for the command alone, -1 for none; WRAPPED is 1 when the command is a sandbox around another.

Linux makes it the parent of every orphan below it (PR_SET_CHILD_SUBREAPER). So no daemon escapes, whatever session or
group it moved to, and "no child left" means that no process is left at all. Elsewhere only the process group of the
command is reached. Three kinds always escape: work that another program does (at, docker, systemd-run), processes of
another user, and processes of a command that has killed its supervisor and removed the marker
(`supervised_process.py`) from the environment. A sandbox leaves none of these.
"""

from __future__ import annotations

# Importing pathlib, contextlib or socket would double its start; `signal` would add a half to it, for names of numbers.
# ruff: noqa: PTH123, PTH208, SIM105
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINUX = sys.platform == "linux"
KILL_SECONDS = 3.0
"""Seconds during which SIGKILL is repeated; a process that is left hangs in the kernel or is another user's."""
TERM_ROUND_SECONDS, KILL_ROUND_SECONDS = 0.05, 0.01
"""Seconds between two rounds of signals: a process may be born while the others get theirs."""


class Supervisor:
    """Supervisor of a command and its descendants.

    `grace` is the time between SIGTERM and SIGKILL, in seconds. `wrapped` spares the command itself SIGTERM, because a
    sandbox that ends kills all processes in it at once.
    """

    def __init__(self, control: int, grace: float, wrapped: bool) -> None:
        self._control, self._grace, self._wrapped = control, grace, wrapped
        self._command, self._running = 0, True
        self._signalled, self._spared = set[tuple[int, str]](), 0
        self._control_fds = [control]
        self._wakeup, writer = os.pipe()
        for end in (self._wakeup, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def supervise(self, program: list[str], note: int) -> None:
        """Run the command and its descendants until they end, or until the order to end them."""
        prctl = _prctl()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._command, errno = _start(program, prctl)
        self._spared = self._command if self._wrapped else 0
        if errno:
            self._send("failed", errno)
            self._running = False
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2, *([note] if note >= 0 else [])):  # otherwise the pipes would never end
            os.dup2(null, fd)
        while self._has_processes():
            if order := self._wait(None):
                self._end(order)
                break
        self._send("over")

    def _send(self, *words: object) -> None:
        try:
            os.write(self._control, " ".join(map(str, words)).encode(errors="replace") + b"\n")
        except OSError:
            pass  # ikigai is gone

    def _wait(self, seconds: float | None) -> bytes:
        """Wait until a child ends, an order comes or `seconds` are over; return the order, or b""."""
        ready, _, _ = select.select([self._wakeup, *self._control_fds], [], [], seconds)
        order = b""
        if self._wakeup in ready and set(os.read(self._wakeup, 4096)) != {signal.SIGCHLD}:
            order = b"s"  # a signal asks the supervisor itself to end
        if any(fd in ready for fd in self._control_fds):
            try:
                order = os.read(self._control, 1)
            except OSError:
                order = b""
            if not order:
                self._control_fds, order = [], b"s"
        self._reap()
        return order

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._command:
                self._running = False
                self._send("ended", status)

    def _has_processes(self) -> bool:
        """Return True if a process is left, by asking the kernel, which cannot miss one that is just being born."""
        try:
            if LINUX:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            elif not self._running:
                os.killpg(self._command, 0)
        except (ChildProcessError, ProcessLookupError):
            return False
        except PermissionError:
            pass
        return True

    def _end(self, order: bytes) -> None:
        if not self._running:
            self._report_processes("left")
        until = time.monotonic() + self._grace
        while order != b"k" and self._has_processes() and (rest := until - time.monotonic()) > 0:
            self._signal(signal.SIGTERM)
            order = self._wait(min(rest, TERM_ROUND_SECONDS))
        until = time.monotonic() + KILL_SECONDS
        while self._has_processes() and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            self._wait(KILL_ROUND_SECONDS)
        if self._has_processes():
            self._report_processes("stuck")

    def _report_processes(self, word: str) -> None:
        for pid, name in _descendants():
            if _stat(pid)[1] not in "ZX":
                self._send(word, pid, name)

    def _signal(self, number: int) -> None:
        """Send a signal to all processes; SIGTERM to each program only once, as a second one means "now" to some.

        A process that has just been born still runs its parent's program, and the next program may not get its signal.
        So the pair of pid and name counts.
        """
        for pid, name in _descendants() if LINUX else [(-self._command, "")]:
            if number == signal.SIGTERM and ((pid, name) in self._signalled or pid == self._spared):
                continue
            self._signalled.add((pid, name))
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a stopped process would not notice
            except OSError:
                pass  # gone, or another user's


def _descendants() -> list[tuple[int, str]]:
    """Return pid and name of all processes below this one, parents before their children."""
    children = dict[int, list[tuple[int, str]]]()
    for number in os.listdir("/proc") if LINUX else []:
        if number.isdigit():
            name, _, parent = _stat(int(number))
            children.setdefault(parent, []).append((int(number), name))
    found = [(os.getpid(), "")]
    for pid, _ in found:
        found += children.get(pid, [])
    return found[1:]


def _stat(pid: int) -> tuple[str, str, int]:
    """Return name, state and parent of a process; state X if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().rpartition(b")")
    except OSError:
        return "", "X", -1
    state, parent = rest.split()[:2]
    return head.partition(b"(")[2].decode(errors="replace").replace("\n", "?"), state.decode(), int(parent)


def _start(program: list[str], prctl: Callable[[int, int], object]) -> tuple[int, int]:
    """Start the command in a session of its own; return its pid and 0, or an errno if it cannot be run."""
    reader, writer = os.pipe()
    supervisor = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs inherit that
                signal.signal(number, signal.SIG_DFL)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == supervisor:
                os.execvp(program[0], program)
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writer)
    errno = os.read(reader, 16)
    os.close(reader)
    return pid, int(errno or 0)


def _prctl() -> Callable[[int, int], object]:
    if not LINUX:
        return lambda *_: None
    import ctypes

    return ctypes.CDLL(None).prctl


def main() -> None:
    control, note, grace, wrapped = sys.argv[1:5]
    os.set_inheritable(int(control), False)
    Supervisor(int(control), float(grace), wrapped == "1").supervise(sys.argv[5:], int(note))
    os._exit(0)  # ikigai waits for it, with the event loop
