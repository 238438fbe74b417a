"""One command under a supervisor: started, listened to, written to, and ended with whatever it started.

The supervisor (`supervisor.py`) is a small process of its own, so that this holds when ikigai is killed, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ikigai.core.record import Record
from ikigai.tools.shell.exit_report import Finished
from ikigai.tools.shell.pipes import Reader

DRAIN = 2.0
"""Seconds that what a command left running, or holding its pipes, may go on after it."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
PATIENCE = GRACE + 5.0
"""Seconds a supervisor may take to end everything; one that takes longer was tampered with."""
MARKER = "IKIGAI_PROCESS"
"""The variable by which a command's processes are found when its supervisor is gone."""
SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
LONGEST_NOTE = 8192
"""Bytes: two of the longest paths there are."""
MOST_WRITTEN = 65_536
LOOKING_AGAIN = 0.005
"""Seconds between two tries to write into a pipe that is full."""

Wrap = Callable[[Sequence[str], str], Sequence[str]]
"""Puts a sandbox around a program that is to run in a directory; its first word may not be changed by that."""


class Ended(Record, frozen=True):
    """How a process ended: `status` as Popen has it, negative for a signal. See `Finished` for the rest."""

    status: int
    directory: str = ""
    left: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    def finished(
        self, text: str = "", errors: str = "", cut: int = 0, seconds: float = 0.0, timed_out: bool = False
    ) -> Finished:
        """The same with what it wrote, and how long it took."""
        status, signal = (self.status, 0) if self.status >= 0 else (128 - self.status, -self.status)
        return Finished(text, status, signal, timed_out, seconds, cut, errors, self.directory, self.left, self.stuck)


class Process:
    """One command that runs. `over` is a task that is done when nothing of it is left.

    `take` gets its output as it comes; `take_errors` its standard error, which without that goes to `take`. With
    `stdin` there is an open standard input to `write` to. Made in a running event loop.
    Raises OSError or ValueError, in words; so does `over` when the program cannot be executed.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        directory: str | Path,
        environment: Mapping[str, str],
        take: Callable[[bytes], None],
        take_errors: Callable[[bytes], None] | None = None,
        stdin: bool = False,
        wrap: Wrap | None = None,
    ) -> None:
        self._marker = os.urandom(16).hex()
        self._control, control = socket.socketpair()
        self._note, note = os.pipe()
        try:
            argv = list(command) if not isinstance(command, str) else bash(command, note)
            self._name = argv[0]
            self._popen = _popen(
                [SUPERVISOR, str(control.fileno()), str(note), str(GRACE), str(int(bool(wrap)))],
                wrap(argv, str(directory)) if wrap else argv,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stderr=subprocess.PIPE if take_errors else subprocess.STDOUT,
                cwd=directory,
                env={**environment, MARKER: self._marker},
                pass_fds=(control.fileno(), note),
            )
        except BaseException:
            self._control.close()
            os.close(self._note)
            raise
        finally:
            control.close()
            os.close(note)

        self._loop = asyncio.get_running_loop()
        self._child: asyncio.Future[int] = self._loop.create_future()
        self._gone: asyncio.Future[bool] = self._loop.create_future()
        self._asked = asyncio.Event()
        self._why, self._left, self._stuck = 0, list[str](), list[str]()
        self._heard = b""
        self._readers = [
            Reader(pipe.fileno(), each)
            for pipe, each in ((self._popen.stdout, take), (self._popen.stderr, take_errors))
            if pipe and each
        ]
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._hear)
        if self._popen.stdin:
            os.set_blocking(self._popen.stdin.fileno(), False)
        self.over = asyncio.create_task(self._watch())

    @property
    def running(self) -> bool:
        """Whether the command itself is there; what it started may outlive it by `DRAIN` seconds."""
        return not self._child.done()

    async def write(self, data: bytes, seconds: float | None) -> int:
        """Write to its standard input; returns how many bytes it took within `seconds` (None: as long as it lasts).

        Raises BrokenPipeError, in words, when nobody reads it any more.
        """
        began, done, stdin = time.monotonic(), 0, self._popen.stdin
        while done < len(data):
            if not stdin or stdin.closed:
                raise BrokenPipeError("its standard input is closed.")
            try:
                done += os.write(stdin.fileno(), data[done : done + MOST_WRITTEN])
            except BlockingIOError:
                if seconds is not None and time.monotonic() - began > seconds:
                    break
                await asyncio.sleep(LOOKING_AGAIN)
            except OSError:
                raise BrokenPipeError("it does not read its standard input any more.") from None
        return done

    def close_stdin(self) -> None:
        if self._popen.stdin:
            self._popen.stdin.close()

    async def give(self, data: bytes) -> None:
        """Write all of it, as far as somebody reads, and close the standard input."""
        with contextlib.suppress(BrokenPipeError):
            await self.write(data, None)
        self.close_stdin()

    async def end(self, at_once: bool = False) -> Ended:
        """End everything: by SIGTERM, and after `GRACE` seconds, or `at_once`, by SIGKILL. Nothing interrupts it."""
        self._asked.set()
        self._say(b"k" if at_once else b"s")
        cancelled: asyncio.CancelledError | None = None
        while not self.over.done():
            try:
                await asyncio.wait([self.over])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled
        return self.over.result()

    async def _watch(self) -> Ended:
        """Wait for the command, a while for what it left, and end the rest; then nothing here is open any more."""
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait([self._child, self._gone, asked], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                await asyncio.wait([self._gone, *(reader.ended for reader in self._readers)], timeout=DRAIN)
                self._say(b"s")
            await asyncio.wait([self._gone], timeout=PATIENCE)
            if not (self._gone.done() and self._gone.result()):  # it was killed, or stopped
                self._popen.kill()
                self._stuck += await _sweep(self._marker)
            if self._why:
                raise OSError(f"{self._name} cannot be run: {os.strerror(self._why).lower()}.")
            status = self._child.result() if self._child.done() else -signal.SIGKILL
            return Ended(status, self._noted(), tuple(self._left), tuple(self._stuck))
        finally:
            asked.cancel()
            self._close()

    def _say(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._popen.send_signal(signal.SIGCONT)  # a command can stop its supervisor
            self._control.send(order)

    def _hear(self) -> None:
        """Take what the supervisor says; a `_gone` that is False means that it ended without its last word."""
        try:
            data = self._control.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        over = False
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            pid, _, name = rest.partition(" ")
            match word:
                case "ended":
                    self._child.set_result(os.waitstatus_to_exitcode(int(rest)))
                case "failed":
                    self._why = int(rest)
                case "left":
                    self._left.append(f"{name} (pid {pid})")
                case "stuck":
                    self._stuck.append(f"{name} (pid {pid})")
                case _:
                    over = True
        if over or not data:
            self._loop.remove_reader(self._control)
            self._gone.set_result(over)

    def _noted(self) -> str:
        os.set_blocking(self._note, False)
        try:
            return os.read(self._note, LONGEST_NOTE).decode(errors="surrogateescape").removesuffix("\n")
        except OSError:
            return ""

    def _close(self) -> None:
        self._loop.remove_reader(self._control)
        self._control.close()
        os.close(self._note)
        for reader in self._readers:
            reader.close()
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe:
                pipe.close()
        self._popen.wait()


def bash(command: str, note: int) -> list[str]:
    """The program that runs a command, without anybody's start-up files; it notes down where it was at its end."""
    return ["bash", "--noprofile", "--norc", "-c", f"trap '{{ pwd -P >&{note}; }} 2>/dev/null' EXIT; {command}"]


def _popen(supervisor: Sequence[str], argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    if any("\0" in word for word in argv):
        raise ValueError("a command cannot hold NUL.")
    words: list[Any] = [sys.executable, "-I", "-S", *supervisor, *argv]
    try:
        return subprocess.Popen[bytes](words, stdout=subprocess.PIPE, start_new_session=True, **how)
    except UnicodeEncodeError:
        raise ValueError("a command cannot hold half a character (a lone surrogate).") from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            size = sum(len(os.fsencode(word)) for word in argv)
            raise OSError(f"the command is too long ({size:,} bytes): write it to a file, and run that.") from None
        if not Path(how["cwd"]).is_dir() or error.filename == str(how["cwd"]):
            raise OSError(f"{how['cwd']} cannot be worked in: {str(error.strerror).lower()}.") from None
        raise OSError(f"the command cannot be started: {str(error.strerror).lower()}.") from None


async def _sweep(marker: str) -> list[str]:
    """Kill what has the marker in its environment, until nothing has; returns what could not be killed in a second."""
    found = list[str]()
    for _ in range(50):
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker.encode() in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    found.append(f"pid {folder.name}")
        if not found:
            break
        await asyncio.sleep(0.02)
    return found
