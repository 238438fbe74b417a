"""This module keeps the sums of the usage ledger, by day, agent and model and over all of these, behind the log."""

from uuid import UUID

from ikigai.store.driver_connection import Cursor
from ikigai.store.sql import summed_usage

USAGE_LOCK = int.from_bytes(b"ikus")
"""Key of the advisory lock under which one process at a time adds up."""
STEP_REQUESTS = 2_000
"""Requests that one step adds up, at most."""


class UsageSums:
    """The sums as an index of the log: a step adds up the next requests of one agent."""

    progress = summed_usage.USAGE_PROGRESS

    async def take(self, cursor: Cursor, agent: UUID) -> int:
        """Add up the next requests of an agent; return how many events the sums are further then."""
        await cursor.execute(summed_usage.TRY_LOCK, (USAGE_LOCK,))
        if await cursor.fetchall() != [(True,)]:
            return 0
        await cursor.execute(self.progress.begin, (agent,))
        await cursor.execute(summed_usage.TAKE, (agent,))
        for seq, after in await cursor.fetchall():
            which = {"agent": agent, "after": after, "requests": STEP_REQUESTS}
            await cursor.execute(summed_usage.STRETCH_END, which, prepare=False)
            for last, upto in await cursor.fetchall():
                await cursor.execute(summed_usage.ADD, {"agent": agent, "after": after, "upto": upto}, prepare=False)
                await cursor.execute(summed_usage.SET, (last, upto, agent))
                return last - seq
        return 0
