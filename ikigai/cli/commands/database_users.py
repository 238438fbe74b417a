"""Carry out `ikigai db users`: add, list and remove the roles of people and their schemas."""

from __future__ import annotations

import argparse
import getpass
import secrets
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ikigai.app.run.open_database import import_module
from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import format_table, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ikigai.config import Config
    from ikigai.store.connection.address import ServerAddress
    from ikigai.store.schema.users import SchemaSummary, Users

PASSWORD_BYTES = 18
"""Random bytes of a password that is made here."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    actions = commands.add_parser("users", help="roles, and the schemas that they use").add_subparsers(
        dest="action", required=True
    )

    def action(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, parents=[common], help=help)
        made.set_defaults(act=run)
        return made

    action("add", _add, "make a role with a schema of its own").add_argument(
        "name", metavar="NAME", help="the name of the role and of its schema"
    )
    shared = action("add-shared", _add_shared, "make a schema that several roles use")
    shared.add_argument("name", metavar="NAME", help="the name of the schema")
    shared.add_argument("roles", metavar="ROLE", nargs="+", help="the roles that use it")
    action("list", _list, "list the schemas, and the roles that use them")
    remove = action("remove", _remove, "remove a schema and its role")
    remove.add_argument("name", metavar="NAME", help="the name of the role and of its schema")
    end = remove.add_mutually_exclusive_group()
    end.add_argument("--give-to", default="", metavar="ROLE", help="who gets its conversations")
    end.add_argument("--delete", action="store_true", help="delete its conversations")
    end.add_argument("--from", default="", dest="shared", metavar="SCHEMA", help="only take it out of a shared schema")


@asynccontextmanager
async def _users(config: Config) -> AsyncIterator[tuple[Users, ServerAddress]]:
    """Yield the users of the configured server, and its address. No schema of ikigai is needed there, nor made."""
    if config.database.dsn is None:
        raise Rejected(
            "This is ikigai's own server, which only you can reach.",
            "Name a server that all users reach: url under [database].",
        )
    await import_module("ikigai.store.schema.users")
    from ikigai.store.connection.connection import DatabaseSession
    from ikigai.store.schema.users import Users

    session = DatabaseSession(config.database.dsn, schema="pg_catalog")  # which has no tables of ikigai
    try:
        yield Users(session), session.place
    finally:
        await session.close()


async def _add(config: Config, arguments: argparse.Namespace) -> None:
    name = arguments.name
    async with _users(config) as (users, place):
        is_new = not await users.exists(name)
        password, is_made = _read_password(name) if is_new else ("", False)
        is_made_now = await users.add(name, password)
    made = f"The role and its schema {name} were made." if is_new else f"The schema {name} was made."
    lines = added_text(name, place, password if is_made else "")
    print_lines(f"{made if is_made_now else f'{name} has its schema already.'}\n{lines}")


def _read_password(name: str) -> tuple[str, bool]:
    """Return the password for a new role, and True if it was made here: then it must be shown."""
    if sys.stdin.isatty():
        typed = getpass.getpass(f"Password for {clean_line(name)} (empty: one is made): ")
        if typed:
            if getpass.getpass("Once more: ") != typed:
                raise Rejected("The passwords differ.", "Nothing was changed; try again.")
            return typed, False
    return secrets.token_urlsafe(PASSWORD_BYTES), True


def added_text(name: str, place: ServerAddress, password: str) -> str:
    """Return the sentences about a new user. The address has no password: it may end up in a history of commands."""
    servers = place.servers if place.host and not place.host.startswith("/") else [f"HOST:{place.port}"]
    lines = [f"The password, which is shown only now: {password}"] if password else []
    address = f"postgresql://{name}@{','.join(servers)}/{quote(place.database, safe='')}"
    address += "?target_session_attrs=read-write" if len(servers) > 1 else ""
    lines += [f"For the configuration of {name}:", "", "[database]", f'url = "{address}"', f'schema = "{name}"', ""]
    lines += [f"and in ~/.pgpass (mode 0600): {server}:{place.database}:{name}:PASSWORD" for server in servers]
    return "\n".join(lines)


async def _add_shared(config: Config, arguments: argparse.Namespace) -> None:
    name, roles = arguments.name, list(dict.fromkeys(arguments.roles))
    async with _users(config) as (users, _):
        members = await users.add_shared(name, roles)
    print_lines(
        f"The schema {name} is for {_listed(members)}. Each of them can read, continue and purge every conversation in "
        f"it.\nTo use it: ikigai --schema {name}"
    )


def _listed(names: Sequence[str]) -> str:
    return clean_line(" and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names))


async def _list(config: Config, arguments: argparse.Namespace) -> None:
    async with _users(config) as (users, _):
        print_lines(_format_schemas(await users.list_schemas()))


def _format_schemas(schemas: Sequence[SchemaSummary]) -> str:
    if not schemas:
        return "There are no schemas of ikigai. To make one: ikigai db users add NAME"
    rows = [("schema", "used by", "log")]
    for each in schemas:
        users = ", ".join(each.roles) or "nobody"
        size = f"{each.size / 1e6:,.1f} MB" if each.size else "empty"
        rows.append((clean_line(each.schema), clean_line(users), size))
    return format_table(rows)


async def _remove(config: Config, arguments: argparse.Namespace) -> None:
    name, heir, shared = arguments.name, arguments.give_to, arguments.shared
    async with _users(config) as (users, _):
        if shared:
            await users.leave(name, shared)
            again = f"ikigai db users add-shared {shlex.quote(shared)} {shlex.quote(name)}"
            print_lines(f"{clean_line(name)} no longer uses the schema {clean_line(shared)}. To undo that: {again}")
            return
        is_dropped = await users.remove(name, heir, arguments.delete)
    where = f"The schema {name} belongs to {heir} now." if heir else f"The schema {name} was deleted."
    stays = "The role stays: it owns more, or ikigai did not make it."
    print_lines(f"{where} {'The role was dropped.' if is_dropped else stays}")
