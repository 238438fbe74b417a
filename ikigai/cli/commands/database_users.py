"""This module carries out `ikigai db users`: it adds, lists and removes the roles of people who share a database."""

from __future__ import annotations

import argparse
import getpass
import secrets
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ikigai.app.open_database import opened_database
from ikigai.core.errors import Rejected
from ikigai.core.sanitize import clean_line
from ikigai.system.output import format_table, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ikigai.config import Config
    from ikigai.store.address import ServerAddress
    from ikigai.store.users import UserSummary

PASSWORD_BYTES = 18
"""Random bytes of a password that is made here."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    actions = commands.add_parser("users", help="add, list and remove users of a shared database").add_subparsers(
        dest="action", required=True
    )
    new = actions.add_parser("add", parents=[common], help="make a role, and give it the rights to use agents")
    listed = actions.add_parser("list", parents=[common], help="list roles, and what they own")
    remove = actions.add_parser("remove", parents=[common], help="take these rights from a role")
    for each in (new, remove):
        each.add_argument("name", metavar="USER", help="the name of the role")
    remove.add_argument("--give-to", default="", metavar="USER", help="who gets its agents")
    for each, run in ((new, _add), (listed, _list), (remove, _remove)):
        each.set_defaults(act=run)


async def _add(config: Config, arguments: argparse.Namespace) -> None:
    name = arguments.name
    async with opened_database(config) as (lease, database):
        if lease:
            raise Rejected(
                "This is ikigai's own server, which only you can reach.",
                "Name a server that all users reach: url under [database].",
            )
        await database.users.check_owner(f"ikigai db users add {name}")
        is_new = not await database.users.exists(name)
        password, is_made = _read_password(name) if is_new else ("", False)
        await database.users.add(name, password)
        place = database.place
    print_lines(added_text(name, place, password if is_made else "", is_new))


def _read_password(name: str) -> tuple[str, bool]:
    """Return the password for a new role, and True if it was made here: then it must be shown."""
    if sys.stdin.isatty():
        typed = getpass.getpass(f"Password for {clean_line(name)} (empty: one is made): ")
        if typed:
            if getpass.getpass("Once more: ") != typed:
                raise Rejected("The passwords differ.", "Nothing was changed; try again.")
            return typed, False
    return secrets.token_urlsafe(PASSWORD_BYTES), True


def added_text(name: str, place: ServerAddress, password: str, is_new: bool) -> str:
    """Return the sentences about a new user. The address has no password: it may end up in a history of commands."""
    shown = clean_line(name)
    servers = place.servers if place.host and not place.host.startswith("/") else [f"HOST:{place.port}"]
    lines = [
        f"{shown} {'was made, and ' if is_new else ''}may use agents here. Only {shown}'s own and shared ones are seen."
    ]
    if password:
        lines.append(f"The password, which is shown only now: {password}")
    address = f"postgresql://{quote(name, safe='')}@{','.join(servers)}/{quote(place.database, safe='')}"
    address += "?target_session_attrs=read-write" if len(servers) > 1 else ""
    lines.append(f'For {shown}\'s configuration, under [database]: url = "{address}"')
    lines += [f"and in ~/.pgpass (mode 0600): {server}:{place.database}:{shown}:PASSWORD" for server in servers]
    return "\n".join(lines)


async def _list(config: Config, arguments: argparse.Namespace) -> None:
    async with opened_database(config, write=False) as (_, database):
        print_lines(_format_users(await database.users.all()))


def _format_users(users: Sequence[UserSummary]) -> str:
    rows = [("user", "agents", "shared with it", "last used", "")]
    notes = {"owner": "owns the tables: sees all", "user": "", "": "has no index: ikigai db users add"}
    for each in users:
        name = clean_line(each.role) + (f" ({clean_line(each.user)})" if each.user else "")
        used = "" if each.last_used_at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(each.last_used_at))
        rows.append((name, f"{each.agents:,}", f"{each.shared:,}", used or "-", notes[each.kind]))
    return format_table(rows)


async def _remove(config: Config, arguments: argparse.Namespace) -> None:
    name, heir = arguments.name, arguments.give_to
    async with opened_database(config) as (_, database):
        removed = await database.users.remove(name, heir)
    given = f" {heir} owns the {removed.given:,} agents now." if removed.given else ""
    role = "The role was dropped." if removed.dropped else "The role stays, without rights here."
    print_lines(f"{clean_line(name)} may not use agents here any more.{given} {role}")
