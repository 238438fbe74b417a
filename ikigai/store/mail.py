"""Messages between agents, and the agents that tools made: what waits for whom, who works for whom."""

from uuid import UUID

from ikigai.core.agents.mail import Mail
from ikigai.core.agents.tree import Made
from ikigai.store.connection import Session

# A message exists when it is in the log of its sender, and has come when the log of its receiver says so. Ids ascend
# within a sender.
WAITING = """
select sent.id, sent.agent_id::text, agents.name, coalesce(sent.content, ''), coalesce(sent.data ->> 'ending', ''),
       coalesce(sent.data -> 'by_user', 'false') = 'true', coalesce(sent.data -> 'wants_reply', 'false') = 'true',
       coalesce(sent.data -> 'attended', 'false') = 'true'
from messages sent join agents on agents.id = sent.agent_id
where sent.kind = 'mail_sent' and sent.data ->> 'to' = %s and not exists (
  select from messages taken where taken.kind = 'mail_taken' and ikigai_id(taken.data -> 'of') = sent.id
)
order by sent.id limit %s
"""
# Upwards as long as agents are made by tools, then all that were made below whom that leads to.
TREE = """
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
# Agents that tools made, for this one or for one below it, and that a program which may have died has kept from an
# answer: in the middle of a turn, or with work that has not come.
STOPPED = """
with recursive down (id) as (
  select %s::uuid
  union
  select agents.id from down join agents on agents.parent = down.id where agents.made
)
select agents.id::text from down join agents using (id)
where made and killed_at is null and (
  exists (
    select from messages where agent_id = agents.id and kind = 'user' and id > coalesce(
      (select max(id) from messages where agent_id = agents.id and kind = 'turn_end'), 0
    )
  ) or exists (
    select from messages sent
    where kind = 'mail_sent' and data ->> 'to' = agents.id::text and data -> 'wants_reply' = 'true' and not exists (
      select from messages taken where taken.kind = 'mail_taken' and ikigai_id(taken.data -> 'of') = sent.id
    )
  )
)
order by created_at, agents.id
"""
AT_A_TIME = 200
"""Messages that are looked at once; the others wait until these have come."""


class Mails:
    """Made by `Database`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def waiting(self, agent: str, limit: int = AT_A_TIME) -> tuple[Mail, ...]:
        """What was sent to the agent and has not come, in the order of each sender."""
        async with self._session.use() as cursor:
            await cursor.execute(WAITING, (agent, limit))
            return tuple(Mail(*row) for row in await cursor.fetchall())

    async def tree(self, agent: str) -> tuple[Made, ...]:
        """Whoever works together with this agent, itself among them: those that tools made, and for whom; the eldest
        first.
        """
        async with self._session.use() as cursor:
            await cursor.execute(TREE, {"agent": UUID(agent)})
            return tuple(Made(*row) for row in await cursor.fetchall())

    async def stopped(self, agent: str) -> list[str]:
        """The ids of the agents below this one that a program may have kept from answering, the eldest first."""
        async with self._session.use() as cursor:
            await cursor.execute(STOPPED, (UUID(agent),))
            return [id for (id,) in await cursor.fetchall()]
