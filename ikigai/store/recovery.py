"""A fork with events that another run could not store, made where the log has gone on without them."""

from uuid import UUID, uuid4

import psycopg

from ikigai.core import codec
from ikigai.core.codec import Row
from ikigai.core.errors import Refused
from ikigai.core.events import Event, Filtered, Forked, MailSent, MailTaken, TurnEnded
from ikigai.core.state.loading import TURN_KINDS
from ikigai.core.state.memory import replace
from ikigai.core.transfer.unsaved import Unsaved
from ikigai.store import names
from ikigai.store.agents import Agent, check_name, taken
from ikigai.store.connection import Cursor, Session
from ikigai.store.log import event_id
from ikigai.store.sql import agents as agent_queries
from ikigai.store.sql import transfer as queries
from ikigai.store.unsaved_place import Place


async def fork(session: Session, parent: Agent, place: Place, unsaved: Unsaved, name: str = "") -> str:
    """Make a child of `parent` that shares what is before these events, and has them; returns its id.

    No turn lies in two agents: what is stored of the one that was open there is copied. Raises Refused when the name is
    taken, or is none, and when somebody has stored the events meanwhile.
    """
    if name:
        check_name(name)
    async with session.use() as cursor, cursor.connection.transaction():
        await cursor.execute(queries.OPEN_TURN, {"agent": parent.id, "at": place.at})
        ((opened, at, now),) = await cursor.fetchall()
        stretch = {"agent": parent.id, "first": opened, "last": place.at, "kinds": list(TURN_KINDS)}
        await cursor.execute(queries.STRETCH, stretch)  # what requests took counts once
        copied = [(stored_at, Row(*row)) for stored_at, *row in await cursor.fetchall()]
        count = 1 + len(copied) + place.missing
        await cursor.execute(queries.RESERVE, (count,))
        ids = [id for (id,) in await cursor.fetchall()]
        rows = [codec.encode(Forked(parent.name, at)), *(_copied(row) for _, row in copied)]
        rows += [codec.encode(_in_fork(event, opened, ids[1])) for event in unsaved.events[-place.missing :]]
        kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
        values = {
            "agent": await _created(cursor, parent, at, name),
            "ids": ids,
            "event_ids": [event_id() for _ in ids[place.missing :]] + list(map(UUID, unsaved.ids[-place.missing :])),
            "seqs": list(range(1, count + 1)),
            "ats": [now, *(stored_at for stored_at, _ in copied), *[now] * place.missing],
        }
        try:
            await cursor.execute(queries.STORE, {**values, "kinds": kinds, "contents": contents, "datas": datas})
        except psycopg.errors.UniqueViolation:
            raise Refused("The log has these events already.", "Nothing was forked.") from None
    return str(values["agent"])


async def _created(cursor: Cursor, parent: Agent, at: int, name: str) -> UUID:
    id, tried = uuid4(), 0
    while True:
        agent = (id, name or names.suggest(tried), parent.id, at, parent.directory or None)
        await cursor.execute(agent_queries.CREATE_AGENT, agent)
        if cursor.rowcount:
            return id
        if name:
            raise taken(name)
        tried += 1


def _copied(row: Row) -> Row:
    """The row of the parent as the fork has it: which mail has come is said once."""
    taken = codec.decode(*row) if row.kind == "mail_taken" else None
    return codec.encode(replace(taken, of=0, reply_to="")) if isinstance(taken, MailTaken) else row


def _in_fork(event: Event, opened: int | None, copy: int) -> Event:
    """The event as the fork has it, where the turn that began with the event `opened` begins with `copy`.

    Mail does not go its way again: the parent's has, or will.
    """
    match event:
        case MailSent():
            return replace(event, to="")
        case MailTaken():
            return replace(event, of=0, reply_to="")
        case TurnEnded(first=first) if first == opened:
            return replace(event, first=copy)
        case Filtered(planning=planning) if planning == opened:
            return replace(event, planning=copy)
        case _:
            return event
