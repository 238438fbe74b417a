"""This module holds the SQL statements of the index of stems and of recall."""

from ikigai.store.sql.fragments import MAX_ID, OLDEST_FIRST, SEARCHED_TEXT, events_between, turn_start
from ikigai.store.sql.search import progress_statements

STEMS_PROGRESS = progress_statements("stems", "recall_progress")

# Filling the index --------------------------------------------------------------------------------------------------

# The one row of figures; it stays locked to the end of the transaction, so that numbers have no gaps.
BEGIN_INDEX = (
    "insert into recall_index (analysis) select %s where not exists (select from recall_index) on conflict do nothing"
)
LOCK_INDEX = "select analysis from recall_index for update"
CLEAR_INDEX = (
    "delete from recall_postings", "delete from recall_parts", "delete from recall_documents",
    "delete from recall_runs", "delete from recall_progress", "delete from recall_index",
    "insert into search_behind (index_name, agent_id) select 'stems', id from agents on conflict do nothing",
)  # fmt: skip
FIGURES = "select next_number, documents, stems, languages::text from recall_index"
SET_FIGURES = "update recall_index set next_number = %s, documents = %s, stems = %s, languages = %s::jsonb"
ADD_DOCUMENTS = """
insert into recall_documents (number, message, start, agent_id, kind, length)
select number, message, start, %s::uuid, kind, length
from unnest(%s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::integer[])
  as document (number, message, start, kind, length)
"""
GROW_RUN = "update recall_runs set last = %(last)s where agent_id = %(agent)s and last = %(first)s - 1"
ADD_RUN = "insert into recall_runs (agent_id, first, last) values (%(agent)s, %(first)s, %(last)s)"
ADD_PART = "insert into recall_parts (first, last) values (%s, %s)"
ADD_POSTINGS = """
insert into recall_postings (stem, part, postings)
select stem, %s, postings from unnest(%s::text[], %s::bytea[]) as row (stem, postings)
"""
PARTS_OF_BLOCK = "select first, last from recall_parts where first >= %s order by first"
# Parts that follow one another become one: the rows of a stem are put behind one another.
MERGE_POSTINGS = """
with gone as (delete from recall_postings where part = any(%(parts)s) returning stem, part, postings)
insert into recall_postings (stem, part, postings)
select stem, %(first)s, string_agg(postings, ''::bytea order by part) from gone group by stem
"""
GROW_PART = "update recall_parts set last = %s where first = %s"
DROP_PARTS = "delete from recall_parts where first = any(%s)"

# A full part, and the full one behind it in the same large block of 65,536 documents.
JOINED_PARTS = """
select one.first, next.first, next.last from recall_parts as one
join recall_parts as next on next.first = one.last + 1 and next.first >> 16 = one.first >> 16
where one.first % 65536 = 0 and one.last % 4096 = 4095 and next.first % 4096 = 0 and next.last % 4096 = 4095
limit 1
"""
TAKE_POSTINGS = """
delete from recall_postings where ctid = any(array(select ctid from recall_postings where part = %s limit %s))
returning stem, postings
"""
APPEND_POSTINGS = """
insert into recall_postings (stem, part, postings)
select stem, %s, postings from unnest(%s::text[], %s::bytea[]) as row (stem, postings)
on conflict (stem, part) do update set postings = recall_postings.postings || excluded.postings
"""

# Ranking ------------------------------------------------------------------------------------------------------------

POSTINGS = "select stem, part, postings from recall_postings where stem = any(%s) order by stem, part"
# The documents of these numbers, ascending. The last column is true if the one before is of the same agent.
DOCUMENTS = """
select number, message, start, kind, coalesce(agent_id = lag(agent_id) over (order by number), false)
from recall_documents where number = any(%s::bigint[]) order by number
"""
# The documents of these numbers, each with the ones beside it in its agent. Rows are compared, so that the index by
# agent serves: by number alone all that lies between two documents of an agent would be read.
NEIGHBORS = """
select wanted.number, near.number, near.message, near.start, near.kind
from unnest(%s::bigint[]) as wanted (number) join recall_documents as self using (number) cross join lateral (
  (select * from recall_documents as before where (before.agent_id, before.number) <= (self.agent_id, self.number)
   order by agent_id desc, number desc limit 2)
  union all
  (select * from recall_documents as after where (after.agent_id, after.number) > (self.agent_id, self.number)
   order by agent_id, number limit 1)
) near where near.agent_id = self.agent_id order by wanted.number, near.number
"""
RUNS = "select first, last from recall_runs where agent_id = %s order by first"
# The first document of an agent behind an event; null if there is none.
DOCUMENT_BEHIND = """
select number from recall_documents
where agent_id = %s and message > %s order by number limit 1
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
