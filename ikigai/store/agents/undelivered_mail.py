"""Read the messages between agents that have not arrived yet, and the agents that tools made."""

from typing import NamedTuple
from uuid import UUID

from ikigai.core.agents.mail import Mail
from ikigai.core.agents.tree import SubagentNode
from ikigai.core.events import codec
from ikigai.core.events.events import MailSent, StoredEvent
from ikigai.core.state.grants import is_confirmed
from ikigai.store.connection.connection import DatabaseSession
from ikigai.store.sql.agent_lists import IS_IN_TURN

# A message exists once it is in the log of its sender, and has arrived once the log of its receiver says so. Ids ascend
# within a sender.
WAITING_MAIL = """
select sent.id, sent.agent_id::text, agents.name, coalesce(sent.content, ''), coalesce(sent.data ->> 'ending', ''),
       coalesce(sent.data -> 'by_user', 'false') = 'true', coalesce(sent.data -> 'wants_reply', 'false') = 'true',
       coalesce(sent.data -> 'attended', 'false') = 'true', coalesce(ikigai_id(sent.data -> 'answers'), 0),
       sent.seq, sent.data::text
from messages sent join agents on agents.id = sent.agent_id
where sent.kind = 'mail_sent' and sent.data ->> 'to' = %s and not exists (
  select from messages taken
  where taken.kind = 'mail_taken' and ikigai_id(taken.data -> 'of') = sent.id and taken.agent_id = %s
)
order by sent.id limit %s
"""
# Go up while agents are made by tools, then down to all agents that tools made below the top.
TREE_OF_AGENT = """
with recursive up (id, parent, made, depth) as (
  select id, parent, made, 0 from agents where id = %(agent)s
  union all
  select agents.id, agents.parent, agents.made, up.depth + 1 from up join agents on agents.id = up.parent where up.made
) cycle id set looped using path,
top (id, depth) as (select id, depth from up where not looped order by depth desc limit 1),
down (id, parent, depth) as (
  select id, null::uuid, 0 from top
  union all
  select agents.id, agents.parent, down.depth + 1 from down join agents on agents.parent = down.id where agents.made
) cycle id set looped using path
select down.id::text, agents.name, down.parent::text, down.depth, agents.killed_at is not null
from down join agents on agents.id = down.id where not looped order by agents.created_at, agents.id
"""
# Agents that tools made, for this one or for one below it, and that a killed process may have kept from an answer: in
# the middle of a turn, or with mail that has not arrived.
STOPPED_AGENTS = f"""
with recursive down (id) as (
  select %s::uuid
  union
  select agents.id from down join agents on agents.parent = down.id where agents.made
)
select agents.id::text from down join agents using (id)
where made and killed_at is null and (
  {IS_IN_TURN} or exists (
    select from messages sent
    where kind = 'mail_sent' and data ->> 'to' = agents.id::text and data -> 'wants_reply' = 'true' and not exists (
      select from messages taken
      where taken.kind = 'mail_taken' and ikigai_id(taken.data -> 'of') = sent.id and taken.agent_id = agents.id
    )
  )
)
order by created_at, agents.id
"""
MAX_WAITING_MAIL = 200
"""Messages that are read at once; the others wait until these have arrived."""


class WaitingMail(NamedTuple):
    """Messages that have not arrived: of this user's programs on this machine, and of others."""

    own: tuple[Mail, ...]
    foreign: tuple[Mail, ...]


class MailStore:
    """Mail and subagents of a database. Made by `Database`."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def waiting(self, agent: str, limit: int = MAX_WAITING_MAIL) -> WaitingMail:
        """Return the messages to the agent that have not arrived, in the order of each sender. Those of others never
        arrive, and keep none from arriving.
        """
        most = limit
        async with self._session.use() as cursor:
            while True:
                await cursor.execute(WAITING_MAIL, (agent, UUID(agent), most))
                own, foreign = list[Mail](), list[Mail]()
                for *row, seq, data in await cursor.fetchall():
                    mail = Mail(*row)
                    (own if self._is_own(mail, seq, data) else foreign).append(mail)
                if len(own) >= limit or len(own) + len(foreign) < most:
                    return WaitingMail(tuple(own[:limit]), tuple(foreign))
                most *= 8

    def _is_own(self, mail: Mail, seq: int, data: str) -> bool:
        """Return True if a program of this user on this machine stored the message."""
        if not self._session.seal:
            return True
        event = codec.decode("mail_sent", mail.text, data)
        return isinstance(event, MailSent) and is_confirmed(
            self._session.seal, StoredEvent(mail.id, mail.sender, seq, 0.0, event)
        )

    async def tree(self, agent: str) -> tuple[SubagentNode, ...]:
        """Return the tree of agents that work together with this one, itself included: those that tools made, with
        their parents, the oldest first.
        """
        async with self._session.use() as cursor:
            await cursor.execute(TREE_OF_AGENT, {"agent": UUID(agent)})
            return tuple(SubagentNode(*row) for row in await cursor.fetchall())

    async def stopped(self, agent: str) -> list[str]:
        """Return the ids of the agents below this one that a process may have kept from answering, the oldest first."""
        async with self._session.use() as cursor:
            await cursor.execute(STOPPED_AGENTS, (UUID(agent),))
            return [id for (id,) in await cursor.fetchall()]
