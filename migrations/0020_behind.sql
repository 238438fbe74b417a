-- Version 20: the agents whose logs may go on behind what an index has, so that nothing looks through all agents.

create table search_behind (
  index_name text not null,
  agent_id uuid not null references agents,
  primary key (index_name, agent_id)
);
comment on table search_behind is
  'Agents whose events may be missing in an index. An agent that no program has open is taken out once it is indexed.';
comment on column search_behind.index_name is 'The index: words or stems.';
comment on column search_behind.agent_id is 'The agent.';

-- A program marks the agent as used after it has acquired the write lock, and before its first append. So the append
-- itself writes nothing here, and a program of an earlier version that is still running is listed, too.
create function ikigai_list_behind() returns trigger language plpgsql as $$
begin
  -- Without a change the statement still waits for an indexer that is about to take the agent out.
  execute format(
    'insert into %1$I.search_behind (index_name, agent_id) select unnest($1), $2
     on conflict (index_name, agent_id) do update set agent_id = excluded.agent_id where false', tg_table_schema
  ) using array['words', 'stems'], new.id;
  return null;
end
$$;
comment on function ikigai_list_behind() is 'Lists an agent that is used as one whose events may be missing in an index.';
create trigger list_behind after insert or update of last_used_at on agents
  for each row execute function ikigai_list_behind();

-- Which of them have all their events in the indexes is found out in the background.
insert into search_behind (index_name, agent_id) select unnest(array['words', 'stems']), id from agents;

create index agent_uses_directory on agent_uses (role, directory, used_at);

-- Other roles that use the agents list them, too.
do $$
declare granted record;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on search_behind to %s', granted.privilege, granted.role);
  end loop;
end
$$;
