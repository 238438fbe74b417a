"""Fork an agent with events that another process could not store, if the log has gone on without them."""

from uuid import UUID

import psycopg

from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events.codec import Row
from ikigai.core.events.events import Event, Filtered, Forked, MailSent, MailTaken, TurnEnded
from ikigai.core.relocation.position import UnsavedPosition
from ikigai.core.relocation.unsaved import Unsaved
from ikigai.core.state.loading import TURN_KINDS
from ikigai.core.state.memory import replace
from ikigai.store.agents.agents import Agent, check_name, create_agent
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.log.append_attempt import new_event_id, sealed_row
from ikigai.store.sql import transfer


async def fork_with_unsaved(
    session: DatabaseSession, parent: Agent, place: UnsavedPosition, unsaved: Unsaved, name: str = ""
) -> str:
    """Make a child of `parent` that shares the log before these events, and has them; return its id.

    No turn lies in two agents: the stored part of a turn that was open there is copied. Raise Rejected if the name is
    taken or invalid, or if the events have been stored meanwhile.
    """
    if name:
        check_name(name)
    async with session.use() as cursor, cursor.connection.transaction():
        await cursor.execute(transfer.OPEN_TURN, {"agent": parent.id, "at": place.at})
        ((opened, at, now),) = await cursor.fetchall()
        stretch = {"agent": parent.id, "first": opened, "last": place.at, "kinds": list(TURN_KINDS)}
        await cursor.execute(transfer.STRETCH, stretch)  # without usage: requests count once
        copied = [(stored_at, Row(*row)) for stored_at, *row in await cursor.fetchall()]
        count = 1 + len(copied) + place.missing
        await cursor.execute(transfer.RESERVE, (count,))
        ids = [id for (id,) in await cursor.fetchall()]
        child, first = await create_agent(cursor, name, parent.directory, parent.id, at), 2 + len(copied)
        forked = sealed_row(Forked(parent.name, at, parent.id), child.id, 1, session.seal)
        rows = [forked, *(_copy_row(row) for _, row in copied)]
        events = [_in_fork(event, opened, ids[1]) for event in unsaved.events[-place.missing :]]
        rows += [sealed_row(event, child.id, seq, session.seal) for seq, event in enumerate(events, first)]
        kinds, contents, datas = (list(column) for column in zip(*rows, strict=True))
        values = {
            "agent": UUID(child.id),
            "ids": ids,
            "event_ids": [new_event_id() for _ in ids[place.missing :]]
            + list(map(UUID, unsaved.ids[-place.missing :])),
            "seqs": list(range(1, count + 1)),
            "ats": [now, *(stored_at for stored_at, _ in copied), *[now] * place.missing],
        }
        try:
            await cursor.execute(transfer.STORE, {**values, "kinds": kinds, "contents": contents, "datas": datas})
        except psycopg.errors.UniqueViolation:
            raise Rejected("The log has these events already.", "Nothing was forked.") from None
    return str(values["agent"])


def _copy_row(row: Row) -> Row:
    """Return the row of the parent as the fork has it, without the link to its mail: only one log says that mail has
    arrived.
    """
    taken = codec.decode(*row) if row.kind == "mail_taken" else None
    return codec.encode(replace(taken, of=0, reply_to="")) if isinstance(taken, MailTaken) else row


def _in_fork(event: Event, opened: int | None, copy: int) -> Event:
    """Return the event as the fork has it, where the turn that began with the event `opened` begins with `copy`.

    Mail is not sent again: the parent has sent it, or will.
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
