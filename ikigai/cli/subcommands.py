"""The commands beside the conversation: their parser, and what is behind most of them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app import export as exporting
from ikigai.app import search_results as finding
from ikigai.app import usage_report as reports
from ikigai.app.factories import make_pool, make_project, tightened
from ikigai.app.open_database import PREPARING, imported, locate_database, open_database
from ikigai.cli import completion as completions
from ikigai.cli import doctor
from ikigai.cli import help_pages as manual
from ikigai.cli.commands import agents as roster
from ikigai.cli.commands import login, psql
from ikigai.cli.commands import models as catalog
from ikigai.cli.commands import purge as purging
from ikigai.config import Config, describe, masked
from ikigai.core.commands.arguments import model_choice
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.system import paths
from ikigai.system.output import say, table
from ikigai.system.progress import progress, waiting

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease


def parser(before: argparse.ArgumentParser, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser of these commands; `before` and `common` hold the options that stand before and behind any of them."""
    made = argparse.ArgumentParser(prog="ikigai", allow_abbrev=False, parents=[before])
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    setup = commands.add_parser("setup", parents=[common], help="prepare database and model; asks nothing")
    setup.set_defaults(act=_setup)

    config = commands.add_parser("config", parents=[common], help="settings and where they come from")
    config.add_argument("what", nargs="?", choices=("show", "path", "init"), default="show", help="all values (show)")
    config.add_argument("--json", action="store_true", help="one object per setting")
    config.set_defaults(act=_config)

    login.add(commands, common)
    catalog.add(commands, common)

    reports.add_command(commands, common).set_defaults(act=_usage)
    roster.add_command(commands, common).set_defaults(act=_agents)
    history = finding.add_command(commands, common)
    history["search"].set_defaults(act=_search)
    history["list"].set_defaults(act=_list)
    history["show"].set_defaults(act=_show)
    history["export"].set_defaults(act=_export)
    history["import"].set_defaults(act=_import)
    history["recover"].set_defaults(act=_recover)

    doctor.add(commands, common)
    completions.add(commands, common)

    db = commands.add_parser("db", help="look after the database").add_subparsers(dest="what", required=True)
    status = db.add_parser("status", parents=[common], help="where it is, what is in it, how to connect")
    status.set_defaults(act=_status)
    migrate = db.add_parser("migrate", parents=[common], help="bring the schema up to date")
    migrate.set_defaults(act=_migrate)
    dump = db.add_parser("dump", parents=[common], help="write everything to a file")
    dump.add_argument("file", metavar="FILE|-", help="where to; - is the standard output")
    dump.set_defaults(act=_dump)
    restore = db.add_parser("restore", parents=[common], help="read a dump into an empty database")
    restore.add_argument("file", metavar="FILE", help="what `ikigai db dump` wrote")
    restore.set_defaults(act=_restore)
    psql.add(db, common)
    purging.add(db, common)
    manual.complete(made)
    return made


def parse(made: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments; those that are psql's stand in `rest`, in their order."""
    arguments, rest = made.parse_known_args(words)
    if rest and arguments.act is not psql.psql:
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.rest = rest
    return arguments


def run(config: Config, arguments: argparse.Namespace) -> int:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # stops what is under way, which then tidies up
    return asyncio.run(arguments.act(config, arguments)) or 0


# ── setup ──


async def _setup(config: Config, arguments: argparse.Namespace) -> int:
    """Each step in a line; a step that is done already says so. Fails when ikigai would not answer afterwards."""
    async with opened(config) as (lease, _):
        if lease:
            say(f"database   embedded PostgreSQL {lease.major}, {'made' if lease.initialised else 'ready'}")
        else:
            say(f"database   {masked(config.database.dsn or '') or 'as libpq finds it'}, ready")
    pool = make_pool(config)
    for provider, place in config.keys.items():
        variable = place.partition(" ")[2]
        say(f"key        {provider}: {f'in the environment ({variable})' if variable else 'stored by ikigai login'}")
    if not config.keys:
        say("key        none; ikigai login stores one")
    if not config.model and not pool.default_model(config.keys):
        with progress("model     ", "bytes") as told:
            await asyncio.to_thread(pool.fetch_local, told)
        say(f"model      {pool.local_model()}: fetched")
    chosen = config.model or pool.default_model(config.keys)
    model, level = (str(model_choice(chosen).get(key) or "") for key in ("model", "level"))
    pool.check(model, level)
    say(f"ready      {chosen} will answer. Start with: ikigai")
    return 0


# ── config ──


async def _config(config: Config, arguments: argparse.Namespace) -> int:
    file = Path(arguments.config) if arguments.config else paths.config_dir() / "config.toml"
    if arguments.what == "show":
        project = make_project()
        project.look()
        config, _ = tightened(config, project)
    match arguments.what:
        case "path":
            say(str(file))
        case "init":
            _write_example(file)
            say(f"{file} written; every key in it stands at its default.")
        case _ if arguments.json:
            for key, value, origin in describe(config):
                say(json.dumps({"key": key, "value": value, "origin": origin}, ensure_ascii=False))
        case _:
            say(table(describe(config)))
    return 0


def _write_example(file: Path) -> None:
    paths.private(file.parent)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(paths.shipped("config.example.toml").read_text(encoding="utf-8"))
    except FileExistsError:
        raise ConfigError(f"{file} is there already.", "Edit it, or move it away first.") from None
    except OSError as error:
        raise IkigaiError(f"{file} cannot be written: {error.strerror}.", "Check the folder's permissions.") from None


# ── usage ──


async def _usage(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.plots import command as pictures

    picture = pictures.flagged(arguments)
    async with opened(config, write=False) as (_, database):
        if picture.plot:
            await pictures.run(database, config, arguments, picture)
        if not picture.plot or arguments.json:
            say(await reports.usage(database, arguments))
    return 0


# ── agents ──


async def _agents(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config, write=roster.writes(arguments)) as (_, database):
        say(await roster.run(database, arguments))
    return 0


# ── history ──


async def _search(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config) as (_, database):  # to write: what is not indexed yet is indexed first
        say(await finding.search(database, arguments), painted=not arguments.json)
    return 0


async def _list(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config, write=False) as (_, database):
        say(await finding.listed(database, arguments))
    return 0


async def _show(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config, write=False) as (_, database):
        say(await finding.shown(database, arguments))
    return 0


async def _export(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config, write=False) as (_, database):
        if told := await exporting.run_export(database, arguments):
            say(told)
    return 0


async def _import(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.redaction import Redaction

    async with opened(config) as (_, database):
        own = Redaction(config, lambda: database.passwords).redactor().own
        say(await exporting.run_import(database, arguments, own))
    return 0


async def _recover(config: Config, arguments: argparse.Namespace) -> int:
    module = await imported("ikigai.app.unsaved_events")
    async with opened(config) as (_, database):
        say(await module.run_recover(database, arguments))
    return 0


# ── db ──


async def _status(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config, write=False) as (lease, database):
        status = await database.status()
    kind = "embedded, " if lease else ""
    rows = (
        ("server", f"{kind}PostgreSQL {status.server} {status.where}"),
        ("database", f"{status.database}, schema {status.schema}, as {status.user}"),
        ("version", f"schema {status.schema_version}"),
        ("holds", f"{status.agents:,} agents, {status.events:,} events"),
        ("size", f"{status.size / 1e6:,.1f} MB, the log {status.messages_size / 1e6:,.1f} MB"),
        ("extensions", ", ".join(status.extensions) or "none"),
        ("durable", "yes" if status.durable else "no: fsync or synchronous_commit is off on this server"),
        ("connect", f'psql "{masked(lease.dsn if lease else config.database.dsn or "")}"'),
    )
    say("\n".join(f"{name:<11}{value}" for name, value in rows))
    return 0


async def _migrate(config: Config, arguments: argparse.Namespace) -> int:
    async with opened(config) as (_, database):
        say(f"The schema is at version {database.schema_version}, which is this program's.")
    return 0


async def _dump(config: Config, arguments: argparse.Namespace) -> int:
    target = None if arguments.file == "-" else Path(arguments.file)
    if target is None and sys.stdout.isatty():
        raise ConfigError("A dump is no text for a terminal.", "Name a file, or redirect the output.")
    module = await imported("ikigai.store.dump")
    async with located(config) as (dsn, binaries):
        with progress("Dumping", "bytes", target is not None) as told:
            await module.dump(dsn, binaries, target, told)
    if target:
        say(f"{target} holds everything. `ikigai db restore {target}` reads it into an empty database.")
    return 0


async def _restore(config: Config, arguments: argparse.Namespace) -> int:
    module = await imported("ikigai.store.dump")
    async with located(config) as (dsn, binaries):
        with progress("Restoring", "bytes") as told:
            events = await module.restore(dsn, binaries, Path(arguments.file), paths.shipped("migrations"), told)
    say(f"{events:,} events restored.")
    return 0


@contextlib.asynccontextmanager
async def opened(config: Config, write: bool = True) -> AsyncIterator[tuple[Lease | None, Database]]:
    """The database of this configuration, for as long as the block runs."""
    async with waiting(PREPARING) as told:
        lease, database = await open_database(config, write, told)
    try:
        yield lease, database
    finally:
        await database.close()
        if lease:
            lease.close()


@contextlib.asynccontextmanager
async def located(config: Config) -> AsyncIterator[tuple[str, Path | None]]:
    """The DSN, and the folder of PostgreSQL's own programs: the embedded ones, or None for those on the PATH."""
    async with waiting(PREPARING):
        lease, dsn = await locate_database(config)
    try:
        embedded = await imported("ikigai.store.embedded.server") if lease else None
        yield dsn, embedded.binaries() if embedded else None
    finally:
        if lease:
            lease.close()
