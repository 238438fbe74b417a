"""The supervisor: a small process that starts one command and sees to it that nothing of it outlives its end.

`run.py` runs it as a script (`python -I -S supervisor.py CONTROL NOTE GRACE WRAPPED PROGRAM ARGUMENT …`), in a
session of its own. CONTROL is the number of a socket. What comes in on it:

    s             end everything: SIGTERM, GRACE seconds, SIGKILL
    k             end everything now: SIGKILL
    its end       whoever started it is dead: as s

What goes out, in lines:

    failed ERRNO          the program could not be started
    ended STATUS          the command has ended, with this wait status; what it left behind may still be there
    left PID NAME         was there after the command had ended, and is being ended
    stuck PID NAME        could not be ended
    over                  nothing is left but what is stuck; the supervisor ends

NOTE is a pipe for the command alone, -1 for none; WRAPPED is 1 when the command is a sandbox around another.

Linux makes it the parent of every orphan below it (PR_SET_CHILD_SUBREAPER), so no daemon escapes, whatever session or
group it moved to, and "no child left" means that nothing is left at all. Elsewhere only the command's process group is
reached. Not reached anywhere: work that another program was asked to do (at, docker, systemd-run), what runs as
another user, and what a command keeps alive after it has killed its supervisor and removed the marker (`run.py`)
from the environment. A sandbox leaves none of these.
"""

from __future__ import annotations

# Importing pathlib, contextlib or socket would double its start.
# ruff: noqa: PTH123, PTH208, SIM105
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINUX = sys.platform == "linux"
KILLING_S = 3.0
"""How long SIGKILL is repeated; what is there then hangs in the kernel or is not ours to signal."""
TERMINATING_S, ROUND_S = 0.05, 0.01
"""Between two looks at what has to be signalled: a process may have been born while the others were."""


class Supervisor:
    """One command and its descendants. `grace` is in seconds; `wrapped` spares the command itself SIGTERM, because a
    sandbox that ends takes what is in it along at once.
    """

    def __init__(self, control: int, grace: float, wrapped: bool) -> None:
        self._control, self._grace, self._wrapped = control, grace, wrapped
        self._command, self._running = 0, True
        self._asked, self._spared = set[tuple[int, str]](), 0
        self._heard = [control]
        self._woken, writer = os.pipe()
        for end in (self._woken, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def supervise(self, program: list[str], note: int) -> None:
        """Run the command and whatever it starts, to the end or to the order to end it."""
        prctl = _prctl()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._command, why = _start(program, prctl)
        self._spared = self._command if self._wrapped else 0
        if why:
            self._say("failed", why)
            self._running = False
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2, *([note] if note >= 0 else [])):  # else the pipes would never end
            os.dup2(nowhere, fd)
        while self._remains():
            if order := self._wait(None):
                self._end(order)
                break
        self._say("over")

    def _say(self, *words: object) -> None:
        try:
            os.write(self._control, " ".join(map(str, words)).encode(errors="replace") + b"\n")
        except OSError:
            pass  # nobody listens any more

    def _wait(self, seconds: float | None) -> bytes:
        """Sleep until a child ends, an order comes or the time is over; returns the order, b"" if there is none."""
        ready, _, _ = select.select([self._woken, *self._heard], [], [], seconds)
        order = b""
        if self._woken in ready and set(os.read(self._woken, 4096)) != {signal.SIGCHLD}:
            order = b"s"  # somebody wants the supervisor itself to end
        if any(fd in ready for fd in self._heard):
            try:
                order = os.read(self._control, 1)
            except OSError:
                order = b""
            if not order:
                self._heard, order = [], b"s"
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
                self._say("ended", status)

    def _remains(self) -> bool:
        """Whether anything is there: asks the kernel, which cannot miss one that is just being born."""
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
            self._tell("left")
        until = time.monotonic() + self._grace
        while order != b"k" and self._remains() and (rest := until - time.monotonic()) > 0:
            self._signal(signal.SIGTERM)
            order = self._wait(min(rest, TERMINATING_S))
        until = time.monotonic() + KILLING_S
        while self._remains() and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            self._wait(ROUND_S)
        if self._remains():
            self._tell("stuck")

    def _tell(self, word: str) -> None:
        for pid, name in _descendants():
            if _stat(pid)[1] not in "ZX":
                self._say(word, pid, name)

    def _signal(self, number: int) -> None:
        """Send it to everything; SIGTERM to each program only once, for to some a second one means "now".

        One that has just been born is still its parent's program: what reaches it then may be lost on the next.
        """
        for pid, name in _descendants() if LINUX else [(-self._command, "")]:
            if number == signal.SIGTERM and ((pid, name) in self._asked or pid == self._spared):
                continue
            self._asked.add((pid, name))
            try:
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # who is stopped would not notice
            except OSError:
                pass  # gone, or another user's


def _descendants() -> list[tuple[int, str]]:
    """Pid and name of all processes below this one, parents before their children."""
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
    """Name, state and parent of a process; state X when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().rpartition(b")")
    except OSError:
        return "", "X", -1
    state, parent = rest.split()[:2]
    return head.partition(b"(")[2].decode(errors="replace").replace("\n", "?"), state.decode(), int(parent)


def _start(program: list[str], prctl: Callable[[int, int], object]) -> tuple[int, int]:
    """Start the command in a session of its own; returns its pid and 0, or an errno when it cannot be run."""
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
    why = os.read(reader, 16)
    os.close(reader)
    return pid, int(why or 0)


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


if __name__ == "__main__":
    main()
