"""Every statement ikigai sends, by name. Rows of the log have the columns that `reading.stored` takes."""

from typing import LiteralString

# One connection -----------------------------------------------------------------------------------------------------

# A machine that vanished holds its pens for a minute at most: without keepalives of the server's it would be two hours.
# client_connection_check_interval ends what a dead program left running; servers on other systems may refuse it.
_SETTINGS = """
select set_config('statement_timeout', '15s', false),
       set_config('lock_timeout', '5s', false),
       set_config('idle_in_transaction_session_timeout', '30s', false),
       set_config('client_connection_check_interval',
                  case when version() like '%%linux%%' then '2s' else '0' end, false),
       set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('default_transaction_read_only',
                  case when %s then 'on' else current_setting('default_transaction_read_only') end, false),
       pg_backend_pid(),
"""
GREET = _SETTINGS + "(select max(version) from ikigai_migrations)"
GREET_EMPTY = _SETTINGS + "0"
BACKEND = "select pg_backend_pid()"

# Migrations ---------------------------------------------------------------------------------------------------------

MIGRATION_TURN = """
select set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true),
       pg_advisory_xact_lock(%s, 0)
"""
HAS_MIGRATIONS = "select to_regclass('ikigai_migrations') is not null"
SCHEMA_VERSION = "select max(version) from ikigai_migrations"
MIGRATED = "insert into ikigai_migrations (version, name) values (%s, %s)"

# The pen ------------------------------------------------------------------------------------------------------------

TAKE_PEN = "select pg_try_advisory_lock(%s, %s)"
DROP_PEN = "select pg_advisory_unlock(%s, %s)"
PEN_HOLDER = """
select held.pid, coalesce(activity.application_name, '')
from pg_locks held left join pg_stat_activity activity on activity.pid = held.pid
where held.locktype = 'advisory' and held.granted
  and held.database = (select oid from pg_database where datname = current_database())
  and held.classid = %s::bigint::oid and held.objid = %s::bigint::oid and held.objsubid = 2
"""
END_BACKEND = "select pg_terminate_backend(%s)"

# Agents -------------------------------------------------------------------------------------------------------------

_AGENT = """
select agents.id::text, agents.name, agents.parent::text, agents.forked_at, coalesce(agents.directory, ''),
       extract(epoch from agents.created_at)::float8, extract(epoch from agents.last_used_at)::float8,
       coalesce((select max(seq) from messages where agent_id = agents.id), 0),
       extract(epoch from agents.killed_at)::float8
from agents
"""
CREATE_AGENT = """
insert into agents (id, name, parent, forked_at, directory) values (%s, %s, %s, %s, %s)
on conflict (name) do nothing
"""
AGENT_BY_ID = _AGENT + "where id = %s"
AGENT_BY_NAME = _AGENT + "where name = %s"
AGENTS_BY_ID_START = _AGENT + "where starts_with(id::text, %s) limit 2"
AGENTS = _AGENT + "where killed_at is null or %s order by last_used_at desc limit %s"
# Agents that tools made are no place to begin: what they come to is told to whom they work for.
LAST_AGENT = _AGENT + "where killed_at is null and not made order by last_used_at desc limit 1"
LAST_AGENT_IN = _AGENT + "where directory = %s and killed_at is null and not made order by last_used_at desc limit 1"
AGENT_NAMES = "select name from agents where killed_at is null order by last_used_at desc limit 1000"
# Nobody waits for the disk: a power failure within half a second loses which agent was used last, and nothing else.
USE_AGENT = """
update agents set last_used_at = clock_timestamp(), directory = coalesce(%s, directory)
from (select set_config('synchronous_commit', 'off', true)) as commit (waits)
where id = %s and commit.waits = 'off'
returning coalesce((select max(seq) from messages where agent_id = agents.id), 0)
"""

# The log ------------------------------------------------------------------------------------------------------------

_ROW = "id, seq, extract(epoch from created_at)::float8, kind, content, data::text"

# Followers are told behind what is stored; see `follow`. A notification would make all commits wait for one another, so
# where nobody follows there is none: whoever follows shares a lock, and taking it alone fails then.
_TELL = "case when not pg_try_advisory_xact_lock({}, {}) then pg_notify('ikigai', agent_id || ' ' || {}) end"
_TOLD = _TELL.format("%s", "%s", "seq")
_TOLD_ALL = _TELL.format("%(following)s", "%(key)s", "seq")

# The order of the identity values is that of the rows; an event_id that is there already says that all of them are.
APPEND_ONE = f"""
insert into messages (agent_id, seq, event_id, kind, content, data) values (%s, %s, %s, %s, %s, %s::jsonb)
on conflict (event_id) do nothing returning {_ROW}, {_TOLD}
"""
APPEND_ALL = f"""
with forgotten as (delete from drafts where agent_id = %(agent)s::uuid and %(forget)s)
insert into messages (agent_id, seq, event_id, kind, content, data)
select %(agent)s::uuid, %(after)s::integer + n, event_id, kind, content, data::jsonb
from unnest(%(ids)s::uuid[], %(kinds)s::text[], %(contents)s::text[], %(datas)s::text[])
  with ordinality as fact (event_id, kind, content, data, n)
order by n
on conflict (event_id) do nothing returning {_ROW}, {_TOLD_ALL}
"""
STORED_BEFORE = f"select {_ROW} from messages where event_id = any(%s) order by seq"

SAVE_DRAFT = f"""
insert into drafts (agent_id, asked_by, text, thinking, parts) values (%s, %s, %s, %s, %s::jsonb)
on conflict (agent_id) do update
set asked_by = excluded.asked_by, text = excluded.text, thinking = excluded.thinking, parts = excluded.parts,
    saved_at = excluded.saved_at
returning {_TELL.format("%s", "%s", "'draft'")}
"""
DRAFT = "select asked_by, text, thinking from drafts where agent_id = %s"

# Following ----------------------------------------------------------------------------------------------------------

LISTEN = "listen ikigai"
FOLLOW = "select pg_advisory_lock_shared(%s, %s)"
LAST_SEQ = "select coalesce(max(seq), 0) from messages where agent_id = %s"
NEWS = f"select {_ROW} from messages where agent_id = %s and seq > %s order by seq limit %s"
# Of a draft that is known so far only what is behind that; all of another one.
DRAFT_NEWS = """
select asked_by, case when asked_by = %(known)s then substr(text, %(text)s + 1) else text end,
       case when asked_by = %(known)s then substr(thinking, %(thinking)s + 1) else thinking end, parts::text
from drafts where agent_id = %(agent)s
"""

# Reading ------------------------------------------------------------------------------------------------------------

_ANCESTRY = """
with recursive line (depth, agent, parent, forked_at, upto) as (
  select 0, id, parent, forked_at, null::bigint from agents where id = %s
  union all
  select depth + 1, agents.id, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
  from line join agents on agents.id = line.parent
) cycle agent set looped using path
"""
ANCESTRY = f"""
{_ANCESTRY}
select agent::text, upto, (
  select max(id) from messages
  where agent_id = agent and kind = 'clear' and id <= coalesce(upto, 9223372036854775807)
), undos.ids, undos.names
from line cross join lateral (
  select coalesce(array_agg(id), '{{}}') as ids,
         coalesce(array_agg(coalesce(ikigai_number(data -> 'of'), 0)::bigint), '{{}}') as names
  from messages
  where agent_id = agent and kind = 'undo' and id <= coalesce(upto, 9223372036854775807)
) undos
where not looped order by depth
"""
CLEAR_BELOW = "select max(id) from messages where agent_id = %s and kind = 'clear' and id < %s"
EVENTS = f"select agent_id::text, {_ROW} from messages where id = any(%s) order by id"
_IN_SPANS = """from unnest(%s::uuid[], %s::bigint[], %s::bigint[]) with ordinality as span (agent, first, last, n)
cross join lateral (
  select * from messages
  where agent_id = span.agent and id between span.first and span.last"""
CONTROLS = f"""
select span.n, {_ROW}
{_IN_SPANS}
    and kind in ('clear', 'mark', 'rewind', 'filter', 'summary', 'undo', 'settings', 'fork')
) control
order by id
"""
_OF_TURNS = "kind in ('user', 'assistant', 'tool_call', 'tool_started', 'filter_plan', 'tool_result', 'turn_end')"
_PAGE = f"""
select {_ROW} from messages
where agent_id = %s and id between %s and %s
  and {_OF_TURNS}
"""
PAGES = f"""
select span.n, {_ROW}
{_IN_SPANS}
    and {_OF_TURNS}
  order by id desc limit %s
) event
order by id desc limit %s
"""
PAGE = _PAGE + "order by id desc limit %s"
PAGE_ASCENDING = _PAGE + "order by id limit %s"
# What images are is enough to look back at them; reading and parsing megabytes of each would take the start's time.
_DATA_WITHOUT_PICTURES = """
case when kind = 'user' and data ? 'images' then (
  data - 'images' || jsonb_build_object('images', (
    select coalesce(jsonb_agg(jsonb_strip_nulls(to_jsonb(image)) || '{"data": ""}'), '[]')
    from jsonb_to_recordset(data -> 'images') as image (media_type text, width integer, height integer, name text)
  ))
)::text else data::text end
"""
HISTORY = f"""
{_ANCESTRY}
select agent::text, id, seq, extract(epoch from created_at)::float8, kind, content, {_DATA_WITHOUT_PICTURES}
from line cross join lateral (
  select * from messages where agent_id = agent and id <= least(upto, %s) order by id desc limit %s
) event
where not looped order by id desc limit %s
"""

# The whole text of a tool's result. The newest first: an id is unique among those in context, not for ever.
RESULT = f"""
{_ANCESTRY}
select content from line cross join lateral (
  select id, content from messages
  where agent_id = agent and id <= coalesce(upto, 9223372036854775807)
    and kind = 'tool_result' and data ->> 'call_id' = %s
  order by id desc limit 1
) found
where not looped order by id desc limit 1
"""

# The newest different prompts among the last so many; pasted books are left out.
PROMPTS = """
select content from (
  select id, content from messages
  where kind = 'user' and octet_length(content) between 1 and 20000 and not coalesce(data ? 'sender', false)
  order by id desc limit %s
) newest
group by content order by max(id) desc limit %s
"""

# A stretch of what users typed, the newest first: what in it matches all `words`, or `loosely` in its first letters;
# and a row with the place to go on from. The index messages_user is the way to them.
EARLIER = """
with stretch as materialized (
  select id, agent_id, content, created_at from messages
  where kind = 'user' and id < %(before)s and octet_length(content) between 1 and 20000
    and not coalesce(data ? 'sender', false)
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

SNAPSHOT = "begin transaction isolation level repeatable read, read only"
SNAPSHOT_END = "commit"
SNAPSHOT_BROKEN = "rollback"

# The usage ledger ---------------------------------------------------------------------------------------------------

# In the order of the fields of `spending.Spent`.
_SPENT = """
count(*), count(*) filter (where failure not in ('', 'interrupted')), count(*) filter (where failure = 'interrupted'),
count(*) filter (where attempt > 1), coalesce(sum(input), 0), coalesce(sum(cached), 0), coalesce(sum(written), 0),
coalesce(sum(output), 0), coalesce(sum(thinking), 0), coalesce(sum(cost), 0), count(*) filter (where cost is null)
"""
_LEDGER = """
from usage
where created_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
  and (%(agents)s::uuid[] is null or agent_id = any(%(agents)s)) and (%(ids)s::bigint[] is null or id = any(%(ids)s))
"""
USAGE = f"select {_SPENT} {_LEDGER}"
USAGE_BY_MODEL = f"select model, {_SPENT} {_LEDGER} group by model order by sum(cost) desc nulls last, model"
USAGE_BY_AGENT = f"""
select (select name from agents where id = agent_id), {_SPENT} {_LEDGER}
group by agent_id order by sum(cost) desc nulls last, 1
"""
# Day n begins at the n-th of the given moments.
USAGE_BY_DAY = f"""
select width_bucket(created_at, %(days)s::timestamptz[]), {_SPENT} {_LEDGER} group by 1 order by 1
"""
USAGE_BOUNDS = f"""
select extract(epoch from min(created_at))::float8, extract(epoch from max(created_at))::float8 {_LEDGER}
"""
# How often turns left the window and how many, in the same groups.
_PRUNES = """
count(*), sum(turns) from prunes
where created_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
  and (%(agents)s::uuid[] is null or agent_id = any(%(agents)s))
group by 1
"""
PRUNES_BY_MODEL = f"select model, {_PRUNES}"
PRUNES_BY_AGENT = f"select (select name from agents where id = agent_id), {_PRUNES}"
PRUNES_BY_DAY = f"select width_bucket(created_at, %(days)s::timestamptz[]), {_PRUNES}"
# The provider's own figure is worth comparing only where the request was measured, too.
LAST_COUNTED = f"""
select {_ROW} from (
  select * from messages where agent_id = %s and kind = 'usage' order by seq desc limit 20
) newest
where ikigai_number(data #> '{{usage,input}}') > 0 and ikigai_number(data -> 'size') > 0 order by seq desc limit 1
"""

# The state of the database ------------------------------------------------------------------------------------------

STATUS = """
select current_setting('server_version'), current_database()::text, current_user::text, current_schema()::text,
       pg_database_size(current_database()), pg_total_relation_size('messages'),
       (select reltuples::bigint from pg_class where oid = 'messages'::regclass),
       (select count(*) from agents),
       (select array_agg(extname || ' ' || extversion order by extname) from pg_extension),
       current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off'
"""
COUNT_EVENTS = "select count(*) from messages"

# Dump and restore ---------------------------------------------------------------------------------------------------

TABLE_SCHEMA = """
select nspname::text from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where pg_class.oid = to_regclass('ikigai_migrations')
"""
RESTORE_TURN = """
select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)
"""
ALONE = "lock table agents, messages, drafts in share row exclusive mode"
IS_EMPTY = "select not exists (select from agents) and not exists (select from messages)"
COLUMNS = """
select attname::text from pg_attribute
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""
COPY_AGENTS = "copy agents from stdin"
COPY_MESSAGES = "copy messages from stdin"
COPY_DRAFTS = "copy drafts from stdin"
SET_IDENTITY = (
    "select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages having max(id) is not null"
)

# SQL by hand --------------------------------------------------------------------------------------------------------

NO_HURRY = "set statement_timeout = 0"
RELATIONS = """
select relname as name, case relkind when 'v' then 'view' else 'table' end as type,
       coalesce(obj_description(oid, 'pg_class'), '') as "what it is"
from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'v') order by 2 desc, 1
"""
COLUMNS_TOLD = """
select attname as column, format_type(atttypid, atttypmod) as type,
       coalesce(col_description(attrelid, attnum), '') as "what it is"
from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum
"""

# Purge --------------------------------------------------------------------------------------------------------------

PURGE_SETTINGS = """
select set_config('statement_timeout', '0', false), set_config('lock_timeout', '30s', false)
"""
# Whatever stands where images should be is no reason to stop.
PURGE_PAGE = """
select id, agent_id::text, extract(epoch from created_at)::float8, kind, content,
       case when kind = 'user' and data ? 'images' then (
         data || jsonb_build_object('images', (
           select coalesce(jsonb_agg(case jsonb_typeof(image) when 'object' then image - 'data' else image end), '[]')
           from jsonb_path_query(data, '$.images[*]') image
         ))
       )::text else data::text end
from messages where id between %s and %s and (%s::uuid is null or agent_id = %s) order by id limit %s
"""
PURGE_DRAFTS = "select agent_id::text, asked_by, text, thinking from drafts where %s::uuid is null or agent_id = %s"
# Whoever inherits a purged event has it in memory while it is open.
PURGE_AGENTS = """
with recursive touched (agent, first) as (
  select agent, first from unnest(%s::uuid[], %s::bigint[]) as found (agent, first)
  union
  select agents.id, touched.first from touched join agents on agents.parent = touched.agent
  where agents.forked_at >= touched.first
)
select distinct agents.id, agents.name from touched join agents on agents.id = touched.agent order by agents.name
"""
PURGING = "select set_config('ikigai.purge', pg_current_xact_id()::text, true)"
PURGE_EVENTS = """
update messages set content = purged.content, data = purged.data::jsonb
from unnest(%s::bigint[], %s::text[], %s::text[]) as purged (id, content, data) where messages.id = purged.id
"""
# What was counted before was of other words; without it the turn is measured by its rows.
PURGE_COUNTS = """
update messages set data = data - '{tokens,counted}'::text[]
where data ?| '{tokens,counted}' and id in (
  select ended.id from messages purged cross join lateral (
    select id from messages
    where agent_id = purged.agent_id and id > purged.id and kind = 'turn_end' order by id limit 1
  ) ended
  where purged.id = any(%s) and purged.kind in ('user', 'assistant', 'tool_call', 'tool_result')
)
"""
PURGE_DRAFT = "update drafts set text = %s, thinking = '', parts = '[]' where agent_id = any(%s)"
HAS_TABLE = "select to_regclass(%s) is not null"
# What else keeps a copy of what was said: by the table, the statement that takes the copies of these events out of it.
# The index of the search; the words of a stretch of ids are listed anew from what is left.
PURGE_COPIES: dict[str, LiteralString] = {
    "search_pieces": "delete from search_pieces where message = any(%s)",
    "search_segments": """
update search_segments set words = null where segment = any(select id / 16384 from unnest(%s::bigint[]) as purged (id))
""",
}
FILE_OF = "select pg_relation_filenode(%s::regclass), pg_table_size(%s::regclass)"
REWRITE = "vacuum (full, analyze, verbose) {}"
