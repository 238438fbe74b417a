"""SQL statements for the index of words, for searching, and for recall.

The index numbers its documents (events, long ones in pieces) as they come. A segment has the postings of documents in a
row: blocks of words in their order, each word with the numbers of the documents that have it.
"""

from typing import LiteralString

from ikigai.store.sql.fragments import MAX_ID, OLDEST_FIRST, SEARCHED_TEXT, events_between, lineage_query, turn_start

# Filling the index --------------------------------------------------------------------------------------------------


_NEWEST: LiteralString = "coalesce((select max(seq) from messages where agent_id = listed.agent_id), 0)"
_INDEXED: LiteralString = "coalesce((select seq from search_progress where agent_id = listed.agent_id), 0)"
_BEHIND = f"""
select agent_id, last, seq from (
  select agent_id, {_NEWEST} as last, {_INDEXED} as seq from search_behind as listed
) log where last > seq
"""
# Agents whose logs go on after the indexed part, and the number of those events. A join could read all agents.
BEHIND = f"""
select agent_id from ({_BEHIND}) behind order by (select last_used_at from agents where id = agent_id) desc limit %s
"""
BEHIND_BY = f"select coalesce(sum(last - seq), 0)::bigint from ({_BEHIND}) behind"
BEGIN = "insert into search_progress (agent_id, seq) values (%s, 0) on conflict do nothing"
TAKE = "select seq, place from search_progress where agent_id = %s for update skip locked"
SET = "update search_progress set seq = %s, place = %s where agent_id = %s"
# Lock some listed agents that are fully indexed; take out the ones that still are.
COMPLETE = f"select agent_id from search_behind as listed where {_NEWEST} <= {_INDEXED} limit %s for update skip locked"
UNLIST = f"delete from search_behind as listed where agent_id = any(%s) and {_NEWEST} <= {_INDEXED}"

# The second numbers of the write locks that programs hold.
HELD_WRITE_LOCKS = """
select objid::bigint from pg_locks
where locktype = 'advisory' and granted and classid = %s::bigint::oid and objsubid = 2
  and database = (select oid from pg_database where datname = current_database())
"""


# A step need not reach the disk at once: a crash takes its rows and its progress alike, and appends need the disk.
COMMIT_LATER = "select set_config('synchronous_commit', 'off', true)"

# The first event that is not in the index of words; a number above all ids if all are.
FIRST_NOT_INDEXED = f"""
select coalesce(min(id), {MAX_ID}) from search_behind as listed cross join lateral (
  select id from messages where agent_id = listed.agent_id and seq > {_INDEXED} order by seq limit 1
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
# Whoever writes to the index locks the row of its figures, behind the row of an agent's progress: numbers have no gaps.
BEGIN_INDEX = "insert into search_figures (analysis) values (%s) on conflict do nothing"
LOCK_INDEX = "select analysis, next_number, languages::text from search_figures for update"
CLEAR_INDEX: tuple[LiteralString, ...] = (
    "delete from search_postings", "delete from search_segments", "delete from search_documents",
    "delete from search_vocabulary", "delete from search_words", "delete from search_progress",
    "delete from search_figures", "insert into search_behind (agent_id) select id from agents on conflict do nothing",
)  # fmt: skip
SET_FIGURES = """
update search_figures set next_number = next_number + %s, documents = documents + %s, stems = stems + %s,
  languages = coalesce(%s::jsonb, languages)
"""
# The documents in a row that the newest ones of this agent follow.
LAST_DOCUMENTS = """
select first, documents from search_documents where last = %s - 1 and first > last - %s and agent_id = %s
"""
SET_DOCUMENTS = """
insert into search_documents (first, last, agent_id, oldest, newest, newest_at, documents)
values (%(first)s, %(last)s, %(agent)s, %(oldest)s, %(newest)s, %(at)s, %(documents)s)
on conflict (first) do update set last = excluded.last, newest = greatest(search_documents.newest, excluded.newest),
  oldest = least(search_documents.oldest, excluded.oldest), documents = excluded.documents,
  newest_at = greatest(search_documents.newest_at, excluded.newest_at)
"""
ADD_SEGMENT = """
insert into search_segments (first, last, newest, newest_at, lengths) values (%s, %s, %s, %s, %s) returning id
"""
ADD_BLOCKS = """
insert into search_postings (segment, first, words, numbers, times)
select %s, first, words, numbers, times
from unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[]) as block (first, words, numbers, times)
"""
ADD_VOCABULARY = r"""
with new as (
  insert into search_vocabulary (word, stem, block)
  select word, stem, %(block)s from unnest(%(words)s::text[], %(stems)s::text[]) as pair (word, stem)
  on conflict do nothing returning word, stem
)
insert into search_words (block, words)
select %(block)s, E'\n' || string_agg(word, E'\n') || E'\n' from new where stem = word having count(*) > 0
on conflict (block) do update set words = search_words.words || excluded.words
"""

# Joining and purging segments ---------------------------------------------------------------------------------------

SEGMENTS_TO_JOIN = "select id, first, last from search_segments order by first"
TAKE_SEGMENTS = """
delete from search_segments where id = any(%s) returning id, first, last, newest, newest_at, lengths
"""
TAKE_BLOCKS = "delete from search_postings where segment = any(%s) returning segment, first, words, numbers, times"

TAKE_PROGRESS_OF_EVENTS = """
select agent_id from search_progress where agent_id in (select agent_id from messages where id = any(%s))
order by agent_id for update
"""
# A long event, of which the index has only a part, is begun anew.
BEGIN_PURGED_ANEW = """
update search_progress set place = 0 where place > 0 and exists (
  select from messages where id = any(%s) and agent_id = search_progress.agent_id and seq = search_progress.seq + 1
)
"""
INDEXED_EVENTS = f"""
select id, seq, kind, created_at, {SEARCHED_TEXT} from messages
where id = any(%(ids)s) and agent_id = %(agent)s and kind = any(%(kinds)s)
  and seq <= (select seq from search_progress where agent_id = %(agent)s)
order by seq
"""
DOCUMENTS_OF_EVENTS = """
select distinct first, documents from search_documents as document
join messages on messages.agent_id = document.agent_id and messages.id between oldest and newest
where messages.id = any(%s)
"""
DROP_DOCUMENTS_OF_AGENTS = "delete from search_documents where agent_id = any(%s) returning first, last"
KEEP_DOCUMENTS = "update search_documents set documents = %s where first = %s"
SEGMENTS_OF_NUMBERS = """
select id, first, lengths from search_segments
where exists (select from unnest(%s::bigint[]) as gone (number) where number between first and last)
"""
# Words that no segment has any more.
FORGET_WORDS = r"""
with lost as (
  delete from search_vocabulary where word = any(%s) and not exists (
    select from search_segments cross join lateral (
      select words from search_postings where segment = search_segments.id and first <= word order by first desc limit 1
    ) postings
    where strpos(words, E'\n' || word || E'\n') > 0
  ) returning word, block
)
update search_words set words = (
  select coalesce(string_agg(word, E'\n'), '') from unnest(string_to_array(words, E'\n')) as word
  where word not in (select word from lost)
) where block in (select block from lost)
"""

VACUUM = "vacuum search_postings"

# Searching ----------------------------------------------------------------------------------------------------------

SEGMENTS = """
select newest, id, first, last from search_segments
where newest_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity') and (
  %(agents)s::uuid[] is null or exists (
    select from search_documents as document
    where agent_id = any(%(agents)s) and document.last >= search_segments.first
      and document.first between search_segments.first - 255 and search_segments.last
  )
)
"""
# A word between two words that a key stands for; of a part of words, blocks of words that have it, up to a number. A
# million words are read in blocks in 13 ms, in rows in 100.
WORDS = """
select case low when '' then array(select words from search_words where strpos(words, part) > 0 limit %s)
       else array(select word from search_vocabulary where word between low and high limit 1) end
from unnest(%s::text[], %s::text[], %s::text[]) with ordinality as key (low, high, part, n) order by n
"""
# Blocks with words between two.
_IN_RANGE: LiteralString = """segment = segment.id and first <= high and first >= coalesce((
    select max(first) from search_postings where segment = segment.id and first <= low
  ), low)"""
# Blocks with words that match keys: those between two words that have a text in them.
BLOCKS = f"""
select segment.n::integer - 1, key.n::integer - 1, block.words, block.numbers
from unnest(%(segments)s::bigint[]) with ordinality as segment (id, n)
cross join unnest(%(lows)s::text[], %(highs)s::text[], %(parts)s::text[]) with ordinality as key (low, high, part, n)
cross join lateral (
  select words, numbers from search_postings
  where {_IN_RANGE} and strpos(words, part) > 0
  offset 0
) block
"""
DOCUMENTS_BETWEEN = """
select agent_id::text, first, last, newest from search_documents
where first between %(first)s - 255 and %(last)s and last >= %(first)s and oldest < %(before)s
  and newest_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
  and (%(agents)s::uuid[] is null or agent_id = any(%(agents)s))
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

# Recall -------------------------------------------------------------------------------------------------------------

FIGURES = "select documents, stems, languages::text from search_figures"
LENGTHS = "select id, first, lengths from search_segments order by first"
# The blocks with words of these stems. Words of a stem that begin alike stand near one another: they are one look-up.
POSTINGS = rf"""
with wanted as (
  select stem, min(word) as low, max(word) as high, array_agg(word) as words
  from search_vocabulary where stem = any(%s) group by stem, left(word, 3)
)
select segment.id, stem, wanted.words, block.words, numbers, times
from search_segments as segment cross join wanted cross join lateral (
  select words, numbers, times from search_postings
  where {_IN_RANGE} and exists (
    select from unnest(wanted.words) as one (word) where strpos(words, E'\n' || one.word || E'\n') > 0
  )
  offset 0
) block
"""
# The rows of these documents.
DOCUMENTS_AT = """
select distinct on (row.first) row.first, documents
from unnest(%s::bigint[]) as wanted (number) cross join lateral (
  select * from search_documents where first <= number order by first desc limit 1
) row
"""
# The rows before and behind these in their agents. Rows are compared, so that the index by agent serves.
DOCUMENTS_BESIDE = """
select self.first, near.first, near.documents
from search_documents as self cross join lateral (
  (select * from search_documents as before where (before.agent_id, before.first) < (self.agent_id, self.first)
   order by agent_id desc, first desc limit 1)
  union all
  (select * from search_documents as after where (after.agent_id, after.first) > (self.agent_id, self.first)
   order by agent_id, first limit 1)
) near where self.first = any(%s) and near.agent_id = self.agent_id
"""
# The documents of an agent up to an event; whole rows that go beyond it.
DOCUMENTS_OF_AGENT = """
select first, last, case when newest > %(last)s then documents end
from search_documents where agent_id = %(agent)s and oldest <= %(last)s
"""
# The beginnings of these pieces of events.
TEXTS_OF = """
select wanted.place, substr(messages.content, wanted.start + 1, %s)
from unnest(%s::bigint[], %s::integer[]) with ordinality as wanted (id, start, place) join messages using (id)
"""
# The turn of each of these events: its first event, and its turn_end, null while it is open.
TURNS_OF = f"""
select wanted.id, agents.id::text, agents.name, coalesce(
         ikigai_id(ended.data -> 'first'),
         {turn_start("self.agent_id", ended="self.id - 1")}
       ), ended.id
from unnest(%s::bigint[]) as wanted (id) join messages as self on self.id = wanted.id
join agents on agents.id = self.agent_id
left join lateral (
  select id, data from messages
  where agent_id = self.agent_id and kind = 'turn_end' and id > self.id order by id limit 1
) ended on true
"""
# What was said in these turns, and the event of each that matches best, from the character on where that part begins.
SAID_IN = f"""
select turn.first, said.id, kind, extract(epoch from created_at)::float8,
       substr({SEARCHED_TEXT}, case said.id when turn.best then turn.start else 0 end + 1, 16000)
from unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::integer[])
  as turn (agent, first, last, best, start)
cross join lateral (
  select turn.best as id
  union all
  (select id from messages
   where {events_between("turn.agent", "turn.first", f"coalesce(turn.last, {MAX_ID})")}
     and kind in ('user', 'assistant') and id <> turn.best
   {OLDEST_FIRST} limit 19)
) said join messages using (id) order by turn.first, said.id
"""
