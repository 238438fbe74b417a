"""The command `ikigai db psql`: psql on ikigai's database, or where that is not installed, a small reader of SQL."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ikigai.app.open_database import imported, open_database
from ikigai.cli import ask as questions
from ikigai.config import Config
from ikigai.core.errors import BadDatabase, ConfigError, IkigaiError, Refused
from ikigai.core.sanitize import clean_line
from ikigai.core.secrets import without_secrets
from ikigai.system.output import say, table

if TYPE_CHECKING:
    from ikigai.store.sql_shell import Answer, Shell

HELP = r"""SQL ends with a semicolon; nothing can be changed here.
\d        the tables and views
\d NAME   the columns of one of them
\q        leave"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; what it does not know itself is for psql, see `subcommands.parse`."""
    command = commands.add_parser(
        "psql",
        parents=[common],
        add_help=False,
        allow_abbrev=False,
        usage="ikigai db psql [psql's own options]",
        help="open psql, or what stands in for it, on the database",
        description=r"Open psql on ikigai's database; its options are passed on, for example -c 'select * from turns'. "
        r"Views: turns, transcript, agent_tree, filter_events, usage, usage_by_day, usage_by_model (\dv lists them). "
        "Where psql is not installed, a small reader takes its place, which changes nothing and knows only -c.",
    )
    command.add_argument("--help", action="help", help="show this")
    command.set_defaults(act=psql)


async def psql(config: Config, arguments: argparse.Namespace) -> int:
    # Whatever is wrong with the database is told in our words, not in psql's.
    lease, database = await open_database(config, write=False)
    try:
        await database.close()
        dsn = lease.dsn if lease else config.database.dsn or ""
        if not (program := await find()):
            return await _read(dsn, arguments.rest)
        programs, address = await imported("ikigai.store.pg_programs"), await imported("ikigai.store.address")
        where, password = programs.without_secrets(address.given(dsn))
        if not lease and not password and (theirs := os.environ.get("PGPASSWORD")):
            password = {"PGPASSWORD": theirs}
        command = [program, f"--dbname={where}", *arguments.rest]
        return await _run(command, without_secrets(os.environ) | password)
    finally:
        if lease:
            lease.close()


async def find() -> str | None:
    """psql: the one on the PATH, where lines can be edited, before the embedded one; None where there is none."""
    if found := shutil.which("psql"):
        return found
    embedded = await imported("ikigai.store.embedded.server")
    with contextlib.suppress(BadDatabase):
        return shutil.which("psql", path=str(embedded.binaries()))
    return None


async def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run it in this terminal to its end; its exit code. Keys such as Ctrl-C are its own, not ours."""
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        raise IkigaiError(
            f"{command[0]} cannot be run: {error.strerror}.", "Repair the installation of psql."
        ) from None
    with _signals_for(process):
        code = await process.wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _signals_for(process: asyncio.subprocess.Process) -> Iterator[None]:
    # A handler, however empty, is not inherited as SIG_IGN would be.
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)

    def passed_on(signum: int, _: object) -> None:
        if signum in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signum)

    before = {number: signal.signal(number, passed_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _read(dsn: str, arguments: Sequence[str]) -> int:
    """Take the place of psql; 1 when a statement that was not typed at the terminal failed."""
    module = await imported("ikigai.store.sql_shell")
    if [*arguments[::2]] != ["-c"] * (len(arguments) // 2):
        raise ConfigError("psql is not installed, and what stands in for it knows only -c.", "Install psql.")
    shell = module.Shell(dsn)
    try:
        if commands := arguments[1::2]:
            await _carry_out(shell, module, ";".join(commands) + ";")
        elif sys.stdin.isatty() and sys.stdout.isatty():
            await _converse(shell, module)
        else:
            await _carry_out(shell, module, sys.stdin.read() + "\n;")
    finally:
        await shell.close()
    return 0


async def _carry_out(shell: Shell, module: Any, text: str) -> None:
    done, rest = module.statements(text)
    for statement in done:
        await _tell(shell, statement)
    if rest:
        raise Refused("A quotation mark or a comment is open at the end of the input.", "Close it.")


async def _converse(shell: Shell, module: Any) -> None:
    say(f"psql is not installed; this stands in for it.\n{HELP}")
    text = ""
    while (line := questions.line("      > " if text else "ikigai> ")) is not None:
        if not text and line.strip() in (r"\q", "exit", "quit"):
            return
        if not text and line.lstrip().startswith("\\"):
            done = [line.strip()]
        else:
            done, text = module.statements(f"{text}\n{line}")
        for statement in done:
            try:
                await _tell(shell, statement)
            except Refused as refused:
                say(str(refused))


async def _tell(shell: Shell, statement: str) -> None:
    command, _, name = statement.partition(" ")
    if command in (r"\d", r"\dv", r"\dt"):
        say(shown(await (shell.columns(name.strip()) if name.strip() else shell.relations())))
    elif command.startswith("\\"):
        say(HELP)
    else:
        say(shown(await shell.run(statement)))


def shown(answer: Answer) -> str:
    """The answer as a table; what is left out of it is said."""
    if not answer.columns:
        return answer.status
    rows = [[clean_line(cell or "") for cell in row] for row in (answer.columns, *answer.rows)]
    lines = table([rows[0], ["-" * len(name) for name in rows[0]], *rows[1:]])
    rest = answer.total - len(answer.rows)
    more = f", {rest:,} of them not shown" if rest else ""
    return f"{lines}\n({answer.total:,} row{'' if answer.total == 1 else 's'}{more})"
