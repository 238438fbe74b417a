"""This module holds the SQL statements that pack the index of words, and that read its packs."""

from typing import LiteralString

from ikigai.store.sql.fragments import CITED_PAGES, SEARCHED_TEXT

# Packing a segment --------------------------------------------------------------------------------------------------

# One process at a time packs; those that share an index share the table.
TRY_LOCK = "select pg_try_advisory_lock(%s, 'search_segments'::regclass::oid::integer)"
UNLOCK = "select pg_advisory_unlock(%s, 'search_segments'::regclass::oid::integer)"
# The oldest segment that the index has left behind. Its version changes when pieces are added or purged.
NEXT_SEGMENT = """
select segment, xmin::text from search_segments
where (is_missing or segment < (select max(segment) from search_segments)) and segment <> all(%s::integer[])
order by is_missing desc, segment limit 1
"""
UNPACKED = "select count(*) from search_segments where segment < (select max(id) >> 14 from messages)"
# The next events of a segment that are indexed, up to a number of bytes; at least one.
INDEXED_EVENTS = f"""
select id, agent_id::text, kind, created_at, text
from (
  select *, row_number() over (order by id) as n, sum(octet_length(text)) over (order by id) as bytes
  from (
    select id, agent_id, kind, created_at, coalesce({SEARCHED_TEXT}, '') as text
    from messages
    where id > %(after)s and id <= %(last)s and kind = any(%(kinds)s)
      and seq <= (select seq from search_progress where agent_id = messages.agent_id)
    order by id limit %(events)s
  ) next
) measured
where n = 1 or bytes <= %(most)s order by id
"""
# Each transaction that writes packs begins with it, a purge too: no other order of locks can block two of them.
LOCK_PACKS = "lock table search_packs in exclusive mode"
TAKE_SEGMENT = "select from search_segments where segment = %s and xmin::text = %s for update"
# Larger packs go that were made when it had none: they do not lead to it.
UNPACK = """
select ikigai_unpack(array[%(segment)s]) where exists (
  select from generate_series(0, 4) as each (level) cross join lateral (
    select from search_packs where search_packs.level = each.level and number = %(segment)s >> 3 * each.level
  ) pack
)
"""
ADD_SEGMENT = """
insert into search_packs (level, number, newest_at, pieces, is_complete) values (0, %s, %s, %s, true)
"""
ADD_BLOCKS = """
insert into search_blocks (level, number, first, words, lists)
select %s, %s, first, words, lists from unnest(%s::bytea[], %s::bytea[], %s::bytea[]) as block (first, words, lists)
"""
# Pieces of events that are not there any more go, too.
DROP_PIECES = """
delete from search_pieces where message between %(first)s and %(last)s and (
  message = any(%(ids)s) or not exists (select from messages where id = message)
)
"""
# Pieces that were added meanwhile are packed by another run.
DROP_SEGMENT = """
delete from search_segments where segment = %(segment)s and not exists (
  select from search_pieces where message between %(first)s and %(last)s
)
"""
OUTDATED = "select exists (select from search_packs where level = 0 and not has_pages)"
# The newest pack that was made before packs had the words of cited pages. Its segment is packed anew if a reply in it
# cites some; until then the pack is searched.
RENEW_PACK = f"""
with checked as (
  update search_packs set has_pages = true where level = 0 and number = (
    select number from search_packs where level = 0 and not has_pages order by number desc limit 1
  ) returning number, newest_at
), listed as (
  insert into search_segments (segment, newest_at)
  select number, newest_at from checked where exists (
    select from messages
    where id between number::bigint << 14 and (number::bigint + 1 << 14) - 1
      and kind = 'assistant' and data @? '{CITED_PAGES}'
  ) on conflict do nothing
)
select from checked
"""
KEEP_SEGMENT = "update search_segments set is_missing = false where segment = %(segment)s"

# Merging packs ------------------------------------------------------------------------------------------------------

UNFINISHED = "select level, number from search_packs where not is_covered and not is_complete order by level limit 1"
# All that is in the ids of the next pack is packed, and was merged up to the level below.
BEGIN_PACK = """
insert into search_packs (level, number, newest_at, is_complete)
select level, number, newest_at, false from (
  select level + 1 as level, number >> 3 as number, max(newest_at) as newest_at from search_packs
  where not is_covered and level < 4 group by 1, 2
) above
where (number + 1)::bigint << 3 * level <= (select max(segment) from search_segments) and not exists (
  select from search_segments
  where segment between above.number << 3 * above.level and ((above.number + 1) << 3 * above.level) - 1
)
order by level, number limit 1
on conflict (level, number) do nothing
"""
MERGED = "select merged from search_packs where level = %(level)s and number = %(number)s and not is_complete"
NEXT_BLOCKS = """
select pack.number & 7, block.words from search_packs as pack cross join lateral (
  select first, words from search_blocks
  where level = pack.level and number = pack.number and first >= coalesce((
    select max(first) from search_blocks
    where level = pack.level and number = pack.number and first <= %(merged)s::bytea
  ), '')
  order by first limit %(blocks)s
) block
where pack.level = %(level)s - 1 and pack.number between %(number)s * 8 and %(number)s * 8 + 7 and is_complete
order by pack.number, block.first
"""
SET_MERGED = """
update search_packs set merged = %(merged)s, is_complete = %(merged)s::bytea is null
where level = %(level)s and number = %(number)s
"""
COVER = """
update search_packs set is_covered = true
where level = %(level)s - 1 and number between %(number)s * 8 and %(number)s * 8 + 7
"""

# Packed pieces leave their room to others, but the words stay in the index of terms.
# Of the table of stems the rows are estimated. One that was never analyzed has none. Only its owner may reorder it.
LOOSE_TABLES = """
select 'search_pieces' where pg_total_relation_size('search_pieces') > %(pieces)s
union all
select relname::text from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where pg_class.oid = 'recall_postings'::regclass and pg_has_role(relowner, 'usage')
  and pg_relation_size(pg_class.oid) > greatest(%(least)s, %(share)s * greatest(reltuples, 0) * (
    select 36 + coalesce(sum(avg_width), 0) from pg_stats where schemaname = nspname and tablename = relname
  ))
"""
STATEMENT_TIMEOUT = "select current_setting('statement_timeout')"
# A reset would set what it was before the connection was greeted.
SET_STATEMENT_TIMEOUT = "select set_config('statement_timeout', %s, false)"
# Postings of a stem are put beside each other. They were written a part at a time, and each lay on a page of its own.
REWRITE: dict[str, tuple[LiteralString, ...]] = {
    "search_pieces": ("vacuum (full, analyze) search_pieces",),
    "recall_postings": ("cluster recall_postings using recall_postings_pkey", "analyze recall_postings"),
}

# Reading packs ------------------------------------------------------------------------------------------------------

TOPS = """
select level::integer, number from search_packs
where not is_covered and is_complete and number::bigint << (14 + 3 * level) < %(before)s
  and newest_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
"""
# A pack that is being made has none of its words yet, so those below it are not covered.
BLOCKS = """
select pack.n::integer - 1, key.n::integer - 1, block.words, block.lists
from unnest(%(levels)s::smallint[], %(numbers)s::integer[], %(most)s::integer[])
  with ordinality as pack (level, number, most, n)
cross join unnest(%(lows)s::bytea[], %(highs)s::bytea[]) with ordinality as key (low, high, n)
cross join lateral (
  select words, lists from search_blocks
  where level = pack.level and number = pack.number and first <= key.high and first >= coalesce((
    select max(first) from search_blocks where level = pack.level and number = pack.number and first <= key.low
  ), key.low)
  order by first limit pack.most
) block
"""
PIECES = "select number, pieces from search_packs where level = 0 and number = any(%s)"
