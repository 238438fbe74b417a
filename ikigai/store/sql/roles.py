"""SQL statements about roles and the schemas that they use."""

from typing import LiteralString

MADE_HERE = "made by ikigai db users add"
"""The comment on a role that ikigai made: it drops no other one."""
TURN = "select pg_advisory_xact_lock(%s)"
ROLE = """
select rolcanlogin, coalesce(shobj_description(oid, 'pg_authid'), '') = %s from pg_roles where rolname = %s
"""
SCHEMA_OWNER = """
select rolname::text from pg_namespace join pg_roles on pg_roles.oid = nspowner where nspname = %s
"""
# True for itself, for a role that it is a member of, and for a superuser.
HAS_RIGHTS_OF = "select pg_has_role(session_user, %s::text, 'usage')"
# Who makes a role may grant it from then on, and need not have its rights.
_MEMBERS = """
array(
  select distinct member.rolname::text from pg_auth_members join pg_roles member on member.oid = pg_auth_members.member
  where roleid = pg_roles.oid and pg_has_role(member.oid, roleid, 'usage') order by 1
)"""
_TABLE = "(select oid from pg_class where relnamespace = pg_namespace.oid and relname = '{}' and relkind = 'r')"
# The schemas with tables of ikigai, and those that are kept for them. What is in the tables of others is not asked.
SCHEMAS: LiteralString = f"""
select nspname::text, rolname::text, rolcanlogin, {_MEMBERS},
       coalesce(pg_total_relation_size({_TABLE.format("messages")}), 0)
from pg_namespace join pg_roles on pg_roles.oid = nspowner
where {_TABLE.format("ikigai_migrations")} is not null
   or rolname = nspname and shobj_description(pg_roles.oid, 'pg_authid') = %s
order by 1
"""
MEMBERS: LiteralString = f"select {_MEMBERS} from pg_roles where rolname = %s"
COUNT_AGENTS = "select count(*) from {}.agents where purged_at is null"
HAS_AGENTS = """
select exists (select from pg_class where relnamespace = quote_ident(%s)::regnamespace and relname = 'agents')
"""
# All that a schema holds, with the statement that gives it to another role; sequences and types go with their tables.
OBJECTS = """
select format('alter %%s %%s owner to %%I', case relkind when 'v' then 'view' else 'table' end, oid::regclass,
              %(heir)s::text)
from pg_class where relnamespace = quote_ident(%(schema)s)::regnamespace and relkind in ('r', 'p', 'v')
union all
select format('alter %%s %%s owner to %%I', case prokind when 'a' then 'aggregate' else 'function' end,
              oid::regprocedure, %(heir)s::text)
from pg_proc where pronamespace = quote_ident(%(schema)s)::regnamespace
"""
# What would keep a role: default privileges that it gave, or was given.
DEFAULT_PRIVILEGES = """
select giver.rolname::text, format(
         'alter default privileges for role %%I in schema %%I revoke all on %%s from %%I', giver.rolname, nspname,
         case defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' else 'types' end,
         receiver.rolname
       )
from pg_default_acl
join pg_roles giver on giver.oid = defaclrole join pg_namespace on pg_namespace.oid = defaclnamespace
cross join aclexplode(defaclacl) as acl join pg_roles receiver on receiver.oid = acl.grantee
where %(role)s::text in (giver.rolname, receiver.rolname)
"""
