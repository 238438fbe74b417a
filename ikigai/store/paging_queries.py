"""Every statement of looking through a whole history, by name."""

_LINE = """
with recursive line (depth, agent, name, parent, forked_at, upto) as (
  select 0, id, name, parent, forked_at, null::bigint from agents where id = %(agent)s::uuid
  union all
  select depth + 1, agents.id, agents.name, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
  from line join agents on agents.id = line.parent
) cycle agent set looped using path
"""
# Images come without their data, and a page ends before it holds more than so many bytes; it has one event at least.
_PAGE = """
select agent_id::text, id, seq, extract(epoch from created_at)::float8, kind, content,
       case when kind = 'user' and data ? 'images' then (
         data - 'images' || jsonb_build_object('images', (
           select coalesce(jsonb_agg(jsonb_strip_nulls(to_jsonb(image)) || '{"data": ""}'), '[]')
           from jsonb_to_recordset(data -> 'images') as image
             (media_type text, width integer, height integer, name text)
         ))
       )::text else data::text end
from measured where n = 1 or bytes <= %(bytes)s
"""
_WEIGHT = "coalesce(octet_length(content), 0) + coalesce(pg_column_size(data), 0)"
PAGE_BEFORE = f"""
{_LINE}, measured as (
  select event.*, row_number() over (order by id desc) as n, sum({_WEIGHT}) over (order by id desc) as bytes
  from line cross join lateral (
    select * from messages
    where agent_id = agent and id <= least(upto, %(id)s::bigint - 1) order by id desc limit %(limit)s
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
    where agent_id = agent and id > %(id)s and id <= coalesce(upto, 9223372036854775807) order by id limit %(limit)s
  ) event
  where not looped order by id limit %(limit)s
)
{_PAGE} order by id
"""
# What took events out of the context: the newest so many.
CONTROLS = f"""
{_LINE}
select agent_id::text, id, seq, extract(epoch from created_at)::float8, kind, content, data::text
from line cross join lateral (
  select * from messages
  where agent_id = agent and id <= coalesce(upto, 9223372036854775807) and kind in ('clear', 'rewind', 'filter', 'undo')
  order by id desc limit %(limit)s
) event
where not looped order by id desc limit %(limit)s
"""
# The agent and its ancestors; and who else began at an event of theirs, the newest so many.
LINEAGE = f"{_LINE} select agent::text, name from line where not looped order by depth"
BRANCHES = f"""
{_LINE}
select agents.forked_at, agents.name
from line join agents on agents.parent = line.agent
where not looped and agents.forked_at > 0 and agents.forked_at <= coalesce(line.upto, 9223372036854775807)
  and not exists (select from line as own where own.agent = agents.id)
order by agents.forked_at desc limit %(limit)s
"""
