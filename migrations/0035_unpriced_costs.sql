-- Version 35: a day or model whose known costs are all zero, beside requests of unknown price, has no cost, instead of 0.

create or replace view usage_by_day with (security_invoker = true) as
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
comment on column usage_by_day.cost is
  'US dollars of the requests whose price is known: a lower bound while others are unpriced; null if there is none.';

create or replace view usage_by_model with (security_invoker = true) as
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
comment on column usage_by_model.cost is
  'US dollars of the requests whose price is known: a lower bound while others are unpriced; null if there is none.';
