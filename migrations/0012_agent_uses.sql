-- Version 12: who used which agent last, so that each user of a shared database goes on in a conversation of their own.

create table agent_uses (
  role text not null,
  os_user text not null,
  agent_id uuid not null references agents,
  directory text,
  used_at timestamptz not null default clock_timestamp(),
  primary key (role, os_user, agent_id)
);
comment on table agent_uses is 'When each user last used an agent.';
comment on column agent_uses.role is 'The role that logged in to the database.';
comment on column agent_uses.os_user is 'The user of the operating system; empty where it is not known: all that log in as the role.';
comment on column agent_uses.directory is 'The working directory it was last used in by this user.';
create index agent_uses_last on agent_uses (role, used_at);

-- Who used the agents so far is not recorded: they are those of the role that migrates.
insert into agent_uses (role, os_user, agent_id, directory, used_at)
select session_user, '', id, directory, last_used_at from agents where not made;

-- Other roles that use the agents record it, too.
do $$
declare granted record;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on agent_uses to %s', granted.privilege, granted.role);
  end loop;
end
$$;
