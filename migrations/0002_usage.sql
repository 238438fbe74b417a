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
  coalesce(ikigai_number(data #> '{usage,searches}'), 0) as searches,
  -- The request before is one step in the index of agent and id, as `offset 0` and the comparison of rows have it: the
  -- planner expects few requests of turns, and would sort all that the agent sent. That comparison is one by <= as that
  -- of the agent: were it by <, the server would begin at the agent's bound, behind its newest request.
  case when coalesce(data ->> 'purpose', '') = '' then coalesce(greatest(0,
    coalesce(ikigai_number(data -> 'out'), 0) - (
      select coalesce(ikigai_number(earlier.data -> 'out'), 0) from (
        select data from messages before
        where (before.agent_id, before.id) <= (messages.agent_id, messages.id - 1)
          and before.agent_id >= messages.agent_id and before.agent_id <= messages.agent_id and before.kind = 'usage'
        order by before.agent_id desc, before.id desc offset 0
      ) earlier
      where coalesce(earlier.data ->> 'purpose', '') = '' limit 1
    )
  ), 0) else 0 end as pruned
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
comment on column usage.pruned is 'Turns that left the window since the request before.';

create view prunes as select id, agent_id, created_at, model, pruned as turns from usage where pruned > 0;
comment on view prunes is 'A row for each request that left out more turns than the request before it.';
comment on column prunes.id is 'The usage event''s.';
comment on column prunes.agent_id is 'The agent that sent the request.';
comment on column prunes.created_at is 'When the request had ended and was stored.';
comment on column prunes.model is 'The model that was asked, provider/name.';
comment on column prunes.turns is 'The number of turns that left the window before the request.';

-- Sums ---------------------------------------------------------------------------------------------------------------

create view usage_figures as
select
  id, created_at, date_bin('1 hour', created_at, 'epoch') as hour, agent_id,
  left(model, 200) as model,  -- an index takes no name of kilobytes, which an import may bring
  1 as requests,
  (failure not in ('', 'interrupted'))::integer as failed,
  (failure = 'interrupted')::integer as interrupted,
  (attempt > 1)::integer as retried,
  input, cached, written, output, thinking, searches,
  coalesce(cost, 0) as cost,
  (cost is null)::integer as unpriced,
  is_minimum::integer as at_least,
  (pruned > 0)::integer as prunes,
  pruned,
  spent_usd, spent_tokens
from usage;
comment on view usage_figures is 'A row for each request, with what it adds to the sums of its hour in usage_hours.';
comment on column usage_figures.id is 'The usage event''s.';
comment on column usage_figures.created_at is 'When the request had ended and was stored.';
comment on column usage_figures.hour is 'The beginning of the hour, in UTC.';
comment on column usage_figures.agent_id is 'The agent that sent the request.';
comment on column usage_figures.model is 'The model that was asked, provider/name: its first 200 characters.';
comment on column usage_figures.cost is 'US dollars; 0 if the price is unknown.';
comment on column usage_figures.prunes is 'Requests before which turns had left the window.';
comment on column usage_figures.pruned is 'Turns that left the window since the request before.';
comment on column usage_figures.spent_usd is 'US dollars that caps count for it: the most that it can have cost.';
comment on column usage_figures.spent_tokens is 'Tokens that caps count for it.';

-- Hours, not days: where a day begins depends on who asks. In nearly all time zones it begins with an hour; reports in
-- the others read the hours that midnight cuts from the ledger.
create table usage_hours (
  hour timestamptz not null,
  agent_id uuid not null references agents,
  model text not null,
  requests integer not null, failed integer not null, interrupted integer not null, retried integer not null,
  input numeric not null, cached numeric not null, written numeric not null, output numeric not null,
  thinking numeric not null, searches numeric not null,
  cost numeric not null, unpriced integer not null, at_least integer not null,
  prunes integer not null, pruned numeric not null,
  spent_usd numeric not null, spent_tokens numeric not null,
  primary key (agent_id, hour, model)
) with (fillfactor = 80);  -- a row changes with each request of its hour, and stays in its page
create index usage_hours_hour on usage_hours (hour);
comment on table usage_hours is 'The sums of usage_figures by hour, agent and model; the append of a request keeps them.';
comment on column usage_hours.hour is 'The beginning of the hour, in UTC.';

-- After the row, so that a retry that finds it stored adds nothing, and the request before it is there.
create function ikigai_sum_usage() returns trigger language plpgsql set search_path from current as $$
begin
  insert into usage_hours as sums
  select hour, agent_id, model, requests, failed, interrupted, retried, input, cached, written, output, thinking,
         searches, cost, unpriced, at_least, prunes, pruned, spent_usd, spent_tokens
  from usage_figures where id = new.id
  on conflict (agent_id, hour, model) do update set
    requests = sums.requests + excluded.requests,
    failed = sums.failed + excluded.failed,
    interrupted = sums.interrupted + excluded.interrupted,
    retried = sums.retried + excluded.retried,
    input = sums.input + excluded.input,
    cached = sums.cached + excluded.cached,
    written = sums.written + excluded.written,
    output = sums.output + excluded.output,
    thinking = sums.thinking + excluded.thinking,
    searches = sums.searches + excluded.searches,
    cost = sums.cost + excluded.cost,
    unpriced = sums.unpriced + excluded.unpriced,
    at_least = sums.at_least + excluded.at_least,
    prunes = sums.prunes + excluded.prunes,
    pruned = sums.pruned + excluded.pruned,
    spent_usd = sums.spent_usd + excluded.spent_usd,
    spent_tokens = sums.spent_tokens + excluded.spent_tokens;
  return null;
end
$$;
comment on function ikigai_sum_usage() is 'Adds a request to the sums of its hour.';
create trigger sum_usage after insert on messages for each row when (new.kind = 'usage')
  execute function ikigai_sum_usage();

-- In the time zone of a session a day may begin within an hour, so that its sums come from the ledger.
create view usage_by_day as
select
  created_at::date as day,
  sum(requests) as requests, sum(failed) as failed, sum(interrupted) as interrupted, sum(retried) as retried,
  sum(input) as input, sum(cached) as cached, sum(written) as written, sum(output) as output,
  sum(thinking) as thinking,
  case when sum(unpriced) > 0 then nullif(sum(cost), 0) else sum(cost) end as cost,
  sum(unpriced) as unpriced, sum(at_least) as at_least, sum(searches) as searches
from usage_figures
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
  sum(requests) as requests, sum(failed) as failed, sum(interrupted) as interrupted, sum(retried) as retried,
  sum(input) as input, sum(cached) as cached, sum(written) as written, sum(output) as output,
  sum(thinking) as thinking,
  case when sum(unpriced) > 0 then nullif(sum(cost), 0) else sum(cost) end as cost,
  sum(unpriced) as unpriced, sum(at_least) as at_least, sum(searches) as searches
from usage_hours
group by 1;
comment on view usage_by_model is 'Usage added up by model; columns as in usage_by_day.';
comment on column usage_by_model.model is 'The model that was asked, provider/name: its first 200 characters.';
-- What the others have of these columns is the same.
do $$
declare told record;
begin
  for told in
    select own.attrelid::regclass as made, attname as name, col_description(day.attrelid, day.attnum) as about
    from pg_attribute day join pg_attribute own using (attname)
    where day.attrelid = 'usage_by_day'::regclass and day.attnum > 1
      and own.attrelid in ('usage_by_model'::regclass, 'usage_figures'::regclass)
      and col_description(own.attrelid, own.attnum) is null
  loop
    execute format('comment on column %s.%I is %L', told.made, told.name, told.about);
  end loop;
end
$$;

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
