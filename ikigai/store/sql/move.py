"""This module holds the SQL statements that move the tables of earlier versions into the schema of ikigai."""

from typing import LiteralString

FIRST_MOVE = "alter table public.ikigai_migrations"
# All else that the migrations make, by the version that has it first; indexes, triggers and sequences go with tables.
MOVES: tuple[tuple[int, LiteralString], ...] = (
    (1, "alter table agents"),
    (12, "alter table agent_uses"),
    (14, "alter table reservations"),
    (19, "alter table agent_shares"),
    (22, "alter table agent_access"),
    (1, "alter table messages"),
    (1, "alter table drafts"),
    (6, "alter table search_pieces"),
    (6, "alter table search_segments"),
    (6, "alter table search_progress"),
    (15, "alter table recall_index"),
    (15, "alter table recall_documents"),
    (15, "alter table recall_runs"),
    (15, "alter table recall_parts"),
    (15, "alter table recall_postings"),
    (15, "alter table recall_progress"),
    (20, "alter table search_behind"),
    (21, "alter table usage_days"),
    (21, "alter table usage_quarters"),
    (21, "alter table usage_progress"),
    (30, "alter table usage_model_days"),
    (30, "alter table usage_models"),
    (30, "alter table usage_agents"),
    (30, "alter table usage_counts"),
    (23, "alter table search_packs"),
    (23, "alter table search_blocks"),
    (2, "alter view usage"),
    (2, "alter view usage_by_day"),
    (2, "alter view usage_by_model"),
    (4, "alter view prunes"),
    (5, "alter view turns"),
    (5, "alter view transcript"),
    (5, "alter view agent_tree"),
    (5, "alter view filter_events"),
    (17, "alter view citations"),
    (1, "alter function ikigai_append_only()"),
    (20, "alter function ikigai_list_behind()"),
    (21, "alter function ikigai_usage_day(timestamptz)"),
    (2, "alter function ikigai_number(jsonb)"),
    (5, "alter function ikigai_id(jsonb)"),
    (5, "alter function ikigai_lineage(uuid)"),
    (5, "alter function ikigai_filtered(uuid, jsonb)"),
    (5, "alter function ikigai_take_back(bigint[], bigint, bigint)"),
    (5, "alter aggregate ikigai_taken_back(bigint, bigint)"),
    (19, "alter function ikigai_is_own(text, text)"),
    (19, "alter function ikigai_own_agent()"),
    (19, "alter function ikigai_share(uuid, text, text)"),
    (22, "alter function ikigai_refresh_access(text)"),
    (22, "alter function ikigai_grant_access()"),
    (22, "alter function ikigai_move_access()"),
    (22, "alter function ikigai_waiting_mail(text, integer)"),
    (22, "alter function ikigai_list_accessible(text, uuid)"),
    (22, "alter function ikigai_renew_indexes(text)"),
    (22, "alter function ikigai_list_used()"),
    (22, "alter function ikigai_forget(bigint[])"),
    (22, "alter function ikigai_secure()"),
    (23, "alter function ikigai_unpack(integer[])"),
    (23, "alter function ikigai_unpack_purged()"),
    (27, "alter function ikigai_name_spender()"),
    (31, "alter function ikigai_is_given(bigint)"),
    (32, "alter function ikigai_restrain_approval()"),
    (33, "alter function ikigai_check_sender()"),
    (34, "alter function ikigai_continue_log()"),
)
# Roles had the use of `public` as everybody has.
GRANT_USAGE = """
do $$
declare grantee oid;
begin
  for grantee in
    select distinct granted.grantee from pg_class cross join aclexplode(relacl) as granted
    where relnamespace = current_schema()::regnamespace
  loop
    execute format('grant usage on schema %I to %s', current_schema(),
                   case grantee when 0 then 'public' else grantee::regrole::text end);
  end loop;
end
$$
"""
# Functions that others call as their owner find only what is in this schema.
SET_PATHS = """
do $$
declare moved regprocedure;
begin
  for moved in
    select oid::regprocedure from pg_proc
    where pronamespace = current_schema()::regnamespace
      and exists (select from unnest(proconfig) as setting where starts_with(setting, 'search_path='))
  loop
    execute format('alter function %s set search_path to %I, pg_temp', moved, current_schema());
  end loop;
end
$$
"""
# Where the user may not make it, programs of earlier versions that run as this user could make no tables either.
LEAVE_MARKER = """
do $$
begin
  if to_regnamespace('public') is null then
    return;
  elsif not (has_schema_privilege('public', 'usage') and has_schema_privilege('public', 'create')) then
    return;
  elsif to_regclass('public.ikigai_migrations') is null then
    create view public.ikigai_migrations as select {} as version;
    comment on view public.ikigai_migrations is
      'The tables of ikigai are in a schema of their own. This stops programs of earlier versions.';
    grant select on public.ikigai_migrations to public;
  end if;
end
$$
"""
