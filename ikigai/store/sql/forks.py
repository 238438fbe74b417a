"""This module holds the SQL statements of the tree of agents: fork points, parents, lock owners, kills."""

from ikigai.store.sql.fragments import IS_LISTED, OWNER

# Forks --------------------------------------------------------------------------------------------------------------

# The last event before the open turn, which begins with the first message after the newest turn_end. An agent without
# events of its own has the fork point of its parent.
FORK_POINT = """
select coalesce(
  (select max(id) from messages where agent_id = agents.id and id < coalesce(opened.id, 9223372036854775807)),
  agents.forked_at, 0
)
from agents left join lateral (
  select id from messages
  where agent_id = agents.id and kind = 'user' and id > coalesce(
    (select max(id) from messages where agent_id = agents.id and kind = 'turn_end'), 0
  )
  order by id limit 1
) opened on true
where agents.id = %s
"""
# The agent of the event, if it is in a turn, and the end of that turn.
EVENT_PLACE = """
select event.agent_id::text, began.id is not null, ended.id
from messages event
left join lateral (
  select id from messages
  where agent_id = event.agent_id and kind = 'user' and id <= event.id and id > coalesce(
    (select max(id) from messages before
     where before.agent_id = event.agent_id and before.kind = 'turn_end' and before.id < event.id), 0
  )
  limit 1
) began on true
left join lateral (
  select min(id) as id from messages where agent_id = event.agent_id and kind = 'turn_end' and id >= event.id
) ended on true
where event.id = %s
"""
# The agent, unless the name is taken, and its first events, which policies allow once the agent is there. What a tool
# makes for an archived agent is archived at the same moment: it is listed again with it.
FORK = """
  insert into agents (id, name, parent, forked_at, directory, made, ephemeral, archived_at)
  values (%(id)s, %(name)s, %(parent)s::uuid, %(at)s, %(directory)s, %(made)s,
          coalesce((select ephemeral from agents where id = %(parent)s::uuid), false),
          coalesce((select archived_at from agents where id = %(parent)s::uuid and %(made)s),
                   case when %(unlisted)s then clock_timestamp() end))
  on conflict (owner, name) do nothing
"""
FIRST_EVENTS = """
insert into messages (agent_id, seq, event_id, kind, content, data)
select %(id)s::uuid, n, event_id, kind, content, data::jsonb
from unnest(%(ids)s::uuid[], %(kinds)s::text[], %(contents)s::text[], %(datas)s::text[])
  with ordinality as event (event_id, kind, content, data, n)
order by n
"""
# True if the path from an agent to its root goes in a circle, or if it ends too early.
LINEAGE_DEFECTS = """
with recursive line (id, parent) as (
  select id, parent from agents where id = %s
  union all
  select agents.id, agents.parent from line join agents on agents.id = line.parent
) cycle id set looped using path
select coalesce(bool_or(looped), false), coalesce(bool_or(
  not looped and parent is not null and not exists (select from agents where agents.id = line.parent)
), false)
from line
"""

# The tree -----------------------------------------------------------------------------------------------------------

LINKS = f"""
select id::text, name, parent::text, extract(epoch from created_at)::float8, killed_at is not null,
       archived_at is not null, {OWNER}
from agents where purged_at is null
order by created_at, id
"""
_LAST_WORDS = """left join lateral (
  select left(content, 400) as words
  from (select id, kind, content from messages where agent_id = agents.id order by id desc limit 200) newest
  where kind in ('user', 'assistant') and content <> ''
  order by id desc limit 1
) said on true"""
_IS_IN_TURN = """exists (
  select from messages where agent_id = agents.id and kind = 'user' and id > coalesce(
    (select max(id) from messages where agent_id = agents.id and kind = 'turn_end'), 0
  )
)"""
# The state of agents without loading them: their newest rows tell it. Images and long texts are not read.
AGENT_INFOS = f"""
select agents.id::text, agents.name, agents.parent::text, extract(epoch from agents.created_at)::float8,
       agents.killed_at is not null, agents.archived_at is not null, {OWNER}, agents.forked_at,
       extract(epoch from agents.last_used_at)::float8,
       (select count(*) from messages where agent_id = agents.id and kind = 'turn_end'),
       coalesce(chosen.model, ''), coalesce(asked.tokens, 0), coalesce(said.words, ''),
       {_IS_IN_TURN},
       coalesce((
         select data ->> 'ending' = 'failed' from messages where id = (
           select max(id) from messages where agent_id = agents.id and kind = 'turn_end'
         )
       ), false)
from agents
left join lateral (
  select case kind when 'usage' then data ->> 'model' else data #>> '{{values,model}}' end as model
  from (select id, kind, data from messages where agent_id = agents.id order by id desc limit 200) newest
  where kind = 'usage' and not data ? 'purpose' or kind = 'settings' and data -> 'values' ? 'model'
  order by id desc limit 1
) chosen on true
left join lateral (
  select (coalesce(ikigai_number(data #> '{{usage,input}}'), 0)
          + coalesce(ikigai_number(data #> '{{usage,output}}'), 0))::bigint as tokens
  from (select id, kind, data from messages where agent_id = agents.id order by id desc limit 200) newest
  where kind = 'usage' and not data ? 'purpose'
  order by id desc limit 1
) asked on true
{_LAST_WORDS}
where agents.purged_at is null and (%(unlisted)s or agents.killed_at is null and agents.archived_at is null)
  and (%(everyone)s or {IS_LISTED})
order by agents.created_at, agents.id
"""
WRITE_LOCK_OWNERS = """
select held.objid::bigint, held.pid, coalesce(activity.application_name, '')
from pg_locks held left join pg_stat_activity activity on activity.pid = held.pid
where held.locktype = 'advisory' and held.granted
  and held.database = (select oid from pg_database where datname = current_database())
  and held.classid = %s::bigint::oid and held.objsubid = 2
"""
RENAME = "update agents set name = %s where id = %s"
SET_KILLED = "update agents set killed_at = case when %s then clock_timestamp() end where id = %s"

# Archived agents -----------------------------------------------------------------------------------------------------

# The agent and all of its owner's below it, each at the same moment: `LIST_AGAIN` brings back those of that moment.
_BELOW = f"""
with recursive below (id, owner) as (
  select id, {OWNER} from agents where id = %(agent)s
  union
  select agents.id, below.owner from below join agents on agents.parent = below.id where {OWNER} = below.owner
)
"""
ARCHIVE = f"""
{_BELOW}
update agents set archived_at = moment.now from below, (select statement_timestamp() as now) moment
where agents.id = below.id and archived_at is null and purged_at is null
"""
LIST_AGAIN = f"""
{_BELOW}
update agents set archived_at = null from below, (select archived_at as at from agents where id = %(agent)s) moment
where agents.id = below.id and archived_at = moment.at
"""
# The agents among these whose newest turn is open.
IN_TURN = f"""
select id::text from agents where id = any(%s) and {_IS_IN_TURN}
"""
# A page of the agents to choose from, the most recently used first; the page before it ended with the row `after`.
# Last words are read for this page alone.
AGENT_PAGE = f"""
select agents.id::text, agents.name, coalesce(agents.directory, ''),
       extract(epoch from agents.last_used_at)::float8, agents.last_used_at::text,
       agents.killed_at is not null, agents.archived_at is not null, agents.made,
       coalesce(said.words, ''), {_IS_IN_TURN}, {OWNER}
from (
  select * from agents
  where purged_at is null and killed_at is null and (%(everything)s or archived_at is null and not made) and {IS_LISTED}
    and (%(typed)s = '' or strpos(lower(name), lower(%(typed)s)) > 0 or strpos(lower(directory), lower(%(typed)s)) > 0)
    and (%(ids)s::uuid[] is null or id = any(%(ids)s))
    and (%(after)s::timestamptz is null or (last_used_at, id) < (%(after)s::timestamptz, %(id)s::uuid))
  order by last_used_at desc, id desc limit %(limit)s
) agents
{_LAST_WORDS}
order by agents.last_used_at desc, agents.id desc
"""
