-- Version 21: sums of the usage ledger by day, agent and model, so that reports do not read the whole log.

-- The row before is found by one step in an index. A window over the whole ledger would read it for each report.
create or replace view prunes as
select id, agent_id, created_at, model, turns
from (
  select
    id,
    agent_id,
    created_at,
    coalesce(data ->> 'model', '') as model,
    coalesce(ikigai_number(data -> 'out'), 0) - (
      select coalesce(ikigai_number(earlier.data -> 'out'), 0) from messages earlier
      where earlier.agent_id = messages.agent_id and earlier.id < messages.id
        and earlier.kind = 'usage' and coalesce(earlier.data ->> 'purpose', '') = ''
      order by earlier.id desc limit 1
    ) as turns
  from messages
  where kind = 'usage' and coalesce(data ->> 'purpose', '') = ''
) asked
where turns > 0;

-- Days are those of the time zone that the server had when the sums began: mostly that of its only user. Reports in
-- other zones take the quarters of an hour at the edges of their days.
do $$
begin
  execute format(
    'create function ikigai_usage_day(at timestamptz) returns timestamptz language sql stable parallel safe
     return date_trunc(''day'', at, %L)', current_setting('TimeZone')
  );
end
$$;
comment on function ikigai_usage_day(timestamptz) is 'The beginning of the day to whose sums a moment belongs.';

create table usage_days (
  day timestamptz not null,
  agent_id uuid not null references agents,
  model text not null,
  requests bigint not null,
  failed bigint not null,
  interrupted bigint not null,
  retried bigint not null,
  input numeric not null,
  cached numeric not null,
  written numeric not null,
  output numeric not null,
  thinking numeric not null,
  searches numeric not null,
  cost numeric not null,
  unpriced bigint not null,
  at_least bigint not null,
  prunes bigint not null,
  pruned numeric not null,
  primary key (day, agent_id, model)
);
create index usage_days_agent on usage_days (agent_id, day);
comment on table usage_days is
  'Sums of the usage ledger by day, agent and model; made from the log in the background. Use the view usage_by_day.';
comment on column usage_days.day is 'The beginning of the day, by ikigai_usage_day.';
comment on column usage_days.prunes is 'Requests before which turns had left the window.';
comment on column usage_days.pruned is 'These turns.';

create table usage_quarters (
  began timestamptz not null,
  like usage_days,
  primary key (began, agent_id, model)
);
create index usage_quarters_day on usage_quarters (day);
create index usage_quarters_agent on usage_quarters (agent_id, began);
alter table usage_quarters add foreign key (agent_id) references agents;
comment on table usage_quarters is 'The sums of usage_days by quarters of an hour.';
comment on column usage_quarters.began is 'The beginning of the quarter.';

create table usage_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  message bigint not null default 0
);
comment on table usage_progress is 'How far the log of each agent has been taken into the sums of usage.';
comment on column usage_progress.agent_id is 'The agent.';
comment on column usage_progress.seq is 'The last event that is in them.';
comment on column usage_progress.message is 'The id of that event.';

create or replace function ikigai_list_behind() returns trigger language plpgsql as $$
begin
  execute format(
    'insert into %1$I.search_behind (index_name, agent_id) select unnest($1), $2
     on conflict (index_name, agent_id) do update set agent_id = excluded.agent_id where false', tg_table_schema
  ) using array['words', 'stems', 'usage'], new.id;
  return null;
end
$$;
comment on column search_behind.index_name is 'The index: words, stems, or usage for the sums.';
insert into search_behind (index_name, agent_id) select 'usage', id from agents;

-- Other roles that use the agents add up and read, too.
do $$
declare granted record; made text;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    foreach made in array '{usage_days,usage_quarters,usage_progress}'::text[] loop
      execute format('grant %s on %I to %s', granted.privilege, made, granted.role);
    end loop;
  end loop;
end
$$;
