-- Version 30: sums of usage over all agents, and of each agent over all days, so that reports do not read those of each
-- agent and day.

-- A program of an earlier version that is still running knows none of them: its next step fails here, and adds nothing.
-- What it stores is read from the log until another program adds it.
alter table usage_progress add column has_totals boolean not null default true;
alter table usage_progress alter column has_totals drop default;
comment on column usage_progress.has_totals is
  'True: the sums over all agents and those of whole agents have as much. There is no default for earlier versions.';

create table usage_model_days (like usage_days);
alter table usage_model_days drop column agent_id, add primary key (day, model);
comment on table usage_model_days is 'The sums of usage_days over all agents.';

create table usage_models (like usage_model_days);
alter table usage_models drop column day, add primary key (model);
comment on table usage_models is 'The sums of usage_days by model alone.';

create table usage_agents (like usage_days);
alter table usage_agents drop column day, drop column model, add primary key (agent_id);
alter table usage_agents add foreign key (agent_id) references agents;
-- The dearest first; an agent without a known price comes last.
create index usage_agents_cost on usage_agents
  ((case when unpriced < requests then cost end) desc nulls last, agent_id);
comment on table usage_agents is 'The sums of usage_days by agent alone.';

create table usage_counts (
  is_all boolean primary key default true check (is_all),
  days bigint not null,
  agents bigint not null
);
comment on table usage_counts is 'How many days and agents the sums have, in one row.';
comment on column usage_counts.days is 'Days with requests, as in usage_model_days.';
comment on column usage_counts.agents is 'Agents with requests, as in usage_agents.';

do $$
declare
  figures text := 'requests,failed,interrupted,retried,input,cached,written,output,thinking,searches,cost,unpriced,'
    'at_least,prunes,pruned';
  sums text := (select string_agg(format('sum(%I)', name), ',') from unnest(string_to_array(figures, ',')) as name);
begin
  execute format('insert into usage_model_days (day, model, %s) select day, model, %s from usage_days group by 1, 2 order by 1, 2', figures, sums);
  execute format('insert into usage_models (model, %s) select model, %s from usage_model_days group by 1', figures, sums);
  execute format('insert into usage_agents (agent_id, %s) select agent_id, %s from usage_days group by 1', figures, sums);
end
$$;
insert into usage_counts (days, agents)
select (select count(distinct day) from usage_model_days), (select count(*) from usage_agents);
analyze usage_model_days, usage_models, usage_agents;

-- Other roles that use the agents add up and read, too.
do $$
declare granted record; made text;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    foreach made in array '{usage_model_days,usage_models,usage_agents,usage_counts}'::text[] loop
      execute format('grant %s on %I to %s', granted.privilege, made, granted.role);
    end loop;
  end loop;
end
$$;
select ikigai_secure();
