"""Run a command under a supervisor, which ends it together with every process that it started.

The supervisor (`supervisor.py`) is a small process of its own, so that this holds even if ikigai is killed.
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

from ikigai.core.events.record import Record
from ikigai.tools.shell.exit_report import FinishedCommand
from ikigai.tools.shell.pipes import PipeReader

DRAIN_SECONDS = 2.0
"""Seconds that processes left by a command may run on, or hold its pipes, after its end."""
TERM_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
SUPERVISOR_TIMEOUT = TERM_GRACE + 5.0
"""Seconds a supervisor may take to end everything; one that takes longer was tampered with."""
MARKER_VARIABLE = "IKIGAI_PROCESS"
"""Variable that identifies the processes of a command whose supervisor is gone."""
SUPERVISOR_FILE = str(Path(__file__).with_name("supervisor.py"))
RUN_SUPERVISOR = (
    "import os, sys; sys.path.append(os.path.dirname(sys.argv.pop(1))); import supervisor; supervisor.main()"
)
"""Runs it as a module, whose bytecode Python keeps: a script is compiled at each start, for 2 ms of 20."""
MAX_NOTE_BYTES = 8192
"""Bytes of a note: twice the longest path."""
MAX_WRITE_BYTES = 65_536
WRITE_RETRY_SECONDS = 0.005
"""Seconds between two attempts to write into a full pipe."""

Wrap = Callable[[Sequence[str], str], Sequence[str]]
"""Function from a program and its directory to the command that runs it in a sandbox; the program keeps its name."""


class ProcessEnd(Record, frozen=True):
    """How a process ended: `status` as Popen has it, negative for a signal. See `FinishedCommand` for the rest."""

    status: int
    directory: str = ""
    left: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    def finished(
        self, text: str = "", errors: str = "", cut: int = 0, seconds: float = 0.0, timed_out: bool = False
    ) -> FinishedCommand:
        """Return the outcome with the output and the time that the command took."""
        status, signal = (self.status, 0) if self.status >= 0 else (128 - self.status, -self.status)
        return FinishedCommand(
            text, status, signal, timed_out, seconds, cut, errors, self.directory, self.left, self.stuck
        )


class SupervisedProcess:
    """Running command. The task `ended` is done when all its processes have ended.

    `on_output` gets its output as it arrives, and standard error as well unless there is `on_errors`. With `stdin`,
    `write` writes to its standard input. Make it in a running event loop.
    Raise OSError or ValueError, in words; `ended` raises them if the program cannot be executed.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        directory: str | Path,
        environment: Mapping[str, str],
        on_output: Callable[[bytes], None],
        on_errors: Callable[[bytes], None] | None = None,
        stdin: bool = False,
        wrap: Wrap | None = None,
    ) -> None:
        self._marker = os.urandom(16).hex()
        self._control, control = socket.socketpair()
        self._note, note = os.pipe()
        try:
            argv = list(command) if not isinstance(command, str) else bash_command(command, note)
            self._name = argv[0]
            self._popen = _popen(
                [SUPERVISOR_FILE, str(control.fileno()), str(note), str(TERM_GRACE), str(int(bool(wrap)))],
                wrap(argv, str(directory)) if wrap else argv,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stderr=subprocess.PIPE if on_errors else subprocess.STDOUT,
                cwd=directory,
                env={**environment, MARKER_VARIABLE: self._marker},
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
        self._end_requested = asyncio.Event()
        self._errno, self._left, self._stuck = 0, list[str](), list[str]()
        self._partial_line = b""
        self._readers = [
            PipeReader(pipe.fileno(), each)
            for pipe, each in ((self._popen.stdout, on_output), (self._popen.stderr, on_errors))
            if pipe and each
        ]
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._read_control)
        if self._popen.stdin:
            os.set_blocking(self._popen.stdin.fileno(), False)
        self.ended = asyncio.create_task(self._watch())

    @property
    def is_running(self) -> bool:
        """True while the command itself runs; processes that it started may outlive it by `DRAIN_SECONDS`."""
        return not self._child.done()

    async def write(self, data: bytes, seconds: float | None) -> int:
        """Write to its standard input; return how many bytes it read within `seconds` (None for no limit).

        Raise BrokenPipeError, in words, if the input is closed.
        """
        began, done, stdin = time.monotonic(), 0, self._popen.stdin
        while done < len(data):
            if not stdin or stdin.closed:
                raise BrokenPipeError("its standard input is closed.")
            try:
                done += os.write(stdin.fileno(), data[done : done + MAX_WRITE_BYTES])
            except BlockingIOError:
                if seconds is not None and time.monotonic() - began > seconds:
                    break
                await asyncio.sleep(WRITE_RETRY_SECONDS)
            except OSError:
                raise BrokenPipeError("it no longer reads its standard input.") from None
        return done

    def close_stdin(self) -> None:
        if self._popen.stdin:
            self._popen.stdin.close()

    async def feed(self, data: bytes) -> None:
        """Write all data, as far as the process reads it, and close its standard input."""
        with contextlib.suppress(BrokenPipeError):
            await self.write(data, None)
        self.close_stdin()

    async def end(self, at_once: bool = False) -> ProcessEnd:
        """End all processes: by SIGTERM, and after `TERM_GRACE` seconds by SIGKILL, or `at_once` by SIGKILL.

        A cancellation takes effect only after that.
        """
        self._end_requested.set()
        self._send(b"k" if at_once else b"s")
        cancelled: asyncio.CancelledError | None = None
        while not self.ended.done():
            try:
                await asyncio.wait([self.ended])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled
        return self.ended.result()

    async def _watch(self) -> ProcessEnd:
        """Wait for the command and `DRAIN_SECONDS` for its descendants, end the rest, and close all files."""
        end_requested = asyncio.ensure_future(self._end_requested.wait())
        try:
            await asyncio.wait([self._child, self._gone, end_requested], return_when=asyncio.FIRST_COMPLETED)
            if not end_requested.done():
                await asyncio.wait([self._gone, *(reader.ended for reader in self._readers)], timeout=DRAIN_SECONDS)
                self._send(b"s")
            await asyncio.wait([self._gone], timeout=SUPERVISOR_TIMEOUT)
            if not (self._gone.done() and self._gone.result()):  # it was killed, or stopped
                self._popen.kill()
                self._stuck += await _sweep(self._marker)
            if self._errno:
                raise OSError(f"{self._name} cannot be run: {os.strerror(self._errno).lower()}.")
            status = self._child.result() if self._child.done() else -signal.SIGKILL
            return ProcessEnd(status, self._read_note(), tuple(self._left), tuple(self._stuck))
        finally:
            end_requested.cancel()
            self._close()

    def _send(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._popen.send_signal(signal.SIGCONT)  # a command can stop its supervisor
            self._control.send(order)

    def _read_control(self) -> None:
        """Read messages of the supervisor; set `_gone` to False if it ended without its last message."""
        try:
            data = self._control.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        is_over = False
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            pid, _, name = rest.partition(" ")
            match word:
                case "ended":
                    self._child.set_result(os.waitstatus_to_exitcode(int(rest)))
                case "failed":
                    self._errno = int(rest)
                case "left":
                    self._left.append(f"{name} (pid {pid})")
                case "stuck":
                    self._stuck.append(f"{name} (pid {pid})")
                case _:
                    is_over = True
        if is_over or not data:
            self._loop.remove_reader(self._control)
            self._gone.set_result(is_over)

    def _read_note(self) -> str:
        os.set_blocking(self._note, False)
        try:
            return os.read(self._note, MAX_NOTE_BYTES).decode(errors="surrogateescape").removesuffix("\n")
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


def bash_command(command: str, note: int) -> list[str]:
    """Return the bash that runs a command, without start-up files; at its end it writes its directory to `note`."""
    return ["bash", "--noprofile", "--norc", "-c", f"trap '{{ pwd -P >&{note}; }} 2>/dev/null' EXIT; {command}"]


def _popen(supervisor: Sequence[str], argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    if any("\0" in word for word in argv):
        raise ValueError("a command cannot contain NUL.")
    words: list[Any] = [sys.executable, "-I", "-S", "-c", RUN_SUPERVISOR, *supervisor, *argv]
    try:
        return subprocess.Popen[bytes](words, stdout=subprocess.PIPE, start_new_session=True, **options)
    except UnicodeEncodeError:
        raise ValueError("a command cannot contain half a character (a lone surrogate).") from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            size = sum(len(os.fsencode(word)) for word in argv)
            raise OSError(f"the command is too long ({size:,} bytes): write it to a file and run the file.") from None
        if not Path(options["cwd"]).is_dir() or error.filename == str(options["cwd"]):
            raise OSError(
                f"{options['cwd']} cannot be used as working directory: {str(error.strerror).lower()}."
            ) from None
        raise OSError(f"the command cannot be started: {str(error.strerror).lower()}.") from None


async def _sweep(marker: str) -> list[str]:
    """Kill all processes with the marker in their environment; return those that are left after a second."""
    killed = list[str]()
    for _ in range(50):
        killed = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker.encode() in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed.append(f"pid {folder.name}")
        if not killed:
            break
        await asyncio.sleep(0.02)
    return killed
