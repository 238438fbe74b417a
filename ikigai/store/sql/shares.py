"""This module holds the SQL statements of shares."""

from ikigai.store.sql.fragments import OWNER

SHARE = "select ikigai_share(%s, %s, %s)"
SHARES = f"""
select agents.name, agents.id::text, {OWNER}, coalesce(nullif(agent_shares.os_user, ''), agent_shares.role), may_write
from agent_shares join agents on agents.id = agent_shares.agent_id
where agents.purged_at is null and (
  ikigai_is_own(agents.owner, agents.owner_user) or ikigai_is_own(agent_shares.role, agent_shares.os_user)
)
order by agents.name, 4
"""
# A share counts for the role that logs in: its members log in as themselves. Of these the ones that inherit nothing are
# left out, as those that made the role, and the ones that read everything anyway.
REACH = """
select rolcanlogin,
       has_schema_privilege(pg_roles.oid, relnamespace, 'usage')
         and has_table_privilege(pg_roles.oid, pg_class.oid, 'select'),
       array(
         select member.rolname::text from pg_roles as member
         where member.rolcanlogin and not member.rolsuper and member.oid <> pg_roles.oid
           and member.rolname <> session_user and pg_has_role(member.oid, pg_roles.oid, 'usage')
           and not pg_has_role(member.oid, relowner, 'member')
         order by 1
       )
from pg_roles cross join pg_class where pg_class.oid = 'agents'::regclass and rolname = %s
"""
