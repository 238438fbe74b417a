-- Version 19: the owner of each agent, and others with whom it is shared.

alter table agents add column owner text not null default session_user;
alter table agents add column owner_user text not null default '';
alter table agents alter column owner_user set default coalesce(current_setting('ikigai.user', true), '');
comment on column agents.owner is 'The database role that it belongs to: of a subagent, that of the agent that it works for.';
comment on column agents.owner_user is
  'The user that it belongs to among those who share the role: the configured name, else that of the operating system; empty: all of them.';

-- It belongs to the role that used it last; where nobody has, to the role that migrates. All users of that role see it.
with recursive last_used (agent_id, role) as (
  select distinct on (agent_id) agent_id, role from agent_uses order by agent_id, used_at desc
), owned (id, owner) as (
  select agents.id, coalesce(last_used.role, session_user::text)
  from agents left join last_used on last_used.agent_id = agents.id where not made or parent is null
  union
  select agents.id, owned.owner from owned join agents on agents.parent = owned.id where agents.made
)
update agents set owner = owned.owner from owned where owned.id = agents.id and owned.owner <> agents.owner;

-- Each owner has names of their own.
alter table agents drop constraint agents_name_key;
create unique index agents_owner_name on agents (owner, name);
create index agents_name on agents (name);

create table agent_shares (
  agent_id uuid not null references agents,
  role text not null,
  os_user text not null default '',
  may_write boolean not null default false,
  shared_at timestamptz not null default clock_timestamp(),
  primary key (agent_id, role, os_user)
);
comment on table agent_shares is 'Others than its owner who may use an agent.';
comment on column agent_shares.agent_id is 'The agent.';
comment on column agent_shares.role is 'The database role with which it is shared.';
comment on column agent_shares.os_user is 'The user among those who share that role; empty: all of them.';
comment on column agent_shares.may_write is 'True if they may continue it, too.';
comment on column agent_shares.shared_at is 'When it was shared.';
create index agent_shares_role on agent_shares (role);

-- Other roles that used an agent go on using it.
insert into agent_shares (agent_id, role, may_write)
select distinct agents.id, agent_uses.role, true
from agent_uses join agents on agents.id = agent_uses.agent_id
where agent_uses.role not in (agents.owner, session_user::text);

create function ikigai_is_own(owner text, owner_user text) returns boolean language sql stable parallel safe
  return owner = session_user::text and (
    owner_user = '' or coalesce(current_setting('ikigai.user', true), '') in ('', owner_user)
  );
comment on function ikigai_is_own(text, text) is
  'True for agents of this role and, where users share the role, of this user or of all of them.';

-- A subagent belongs to the owner of the agent that it works for.
create function ikigai_own_agent() returns trigger language plpgsql as $$
declare maker record;
begin
  if new.made and new.parent is not null then
    select owner, owner_user into maker from agents where id = new.parent;
    if found then
      new.owner := maker.owner;
      new.owner_user := maker.owner_user;
    end if;
  end if;
  return new;
end
$$;
comment on function ikigai_own_agent() is 'Gives a subagent the owner of the agent that it works for.';
create trigger own_agent before insert on agents for each row execute function ikigai_own_agent();


-- The statements of a function find what is meant even where a caller has temporary tables of the same names.
create function ikigai_share(target uuid, who text, level text) returns text
language plpgsql security definer as $$
declare shared record; to_role text := who; to_user text := '';
begin
  select owner, owner_user, made into shared from agents where id = target and purged_at is null;
  if not found or not (shared.owner = session_user::text or pg_has_role(session_user, current_user, 'member')) then
    return 'not yours';
  elsif shared.made then
    return 'subagent';
  elsif level = 'none' then
    delete from agent_shares
    where agent_id = target and (role = who and os_user = '' or role = shared.owner and os_user = who);
    return case when found then 'done' else 'not shared' end;
  elsif not exists (select from pg_roles where rolname = who) then
    if not exists (select from agent_uses where role = shared.owner and os_user = who)
       and not exists (select from agents where owner = shared.owner and owner_user = who) then
      return 'unknown';
    end if;
    to_role := shared.owner;
    to_user := who;
  end if;
  if to_role = shared.owner and (to_user = '' or shared.owner_user in ('', to_user)) then
    return 'own';
  end if;
  insert into agent_shares (agent_id, role, os_user, may_write) values (target, to_role, to_user, level = 'write')
  on conflict (agent_id, role, os_user) do update set may_write = excluded.may_write;
  return case when to_user = '' then 'done' else 'same login' end;
end
$$;
comment on function ikigai_share(uuid, text, text) is
  'Shares an agent of one''s own with a role, or a user of this role, for read or write; none ends it. Returns how it went.';

do $$
begin
  execute format('alter function ikigai_share(uuid, text, text) set search_path to %I, pg_temp', current_schema());
  execute format('alter function ikigai_own_agent() set search_path to %I, pg_temp', current_schema());
end
$$;

-- Other roles that use the agents see who may use them.
do $$
declare granted record;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type = 'SELECT'
  loop
    execute format('grant %s on agent_shares to %s', granted.privilege, granted.role);
  end loop;
end
$$;
