"""This module holds the SQL statements of the word index and of searching.

No statement may be planned by its order: `offset 0` and `+ 0` leave the index of terms as the only way to the pieces.
"""

from typing import LiteralString, NamedTuple

from ikigai.store.sql.fragments import (
    MAX_ID,
    NEWEST_FIRST,
    OLDEST_FIRST,
    ROW,
    SEARCHED_TEXT,
    events_between,
    lineage_query,
)

# Filling the index --------------------------------------------------------------------------------------------------


class ProgressStatements(NamedTuple):
    """Statements about how far the logs of the agents are in one index.

    `behind` lists agents whose logs go on after the indexed part, `behind_by` counts those events. Only agents in
    `search_behind` are looked at. `complete` locks some of these that have no such events, `unlist` takes those of them
    out that still have none.
    """

    behind: LiteralString
    behind_by: LiteralString
    begin: LiteralString
    take: LiteralString
    set: LiteralString
    complete: LiteralString
    unlist: LiteralString


def progress_statements(index: LiteralString, table: LiteralString) -> ProgressStatements:
    """Return the statements for an index with the progress in `table`."""
    newest = "coalesce((select max(seq) from messages where agent_id = listed.agent_id), 0)"
    indexed = f"coalesce((select seq from {table} where agent_id = listed.agent_id), 0)"
    logs = f"""
    select agent_id, last, seq from (
      select agent_id, {newest} as last, {indexed} as seq from search_behind as listed where index_name = '{index}'
    ) log where last > seq
    """
    used = "(select last_used_at from agents where id = agent_id)"  # a join could read all agents
    return ProgressStatements(
        f"select agent_id from ({logs}) behind order by {used} desc limit %s",
        f"select coalesce(sum(last - seq), 0)::bigint from ({logs}) behind",
        f"insert into {table} (agent_id, seq) values (%s, 0) on conflict do nothing",
        f"select seq, place from {table} where agent_id = %s for update skip locked",
        f"update {table} set seq = %s, place = %s where agent_id = %s",
        f"""
        select agent_id from search_behind as listed where index_name = '{index}' and {newest} <= {indexed}
        limit %s for update skip locked
        """,
        f"""
        delete from search_behind as listed
        where index_name = '{index}' and agent_id = any(%s) and {newest} <= {indexed}
        """,
    )


# The second numbers of the write locks that programs hold.
HELD_WRITE_LOCKS = """
select objid::bigint from pg_locks
where locktype = 'advisory' and granted and classid = %s::bigint::oid and objsubid = 2
  and database = (select oid from pg_database where datname = current_database())
"""


# A step need not reach the disk at once: a crash takes its rows and its progress alike, and appends need the disk.
COMMIT_LATER = "select set_config('synchronous_commit', 'off', true)"
WORDS_PROGRESS = progress_statements("words", "search_progress")

# The first event that is not in the index of words; a number above all ids if there is none.
FIRST_NOT_INDEXED = """
select coalesce(min(id), 9223372036854775807) from (
  select (
    select id from messages where agent_id = listed.agent_id and seq > coalesce(
      (select seq from search_progress where agent_id = listed.agent_id), 0
    ) order by seq limit 1
  ) as id
  from search_behind as listed where index_name = 'words'
) missing
"""

# The next events of an agent, up to a number of bytes; at least one, and of that a stretch of characters.
NEXT_EVENTS = f"""
select id, seq, kind, created_at,
       case when kind = any(%(kinds)s) then
         case when n = 1 then substr({SEARCHED_TEXT}, %(place)s + 1, %(stretch)s) else {SEARCHED_TEXT} end
       end
from (
  select *, row_number() over (order by seq) as n, sum(coalesce(octet_length(content), 0)) over (order by seq) as bytes
  from (select * from messages where agent_id = %(agent)s and seq > %(seq)s order by seq limit %(events)s) next
) measured
where n = 1 or bytes <= %(most)s order by seq
"""
ADD_PIECES = """
insert into search_pieces (message, start, length, at, terms)
select message, start, length, at, array_to_tsvector(string_to_array(terms, ' '))
from unnest(%s::bigint[], %s::integer[], %s::integer[], %s::timestamptz[], %s::text[])
  as piece (message, start, length, at, terms)
on conflict do nothing
"""
ADD_SEGMENTS = """
insert into search_segments (segment, newest_at)
select segment, max(at) from unnest(%s::integer[], %s::timestamptz[]) as touched (segment, at) group by 1 order by 1
on conflict (segment) do update set newest_at = excluded.newest_at where search_segments.newest_at < excluded.newest_at
"""

# Searching ----------------------------------------------------------------------------------------------------------

# The index of terms can only be read by a bitmap scan; all other statements do without.
WITH_BITMAPS = "set enable_bitmapscan = on"
# Segments with pieces that are not packed, or with none since a purge took them out of the index.
SEGMENTS = """
select segment, is_missing from search_segments
where segment <= %s and newest_at >= coalesce(to_timestamp(%s::float8), '-infinity')
"""
_SINCE = "at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')"
PROBE = f"""
select n::integer - 1, message, start, length
from unnest(%(queries)s::text[], %(befores)s::bigint[]) with ordinality as segment (query, before, n)
cross join lateral (
  select message, start, length from (
    select message, start, length from search_pieces
    where terms @@ query::tsquery and message + 0 < before and {_SINCE} offset 0
  ) matching
  order by message desc, start limit %(most)s
) found
"""
# All pieces of a segment that contain all `parts`, for searches that no index serves.
SCAN = f"""
select message, start, length from search_pieces
where message between %(first)s and %(last)s and message + 0 < %(before)s and {_SINCE}
  and (%(query)s::text is null or terms @@ %(query)s::tsquery)
  and not exists (select from unnest(%(parts)s::text[]) as part (text) where strpos(terms::text, part.text) = 0)
"""
# All events of a segment that have a text to search in, each with its bytes, which are at least as many as characters.
LOGGED_EVENTS = f"""
select id, 0, bytes
from messages cross join lateral (select octet_length({SEARCHED_TEXT}) as bytes) text
where id between %(segment)s::bigint << 14 and least((%(segment)s::bigint + 1 << 14) - 1, %(before)s - 1)
  and kind = any(%(kinds)s) and (%(agents)s::uuid[] is null or agent_id = any(%(agents)s)) and bytes > 0
order by id desc
"""
# Only a piece that goes beyond the content needs the data, which may be long.
TEXTS = f"""
select message, agent_id::text, name, extract(epoch from messages.created_at)::float8, kind,
       substr(case when start + length > char_length(coalesce(content, '')) then {SEARCHED_TEXT} else content end,
              start + 1, length)
from unnest(%s::bigint[], %s::integer[], %s::integer[]) with ordinality as wanted (message, start, length, n)
join messages on messages.id = message join agents on agents.id = agent_id
where messages.created_at >= coalesce(to_timestamp(%s::float8), '-infinity')
order by n
"""
LINEAGE = f"{lineage_query('%s')} select agent::text, upto from line where not looped"

# One event and those beside it --------------------------------------------------------------------------------------

AGENT_OF = "select agent_id::text, name from messages join agents on agents.id = agent_id where messages.id = %s"
AROUND = f"""
(select {ROW} from messages
 where {events_between("%(agent)s", "0", "%(id)s")} and (id = %(id)s or kind = any(%(kinds)s))
 {NEWEST_FIRST} limit %(before)s + 1)
union all
(select {ROW} from messages
 where {events_between("%(agent)s", "%(id)s::bigint + 1", MAX_ID)} and kind = any(%(kinds)s)
 {OLDEST_FIRST} limit %(after)s)
order by id
"""
