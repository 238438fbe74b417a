-- Version 24: indexes for lists of one's own agents, and for the agents beside one in the tree.

-- The name of the session's role has the collation C, and would lend it to the comparison: no index of owners fits then.
create or replace function ikigai_is_own(owner text, owner_user text) returns boolean language sql stable parallel safe
  return owner = session_user::text collate "default" and (
    owner_user = '' or coalesce(current_setting('ikigai.user', true), '') in ('', owner_user)
  );

create index if not exists agents_owned on agents (owner, last_used_at, id) where purged_at is null;
create index if not exists agents_listed on agents (owner, last_used_at, id)
  where purged_at is null and killed_at is null and archived_at is null;
create index if not exists agents_siblings on agents (owner, parent, created_at, id)
  where purged_at is null and killed_at is null and archived_at is null;

-- So does each policy.
alter policy readable on agents using (
  owner = session_user::text collate "default"
  or exists (
    select from agent_access
    where role = session_user::text collate "default" and agent_access.agent_id = agents.id
  ) or made and exists (
    select from agent_access
    where role = session_user::text collate "default" and agent_access.agent_id = agents.parent
      and upto = 9223372036854775807
  )
);
alter policy readable on messages using (
  exists (
    select from agent_access
    where role = session_user::text collate "default" and agent_access.agent_id = messages.agent_id
      and upto = 9223372036854775807
  ) or exists (
    select from agent_access
    where role = session_user::text collate "default" and agent_access.agent_id = messages.agent_id
      and messages.id <= upto
  )
);
alter policy own on agent_uses using (role = session_user::text collate "default");
alter policy own on agent_access using (role = session_user::text collate "default");
