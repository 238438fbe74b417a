-- Version 2: the usage ledger, one row for each request that was sent, as people and reports read it.

create index messages_usage on messages (created_at, agent_id) where kind = 'usage';

create function ikigai_number(value jsonb) returns numeric language sql immutable parallel safe
  return case when jsonb_typeof(value) = 'number' then value::numeric end;
comment on function ikigai_number(jsonb) is 'The number, exactly; null for what is none, so that no odd row stops a report.';

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
  coalesce(data ->> 'request_id', '') as request_id
from messages
where kind = 'usage';
comment on view usage is 'The ledger: a row for each request that was sent to a model, also those that failed and were tried again.';
comment on column usage.id is 'The usage event''s.';
comment on column usage.created_at is 'When the request had ended and was stored.';
comment on column usage.model is 'The model that was asked, provider/name.';
comment on column usage.purpose is 'What it was asked for: empty for a turn, else the name of a side call.';
comment on column usage.attempt is 'Counts from 1; a request that is tried again has a row for each try.';
comment on column usage.failure is 'How it ended: empty is well, interrupted is the user''s wish.';
comment on column usage.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage.cached is 'Input tokens read from the provider''s cache.';
comment on column usage.written is 'Input tokens put into the provider''s cache.';
comment on column usage.output is 'Tokens received, thinking included.';
comment on column usage.thinking is 'Output tokens that were thinking.';
comment on column usage.cost is 'In US dollars; null when nobody knows the price, which is not the same as free.';
comment on column usage.priced_by is 'The price list it was computed with.';
comment on column usage.seconds is 'From sending to the end of the reply.';
comment on column usage.first_token_seconds is 'From sending to the first piece of the reply; null when none came.';

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
  sum(cost) as cost,
  count(*) filter (where cost is null) as unpriced
from usage
group by 1;
comment on view usage_by_day is 'The ledger added up by day, in the time zone of the session that asks.';
comment on column usage_by_day.failed is 'Requests that failed, those that the user interrupted not counted.';
comment on column usage_by_day.retried is 'Requests that were second or later tries.';
comment on column usage_by_day.cost is 'In US dollars, as far as prices are known.';
comment on column usage_by_day.unpriced is 'Requests whose price nobody knows; they are not in the cost.';

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
  sum(cost) as cost,
  count(*) filter (where cost is null) as unpriced
from usage
group by 1;
comment on view usage_by_model is 'The ledger added up by model; columns as in usage_by_day.';
