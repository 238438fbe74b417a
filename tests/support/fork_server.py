"""Run a Python interpreter with the program and its libraries loaded, which forks for each run of the program.

A start of the program spends nine tenths of its CPU time in imports. Here they are paid once per test process: each run
is a fork of an interpreter that has imported what most runs need. From there on the run is a real one: its own process,
environment, working directory, streams and terminal. At its end Python would take all modules apart, and so copy the
memory that the forks share, which costs as much as the run; that alone is left out. No module may read the environment
while it is loaded here: it would belong to another run. Tests with the mark `own_interpreter` and long ones start
without.

A message on the socket is one run: a file with its marshaled `Run`, its three streams, and another socket. That
receives the process id and, when the process has ended, its exit code. Each connection to the second socket brings one
such message, from `shell_command`.
"""

import argparse
import atexit
import fcntl
import gc
import gettext
import marshal
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

LIBRARIES = (
    "anyio._backends._asyncio", "asyncio", "concurrent.futures.thread", "difflib", "encodings.utf_8_sig",
    "html.entities", "httpcore2._async", "httpcore2._backends.auto", "httpx2", "markdown_it", "msgspec.json",
    "openai", "prompt_toolkit", "prompt_toolkit.input.vt100", "prompt_toolkit.key_binding.bindings.search",
    "psycopg", "pygments.lexers", "rich.markdown", "rich.rule", "truststore",
)  # fmt: skip
PROGRAM = (
    "ikigai.agent.request.prompt_cache", "ikigai.app.agents.agent_manager", "ikigai.app.agents.agent_services",
    "ikigai.app.attachments.pasted_pictures", "ikigai.app.commands.own_commands", "ikigai.app.run.open_database",
    "ikigai.app.run.services", "ikigai.app.run.setting_changes", "ikigai.app.run.surroundings",
    "ikigai.app.tools.build_tools", "ikigai.app.tools.redaction_keys", "ikigai.app.tools.tool_runtime",
    "ikigai.cli.main", "ikigai.cli.subcommands", "ikigai.config.extra_fields", "ikigai.core.commands.command_help",
    "ikigai.core.commands.mentions", "ikigai.core.request.default_prompt", "ikigai.core.search.fuzzy",
    "ikigai.core.search.recall_choice", "ikigai.core.secrets.token_search", "ikigai.core.state.prompt_prefix",
    "ikigai.headless.print_mode", "ikigai.providers.local.weights", "ikigai.providers.models.prices",
    "ikigai.providers.openai.provider", "ikigai.repl.cold_cache", "ikigai.repl.drafts.draft_files",
    "ikigai.repl.exit_message", "ikigai.repl.input.recall_suggestions", "ikigai.repl.opening", "ikigai.repl.repl",
    "ikigai.repl.welcome", "ikigai.store.connection.connection_watch", "ikigai.store.database",
    "ikigai.store.log.healing", "ikigai.store.log.unsaved_place", "ikigai.store.purge.ephemeral",
    "ikigai.store.search.search", "ikigai.store.sql.transfer", "ikigai.terminal.background_color",
    "ikigai.terminal.notifications", "ikigai.terminal.output.prompt_marks", "ikigai.terminal.render.markdown_elements",
    "ikigai.terminal.screen", "ikigai.tools.approval.gate",
)  # fmt: skip
NUMBER = struct.Struct("i")


class Run(NamedTuple):
    """One run: the module, its arguments, and the process around it; `terminal` is True if standard input is one."""

    module: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    terminal: bool
    umask: int = 0o022


def serve(requests: socket.socket, connections: socket.socket) -> Run:
    """Fork for each request until the socket is closed, which ends this process; return the run in each fork."""
    selector = selectors.PollSelector()  # has no descriptor, which a fork would share
    for source in (requests, connections):
        selector.register(source, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj in (requests, connections):
                source = connections.accept()[0] if key.fileobj is connections else requests
                message, descriptors, *_ = socket.recv_fds(source, 1, 5)
                if source is not requests:
                    source.close()
                elif not message:
                    sys.exit()
                if not message:
                    continue
                described, *streams, control = descriptors
                if not (pid := os.fork()):
                    requests.detach()
                    connections.detach()
                    return _become(_described(described), streams)
                _tell(control, pid)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, control))
                for descriptor in (described, *streams):
                    os.close(descriptor)
            else:
                selector.unregister(key.fd)
                pid, control = key.data
                _tell(control, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(control)
                os.close(key.fd)


def _described(file: int) -> Run:
    os.lseek(file, 0, os.SEEK_SET)
    with os.fdopen(file, "rb") as opened:
        return Run(*marshal.load(opened))


def _tell(control: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the test is over
        os.write(control, NUMBER.pack(number))


def _become(run: Run, streams: list[int]) -> Run:
    """Make this process what the start of a program would have made it."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    if run.terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(run.folder)
    os.umask(run.umask)
    os.environ.clear()
    os.environ.update(run.environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin, "rb")
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout, "wb")
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr, "wb")
    sys.path[0] = os.getcwd()
    sys.argv[1:] = run.arguments
    return run


def _stream(number: int, before: TextIO, mode: str) -> TextIO:
    """Return the stream as the interpreter makes it when it starts."""
    opened = open(number, mode, closefd=False)  # noqa: SIM115
    by_line = number == 2 or opened.isatty()
    return TextIOWrapper(opened, before.encoding, before.errors, newline="\n", line_buffering=by_line)  # type: ignore[type-var]


def _end(code: int) -> None:
    """End the process as Python does, but leave the modules as they are; return if a stream cannot be written."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def compute_once() -> None:
    """Fill the caches of what is the same in each run: regular expressions, decoders of records, the driver's library.

    Half of the time of a subcommand went into its parsers, which are made here, and into files of translations that
    argparse looked for at each word: forks have the same locale.
    """
    import psycopg

    from ikigai.cli import run_options, subcommands
    from ikigai.config import load
    from ikigai.core.text.sanitize import Cleaner, clean, clean_line
    from ikigai.store.connection import sqlstate
    from ikigai.terminal.render.markdown import render

    gettext.find = cache(gettext.find)
    load(Path(os.devnull), {}, {})
    run_options.run_parser().parse_intermixed_args(["-p", "a message"])
    common = run_options.common_options(argparse.SUPPRESS)  # as in main: it keeps the options before the name
    parser = subcommands.build_parser(run_options.common_options(), common)
    subcommands.parse(parser, ["agents"])

    def parser_of(before: argparse.ArgumentParser, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
        assert common.argument_default == argparse.SUPPRESS, "options after the name leave those before it"
        return parser

    subcommands.build_parser = parser_of
    render("# One\n\nTwo **three** `four`.\n", 80, color=True)
    for text in ("\x1b[1m", "\x1b[1mé\u200d"):
        clean_line(clean(text))
        Cleaner().feed(text)
    Cleaner().flush()
    with suppress(psycopg.OperationalError):  # no server is there, but its libraries are loaded
        next(sqlstate.connect(f"host={os.devnull}"))


class _Unread(dict[str, str]):
    """The environment of the shared interpreter, which no module of the program may read while it is loaded."""

    def _refuse(self, *arguments: object) -> NoReturn:
        raise AssertionError("a module reads the environment while it is loaded")

    __getitem__ = get = __contains__ = __iter__ = keys = items = values = copy = _refuse  # type: ignore[assignment]


@contextmanager
def _unread_environment() -> Iterator[None]:
    environment, os.environ = os.environ, _Unread()  # type: ignore[assignment]
    try:
        yield
    finally:
        os.environ = environment  # noqa: B003  (it is only put back)


def main() -> None:
    connections, requests = (socket.socket(fileno=int(sys.argv.pop())) for _ in range(2))
    for name in (*LIBRARIES, *sys.argv[1:]):
        import_module(name)
    with _unread_environment():
        for name in PROGRAM:
            import_module(name)
    compute_once()
    assert threading.active_count() == 1
    gc.freeze()  # collections of the runs are not to touch, and so copy, what they share
    run = serve(requests, connections)
    try:
        runpy.run_module(run.module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            _end(ended.code or 0)
        raise


if __name__ == "__main__":
    main()
