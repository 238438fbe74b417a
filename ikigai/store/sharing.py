"""This module shares agents with others: it stores who may use an agent, and lists it."""

from typing import Literal, TypeAlias

from ikigai.core.commands.parsers import ShareRequest
from ikigai.core.errors import Rejected
from ikigai.core.record import Record
from ikigai.core.sanitize import storable
from ikigai.store.agents import Agent
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.sql import shares

ShareLevel: TypeAlias = Literal["read", "write", "none"]
MAX_MEMBERS = 5
"""Members of a role that a message names."""


class Share(Record, frozen=True):
    """An agent that `owner` shares with `user`; `owner` is "" for the user of this program. `may_write` says that the
    user may continue it, too.
    """

    agent: str
    agent_id: str
    owner: str
    user: str
    may_write: bool


class ShareReach(Record, frozen=True):
    """The users that a share reaches. `has_same_login` says that the user has the same login of the database, so that
    the database cannot tell the two apart; `has_rights` that the role may use the tables. `members` of the role log in
    as themselves, so the share gives them nothing.
    """

    has_same_login: bool = False
    has_rights: bool = True
    members: tuple[str, ...] = ()


class Sharing:
    """The shares of a database. Made by `Database`."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def all(self) -> list[Share]:
        """Return the shares of one's own agents, and of others' agents with oneself."""
        async with self._session.use() as cursor:
            await cursor.execute(shares.SHARES)
            return [Share(*row) for row in await cursor.fetchall()]

    @repeat_on_conflict
    async def share(self, agent: Agent, user: str, level: ShareLevel, command: str = "/share") -> ShareReach:
        """Share the agent with a user, or end that.

        Raise Rejected, with the `command` that lists the shares.
        """
        reach = ShareReach()
        async with self._session.use() as cursor:
            if level != "none":
                await cursor.execute(shares.REACH, (storable(user),))
                for can_log_in, has_rights, members in await cursor.fetchall():
                    if not can_log_in:
                        raise _refused_group(agent, user, level, members, command)
                    reach = ShareReach(has_rights=has_rights, members=tuple(members))
            await cursor.execute(shares.SHARE, (agent.id, storable(user), level))
            ((result,),) = await cursor.fetchall()
        match result:
            case "done":
                return reach
            case "same login":
                return ShareReach(has_same_login=True)
            case "not yours":
                raise Rejected(
                    f"{agent.name} belongs to {agent.owner or 'another user'}.", "Only its owner can share it."
                )
            case "past of others":
                raise Rejected(
                    f"The past of {agent.name} belongs to another user, and {user} may not read it.",
                    "Its owner can share the agent that was forked.",
                )
            case "subagent":
                raise Rejected(
                    f"{agent.name} is a subagent.",
                    "Share the agent that it works for, and with it this one.",
                )
            case "own":
                raise Rejected(f"{agent.name} belongs to {user} already.", "Nothing was changed.")
            case "not shared":
                raise Rejected(f"{agent.name} is not shared with {user}.", f"`{command}` lists the shares.")
            case _:
                raise Rejected(
                    f"There is no user {user!r} in this database.",
                    "`ikigai db users list` shows the users, `ikigai db users add` makes one.",
                )


def _refused_group(agent: Agent, user: str, level: ShareLevel, members: list[str], command: str) -> Rejected:
    """Return the error for a role that has members and no login, with the commands that share with the members."""
    if not members:
        return Rejected(f"{user} is a role that no user logs in as.", "`ikigai db users list` shows the users.")
    lines = [f"`{ShareRequest(agent.name, member, level).as_line(command)}`" for member in members[:MAX_MEMBERS]]
    more = f", and {len(members) - MAX_MEMBERS:,} more" if len(members) > MAX_MEMBERS else ""
    return Rejected(f"{user} is a role that no user logs in as.", f"Share with its members: {', '.join(lines)}{more}.")
