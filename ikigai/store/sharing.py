"""This module shares agents with others: it stores who may use an agent, and lists it."""

from typing import Literal, TypeAlias

from ikigai.core.errors import Rejected
from ikigai.core.record import Record
from ikigai.core.sanitize import storable
from ikigai.store.agents import Agent
from ikigai.store.conflicts import repeat_on_conflict
from ikigai.store.connection import DatabaseSession
from ikigai.store.sql import shares

ShareLevel: TypeAlias = Literal["read", "write", "none"]


class Share(Record, frozen=True):
    """An agent that `owner` shares with `user`; `owner` is "" for the user of this program. `may_write` says that the
    user may continue it, too.
    """

    agent: str
    agent_id: str
    owner: str
    user: str
    may_write: bool


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
    async def share(self, agent: Agent, user: str, level: ShareLevel, command: str = "/share") -> bool:
        """Share the agent with a user, or end that; return True if the user has the same login of the database, so
        that the database cannot tell the two apart.

        Raise Rejected, with the `command` that lists the shares.
        """
        async with self._session.use() as cursor:
            await cursor.execute(shares.SHARE, (agent.id, storable(user), level))
            ((result,),) = await cursor.fetchall()
        match result:
            case "done" | "same login":
                return result == "same login"
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
