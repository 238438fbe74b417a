"""This module implements sharing agents with other users, for the terminal and `ikigai agents share`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.app.json_records.agent_records import ShareFields, SharesRecord
from ikigai.app.json_records.record_fields import record_of
from ikigai.core.commands.parsers import ShareRequest
from ikigai.core.sanitize import clean_line
from ikigai.system.output import format_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ikigai.store.database import Database
    from ikigai.store.sharing import Share


async def change_share(database: Database, request: ShareRequest, command: str = "/share") -> str:
    """Share an agent as requested, or end that; return the message, which names `command`. Raise Rejected."""
    agent = await database.agents.find(request.agent)
    name, user = clean_line(agent.name), clean_line(request.user)
    has_same_login = await database.sharing.share(agent, request.user, request.level, command)
    if request.level == "none":
        again = ShareRequest(name, user).as_line(command)
        return f"{name} is not shared with {user} any more. To share it again: {again}"
    may = "read and continue" if request.level == "write" else "read"
    message = f"{user} may {may} {name} now. To end that: {ShareRequest(name, user, 'none').as_line(command)}"
    if has_same_login:
        message += (
            f"\n{user} has your login of the database, which keeps nothing from {user}: this only lists {name} there."
        )
    return message


def format_shares(shares: Sequence[Share], command: str = "/share") -> str:
    """Return the shares as a table; without any, a message that names `command`."""
    if not shares:
        return f"No agents are shared. To share one: {command} NAME with USER [read|write]"
    rows = [("agent", "of", "with", "may")]
    for each in shares:
        owner = clean_line(each.owner) or "you"
        rows.append((clean_line(each.agent), owner, clean_line(each.user), "write" if each.may_write else "read"))
    return format_table(rows)


def shares_record(shares: Sequence[Share]) -> SharesRecord:
    """Return the shares as one JSON object."""
    fields = (record_of(ShareFields, each, owner=each.owner or None, write=each.may_write) for each in shares)
    return SharesRecord(shares=tuple(fields))
