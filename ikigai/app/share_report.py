"""This module implements sharing agents with other users, for the terminal and `ikigai agents share`."""

from __future__ import annotations

import shlex
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
    reach = await database.sharing.share(agent, request.user, request.level, command)
    if request.level == "none":
        again = ShareRequest(name, user).as_line(command)
        return f"{name} is not shared with {user} any more. To share it again: {again}"
    may = "read and continue" if request.level == "write" else "read"
    when = "now" if reach.has_rights else f"once {user} has the rights of a user"
    lines = [f"{user} may {may} {name} {when}. To end that: {ShareRequest(name, user, 'none').as_line(command)}"]
    if not reach.has_rights:
        lines.append(f"To give these rights: ikigai db users add {shlex.quote(user)}")
    if reach.has_same_login:
        lines.append(
            f"{user} has your login of the database, which keeps nothing from {user}: this only lists {name} there."
        )
    if reach.members:
        one = ShareRequest(name, clean_line(reach.members[0]), request.level).as_line(command)
        lines.append(f"The members of {user} log in as themselves and get nothing by it. To share with one: {one}")
    return "\n".join(lines)


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
