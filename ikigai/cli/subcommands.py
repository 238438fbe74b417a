"""Parse and run the subcommands; most of them are a few lines."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ikigai.app.history import export, search_results
from ikigai.app.json_records.installation_records import DatabaseRecord
from ikigai.app.json_records.json_output import print_answer
from ikigai.app.json_records.outcome_records import DoneRecord
from ikigai.app.json_records.record_fields import record_of
from ikigai.app.run.open_database import PREPARING_DATABASE, import_module, locate_database, opened_database
from ikigai.app.usage import usage_report
from ikigai.cli import completion, doctor, help_pages
from ikigai.cli.commands import (
    agents,
    configuration,
    database_users,
    login,
    models,
    plugin_commands,
    psql,
    purge,
    server_commands,
    setup,
    skill_commands,
)
from ikigai.config import Config, mask_passwords
from ikigai.core.errors import BadDatabase, ConfigError
from ikigai.system import paths
from ikigai.system.output import print_lines
from ikigai.system.progress import show_progress, show_waiting


def build_parser(before: argparse.ArgumentParser, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of the subcommands; `before` and `common` hold the options before and after their names."""
    parser = help_pages.make_parser(prog="ikigai", parents=[before])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    setup.add(commands, common)
    configuration.add(commands, common)
    login.add(commands, common)
    models.add(commands, common)
    server_commands.add(commands, common)
    skill_commands.add(commands, common)
    plugin_commands.add(commands, common)

    usage_report.add_command(commands, common).set_defaults(act=_usage)
    agents.add_command(commands, common).set_defaults(act=_agents)
    history = search_results.add_command(commands, common)
    history["search"].set_defaults(act=_search)
    history["recall"].set_defaults(act=_recall)
    history["list"].set_defaults(act=_list)
    history["show"].set_defaults(act=_show)
    history["export"].set_defaults(act=_export)
    history["import"].set_defaults(act=_import)
    history["recover"].set_defaults(act=_recover)

    doctor.add(commands, common)
    completion.add(commands, common)

    db = commands.add_parser("db", help="manage the database").add_subparsers(dest="what", required=True)
    status = db.add_parser("status", parents=[common], help="show its place, contents and connection")
    status.set_defaults(act=_status)
    migrate = db.add_parser("migrate", parents=[common], help="make the schema where there is none")
    migrate.set_defaults(act=_migrate)
    for each in (status, migrate):
        each.add_argument("--json", action="store_true", help="one object")
    dump = db.add_parser("dump", parents=[common], help="write everything to a file")
    dump.add_argument("file", metavar="FILE|-", help="the file to write; - is the standard output")
    dump.add_argument("--force", action="store_true", help="overwrite an existing file")
    dump.set_defaults(act=_dump)
    restore = db.add_parser("restore", parents=[common], help="read a dump into an empty database")
    restore.add_argument("file", metavar="FILE", help="a file that `ikigai db dump` wrote")
    restore.set_defaults(act=_restore)
    database_users.add(db, common)
    psql.add(db, common)
    purge.add(db, common)
    return parser


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments, with psql's in `rest` in their order.

    An empty option is refused: a script has one where its variable is not set, and means no other agent or database.
    """
    arguments, rest = parser.parse_known_args(words)
    if rest and arguments.act is not psql.run_psql:
        _chosen_parser(parser, arguments).error(f"unrecognized arguments: {' '.join(rest)}")
    for before, word in itertools.pairwise(words if arguments.act is not psql.run_psql else ()):
        option = word.removesuffix("=") if word else before
        if option.startswith("--") and (not word or word.endswith("=")) and option not in ("--", "--match"):
            _chosen_parser(parser, arguments).error(f"argument {option}: expected a value, not an empty one")
    arguments.rest = rest
    return arguments


def _chosen_parser(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the command that the arguments name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and (name := getattr(arguments, action.dest)):
            return _chosen_parser(action.choices[name], arguments)
    return parser


def run(config: Config, arguments: argparse.Namespace) -> int:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # stops the running work, which then tidies up
    return asyncio.run(arguments.act(config, arguments)) or 0


async def _usage(config: Config, arguments: argparse.Namespace) -> None:
    from ikigai.app.plots import command

    usage_report.check_flags(arguments)
    async with opened_database(config, write=False) as (_, database):
        if arguments.plot:
            await command.run(database, config, arguments)
        else:
            print_answer(await usage_report.report_usage(database, arguments))


# ── agents ──


async def _agents(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=agents.is_writing(arguments)) as (_, database):
        print_answer(await agents.run(database, arguments))


# ── history ──


async def _search(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config) as (_, database):  # to write: what is not indexed yet is indexed first
        answer = await search_results.search(database, arguments)
        print_lines(answer, painted=True) if isinstance(answer, str) else print_answer(answer)


async def _recall(config: Config, arguments: argparse.Namespace) -> None:
    from ikigai.app.history.recall_commands import print_recall

    async with opened_database(config) as (_, database):  # to write: what is not indexed yet is indexed first
        answer = await print_recall(database, arguments)
        print_lines(answer) if isinstance(answer, str) else print_answer(answer)


async def _list(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=False) as (_, database):
        print_answer(await search_results.list_events(database, arguments))


async def _show(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=False) as (_, database):
        print_answer(await search_results.show_event(database, arguments))


async def _export(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=False) as (_, database):
        if summary := await export.run_export(database, arguments):
            print_lines(summary)


async def _import(config: Config, arguments: argparse.Namespace) -> None:
    from ikigai.app.tools.redaction_keys import Redaction

    async with opened_database(config) as (_, database):
        await import_module("ikigai.app.history.history_import")
        from ikigai.app.history.history_import import run_import

        own = Redaction(config, lambda: database.passwords).redactor().own
        print_lines(await run_import(database, arguments, own))


async def _recover(config: Config, arguments: argparse.Namespace) -> None:
    await import_module("ikigai.app.unsaved.unsaved_events")
    from ikigai.app.unsaved.unsaved_events import run_recover

    async with opened_database(config) as (_, database):
        print_lines(await run_recover(database, arguments))


# ── db ──


def _index_progress(behind: int, events: int) -> str:
    """Return how far the index of words is; `events` may be an estimate."""
    if not behind:
        return "complete"
    share = 100 * max(0, events - behind) // max(1, events)
    return f"{share} % filled, {_count(behind, 'event')} to go; it grows while ikigai is open"


async def _status(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=False) as (lease, database):
        from ikigai.store.schema.schema import SCHEMA_VERSION

        status = await database.status()
    connect = f'psql "{mask_passwords(lease.dsn if lease else config.database.dsn or "")}"'
    if arguments.json:
        embedded, log_size = lease is not None, status.messages_size
        more = {"embedded": embedded, "program_version": SCHEMA_VERSION, "log_size": log_size, "connect": connect}
        print_answer(record_of(DatabaseRecord, status, **more))
        return
    kind = "embedded, " if lease else ""
    other = f"; this ikigai has {SCHEMA_VERSION}" * (status.schema_version != SCHEMA_VERSION)
    rows = (
        ("server", f"{kind}PostgreSQL {status.server} {status.where}"),
        ("database", f"{status.database}, schema {status.schema}, as {status.user}"),
        ("version", f"schema {status.schema_version}{other}"),
        ("holds", status.holds),
        ("size", f"{status.size / 1e6:,.1f} MB, the log {status.messages_size / 1e6:,.1f} MB"),
        ("index", _index_progress(status.index_behind, status.events)),
        ("extensions", ", ".join(status.extensions) or "none"),
        ("durable", "yes" if status.durable else "no: fsync or synchronous_commit is off on this server"),
        ("connect", connect),
    )
    print_lines("\n".join(f"{name:<11}{value}" for name, value in rows))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


async def _migrate(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config) as (_, database):
        version, before = database.schema_version, database.version_before
    made = "was made" if before != version else "is there already"
    text = f"The schema {config.database.schema} {made}, with number {version}."
    print_answer(DoneRecord(did="migrate", text=text) if arguments.json else text)


async def _dump(config: Config, arguments: argparse.Namespace) -> None:
    target = None if arguments.file == "-" else Path(arguments.file)
    if target is None and sys.stdout.isatty():
        raise ConfigError("A dump is not printed to a terminal.", "Name a file, or redirect the output.")
    await import_module("ikigai.store.transfer.dump")
    from ikigai.store.transfer.dump import dump

    async with locate_server(config) as (dsn, binaries):
        with show_progress("Dumping", "bytes", target is not None) as on_progress:
            schema, force = config.database.schema, arguments.force
            await dump(dsn, binaries, target, on_progress, schema_name=schema, replace=force)
    if target:
        print_lines(
            f"Everything was written to {target}. `ikigai db restore {target}` reads it into an empty database."
        )


async def _restore(config: Config, arguments: argparse.Namespace) -> None:
    await import_module("ikigai.store.transfer.dump")
    from ikigai.store.transfer.dump import restore

    async with locate_server(config) as (dsn, binaries):
        with show_progress("Restoring", "bytes") as on_progress:
            events = await restore(
                dsn, binaries, Path(arguments.file), paths.shipped_path("migrations"), on_progress,
                schema_name=config.database.schema,
            )  # fmt: skip
    print_lines(f"{events:,} events restored.")


async def _embedded_binaries() -> Path | None:
    """Return the folder of the embedded programs, also where another server is used; None if they are missing."""
    await import_module("ikigai.store.embedded.server")
    from ikigai.store.embedded.server import find_binaries

    try:
        return find_binaries()
    except BadDatabase:
        return None


@contextlib.asynccontextmanager
async def locate_server(config: Config) -> AsyncIterator[tuple[str, Path | None]]:
    """Yield the DSN and the folder of the embedded programs of PostgreSQL, or None."""
    async with show_waiting(PREPARING_DATABASE):
        lease, dsn = await locate_database(config)
    try:
        yield dsn, await _embedded_binaries()
    finally:
        if lease:
            lease.close()
