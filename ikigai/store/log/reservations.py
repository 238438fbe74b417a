"""Reserve the greatest cost of requests under way, in one transaction with the check against the caps."""

from collections.abc import Callable
from decimal import Decimal
from uuid import UUID

from ikigai.core.request.spending import CapScope, Money, ReservedAmount, SpendingQuery
from ikigai.store.connection.address import schema_number
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.connection.driver_connection import Cursor
from ikigai.store.log.write_lock import WRITE_LOCK, lock_key
from ikigai.store.sql import caps

SPENDING_LOCK = int.from_bytes(b"ikis")
"""The first number of the lock under which programs check their caps in turn; the second is the schema's."""


async def read_spent(
    session: DatabaseSession, cursor: Cursor, agent: UUID, query: SpendingQuery
) -> dict[CapScope, Money]:
    """Return what was spent and is reserved by other agents in each scope, of requests by this agent."""
    values = {
        "agent": agent,
        "turn": query.turn,
        "turns": query.turns,
        "agents": query.agents,
        "since": query.since,
        "write_lock": WRITE_LOCK,
    }
    await cursor.execute(caps.SPENT, values, prepare=False)
    ((turn_usd, turn_tokens, day_usd, day_tokens, agent_usd, agent_tokens),) = await cursor.fetchall()
    spent: dict[CapScope, Money] = {"day": _money(day_usd, day_tokens), "agent": _money(agent_usd, agent_tokens)}
    if query.turn is not None or turn_usd is not None:
        spent["turn"] = _money(turn_usd, turn_tokens)
    return spent


async def reserve(
    session: DatabaseSession,
    cursor: Cursor,
    agent: UUID,
    query: SpendingQuery,
    decide: Callable[[dict[CapScope, Money]], ReservedAmount | None],
) -> None:
    """Let `decide` check the sums, and store what it returns as all that this agent has under way, in one transaction.

    Nothing is stored if it returns None.
    """
    async with cursor.connection.transaction():
        await cursor.execute(caps.LOCK, (SPENDING_LOCK, schema_number(session.schema)))
        amount = decide(await read_spent(session, cursor, agent, query))
        if amount is not None:
            await write(session, cursor, agent, query.writer, amount)


async def write(session: DatabaseSession, cursor: Cursor, agent: UUID, writer: str, amount: ReservedAmount) -> None:
    """Store all that this agent has under way; nothing under way deletes its row."""
    if amount.most == Money():
        await cursor.execute(caps.RELEASE, (agent, UUID(writer)))
        return
    key, most, sent = lock_key(agent, session.schema), amount.most, amount.sent
    values = (
        agent,
        UUID(writer),
        key,
        amount.model,
        most.usd,
        most.tokens,
        sent.usd,
        sent.tokens,
        amount.output_usd,
    )
    await cursor.execute(caps.RESERVE, values)


async def read_left_behind(cursor: Cursor, agent: UUID, writer: str) -> tuple[str, Money] | None:
    """Return the model, and what a writer that died had sent of it, if there is such a reservation of this agent."""
    await cursor.execute(caps.LEFT_BEHIND, (agent, UUID(writer)))
    rows = await cursor.fetchall()
    return (rows[0][0], _money(*rows[0][1:])) if rows else None


def _money(usd: Decimal | None, tokens: int | None) -> Money:
    return Money(usd or Decimal(0), int(tokens or 0))
