"""SQL statements for the tree of agents: fork points, lock owners, names, kills, archiving."""

from ikigai.store.sql.agent_lists import BELOW
from ikigai.store.sql.fragments import MAX_ID, NEWEST_FIRST, events_between, turn_start

# Forks --------------------------------------------------------------------------------------------------------------

# The last event before the open turn. An agent without events of its own has the fork point of its parent.
FORK_POINT = f"""
select coalesce(
  (select id from messages where {events_between("agents.id", "0", f"coalesce(opened.id - 1, {MAX_ID})")}
   {NEWEST_FIRST} limit 1),
  agents.forked_at, 0
)
from agents cross join lateral (select {turn_start("agents.id")} as id) opened
where agents.id = %s
"""
# The agent of the event, if it is in a turn, and the end of that turn.
EVENT_PLACE = f"""
select event.agent_id::text, {turn_start("event.agent_id", "event.id", "event.id - 1")} is not null, ended.id
from messages event
left join lateral (
  select min(id) as id from messages where agent_id = event.agent_id and kind = 'turn_end' and id >= event.id
) ended on true
where event.id = %s
"""
# The agent, unless the name is taken, and its first events. What a tool makes for
# an archived agent is archived at the same moment: it is listed again with it.
FORK = """
  insert into agents (id, name, parent, forked_at, directory, made, ephemeral, archived_at)
  values (%(id)s, %(name)s, %(parent)s::uuid, %(at)s, %(directory)s, %(made)s,
          coalesce((select ephemeral from agents where id = %(parent)s::uuid), false),
          coalesce((select archived_at from agents where id = %(parent)s::uuid and %(made)s),
                   case when %(unlisted)s then clock_timestamp() end))
  on conflict (name) do nothing
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

# The agent and all below it, each at the same moment: `LIST_AGAIN` brings back the agents of that moment.
ARCHIVE = f"""
{BELOW}
update agents set archived_at = moment.now from (select statement_timestamp() as now) moment
where agents.id = any(array(select id from below)) and archived_at is null and purged_at is null
"""
LIST_AGAIN = f"""
{BELOW}
update agents set archived_at = null from (select archived_at as at from agents where id = %(agent)s) moment
where agents.id = any(array(select id from below)) and archived_at = moment.at
"""
