"""This module holds the SQL statements of dump and restore."""

LIMITED_ROLE = "select case when row_security_active(to_regclass(%s)) then session_user::text else '' end"
RESTORE_TURN = """
select set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)
"""
ALONE = "lock table agents, messages, drafts in share row exclusive mode"
# A log in a dump comes as it is: row by row in any order, and where an older one has gaps, with them.
_ORDER_CHECK = """
do $$
begin
  if to_regprocedure('ikigai_continue_log()') is not null then
    alter table messages {} trigger continue_log;
  end if;
end
$$
"""
UNCHECK_ORDER, CHECK_ORDER = _ORDER_CHECK.format("disable"), _ORDER_CHECK.format("enable")
IS_EMPTY = "select not exists (select from agents) and not exists (select from messages)"
COLUMNS = """
select attname::text from pg_attribute
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""
COPY_AGENTS = "copy agents from stdin"
COPY_MESSAGES = "copy messages from stdin"
COPY_DRAFTS = "copy drafts from stdin"
# Who used them is not dumped: roles and users are others elsewhere.
CLAIM_AGENTS = """
insert into agent_uses (role, os_user, agent_id, directory, used_at)
select session_user, '', id, directory, last_used_at from agents where not made on conflict do nothing
"""
# Roles that do not exist here own nothing; users of one role are others elsewhere, too.
OWN_AGENTS = """
update agents set owner_user = '', owner = case
  when exists (select from pg_roles where rolname = agents.owner) then agents.owner else session_user::text end
where owner_user <> '' or not exists (select from pg_roles where rolname = agents.owner)
"""
SET_IDENTITY = (
    "select setval(pg_get_serial_sequence('messages', 'id'), max(id)) from messages having max(id) is not null"
)
