"""SQL statements that read logs: into memory, and to look back at."""

from ikigai.store.sql.fragments import (
    ENDS,
    ENDS_WITHOUT_PICTURES,
    MAX_ID,
    NEWEST_FIRST,
    OLDEST_FIRST,
    ROLE,
    ROW,
    ROW_OF_ENDS,
    events_between,
    lineage_query,
)

# Into memory --------------------------------------------------------------------------------------------------------

SNAPSHOT = "begin transaction isolation level repeatable read, read only"
SNAPSHOT_END = "commit"
SNAPSHOT_BROKEN = "rollback"

_LINE = lineage_query("%s")
ANCESTRY = f"""
{_LINE}
select agent::text, upto, (
  select max(id) from messages
  where agent_id = agent and kind = 'clear' and id <= coalesce(upto, {MAX_ID})
), undos.ids, undos.names
from line cross join lateral (
  select coalesce(array_agg(id), '{{}}') as ids,
         coalesce(array_agg(coalesce(ikigai_id(data -> 'of'), 0)), '{{}}') as names
  from messages
  where agent_id = agent and kind = 'undo' and id <= coalesce(upto, {MAX_ID})
) undos
where not looped order by depth
"""
CLEAR_BELOW = "select max(id) from messages where agent_id = %s and kind = 'clear' and id < %s"
EVENTS = f"select agent_id::text, {ROW} from messages where id = any(%s) order by id"
_SPANS = "from unnest(%s::uuid[], %s::bigint[], %s::bigint[]) with ordinality as span (agent, first, last, n)"
CONTROLS = f"""
select span.n, {ROW}
{_SPANS} cross join lateral (
  select * from messages
  where agent_id = span.agent and id between span.first and span.last
    and kind in ('clear', 'mark', 'rewind', 'filter', 'summary', 'undo', 'settings', 'fork')
) control
order by id
"""
_OF_TURNS = (
    "kind in ('user', 'recall', 'assistant', 'tool_call', 'tool_started', 'filter_plan', 'mail_taken', 'tool_result',"
    " 'turn_end')"
)
_PAGE = f"""
select {ROW_OF_ENDS} from messages cross join {ENDS}
cross join (values (%s::uuid, %s::bigint, %s::bigint)) as span (agent, first, last)
where {events_between("span.agent", "span.first", "span.last")}
  and {_OF_TURNS}
"""
PAGES = f"""
select span.n, {ROW_OF_ENDS}
{_SPANS} cross join lateral (
  select * from messages
  where {events_between("span.agent", "span.first", "span.last")}
    and {_OF_TURNS}
  {NEWEST_FIRST} limit %s
) event
cross join {ENDS}
order by id desc limit %s
"""
PAGE = f"{_PAGE}{NEWEST_FIRST} limit %s"
PAGE_ASCENDING = f"{_PAGE}{OLDEST_FIRST} limit %s"

# Looking back -------------------------------------------------------------------------------------------------------

# The tail of a long result is read only if it failed: it tells how a command ended.
HISTORY = f"""
{_LINE}
select agent::text, {ENDS_WITHOUT_PICTURES}
from line cross join lateral (
  select * from messages where {events_between("agent", "0", "least(upto, %s)")} {NEWEST_FIRST} limit %s
) event
cross join lateral (
  values (%s::integer, %s::integer, case when data ->> 'is_error' = 'true' then %s::integer else 0 end)
) as ends (most, head, tail)
where not looped order by id desc limit %s
"""

# The whole text of a tool's result. The newest first: an id is unique among those in context, not for ever.
RESULT = f"""
{_LINE}
select content from line cross join lateral (
  select id, content from messages
  where {events_between("agent", "0", f"coalesce(upto, {MAX_ID})")}
    and kind = 'tool_result' and data ->> 'call_id' = %s
  {NEWEST_FIRST} limit 1
) found
where not looped order by id desc limit 1
"""

# Pasted books are left out.
_IS_PROMPT = "kind = 'user' and octet_length(content) between 1 and 20000 and not coalesce(data ? 'sender', false)"

# The newest different prompts among the last ones.
PROMPTS = f"""
select content from (
  select id, content from messages where {_IS_PROMPT} order by id desc limit %(most)s
) newest
group by content order by max(id) desc limit %(limit)s
"""

# How often each skill was used in the newest events, and when last: by models, and by users who typed its name.
SKILL_USES = r"""
with newest as (
  select kind, content, data, created_at from messages
  where id > (select coalesce(max(id), 0) from messages) - %(most)s and kind in ('tool_call', 'user')
), uses (name, created_at) as (
  select substring(content from '"name"\s*:\s*"([^"\\]+)"'), created_at
  from newest where kind = 'tool_call' and data ->> 'name' = %(tool)s
  union all
  select used #>> '{}', created_at
  from newest, jsonb_path_query(data, '$.documents[*] ? (@.kind == "skill").name') used
  where kind = 'user' and data ? 'documents'
)
select name, count(*), extract(epoch from max(created_at))::float8
from uses where name is not null group by name
"""

# A stretch of the prompts that users typed, the newest first: those that match all `words`, or `loosely` in their first
# letters, and a row with the place to go on from. The index messages_user serves it.
SEARCH_PROMPTS = f"""
with stretch as materialized (
  select id, agent_id, content, created_at from messages
  where id < %(before)s and {_IS_PROMPT}
  order by id desc limit %(most)s
)
select id, content, at, name, directory from (
  select stretch.id, content, extract(epoch from stretch.created_at)::float8 as at, name,
         coalesce(directory, '') as directory,
         row_number() over (partition by directory is not distinct from %(here)s order by stretch.id desc) as n
  from stretch join agents on agents.id = agent_id
  where content ilike all (%(words)s::text[]) or left(content, %(head)s) ilike %(loosely)s
) fitting
where n <= case when directory = %(here)s then %(most_here)s else %(most_elsewhere)s end
union all
select min(id), null, null, null, null from stretch
"""

# Prompts by their ids, the newest first.
SENT_PROMPTS = f"""
select messages.id, content, extract(epoch from messages.created_at)::float8, name, coalesce(directory, '')
from messages join agents on agents.id = agent_id
where messages.id = any(%s) and {_IS_PROMPT}
order by messages.id desc
"""
# The agents that this role used last in a directory.
AGENTS_USED_IN = f"""
select agent_id::text from agent_uses where role = {ROLE} and directory = %s order by used_at desc limit %s
"""

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
