"""Start the program: as a fork of an interpreter that has loaded it, or with its own one."""

import marshal
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TextIO

import psutil

from tests import ROOT
from tests.support.fork_server import NUMBER, Run

USUAL = {
    "LANG": "C.UTF-8",
    "PYTHONPATH": str(ROOT),
    **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
}
"""The environment of the shared interpreter."""
OF_THE_INTERPRETER = ("LANG", "LC_", "PYTHON", "LD_")
"""Beginnings of the names of variables that an interpreter reads when it starts."""

terminal_module = "ikigai"
"""The module that a program in a terminal runs, where a test names none."""
own_interpreter = not hasattr(os, "pidfd_open")
"""True if programs start with an interpreter of their own."""


class Forked:
    """A run of the program, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid, self.returncode, self.control = pid, None, control
        self.returncode: int | None

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if (code := self._look(timeout)) is None:
            raise subprocess.TimeoutExpired("ikigai", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self.control], [], [], seconds)[0]:
            self.returncode = _number(self.control)
            self.control.close()
        return self.returncode


class Piped(Forked):
    """A run on pipes, with what tests use of such a `subprocess.Popen`. Surrogates stand for bytes that are no UTF-8.

    `stdin` is None for a run whose standard input is closed.
    """

    def __init__(self, forked: Forked, stdin: int | None, stdout: int, stderr: int) -> None:
        super().__init__(forked.pid, forked.control)
        self.stdin = None if stdin is None else _text(stdin, "w")
        self.stdout, self.stderr = _text(stdout), _text(stderr)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, input: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write the input, wait for the end, and return all that is still to be read; kill what takes longer."""
        with self.stdout, self.stderr, ThreadPoolExecutor(3) as pool:
            written = pool.submit(self._write, input)
            out, err = pool.submit(self.stdout.read), pool.submit(self.stderr.read)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            written.result()
            return out.result(), err.result()

    def _write(self, text: str) -> None:
        if self.stdin:
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(text)


def _text(descriptor: int, mode: str = "r") -> TextIO:
    return os.fdopen(descriptor, mode, encoding="utf-8", errors="surrogateescape")


def start(
    module: str,
    arguments: tuple[str, ...],
    streams: tuple[int, int, int],
    environment: Mapping[str, str],
    folder: Path,
    terminal: bool = False,
) -> Forked:
    """Start the program on these descriptors; with `terminal` the first becomes its controlling terminal."""
    os.umask(umask := os.umask(0))  # there is no other way to read it
    run = Run(module, arguments, dict(environment), str(folder), terminal, umask)
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as file:
        marshal.dump(tuple(run), file)
        file.flush()
        socket.send_fds(_server()[0], [b"."], [file.fileno(), *streams, theirs.fileno()])
    return Forked(_number(ours), ours)


def start_piped(
    module: str, arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path, typed: bool = False
) -> Piped:
    """Start the program without a terminal; its standard input is closed if nothing is to be `typed`."""
    (said, out), (complained, err) = os.pipe(), os.pipe()
    keyboard, to = os.pipe() if typed else (os.open(os.devnull, os.O_RDONLY), None)
    forked = start(module, arguments, (keyboard, out, err), environment, folder)
    for descriptor in (keyboard, out, err):
        os.close(descriptor)
    return Piped(forked, to, said, complained)


def shell_command(module: str = "ikigai") -> str:
    """Return the words by which a shell runs the program in a fork, or with its own interpreter where none can."""
    if own_interpreter:
        return shlex.join((sys.executable, "-m", module))
    client = Path(__file__).with_name("shell_command.py")
    settings = "\n".join(f"{name}={value}" for name, value in sorted(_settings(USUAL).items()))
    return shlex.join((sys.executable, "-I", "-S", str(client), address(), settings, module))


def address(*libraries: str) -> str:
    """Return the abstract address at which a shared interpreter takes runs, @ for its first character.

    With `libraries` it is one that has loaded these modules besides.
    """
    _server(*libraries)
    return _name(libraries).replace("\0", "@")


def _name(libraries: tuple[str, ...]) -> str:
    return f"\0ikigai-test-{'-'.join((str(os.getpid()), *libraries))}"


def shareable(environment: Mapping[str, str]) -> bool:
    """Return True if a fork can run a program with this environment."""
    return not own_interpreter and _settings(environment) == _settings(USUAL)


def capture(
    module: str, arguments: tuple[str, ...], input: str, environment: Mapping[str, str], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal to its end."""
    program = start_piped(module, arguments, environment, folder, typed=True)
    out, err = program.communicate(input, seconds)
    return subprocess.CompletedProcess((module, *arguments), program.wait(), out, err)


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_THE_INTERPRETER)}


def _number(control: socket.socket) -> int:
    data = control.recv(NUMBER.size)
    assert data, "the interpreter that programs are forked from has ended"
    return NUMBER.unpack(data)[0]


def children() -> list[psutil.Process]:
    """Return the running children of this process, without the interpreter that programs are forked from."""
    shared = {process.pid for _, process in _servers}
    found = (child for child in psutil.Process().children() if child.pid not in shared)
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


def end() -> None:
    """Wait for the end of the interpreters that programs are forked from."""
    for requests, process in _servers:
        requests.close()
        process.wait()
    _servers.clear()
    _server.cache_clear()


_servers: list[tuple[socket.socket, "subprocess.Popen[bytes]"]] = []


@cache
def _server(*libraries: str) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Return the socket that takes requests for forks, and the process behind it, which ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(_name(libraries))
        listening.listen()
        sockets = theirs.fileno(), listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", *libraries, *map(str, sockets)],
            pass_fds=sockets,
            stdin=subprocess.DEVNULL,
            env=USUAL,
            cwd=ROOT,
            start_new_session=True,
        )
    _servers.append((ours, process))
    return ours, process
