"""This module holds the SQL statements about the roles of the people who share a database."""

from typing import LiteralString

MADE_HERE = "made by ikigai db users add"
"""The comment on a role that ikigai made: it drops no other one."""
INDEX_INFIX = "_index_"
"""Between the schema and the role, in the name of the schema that has the indexes of the role."""
OF_VERSION: LiteralString = "'made by schema version '::text"
"""The comment on such a schema, before the number of the version."""
RIGHTS: dict[str, LiteralString] = {
    "agents": "select, insert, update",
    "messages": "select, insert, update, delete",
    "drafts": "select, insert, update, delete",
    "reservations": "select, insert, update, delete",
    "agent_uses": "select, insert, update, delete",
    "agent_shares": "select",
    "agent_access": "select",
    "ikigai_migrations": "select",
}
"""Rights of a user to each table, as far as row security allows; none to the others."""
# All that is made from the log: the indexes, and sums. Each user has these tables for themselves, in the index schema.
MADE_TABLES = """
select relname::text from pg_class
where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = 'messages'::regclass)
  and relname <> all(%s)
"""

INDEX_SCHEMA = "select from pg_namespace where nspname = %(schema)s and nspowner = quote_ident(%(owner)s)::regrole"
INDEX_TABLES = "select relname::text from pg_class where relkind = 'r' and relnamespace = quote_ident(%s)::regnamespace"
OWNER_OF_TABLES = """
select rolname::text, pg_has_role(session_user, pg_roles.oid, 'member')
from pg_class join pg_roles on pg_roles.oid = relowner where pg_class.oid = 'messages'::regclass
"""
HAS_ROLE = "select exists (select from pg_roles where rolname = %s)"
VIEWS = """
select relname::text from pg_class
where relkind = 'v' and relnamespace = (select relnamespace from pg_class where oid = 'messages'::regclass)
"""
USERS = """
with owned as (
  select owner as role, owner_user, count(*) as agents, max(last_used_at) as used_at
  from agents where purged_at is null group by 1, 2
), added as (
  select rolname::text as role from pg_roles
  where exists (select from pg_namespace where nspname::text = %(prefix)s || rolname)
), everyone as (
  select role, owner_user, agents, used_at from owned
  union all
  select role, '', 0, null from added where role not in (select role from owned)
)
select role, owner_user, agents,
       (select count(*) from agent_shares where agent_shares.role = everyone.role and os_user = owner_user),
       extract(epoch from used_at)::float8,
       case when role = (select rolname from pg_class join pg_roles on pg_roles.oid = relowner
                         where pg_class.oid = 'messages'::regclass) then 'owner'
            when role in (select role from added) then 'user' else '' end
from everyone order by role, owner_user
"""
MADE_BY = f"select {OF_VERSION} || max(version) from ikigai_migrations"
USERS_BEHIND = f"""
select rolname::text from pg_roles join pg_namespace on nspname::text = %s || rolname
where nspowner = (select relowner from pg_class where oid = 'messages'::regclass)
  and obj_description(pg_namespace.oid, 'pg_namespace') is distinct from ({MADE_BY})
order by 1
"""
COUNT_OWNED = "select count(*) from agents where owner = %s and purged_at is null"
# Names are unique for each owner.
GIVE = """
update agents set owner = %(heir)s, owner_user = '', name = case
  when exists (select from agents as other where other.owner = %(heir)s and other.name = agents.name)
  then left(name, 59) || '-' || left(id::text, 4) else name end
where owner = %(old)s
"""
FORGET = (
    "delete from agent_shares where role = %s",
    "delete from agent_access where role = %s",
    "delete from agent_uses where role = %s",
)
WAS_MADE_HERE = "select shobj_description(oid, 'pg_authid') = %s from pg_roles where rolname = %s"
# A program of the user, or a client of theirs, may hold a table of the index as long as it likes.
WAIT_BRIEFLY = "select set_config('lock_timeout', '5s', true)"
LIST_ACCESSIBLE = "select ikigai_list_accessible(%s, null)"
