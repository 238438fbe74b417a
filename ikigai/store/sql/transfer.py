"""SQL statements for export, import and forks with unsaved events. Rows of the log have the columns of
`transfer.RawRow`, without the agent.
"""

from ikigai.store.sql.fragments import NEWEST_FIRST, OLDEST_FIRST, ROW, events_between, turn_start

# The agents of a lineage, the root first.
LINEAGE = """
select line.agent_id::text, agents.name, line.upto
from ikigai_lineage(%s) line join agents on agents.id = line.agent_id order by line.depth desc
"""
NEWEST = "select max(id) from messages where agent_id = %s"
# seq has no gaps, so the count is a difference.
_UPTO = "coalesce((select seq from messages where {} {} limit 1), 0)"
COUNT = f"""
select {_UPTO.format(events_between("%(agent)s", "0", "%(last)s"), NEWEST_FIRST)}
     - {_UPTO.format(events_between("%(agent)s", "0", "%(first)s::bigint - 1"), NEWEST_FIRST)}
"""
# Rows up to a number of stored bytes, and at least one: some hold megabytes.
PAGE = f"""
select {ROW}
from (
  select *, row_number() over (order by id) as place,
         sum(coalesce(pg_column_size(content), 0) + coalesce(pg_column_size(data), 0)) over (order by id) as upto
  from (
    select * from messages where {events_between("%(agent)s", "%(first)s", "%(last)s")} {OLDEST_FIRST} limit %(limit)s
  ) next
) sized
where place = 1 or upto <= %(bytes)s order by id
"""

CREATE = "insert into agents (id, name, parent, forked_at) values (%s, %s, %s, %s) on conflict (name) do nothing"
RESERVE = "select nextval(pg_get_serial_sequence('messages', 'id')) from generate_series(1, %s)"
STORE = """
insert into messages (agent_id, id, event_id, seq, created_at, kind, content, data) overriding system value
select %(agent)s::uuid, id, event_id, seq, coalesce(to_timestamp(at), clock_timestamp()), kind, content, data::jsonb
from unnest(%(ids)s::bigint[], %(event_ids)s::uuid[], %(seqs)s::integer[], %(ats)s::float8[],
            %(kinds)s::text[], %(contents)s::text[], %(datas)s::text[])
  as event (id, event_id, seq, at, kind, content, data)
order by id
"""
# An imported agent has not been used here yet, so `ikigai` goes on with another one; in lists it comes next.
USED = """
update agents set
  created_at = least(created_at, to_timestamp(%(began)s)),
  last_used_at = coalesce(
    (select max(last_used_at) - interval '1 millisecond' from agents where id <> %(agent)s), last_used_at
  )
where id = %(agent)s
"""

STORED_BY_ID = """
select messages.event_id, messages.id, messages.seq, messages.agent_id::text, agents.name
from messages join agents on agents.id = messages.agent_id where messages.event_id = any(%s)
"""
LAST_SEQ = "select coalesce(max(seq), 0) from messages where agent_id = %s"
# The beginning of the turn that is open after the event `at` (null for none), the last event before it, and the time.
OPEN_TURN = f"""
select opened.id, case when opened.id is null then %(at)s else coalesce(
  (select id from messages where {events_between("agents.id", "0", "opened.id - 1")} {NEWEST_FIRST} limit 1),
  agents.forked_at, 0
) end, extract(epoch from clock_timestamp())::float8
from agents cross join lateral (select {turn_start("agents.id", "%(at)s", "%(at)s")} as id) opened
where agents.id = %(agent)s
"""
STRETCH = """
select extract(epoch from created_at)::float8, kind, content, data::text from messages
where agent_id = %(agent)s and id between %(first)s and %(last)s and kind = any(%(kinds)s) order by id
"""

# Events that a promoted server lacks -------------------------------------------------------------------------------

# The newest events of an agent that are neither too old nor too much, with the event before each.
NEWEST_EVENTS = f"""
select behind, event_id, size, {ROW} from (
  select *, sum(size) over (order by seq desc) as upto, lag(event_id) over (order by seq) as behind,
         min(created_at) over (order by seq desc) > clock_timestamp() - make_interval(secs => %s) as is_new
  from (
    select *, (coalesce(pg_column_size(content), 0) + coalesce(pg_column_size(data), 0))::integer as size
    from messages where agent_id = %s order by seq desc limit %s
  ) newest
) known
where is_new and upto <= %s and (behind is not null or seq = 1) order by seq
"""
IS_PURGED = "select purged_at is not null from agents where id = %s"
FORGET_DRAFT = "delete from drafts where agent_id = %s"
TIMELINE = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)"
ID_TURN = "select pg_advisory_xact_lock(%s)"
_COUNTER = "pg_get_serial_sequence('messages', 'id')::regclass"
SKIP_IDS = f"""
select count(nextval({_COUNTER})) from generate_series(coalesce(pg_sequence_last_value({_COUNTER}), 0) + 1, %(upto)s)
"""
# The highest id that was given, and the ids of a list that events have.
IDS_IN_USE = f"""
select coalesce(pg_sequence_last_value({_COUNTER}), 0),
       array(select id from messages where id = any(%s))
"""
