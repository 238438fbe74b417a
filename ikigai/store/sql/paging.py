"""SQL statements that page through a whole history."""

from ikigai.store.sql.fragments import (
    MAX_ID,
    NEWEST_FIRST,
    OLDEST_FIRST,
    ROW,
    ROW_WITHOUT_PICTURES,
    events_between,
    lineage_query,
)

_LINE = lineage_query("%(agent)s::uuid")
# Images come without their data, and a page ends before it exceeds its bytes; it has at least one event.
_PAGE = f"""
select agent_id::text, {ROW_WITHOUT_PICTURES}
from measured where n = 1 or bytes <= %(bytes)s
"""
_WEIGHT = "coalesce(octet_length(content), 0) + coalesce(pg_column_size(data), 0)"
PAGE_BEFORE = f"""
{_LINE}, measured as (
  select event.*, row_number() over (order by id desc) as n, sum({_WEIGHT}) over (order by id desc) as bytes
  from line cross join lateral (
    select * from messages
    where {events_between("agent", "0", "least(upto, %(id)s::bigint - 1)")} {NEWEST_FIRST} limit %(limit)s
  ) event
  where not looped order by id desc limit %(limit)s
)
{_PAGE} order by id desc
"""
PAGE_AFTER = f"""
{_LINE}, measured as (
  select event.*, row_number() over (order by id) as n, sum({_WEIGHT}) over (order by id) as bytes
  from line cross join lateral (
    select * from messages
    where {events_between("agent", "%(id)s::bigint + 1", f"coalesce(upto, {MAX_ID})")} {OLDEST_FIRST} limit %(limit)s
  ) event
  where not looped order by id limit %(limit)s
)
{_PAGE} order by id
"""
# The newest events that took others out of the context.
CONTROLS = f"""
{_LINE}
select agent_id::text, {ROW}
from line cross join lateral (
  select * from messages
  where agent_id = agent and id <= coalesce(upto, {MAX_ID}) and kind in ('clear', 'rewind', 'filter', 'undo')
  order by id desc limit %(limit)s
) event
where not looped order by id desc limit %(limit)s
"""
# The agent and its ancestors, and the newest other agents that began at an event of theirs.
LINEAGE = f"{_LINE} select agent::text, name from line where not looped order by depth"
BRANCHES = f"""
{_LINE}
select agents.forked_at, agents.name
from line join agents on agents.parent = line.agent
where not looped and agents.forked_at > 0 and agents.forked_at <= coalesce(line.upto, {MAX_ID})
  and not exists (select from line as own where own.agent = agents.id)
order by agents.forked_at desc limit %(limit)s
"""
