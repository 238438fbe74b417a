"""This module holds the SQL statements of dump and restore."""

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
