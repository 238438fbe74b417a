"""SQL statements for the purge."""

from typing import LiteralString

PURGE_SETTINGS = """
select set_config('statement_timeout', '0', false), set_config('lock_timeout', '30s', false)
"""
# Malformed images do not stop it.
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
# Excerpts of events, which were recalled after them.
PURGE_RECALLED = """
select id, agent_id::text, extract(epoch from created_at)::float8, kind, content, data::text
from messages where kind = 'recall' and id > %s and exists (
  select from jsonb_path_query(data, '$.ids[*]') as recalled (id) where ikigai_id(recalled.id) = any(%s)
) order by id
"""
PURGE_DRAFTS = "select agent_id::text, asked_by, text, thinking from drafts where %s::uuid is null or agent_id = %s"
# An open agent that inherits a purged event has it in memory.
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
# The stored count was of other words; without it the turn is measured by its rows.
PURGE_COUNTS = """
update messages set data = data - '{tokens,counted}'::text[]
where data ?| '{tokens,counted}' and id in (
  select ended.id from messages purged cross join lateral (
    select id from messages
    where agent_id = purged.agent_id and id > purged.id and kind = 'turn_end' order by id limit 1
  ) ended
  where purged.id = any(%s) and purged.kind in ('user', 'recall', 'assistant', 'tool_call', 'tool_result')
)
"""
PURGE_DRAFT = "update drafts set text = %s, thinking = '', parts = '[]' where agent_id = any(%s)"
# The tables whose rows hold messages, their words, or a name that was given.
WRITTEN = ("messages", "drafts", "agents", "search_postings", "search_vocabulary", "search_words")
FILE_OF = "select pg_relation_filenode(%s::regclass), pg_table_size(%s::regclass)"
REWRITE = "vacuum (full, analyze, verbose) {}"
# At the very beginning of a segment a switch does nothing, and the name of the segment is the one before.
BEGIN_SEGMENT = "select pg_logical_emit_message(false, 'ikigai', 'switch')"
SWITCH_SEGMENT = "select pg_switch_wal()"
SEGMENTS_AHEAD = """
select count(*) from pg_ls_waldir()
where name ~ '^[0-9A-F]{24}$' and name > pg_walfile_name(pg_current_wal_insert_lsn())
"""
CHECKPOINT = "checkpoint"
# Ephemeral agents --------------------------------------------------------------------------------------------------

# One that another program has just made may not be open yet.
EPHEMERAL = """
select id, name from agents
where ephemeral and purged_at is null
  and created_at <= clock_timestamp() - make_interval(secs => %s)
order by created_at
"""
# The ledger stays: a usage event holds no words. Rows of the index are found by the ids of their events.
PURGE_AGENTS_WHOLE: tuple[LiteralString, ...] = (
    "delete from drafts where agent_id = any(%(agents)s)",
    "delete from agent_uses where agent_id = any(%(agents)s)",
    "delete from reservations where agent_id = any(%(agents)s)",
    "delete from messages where agent_id = any(%(agents)s) and kind <> 'usage'",
    """
    update agents set purged_at = statement_timestamp(), name = 'ephemeral-' || id, directory = null
    where id = any(%(agents)s)
    """,
)
