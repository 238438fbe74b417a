-- Usage: the ledger of requests to models, what caps need of those that are under way, and the sums for reports.

create index messages_usage on messages (created_at, agent_id) where kind = 'usage';
create index messages_usage_agent on messages (agent_id, id) where kind = 'usage';

-- The ledger ---------------------------------------------------------------------------------------------------------

create view usage as
select
  id,
  agent_id,
  created_at,
  coalesce(data ->> 'model', '') as model,
  coalesce(data ->> 'purpose', '') as purpose,
  coalesce(ikigai_number(data -> 'attempt'), 1) as attempt,
  coalesce(data ->> 'failure', '') as failure,
  coalesce(ikigai_number(data #> '{usage,input}'), 0) as input,
  coalesce(ikigai_number(data #> '{usage,cached}'), 0) as cached,
  coalesce(ikigai_number(data #> '{usage,written}'), 0) as written,
  coalesce(ikigai_number(data #> '{usage,output}'), 0) as output,
  coalesce(ikigai_number(data #> '{usage,thinking}'), 0) as thinking,
  ikigai_number(data -> 'cost') as cost,
  coalesce(data ->> 'priced_by', '') as priced_by,
  coalesce(ikigai_number(data -> 'seconds'), 0) as seconds,
  ikigai_number(data -> 'first_token_seconds') as first_token_seconds,
  coalesce(data ->> 'request_id', '') as request_id,
  coalesce(data -> 'is_minimum', 'false') = 'true' as is_minimum,
  coalesce(ikigai_number(data #> '{most,usd}'), ikigai_number(data -> 'cost'), 0) as spent_usd,
  coalesce(
    ikigai_number(data #> '{most,tokens}'),
    coalesce(ikigai_number(data #> '{usage,input}'), 0) + coalesce(ikigai_number(data #> '{usage,output}'), 0)
  ) as spent_tokens,
  coalesce(data #>> '{miss,cause}', '') as miss_cause,
  coalesce(ikigai_number(data #> '{miss,tokens}'), 0) as missed,
  coalesce(data #>> '{usage,diagnosis}', '') as provider_diagnosis,
  coalesce(ikigai_number(data #> '{usage,searches}'), 0) as searches
from messages
where kind = 'usage';

comment on view usage is 'A row for each request that was sent to a model, failed attempts included.';
comment on column usage.id is 'The usage event''s.';
comment on column usage.agent_id is 'The agent that sent the request.';
comment on column usage.created_at is 'When the request had ended and was stored.';
comment on column usage.model is 'The model that was asked, provider/name.';
comment on column usage.purpose is 'Empty for a request of a turn; else the name of the command or function that sent it.';
comment on column usage.attempt is 'Counts from 1; a request that is tried again has a row for each try.';
comment on column usage.failure is 'Why it failed; empty if it succeeded, interrupted if the user stopped it.';
comment on column usage.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage.cached is 'Input tokens read from the provider''s cache.';
comment on column usage.written is 'Input tokens put into the provider''s cache.';
comment on column usage.output is 'Tokens received, thinking included.';
comment on column usage.thinking is 'Output tokens that were thinking.';
comment on column usage.cost is 'US dollars; null if the price is unknown, 0 if the request was free.';
comment on column usage.priced_by is 'The price list it was computed with.';
comment on column usage.seconds is 'Seconds from sending to the end of the reply.';
comment on column usage.first_token_seconds is 'Seconds from sending to the first piece of the reply; null if none came.';
comment on column usage.request_id is 'The provider''s own id of the request; empty where it gave none.';
comment on column usage.is_minimum is 'True if the request can have cost more: its reply was cut off before its tokens were counted.';
comment on column usage.spent_usd is 'US dollars that caps count for it: the most that it can have cost.';
comment on column usage.spent_tokens is 'Tokens that caps count for it.';
comment on column usage.miss_cause is
  'What changed since the agent''s request before: model, expired, tools, system, level, history, window or unknown; empty if the cache served all that it could.';
comment on column usage.missed is 'Input tokens that the provider''s cache could have served, and did not.';
comment on column usage.provider_diagnosis is 'The provider''s own word for it, where it says one.';
comment on column usage.searches is 'Web searches that the vendor ran within the request and charged for.';

create view usage_by_day as
select
  created_at::date as day,
  count(*) as requests,
  count(*) filter (where failure not in ('', 'interrupted')) as failed,
  count(*) filter (where failure = 'interrupted') as interrupted,
  count(*) filter (where attempt > 1) as retried,
  sum(input) as input,
  sum(cached) as cached,
  sum(written) as written,
  sum(output) as output,
  sum(thinking) as thinking,
  case when count(*) > count(cost) then nullif(sum(cost), 0) else sum(cost) end as cost,
  count(*) filter (where cost is null) as unpriced,
  count(*) filter (where is_minimum) as at_least,
  sum(searches) as searches
from usage
group by 1;
comment on view usage_by_day is 'Usage added up by day, in the time zone of the session that queries it.';
comment on column usage_by_day.day is 'The day, in the time zone of the session that queries it.';
comment on column usage_by_day.requests is 'Requests that were sent to a model.';
comment on column usage_by_day.failed is 'Requests that failed, without those that the user interrupted.';
comment on column usage_by_day.interrupted is 'Requests that the user interrupted.';
comment on column usage_by_day.retried is 'Requests that repeated a failed one.';
comment on column usage_by_day.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage_by_day.cached is 'Input tokens read from the provider''s cache.';
comment on column usage_by_day.written is 'Input tokens put into the provider''s cache.';
comment on column usage_by_day.output is 'Tokens received, thinking included.';
comment on column usage_by_day.thinking is 'Output tokens that were thinking.';
comment on column usage_by_day.cost is
  'US dollars of the requests whose price is known: a lower bound while others are unpriced; null if there is none.';
comment on column usage_by_day.unpriced is 'Requests whose price is unknown; they are not in the cost.';
comment on column usage_by_day.at_least is 'Requests that can have cost more than what cost has of them.';
comment on column usage_by_day.searches is 'Web searches that vendors ran and charged for.';

create view usage_by_model as
select
  model,
  count(*) as requests,
  count(*) filter (where failure not in ('', 'interrupted')) as failed,
  count(*) filter (where failure = 'interrupted') as interrupted,
  count(*) filter (where attempt > 1) as retried,
  sum(input) as input,
  sum(cached) as cached,
  sum(written) as written,
  sum(output) as output,
  sum(thinking) as thinking,
  case when count(*) > count(cost) then nullif(sum(cost), 0) else sum(cost) end as cost,
  count(*) filter (where cost is null) as unpriced,
  count(*) filter (where is_minimum) as at_least,
  sum(searches) as searches
from usage
group by 1;
comment on view usage_by_model is 'Usage added up by model; columns as in usage_by_day.';
comment on column usage_by_model.model is 'The model that was asked, provider/name.';
comment on column usage_by_model.requests is 'Requests that were sent to a model.';
comment on column usage_by_model.failed is 'Requests that failed, without those that the user interrupted.';
comment on column usage_by_model.interrupted is 'Requests that the user interrupted.';
comment on column usage_by_model.retried is 'Requests that repeated a failed one.';
comment on column usage_by_model.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage_by_model.cached is 'Input tokens read from the provider''s cache.';
comment on column usage_by_model.written is 'Input tokens put into the provider''s cache.';
comment on column usage_by_model.output is 'Tokens received, thinking included.';
comment on column usage_by_model.thinking is 'Output tokens that were thinking.';
comment on column usage_by_model.cost is
  'US dollars of the requests whose price is known: a lower bound while others are unpriced; null if there is none.';
comment on column usage_by_model.unpriced is 'Requests whose price is unknown; they are not in the cost.';
comment on column usage_by_model.at_least is 'Requests that can have cost more than what cost has of them.';
comment on column usage_by_model.searches is 'Web searches that the vendor ran and charged for.';

-- The row before is found by one step in an index. A window over the whole ledger would read it for each report.
create view prunes as
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
comment on view prunes is 'A row for each request that left out more turns than the request before it.';
comment on column prunes.id is 'The usage event''s.';
comment on column prunes.agent_id is 'The agent that sent the request.';
comment on column prunes.created_at is 'When the request had ended and was stored.';
comment on column prunes.model is 'The model that was asked, provider/name.';
comment on column prunes.turns is 'The number of turns that left the window before the request.';

-- Caps ---------------------------------------------------------------------------------------------------------------

create table reservations (
  agent_id uuid primary key references agents,
  writer uuid not null,
  lock_key bigint not null check (lock_key between 0 and 4294967295),
  model text not null,
  reserved_at timestamptz not null default clock_timestamp(),
  usd numeric not null,
  tokens bigint not null,
  sent_usd numeric not null,
  sent_tokens bigint not null,
  output_usd numeric not null
);
comment on table reservations is
  'The most that the requests of an agent that are under way can cost. A row counts in full while its writer holds the write lock of the agent.';
comment on column reservations.writer is 'The run of the program that made the row.';
comment on column reservations.lock_key is 'The second number of the write lock, as pg_locks lists it.';
comment on column reservations.model is 'The model of the newest request, provider/name.';
comment on column reservations.usd is 'US dollars at most.';
comment on column reservations.tokens is 'Tokens at most, input and output.';
comment on column reservations.sent_usd is
  'US dollars that were spent if the writer died: the input and a little output. The rest of the reservation ended with its lock.';
comment on column reservations.sent_tokens is 'Tokens that were spent then.';
comment on column reservations.output_usd is 'US dollars for a token of output; the draft of the reply tells how many came.';

-- Sums ---------------------------------------------------------------------------------------------------------------

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
  message bigint not null default 0,
  has_totals boolean not null
);
comment on table usage_progress is 'How far the log of each agent has been taken into the sums of usage.';
comment on column usage_progress.agent_id is 'The agent.';
comment on column usage_progress.seq is 'The last event that is in them.';
comment on column usage_progress.message is 'The id of that event.';
comment on column usage_progress.has_totals is
  'True: the sums over all agents and those of whole agents have as much.';

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
insert into usage_counts (days, agents) values (0, 0);
