"""SQL statements for dump and restore."""

RESTORE_TURN = """
select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)
"""
ALONE = "lock table agents, messages, drafts in share row exclusive mode"
# A log in a dump comes row by row, in any order: its sums are made when all of it is there.
BEGIN_COPY = "alter table messages disable trigger continue_log, disable trigger sum_usage"
END_COPY = "alter table messages enable trigger continue_log, enable trigger sum_usage"
IS_EMPTY = "select not exists (select from agents) and not exists (select from messages)"
COLUMNS = """
select attname::text from pg_attribute
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""
COPY_AGENTS = "copy agents from stdin"
COPY_MESSAGES = "copy messages from stdin"
COPY_DRAFTS = "copy drafts from stdin"
# Who used them is not dumped: roles are others elsewhere.
CLAIM_AGENTS = """
insert into agent_uses (role, agent_id, directory, used_at)
select session_user, id, directory, last_used_at from agents where not made on conflict do nothing
"""
SET_IDENTITY = (
    "select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages having max(id) is not null"
)
